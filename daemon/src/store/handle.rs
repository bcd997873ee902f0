//! The store's handle: what other modules call. Each call is one operation of the writer or one
//! read.
//!
//! Receives appends from `journal` and reads from `session`; hands them to the writer or a reader.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentd_protocol::id::{RuleId, SessionId};
use agentd_protocol::session::Lease;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::append::{self, Prepared};
use super::connection::Synchronous;
use super::directory::Directory;
use super::error::Error;
use super::events::Numbered;
use super::file_versions::{self, FileVersion};
use super::lease::{self, Holder, Terms};
use super::reader::Readers;
use super::record::{Append, Appended, Created, NewSession};
use super::upkeep::{self, Upkeep};
use super::writer::{Work, Writer};
use super::{backup, connection, database, purge, rules, sessions};
use crate::clock::Clock;

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// How durable a commit is.
    pub synchronous: Synchronous,
    /// Whether other daemons may have the same state directory open.
    pub shared: bool,
    /// This process, as the holder of leases.
    pub holder: Holder,
    /// How long a lease lives unless it is renewed.
    pub lease_ttl: Duration,
    /// What the lock file says about this process, in one line, for those who find it locked.
    pub announcement: String,
}

/// The store. Cheap to clone.
#[derive(Clone)]
pub struct Store(pub(super) Arc<Inner>);

pub(super) struct Inner {
    writer: Writer,
    readers: Readers,
    pub(super) standing: Arc<Standing>,
    shared: bool,
    database: PathBuf,
    outputs: PathBuf,
    notices: Vec<String>,
    /// A connection of its own that notices commits, where the store is shared.
    sentinel: Option<Arc<Mutex<Connection>>>,
    /// Held until all is closed: after the writer, which is dropped before.
    directory: Mutex<Option<Directory>>,
}

/// This process as a holder of leases. Apart from [`Inner`], so that an operation in the queue
/// does not keep the store open.
pub(super) struct Standing {
    holder: Holder,
    /// The state directory is ours alone.
    alone: bool,
    lease_ttl: Duration,
    clock: Clock,
}

impl Standing {
    pub(super) fn terms(&self) -> Terms<'_> {
        Terms {
            holder: &self.holder,
            alone: self.alone,
            now_ms: self.clock.boot_ms(),
            ttl: self.lease_ttl,
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("database", &self.0.database).finish_non_exhaustive()
    }
}

/// What was committed, for those who must hear before the caller does.
#[derive(Debug, Clone, Copy)]
pub struct Committed<'a> {
    /// The events with their numbers.
    pub events: &'a [Numbered],
    /// Who holds the session after it.
    pub lease: Option<&'a Lease>,
}

impl Store {
    /// Opens the state directory `dir`, which is made if it is missing. Blocks.
    pub fn open(dir: &Path, options: Options, clock: Clock) -> Result<Self, Error> {
        let mut directory = Directory::take(dir, options.shared)?;
        let opened = database::open(&directory, options.synchronous)?;
        directory.settle(options.shared, &options.announcement)?;
        let (database, outputs) = (directory.database(), directory.outputs());
        let readers = Readers::open(&database)?;
        let sentinel = options.shared.then(|| connection::open_to_read(&database)).transpose()?;
        let sentinel = sentinel.map(|conn| Arc::new(Mutex::new(conn)));
        let upkeep = Upkeep::new(database.clone(), outputs.clone());
        let writer = Writer::start(opened.conn, database.clone(), upkeep)
            .map_err(|cause| Error::failed("start the writer", cause, &database))?;
        for notice in &opened.notices {
            tracing::warn!("{notice}");
        }
        Ok(Self(Arc::new(Inner {
            writer,
            readers,
            standing: Arc::new(Standing {
                holder: options.holder,
                alone: !options.shared,
                lease_ttl: options.lease_ttl,
                clock,
            }),
            shared: options.shared,
            database,
            outputs,
            notices: opened.notices,
            sentinel,
            directory: Mutex::new(Some(directory)),
        })))
    }

