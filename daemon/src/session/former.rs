//! Former contents of files on their way from tools to the store.
//!
//! Receives contents on the tools' threads; hands them to the store and waits until they are
//! committed.

use agentd_protocol::id::SessionId;
use tokio::runtime::Handle;

use crate::store::{FileVersion, FormerContent, Store};
use crate::tools::former::{Change, Keeper};

/// The store, for one session's tools.
#[derive(Debug)]
pub(super) struct StoreKeeper {
    store: Store,
    session_id: SessionId,
    runtime: Handle,
}

impl StoreKeeper {
    /// To be made on the runtime.
    pub(super) fn new(store: Store, session_id: SessionId) -> Self {
        Self { store, session_id, runtime: Handle::current() }
    }
}

impl Keeper for StoreKeeper {
    fn keep(&self, change: Change<'_>) -> Result<(), String> {
        let Change { by, path, former, left } = change;
        let Some(path) = path.to_str() else {
            // Nobody can name it to the protocol either; it is among what cannot be undone.
            return Ok(());
        };
        let version = FileVersion {
            by: by.to_owned(),
            path: path.to_owned(),
            former: former.map(|(bytes, sha256)| FormerContent {
                sha256: sha256.to_owned(),
                bytes: Some(bytes.to_vec()),
            }),
            left: left.map(str::to_owned),
        };
        self.runtime
            .block_on(self.store.keep_file(&self.session_id, version))
            .map_err(|error| format!("its former content cannot be kept: {error}"))
    }
}
