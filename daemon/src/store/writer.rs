//! The writer: one thread that owns the only write connection and commits in groups.
//!
//! All that has queued goes into one transaction and one fsync; every caller gets its own result,
//! since each operation runs in a savepoint where there are several. A commit costs about as much as
//! an fsync, so the more wait, the cheaper each is.
//!
//! Invariants: *durable before visible*: an operation is published after its COMMIT and before its
//! caller hears of it, in the order of the queue; what failed is never published. A group whose
//! transaction is lost (disk full, I/O error) is run again one by one, so that one operation's
//! fault is not its neighbours'.
//!
//! Receives operations from the store's handle through a bounded queue; hands results back and
//! tells the publishing half of each operation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::error::{self, Error};
use super::upkeep::Upkeep;

/// Operations that may wait. A session has one append on its way, so this is more than there are
/// busy sessions; when it is full, callers wait in their own tasks.
const QUEUE: usize = 1_024;
/// Operations of one transaction: beyond that a longer group gains nothing measurable.
const GROUP_OPERATIONS: usize = 512;
/// Bytes of one transaction, so that the log stays near the size at which it is checkpointed.
const GROUP_BYTES: usize = 4 << 20;
/// How long a transaction is tried to begin while another process holds the database.
const BUSY_PATIENCE: Duration = Duration::from_mins(1);
/// Between two tries. Short, so that two busy processes share the database fairly.
const BUSY_STEP: Duration = Duration::from_micros(500);
/// How long nothing must have come before the idle time is used.
const IDLE: Duration = Duration::from_secs(2);

/// What can be done in a group. It keeps its own outcome until it is told to reply.
pub(super) trait Operation: Send {
    /// What is being done, for errors.
    fn name(&self) -> &'static str;
    /// About how much it writes.
    fn bytes(&self) -> usize;
    /// Runs, perhaps again after its transaction was lost; whether it succeeded.
    fn run(&mut self, conn: &Connection) -> bool;
    /// Its transaction did not succeed; an error of its own stays what it is.
    fn fail(&mut self, error: Error);
    /// Its transaction is durable: tells whoever must hear before the caller does. Nothing happens
    /// unless it succeeded.
    fn publish(&mut self);
    /// Tells the caller.
    fn reply(self: Box<Self>);
}

type Group = Vec<Box<dyn Operation>>;

enum Message {
    Work(Box<dyn Operation>),
    Close(oneshot::Sender<()>),
}

/// The way to the writer thread.
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Message>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(conn: Connection, path: PathBuf, upkeep: Upkeep) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (queue, messages) = mpsc::channel(QUEUE);
        let state = State { conn, path, upkeep, messages };
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || state.run(&runtime))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Hands an operation over; waits while the queue is full. `false` after [`Writer::close`].
    pub(super) async fn send(&self, operation: Box<dyn Operation>) -> bool {
        match &self.queue {
            Some(queue) => queue.send(Message::Work(operation)).await.is_ok(),
            None => false,
        }
    }

    /// Ends the thread after all that has queued; its connection is closed then.
    pub(super) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if let Some(queue) = &self.queue
            && queue.send(Message::Close(done)).await.is_ok()
        {
            // An error says the same: the thread is gone.
            let _ = closed.await;
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic of the thread was reported by its own hook.
            let _ = thread.join();
        }
    }
}

struct State {
    conn: Connection,
    path: PathBuf,
    upkeep: Upkeep,
    messages: mpsc::Receiver<Message>,
}

impl State {
    fn run(mut self, runtime: &Runtime) {
        let mut closed = None;
        while let Some(first) = self.next(runtime) {
            let (group, close) = self.gather(first);
            if !group.is_empty() {
                self.process(group);
                self.upkeep.after_commit(&self.conn);
            }
            if close.is_some() {
                closed = close;
                break;
            }
        }
        self.upkeep.before_close(&self.conn);
        let Self { conn, messages, .. } = self;
        drop(conn);
        drop(messages);
        if let Some(closed) = closed {
            let _ = closed.send(());
        }
    }

    /// The next message; idle time on the way is used.
    fn next(&mut self, runtime: &Runtime) -> Option<Message> {
        while self.upkeep.is_due() {
            let wait = async { tokio::time::timeout(IDLE, self.messages.recv()).await };
            match runtime.block_on(wait) {
                Ok(message) => return message,
                Err(_elapsed) => while self.messages.is_empty() && self.upkeep.step(&self.conn) {},
            }
        }
        self.messages.blocking_recv()
    }