    /// Ends in order: all that has queued is committed, the log is emptied, and the next start
    /// need not check the database. Calls after it fail.
    pub async fn close(&self) -> Result<(), Error> {
        self.0.writer.close().await;
        let directory = self.0.directory.lock().unwrap_or_else(PoisonError::into_inner).take();
        directory.map_or(Ok(()), Directory::close)
    }

    /// What a person should hear about the opening: a damaged database and where it is now, a
    /// copy that was made.
    pub fn notices(&self) -> &[String] {
        &self.0.notices
    }

    /// The clock it was opened with.
    pub fn clock(&self) -> &Clock {
        &self.0.standing.clock
    }

    /// Changes whenever anybody, here or elsewhere, commits to a shared store.
    pub async fn data_version(&self) -> Result<i64, Error> {
        let Some(sentinel) = self.0.sentinel.clone() else { return Ok(0) };
        let failed = |cause: String| Error::failed("follow", cause, &self.0.database);
        tokio::task::spawn_blocking(move || {
            let conn = sentinel.lock().unwrap_or_else(PoisonError::into_inner);
            conn.query_row("PRAGMA data_version", [], |row| row.get(0))
        })
        .await
        .map_err(|error| failed(error.to_string()))?
        .map_err(|error| Error::from(error).during("follow", &self.0.database))
    }

    /// Where a session's large outputs are kept.
    pub fn outputs_dir(&self, session_id: &SessionId) -> PathBuf {
        self.0.outputs.join(session_id.as_str())
    }

    /// Whether other daemons may write to the same database.
    pub fn is_shared(&self) -> bool {
        self.0.shared
    }

    /// One transaction of one session. Once called it is carried out, also if the future is
    /// dropped.
    pub async fn append(&self, append: Append) -> Result<Appended, Error> {
        self.append_then(append, |_| ()).await
    }

