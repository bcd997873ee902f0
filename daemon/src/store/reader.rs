//! The readers: a small pool of read-only connections.
//!
//! A read is one transaction on a thread for blocking work, so that it sees one moment; it ends
//! before its page is handed on, so that no client's slowness keeps the write-ahead log from being
//! emptied.
//!
//! Receives reads from the store's handle; hands back what they found.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use r2d2::Pool;
use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::Connection;
use scheduled_thread_pool::ScheduledThreadPool;
use tokio::sync::Semaphore;

use super::connection;
use super::error::Error;

/// Reads at once. They are short; more would only wait for the same disk.
const READERS: u32 = 4;

/// The pool.
pub(super) struct Readers {
    pool: Pool<SqliteConnectionManager>,
    /// As many permits as connections, so that waiting is done by tasks and not by threads.
    free: Arc<Semaphore>,
    path: PathBuf,
}

impl Readers {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let manager = SqliteConnectionManager::file(path)
            .with_flags(connection::read_flags())
            .with_init(connection::configure_reader);
        let pool = Pool::builder()
            .max_size(READERS)
            .test_on_check_out(false)
            .thread_pool(Arc::new(ScheduledThreadPool::new(1)))
            .build(manager)
            .map_err(|error| Error::failed("open the database for reading", error, path))?;
        let free = Arc::new(Semaphore::new(READERS as usize));
        Ok(Self { pool, free, path: path.to_owned() })
    }

    /// Runs a read in one transaction, off the async threads.
    pub(super) async fn read<R: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Connection) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let failed = |cause: String| Error::failed(operation, cause, &self.path);
        let permit = Arc::clone(&self.free).acquire_owned().await;
        let permit = permit.map_err(|error| failed(error.to_string()))?;
        let pool = self.pool.clone();
        let task = tokio::task::spawn_blocking(move || {
            let conn = pool.get().map_err(Error::unreadable)?;
            let transaction = conn.unchecked_transaction()?;
            let result = work(&transaction);
            drop(transaction);
            drop(conn);
            drop(permit);
            result
        });
        let result = task.await.map_err(|_panic| failed("internal fault".to_owned()))?;
        result.map_err(|error| error.during(operation, &self.path))
    }
}
