//! Opening the database: checked after an unclean stop, refused if newer, brought up to date if
//! older.
//!
//! Receives the state directory; hands the write connection to the writer.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::connection::{self, Patience, Synchronous};
use super::directory::{self, Directory};
use super::error::{self, Error};
use super::migrate::{self, MIGRATIONS};
use super::salvage;

const OPERATION: &str = "open the database";

/// An open database, and what a person should hear about its opening.
pub(super) struct Opened {
    pub conn: Connection,
    pub notices: Vec<String>,
}

/// Opens the directory's database, which is made if it is missing.
pub(super) fn open(directory: &Directory, synchronous: Synchronous) -> Result<Opened, Error> {
    let path = directory.database();
    directory::open_private(&path).map_err(|cause| Error::failed(OPERATION, cause, &path))?;
    let mut notices = Vec::new();
    let conn = match probe(&path, directory.last_holder_died())? {
        Some(conn) => conn,
        None if directory.is_alone() => {
            let salvaged = salvage::salvage(&path, synchronous)?;
            notices.push(salvaged.notice);
            salvaged.conn
        }
        None => {
            let cause = "the database is damaged: it is repaired only while no other daemon has \
                         it open";
            return Err(Error::failed(OPERATION, cause, &path));
        }
    };
    let ready = connection::configure_writer(&conn, synchronous).map_err(Error::from);
    let copies = ready
        .and_then(|()| migrate::migrate(&conn, &path, MIGRATIONS, directory.is_alone()))
        .and_then(|copies| {
            // From here on the writer waits for other processes itself.
            connection::set_patience(&conn, Patience::None)?;
            Ok(copies)
        })
        .map_err(|error| error.during(OPERATION, &path))?;
    notices.extend(copies.iter().map(|copy| {
        format!("the database was brought to a new schema; a copy as it was: {}", copy.display())
    }));
    Ok(Opened { conn, notices })
}

/// A connection to a database that is sound and not newer; `None` if it is damaged. A newer one
/// is left as it is, its log too.
fn probe(path: &Path, check: bool) -> Result<Option<Connection>, Error> {
    match probe_whole(path, check) {
        Ok(conn) => Ok(Some(conn)),
        Err(Probe::Damaged) => Ok(None),
        Err(Probe::Refused(error)) => Err(error),
        Err(Probe::Failed(error)) if error::is_damage(&error) => Ok(None),
        Err(Probe::Failed(error)) => Err(Error::from(error).during(OPERATION, path)),
    }
}

enum Probe {
    Damaged,
    Refused(Error),
    Failed(rusqlite::Error),
}

impl From<rusqlite::Error> for Probe {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

fn probe_whole(path: &Path, check: bool) -> Result<Connection, Probe> {
    let conn = connection::open_to_write(path)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    migrate::version(&conn)?;
    migrate::refuse_others(&conn, path, MIGRATIONS).map_err(Probe::Refused)?;
    if check {
        let verdict: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if verdict != "ok" {
            tracing::error!(path = %path.display(), verdict, "the database is damaged");
            return Err(Probe::Damaged);
        }
    }
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(conn)
}
