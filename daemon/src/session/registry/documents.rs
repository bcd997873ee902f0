//! Copies and searches: what is made of the record without changing a session.
//!
//! Receives requests from `rpc`; hands them to `session/copy.rs` and to the store.

use std::path::{Path, PathBuf};

use agentd_protocol::daemon::{BackupParams, BackupResult, CheckResult};
use agentd_protocol::session::{
    ExportFileParams, ExportFileResult, ExportParams, ExportResult, ForkParams, ImportFileParams,
    ImportParams, SearchParams, SearchResult, Session,
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

    /// A session's document in a new file.
    pub async fn export_file(&self, params: ExportFileParams) -> Result<ExportFileResult, Error> {
        let file = absolute(&params.path)?;
        let ExportFileParams { session_id, format, path } = params;
        let params = ExportParams { session_id, format };
        let bytes = copy::export_file(&self.0.services, params, file).await?;
        Ok(ExportFileResult { path, bytes })
    }

    /// A session from a file's document.
    pub async fn import_file(&self, params: ImportFileParams) -> Result<Session, Error> {
        self.refuse_while_draining()?;
        let file = absolute(&params.path)?;
        copy::import_file(&self.0.services, params, file).await
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
        let bytes = self.0.services.store.backup(absolute(&path)?).await;
        Ok(BackupResult { path, bytes: bytes.map_err(Error::from_store)? })
    }
}

/// A client's path; ours would be resolved from where the daemon was started.
fn absolute(path: &str) -> Result<PathBuf, Error> {
    if Path::new(path).is_absolute() {
        return Ok(PathBuf::from(path));
    }
    Err(Error::InvalidParams {
        field: "path".to_owned(),
        message: format!("{path:?} is not an absolute path: give the whole path"),
    })
}
