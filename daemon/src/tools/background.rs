//! The table of commands that outlive their call: started in the background, or left behind.
//!
//! A command that was started in the background belongs to its session: the session's record has
//! its start and its end, so its end is kept here until the session has taken it. What a command in
//! the foreground left running is held by the same table, so that it can be ended by its id, but
//! the record knows nothing of it.
//!
//! Invariants: nobody sees another session's; a session has at most [`MAX_RUNNING`] that run, and
//! none of them is ever ended to make room; all of them end with the daemon, since the pipe to the
//! launcher is their life.
//!
//! Receives commands from the tools; hands them output and ends, and ends to `session`.

use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentd_protocol::id::{CallId, ProcessId, SessionId};
use agentd_protocol::process::{Process, ProcessEnd, ProcessExit};
use tokio::sync::Notify;

use super::command::{Bounds, Command};
use super::process::{self, Launchers};
use crate::launcher::{Cause, Order};

/// Commands that one session may have running beside its turns.
pub(crate) const MAX_RUNNING: usize = 16;

/// Commands that have ended and can still be looked at, of all sessions; the oldest goes first.
const MAX_ENDED: usize = 64;

/// Characters of a command in a list.
const LINE_CHARS: usize = 60;

/// The table. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Background(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    launchers: Launchers,
    /// Oldest first.
    held: Mutex<Vec<Held>>,
    /// A command ended.
    ended: Arc<Notify>,
}

/// A command in the table.
#[derive(Debug, Clone)]
pub(super) struct Held {
    session_id: SessionId,
    pub(super) process: Process,
    pub(super) command: Arc<Command>,
    /// What a command in the foreground left behind.
    pub(super) is_left: bool,
    /// The session has taken its end.
    told: bool,
}

impl Held {
    /// Whether anything of it runs.
    pub(super) fn runs(&self) -> bool {
        !self.command.status().gone
    }

    /// Whether it was started in the background and has not ended.
    fn is_busy(&self) -> bool {
        !self.is_left && self.exit().is_none()
    }

    /// How the command ended.
    pub(super) fn exit(&self) -> Option<ProcessExit> {
        let end = self.command.status().end?;
        let (code, signal, reason) = match end {
            Ok(end) => {
                let reason = match end.cause {
                    Some(Cause::Exit) => ProcessEnd::Exited,
                    Some(Cause::Timeout) => ProcessEnd::TimedOut,
                    Some(Cause::Cancel) => ProcessEnd::Killed,
                    None => ProcessEnd::Lost,
                };
                (end.code, end.signal, reason)
            }
            Err(_) => (None, None, ProcessEnd::Lost),
        };
        Some(exit_of(self.process.clone(), code, signal, reason))
    }
}

/// The end of a process.
fn exit_of(
    process: Process,
    exit: Option<i32>,
    signal: Option<i32>,
    reason: ProcessEnd,
) -> ProcessExit {
    let Process { process_id, call_id, command } = process;
    ProcessExit { process_id, call_id, command, exit, signal, reason }
}

impl Background {
    pub(super) fn new(launchers: Launchers) -> Self {
        let (held, ended) = (Mutex::default(), Arc::default());
        Self(Arc::new(Inner { launchers, held, ended }))
    }

    /// Starts a command, which is nobody's but the caller's as yet.
    pub(super) async fn start(
        &self,
        order: &Order,
        outputs_dir: &Path,
        bounds: Bounds,
    ) -> Result<Command, process::Error> {
        let process = self.0.launchers.start(order).await?;
        Ok(Command::follow(process, outputs_dir, bounds, Arc::clone(&self.0.ended)))
    }

    /// Whether the session may have one more. `Err` is a text for the model.
    pub(super) fn check_room(&self, session_id: &SessionId) -> Result<(), String> {
        let held = self.held();
        let running: Vec<&Held> = of(&held, session_id).filter(|held| held.runs()).collect();
        if running.len() < MAX_RUNNING {
            return Ok(());
        }
        Err(format!(
            "{} commands run in the background, which is as many as a session may have; end one \
             of them with shell_kill first: {}",
            running.len(),
            listed(&running)
        ))
    }

    /// Holds a command from now on.
    pub(super) fn hold(
        &self,
        session_id: &SessionId,
        (call_id, line): (&CallId, &str),
        command: Command,
        is_left: bool,
    ) -> Process {
        let mut held = self.held();
        // Short, since models write it; unique in its session.
        let process_id = std::iter::repeat_with(new_id)
            .find(|id| of(&held, session_id).all(|held| held.process.process_id != *id))
            .expect("there are more ids than commands");
        let process = Process { process_id, call_id: call_id.clone(), command: line.to_owned() };
        held.push(Held {
            session_id: session_id.clone(),
            process: process.clone(),
            command: Arc::new(command),
            is_left,
            told: false,
        });
        let ended = held.iter().filter(|held| !held.runs()).count();
        for _ in MAX_ENDED..ended {
            let oldest = held.iter().position(|held| !held.runs());
            oldest.map(|oldest| held.remove(oldest));
        }
        process
    }