    /// As [`Store::append`]; `publish` is called after the commit and before this returns, on the
    /// writer's thread, in the order of the commits.
    pub async fn append_then(
        &self,
        append: Append,
        publish: impl FnOnce(Committed<'_>) + Send + 'static,
    ) -> Result<Appended, Error> {
        let prepared = Arc::new(Prepared::new(append)?);
        let (writing, publishing) = (Arc::clone(&prepared), Arc::clone(&prepared));
        let standing = Arc::clone(&self.0.standing);
        let holder = Arc::clone(&self.0.standing);
        let epoch = self
            .write_then(
                "write to a session",
                prepared.bytes(),
                move |conn| append::apply(conn, &writing, standing.terms()),
                move |epoch: &u64| {
                    let lease = holder.terms().fresh(*epoch);
                    publish(Committed {
                        events: &publishing.events,
                        lease: Some(&lease).filter(|_| !publishing.release),
                    });
                },
            )
            .await?;
        let head = prepared.head();
        let events = match Arc::try_unwrap(prepared) {
            Ok(prepared) => prepared.events.into_iter().map(Numbered::into_event).collect(),
            Err(shared) => shared.events.iter().map(|event| event.event().clone()).collect(),
        };
        Ok(Appended { head, epoch, events })
    }

    /// Gives our lease a new life; [`Error::LeaseLost`] if another process took it.
    pub async fn renew_lease(&self, session_id: &SessionId, epoch: u64) -> Result<(), Error> {
        let (standing, session_id) = (Arc::clone(&self.0.standing), session_id.clone());
        self.write("renew a lease", move |conn| {
            let (session, _) = sessions::find(conn, &session_id)?;
            lease::renew(conn, session, standing.terms(), epoch)
        })
        .await
    }

    /// Gives our lease back; nothing happens if it is no longer ours.
    pub async fn release_lease(&self, session_id: &SessionId, epoch: u64) -> Result<(), Error> {
        let (standing, session_id) = (Arc::clone(&self.0.standing), session_id.clone());
        self.write("release a lease", move |conn| {
            let (session, _) = sessions::find(conn, &session_id)?;
            lease::release(conn, session, &standing.holder, epoch)
        })
        .await
    }

    /// Makes a session with its event `session.created`, or finds the one that was made under the
    /// same key with the same parameters.
    pub async fn create_session(&self, new: NewSession) -> Result<Created, Error> {
        let standing = Arc::clone(&self.0.standing);
        self.write("create a session", move |conn| sessions::create(conn, &new, standing.terms()))
            .await
    }

    /// Keeps what a file was before it is changed.
    pub async fn keep_file(
        &self,
        session_id: &SessionId,
        version: FileVersion,
    ) -> Result<(), Error> {
        let session_id = session_id.clone();
        let bytes = version.former.as_ref().and_then(|former| former.bytes.as_ref());
        let bytes = bytes.map_or(0, Vec::len) + 1_000;
        let now_ms = self.0.standing.clock.now().unix_millis();
        let keep =
            move |conn: &Connection| file_versions::keep(conn, &session_id, &version, now_ms);
        self.write_then("keep a file's former content", bytes, keep, |()| ()).await
    }

    /// Copies the live database, as of one moment, into a new file at `path`; its size in bytes.
    pub async fn backup(&self, path: PathBuf) -> Result<u64, Error> {
        let database = self.0.database.clone();
        let failed = |cause: String| Error::failed("copy the database", cause, &self.0.database);
        tokio::task::spawn_blocking(move || backup::copy(&database, &path))
            .await
            .map_err(|_panic| failed("internal fault".to_owned()))?
    }

    /// Deletes a session with all it has, unless another process runs it. It is gone at once; the
    /// space is free some time later.
    pub async fn delete_session(&self, session_id: &SessionId) -> Result<(), Error> {
        let (standing, id) = (Arc::clone(&self.0.standing), session_id.clone());
        self.write("delete a session", move |conn| sessions::delete(conn, &id, standing.terms()))
            .await?;
        let (outputs, id) = (self.0.outputs.clone(), session_id.clone());
        tokio::task::spawn_blocking(move || purge::remove_outputs(&outputs, id.as_str()))
            .await
            .map_err(|error| Error::failed("delete a session", error, &self.0.outputs))?
    }

    /// Forgets a remembered rule; whether it was there.
    pub async fn forget_rule(&self, rule_id: &RuleId) -> Result<bool, Error> {
        let rule_id = rule_id.clone();
        self.write("forget a rule", move |conn| rules::forget(conn, &rule_id)).await
    }

    /// Bytes of the database and its log.
    pub fn bytes(&self) -> u64 {
        let database = &self.0.database;
        let size = std::fs::metadata(database).map_or(0, |file| file.len());
        size + upkeep::wal_bytes(database)
    }

    pub(super) async fn read<R: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Connection) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        self.0.readers.read(operation, work).await
    }

    pub(super) async fn write<R: Send + 'static>(
        &self,
        name: &'static str,
        apply: impl FnMut(&Connection) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        self.write_then(name, 1_000, apply, |_: &R| ()).await
    }

    pub(super) async fn write_then<R: Send + 'static>(
        &self,
        name: &'static str,
        bytes: usize,
        apply: impl FnMut(&Connection) -> Result<R, Error> + Send + 'static,
        publish: impl FnOnce(&R) + Send + 'static,
    ) -> Result<R, Error> {
        let (caller, outcome) = oneshot::channel();
        let path = self.0.database.clone();
        let work = Work { name, bytes, path, apply, publish: Some(publish), outcome: None, caller };
        let closed = || Error::failed(name, "the store is closed", &self.0.database);
        if !self.0.writer.send(Box::new(work)).await {
            return Err(closed());
        }
        outcome.await.map_err(|_gone| closed())?
    }
}