    /// What has queued, up to the limits of a group.
    fn gather(&mut self, first: Message) -> (Group, Option<oneshot::Sender<()>>) {
        let mut group = Group::new();
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Close(done) => return (group, Some(done)),
                Message::Work(operation) => {
                    bytes += operation.bytes();
                    group.push(operation);
                }
            }
            let full = group.len() >= GROUP_OPERATIONS || bytes >= GROUP_BYTES;
            next = if full { None } else { self.messages.try_recv().ok() };
        }
        (group, None)
    }

    /// Runs a group to its end: all callers have their results after it.
    fn process(&self, mut group: Group) {
        match self.commit(&mut group) {
            Ok(()) => {}
            Err(Lost::Transaction(_)) if group.len() > 1 => {
                for operation in group {
                    self.process(vec![operation]);
                }
                return;
            }
            Err(Lost::Transaction(cause) | Lost::Beginning(cause)) => {
                for operation in &mut group {
                    operation.fail(Error::failed(operation.name(), &cause, &self.path));
                }
            }
        }
        for operation in &mut group {
            shielded(|| operation.publish());
        }
        for operation in group {
            operation.reply();
        }
    }

    fn commit(&self, group: &mut Group) -> Result<(), Lost> {
        self.begin()?;
        if let [alone] = &mut group[..] {
            if !self.run_one(alone)? {
                self.roll_back();
                return Ok(());
            }
        } else {
            for operation in group {
                self.run_beside_others(operation)?;
            }
        }
        self.execute("COMMIT").map_err(|error| {
            self.roll_back();
            Lost::Transaction(error::cause(&error))
        })
    }

    /// Begins a transaction; another process may be in the way for a while.
    fn begin(&self) -> Result<(), Lost> {
        let started_at = Instant::now();
        loop {
            match self.execute("BEGIN IMMEDIATE") {
                Ok(()) => return Ok(()),
                Err(busy) if error::is_busy(&busy) && started_at.elapsed() < BUSY_PATIENCE => {
                    thread::sleep(BUSY_STEP);
                }
                Err(error) => return Err(Lost::Beginning(error::cause(&error))),
            }
        }
    }

    /// Runs one operation; whether it succeeded. An error is the operation's own, unless SQLite
    /// gave the whole transaction up over it.
    fn run_one(&self, operation: &mut Box<dyn Operation>) -> Result<bool, Lost> {
        let succeeded = catch_unwind(AssertUnwindSafe(|| operation.run(&self.conn)));
        let succeeded = succeeded.unwrap_or_else(|_panic| {
            let error = Error::failed(operation.name(), "internal fault", &self.path);
            operation.fail(error);
            false
        });
        if self.conn.is_autocommit() {
            return Err(Lost::Transaction("the transaction was rolled back".to_owned()));
        }
        Ok(succeeded)
    }

    /// Runs one operation of several, in a savepoint of its own.
    fn run_beside_others(&self, operation: &mut Box<dyn Operation>) -> Result<(), Lost> {
        let lost = |error: rusqlite::Error| {
            self.roll_back();
            Lost::Transaction(error::cause(&error))
        };
        self.execute("SAVEPOINT operation").map_err(lost)?;
        if !self.run_one(operation)? {
            self.conn.execute_batch("ROLLBACK TO operation").map_err(lost)?;
        }
        self.execute("RELEASE operation").map_err(lost)
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            tracing::error!(path = %self.path.display(), %error, "a transaction cannot be ended");
        }
    }
}

/// Why nothing of a group was written.
enum Lost {
    /// It could not begin.
    Beginning(String),
    /// It was rolled back under way.
    Transaction(String),
}

/// A panic of a publishing half must not end the writer; its hook has reported it.
fn shielded(publish: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(publish));
}

/// An operation made of its two halves.
pub(super) struct Work<R, F, P> {
    pub name: &'static str,
    pub bytes: usize,
    pub path: PathBuf,
    pub apply: F,
    pub publish: Option<P>,
    pub outcome: Option<Result<R, Error>>,
    pub caller: oneshot::Sender<Result<R, Error>>,
}

impl<R, F, P> Operation for Work<R, F, P>
where
    R: Send,
    F: FnMut(&Connection) -> Result<R, Error> + Send,
    P: FnOnce(&R) + Send,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn run(&mut self, conn: &Connection) -> bool {
        self.outcome = None;
        let outcome = (self.apply)(conn).map_err(|error| error.during(self.name, &self.path));
        let succeeded = outcome.is_ok();
        self.outcome = Some(outcome);
        succeeded
    }

    fn fail(&mut self, error: Error) {
        if !matches!(self.outcome, Some(Err(_))) {
            self.outcome = Some(Err(error));
        }
    }

    fn publish(&mut self) {
        if let Some(Ok(result)) = &self.outcome
            && let Some(publish) = self.publish.take()
        {
            publish(result);
        }
    }

    fn reply(self: Box<Self>) {
        let Self { apply, outcome, caller, name, path, .. } = *self;
        // What the halves share with the caller is free before the caller goes on.
        drop(apply);
        let outcome = outcome.unwrap_or_else(|| Err(Error::failed(name, "it was not run", &path)));
        // A caller that is gone does not undo what was committed.
        let _ = caller.send(outcome);
    }
}
