//! What the writer does when nobody waits: the full-text index, the rows of deleted sessions, and
//! the checkpoint that empties the write-ahead log.
//!
//! Each step is short, so that a request that comes meanwhile waits for little.
//!
//! Receives the write connection from `writer.rs` when its queue has been empty for a while.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::connection::{self, Patience};
use super::error::Error;
use super::{purge, search};

/// A log longer than this is checkpointed even while there is work.
const WAL_BYTES: u64 = 16 << 20;
/// How often that is tried: a reader in the way does not go sooner for being asked more often.
const WAL_PAUSE: Duration = Duration::from_secs(1);

/// What is left to do.
pub(super) struct Upkeep {
    database: PathBuf,
    outputs: PathBuf,
    due: bool,
    checkpointed_at: Instant,
}

impl Upkeep {
    /// A database that was just opened: somebody may have left something to do.
    pub(super) fn new(database: PathBuf, outputs: PathBuf) -> Self {
        Self { database, outputs, due: true, checkpointed_at: Instant::now() }
    }

    /// Whether there may be anything to do.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// There was a commit.
    pub(super) fn after_commit(&mut self, conn: &Connection) {
        self.due = true;
        if self.checkpointed_at.elapsed() > WAL_PAUSE && wal_bytes(&self.database) > WAL_BYTES {
            self.checkpointed_at = Instant::now();
            checkpoint(conn, &self.database);
        }
    }

    /// One short step; whether there may be another one.
    pub(super) fn step(&mut self, conn: &Connection) -> bool {
        let more = match in_transaction(conn, |conn| {
            Ok(purge::step(conn, &self.outputs)? || search::index_step(conn)?)
        }) {
            Ok(more) => more,
            Err(error) => {
                tracing::warn!(path = %self.database.display(), %error, "upkeep failed");
                false
            }
        };
        if !more {
            checkpoint(conn, &self.database);
            self.due = false;
        }
        more
    }

    /// Leaves the database as one file.
    pub(super) fn before_close(&mut self, conn: &Connection) {
        checkpoint(conn, &self.database);
    }
}

fn in_transaction(
    conn: &Connection,
    work: impl FnOnce(&Connection) -> Result<bool, Error>,
) -> Result<bool, Error> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let more = work(conn).and_then(|more| {
        conn.execute_batch("COMMIT")?;
        Ok(more)
    });
    if more.is_err() && !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK")?;
    }
    more
}

/// Bytes of the write-ahead log.
pub(super) fn wal_bytes(database: &Path) -> u64 {
    let mut wal = database.as_os_str().to_owned();
    wal.push("-wal");
    std::fs::metadata(wal).map_or(0, |log| log.len())
}

/// Moves the log's content into the database and empties it, if nobody reads meanwhile.
fn checkpoint(conn: &Connection, database: &Path) {
    let result = connection::set_patience(conn, Patience::Short).and_then(|()| {
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0))
    });
    match result {
        Ok(false) => {}
        Ok(true) => tracing::debug!("a reader kept the log from being emptied"),
        Err(error) => {
            tracing::warn!(path = %database.display(), %error, "the log cannot be emptied");
        }
    }
    if let Err(error) = connection::set_patience(conn, Patience::None) {
        tracing::error!(%error, "the busy handler cannot be set");
    }
}