    /// The session's command of this id. `Err` is a text for the model.
    pub(super) fn find(&self, session_id: &SessionId, id: &str) -> Result<Held, String> {
        let held = self.held();
        let mut own = of(&held, session_id);
        if let Some(found) = own.find(|held| held.process.process_id.as_str() == id) {
            return Ok(found.clone());
        }
        let running: Vec<&Held> = of(&held, session_id).filter(|held| held.runs()).collect();
        let running = match running.as_slice() {
            [] => "None runs".to_owned(),
            running => format!("These run: {}", listed(running)),
        };
        Err(format!(
            "this session has no background command {id:?}. {running}. (Background commands end \
             when agentd is stopped or restarted.)"
        ))
    }

    /// The next end of a command that the session's record says to be running, unless it was taken
    /// before. Cancel-safe.
    pub async fn exited(&self, session_id: &SessionId, recorded: &[Process]) -> ProcessExit {
        loop {
            let mut ended = pin!(self.0.ended.notified());
            ended.as_mut().enable();
            if let Some(exit) = self.take_exit(session_id, recorded) {
                return exit;
            }
            ended.await;
        }
    }

    fn take_exit(&self, session_id: &SessionId, recorded: &[Process]) -> Option<ProcessExit> {
        let mut held = self.held();
        let mut untold =
            held.iter_mut().filter(|held| held.session_id == *session_id && !held.told);
        untold.find_map(|held| {
            if !is_among(recorded, held) {
                return None;
            }
            let exit = held.exit()?;
            held.told = true;
            Some(exit)
        })
    }

    /// Whether a command that was started in the background runs.
    pub fn is_busy(&self, session_id: &SessionId) -> bool {
        of(&self.held(), session_id).any(Held::is_busy)
    }

    /// Whether one of any session does.
    pub fn is_any_busy(&self) -> bool {
        self.held().iter().any(Held::is_busy)
    }

    /// Brings the table in line with what the session's record says to be running: what the record
    /// does not know is ended, and an end that it does not know is told again. Hands back the ends
    /// of those that are not here any more.
    pub fn reconcile(&self, session_id: &SessionId, recorded: &[Process]) -> Vec<ProcessExit> {
        let mut held = self.held();
        held.retain_mut(|held| {
            if held.session_id != *session_id || held.is_left {
                return true;
            }
            let known = is_among(recorded, held);
            if known {
                held.told = false;
            }
            known || held.exit().is_some()
        });
        let is_here = |process: &&Process| {
            of(&held, session_id).any(|held| held.process.process_id == process.process_id)
        };
        let gone = recorded.iter().filter(|process| !is_here(process));
        gone.map(|process| exit_of(process.clone(), None, None, ProcessEnd::Stopped)).collect()
    }

    /// Ends all of the session's commands, since the daemon stops, and waits until they are gone;
    /// the ends that the session has not taken.
    pub async fn end(&self, session_id: &SessionId) -> Vec<ProcessExit> {
        let own: Vec<Held> = of(&self.held(), session_id).cloned().collect();
        let stopped = |held: &Held| exit_of(held.process.clone(), None, None, ProcessEnd::Stopped);
        let untold = own.iter().filter(|held| !held.is_left && !held.told);
        let exits = untold.map(|held| held.exit().unwrap_or_else(|| stopped(held))).collect();
        for held in &own {
            held.command.cancel();
        }
        for held in own {
            held.command.gone().await;
        }
        self.forget(session_id);
        exits
    }

    /// The session is over, or another daemon's: ends all of its commands, and forgets them.
    pub fn forget(&self, session_id: &SessionId) {
        self.held().retain(|held| {
            let own = held.session_id == *session_id;
            if own {
                // Also where somebody is looking at it.
                held.command.cancel();
            }
            !own
        });
    }

    fn held(&self) -> MutexGuard<'_, Vec<Held>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of<'a>(held: &'a [Held], session_id: &'a SessionId) -> impl Iterator<Item = &'a Held> {
    held.iter().filter(move |held| held.session_id == *session_id)
}

fn is_among(recorded: &[Process], held: &Held) -> bool {
    recorded.iter().any(|process| process.process_id == held.process.process_id)
}

fn new_id() -> ProcessId {
    ProcessId::from_unique(&uuid::Uuid::new_v4().simple().to_string()[..8])
}

/// `proc_1 (npm run dev), proc_2 (make watch)`
fn listed(running: &[&Held]) -> String {
    let line = |held: &&Held| {
        let Process { process_id, command, .. } = &held.process;
        let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
        let cut = command.chars().nth(LINE_CHARS).map_or("", |_| "…");
        let command: String = command.chars().take(LINE_CHARS).collect();
        format!("{process_id} ({command}{cut})")
    };
    running.iter().map(line).collect::<Vec<_>>().join(", ")
}
