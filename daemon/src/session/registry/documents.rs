//! Copies and searches: what is made of the record without changing a session.
//!
//! Receives requests from `rpc`; hands them to `session/copy.rs` and to the store.

use std::path::Path;

use agentd_protocol::daemon::{BackupParams, BackupResult, CheckResult};
use agentd_protocol::session::{
    ExportParams, ExportResult, ForkParams, ImportParams, SearchParams, SearchResult, Session,
};

use super::Registry;
use crate::session::{Error, copy};

impl Registry {
    /// Items and titles with these words.
    pub async fn search(&self, params: SearchParams) -> Result<SearchResult, Error> {
        self.0.services.store.search(params).await.map_err(Error::from_store)
    }

    /// A session as one document.
    pub async fn export(&self, params: ExportParams) -> Result<ExportResult, Error> {
        let content = copy::export(&self.0.services, params).await?;
        Ok(ExportResult { content })
    }

    /// A session from a document.
    pub async fn import(&self, params: ImportParams) -> Result<Session, Error> {
        self.refuse_while_draining()?;
        copy::import(&self.0.services, params).await
    }

    /// A session from another's items.
    pub async fn fork(&self, params: ForkParams) -> Result<Session, Error> {
        self.refuse_while_draining()?;
        copy::fork(&self.0.services, params).await
    }

    /// Reads the whole database.
    pub async fn check(&self) -> Result<CheckResult, Error> {
        let damage = self.0.services.store.check().await.map_err(Error::from_store)?;
        Ok(CheckResult { damage })
    }

    /// Copies the database into a new file.
    pub async fn backup(&self, params: BackupParams) -> Result<BackupResult, Error> {
        let BackupParams { path } = params;
        if !Path::new(&path).is_absolute() {
            return Err(Error::InvalidParams {
                field: "path".to_owned(),
                message: format!("{path:?} is not an absolute path: give the whole path"),
            });
        }
        let bytes = self.0.services.store.backup(path.clone().into()).await;
        Ok(BackupResult { path, bytes: bytes.map_err(Error::from_store)? })
    }
}
