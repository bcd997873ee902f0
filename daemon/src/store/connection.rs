//! Opening connections: flags, settings, and how long one waits for another process.
//!
//! SQLite's own back-off sleeps up to 100 ms and starves whoever waits behind a busy process;
//! short steps share the database fairly.
//!
//! Receives paths from `database.rs` and `reader.rs`; hands connections to the writer and the pool.

use std::path::Path;
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// How durable a commit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// What was acknowledged survives a power cut.
    #[default]
    Full,
    /// What was acknowledged survives the end of the process only.
    Normal,
}

/// How long to wait for another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// About 10 s: work that somebody waits for.
    Long,
    /// About 50 ms: work that can be done later.
    Short,
    /// Not at all: the caller tries again itself.
    None,
}

const BUSY_STEP: Duration = Duration::from_micros(500);
const LONG_STEPS: i32 = 20_000;
const SHORT_STEPS: i32 = 100;
/// Statements that a connection keeps prepared: more than there are in this module.
const STATEMENTS: usize = 160;
/// The log is cut back to this when it starts over.
const WAL_LIMIT_BYTES: u32 = 16 << 20;

pub(super) fn set_patience(conn: &Connection, patience: Patience) -> rusqlite::Result<()> {
    conn.busy_handler(match patience {
        Patience::Long => Some(|steps| wait(steps < LONG_STEPS)),
        Patience::Short => Some(|steps| wait(steps < SHORT_STEPS)),
        Patience::None => None,
    })
}

fn wait(again: bool) -> bool {
    if again {
        thread::sleep(BUSY_STEP);
    }
    again
}

/// The path must be free of symbolic links, and is opened only as that.
const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_NO_MUTEX
    .union(OpenFlags::SQLITE_OPEN_NOFOLLOW)
    .union(OpenFlags::SQLITE_OPEN_EXRESCODE);

/// A connection that can write. The file must be there.
pub(super) fn open_to_write(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, FLAGS | OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    set_patience(&conn, Patience::Long)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(conn)
}

/// Settings of the connection that owns the writing.
pub(super) fn configure_writer(
    conn: &Connection,
    synchronous: Synchronous,
) -> rusqlite::Result<()> {
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(
        None,
        "synchronous",
        match synchronous {
            Synchronous::Full => "FULL",
            Synchronous::Normal => "NORMAL",
        },
    )?;
    // macOS: fsync alone leaves data in the drive's cache.
    conn.pragma_update(None, "fullfsync", synchronous == Synchronous::Full)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    in_memory(conn)?;
    conn.pragma_update(None, "journal_size_limit", WAL_LIMIT_BYTES)
}

/// What SQLite keeps beside the database for a moment needs neither a file nor a descriptor.
fn in_memory(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "temp_store", "MEMORY")
}

/// Flags of a connection that only reads. The writer must have opened the database before.
pub(super) fn read_flags() -> OpenFlags {
    FLAGS | OpenFlags::SQLITE_OPEN_READ_ONLY
}

/// Settings of a connection that only reads.
pub(super) fn configure_reader(conn: &mut Connection) -> rusqlite::Result<()> {
    set_patience(conn, Patience::Long)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    in_memory(conn)?;
    conn.pragma_update(None, "query_only", true)
}

/// A connection that only reads the database, and may write copies of it.
pub(super) fn open_to_copy(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, read_flags())?;
    set_patience(&conn, Patience::Long)?;
    in_memory(&conn)?;
    Ok(conn)
}

/// A connection that only reads.
pub(super) fn open_to_read(path: &Path) -> rusqlite::Result<Connection> {
    let mut conn = Connection::open_with_flags(path, read_flags())?;
    configure_reader(&mut conn)?;
    Ok(conn)
}
