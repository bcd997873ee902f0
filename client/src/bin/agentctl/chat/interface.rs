//! The loop: waits for whatever comes first, lets the state take it in, does what that wants, and
//! draws.
//!
//! A key is drawn at once; of a flood of messages every frame shows where it is by then.
//!
//! Receives keys, messages, answers and signals; hands rows to the screen.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agentd_client::protocol::daemon::Role;
use agentd_client::protocol::id::SessionId;
use agentd_client::protocol::session::Session;
use agentd_client::{Client, Error, Received, Watch};
use anyhow::Result;
use crossterm::event::{Event as Input, EventStream};
use futures_util::StreamExt;
use rustix::io::Errno;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::errands::Errands;
use super::history::History;
use super::local::Running;
use super::screen::Screen;
use super::state::{Effect, Event, Setup, State};
use super::{Begin, draw};
use crate::place;

/// Between two pictures at least.
const FRAME: Duration = Duration::from_millis(30);
/// Between two pictures at most, while something moves.
const TICK: Duration = Duration::from_millis(250);
/// Events of the past that are shown when a session is opened.
const REPLAYED: u64 = 400;
/// Before a session is watched again when that failed.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// The interface while it is there.
pub(super) struct Interface {
    client: Client,
    state: State,
    screen: Screen,
    errands: Errands,
    watch: Option<Watch>,
    watch_again: Option<Instant>,
    /// The event after which a session is shown, where the user said so.
    since: Option<u64>,
    running: Option<Running>,
    /// What is written is kept there, unless this only watches.
    history: Option<History>,
    /// When the picture that is due may be drawn.
    due: Option<Instant>,
    drawn: Instant,
    left: bool,
}

struct Signals {
    ends: [Signal; 3],
    continued: Signal,
}

/// What comes first.
enum First {
    Input(Option<io::Result<Input>>),
    Received(Option<Result<Received, Error>>),
    Done(Vec<Event>),
    Local(Event),
    Tick,
    Due,
    WatchAgain,
    Continued,
    End,
}

impl Interface {
    /// Takes the terminal and begins.
    pub(super) fn begin(client: Client, role: Role, begin: Begin) -> Result<Self> {
        let (model, mode) = match &begin {
            Begin::New { model, mode } => (model.clone(), *mode),
            Begin::Session(..) => (None, None),
        };
        let ids = uuid::Uuid::new_v4().simple().to_string();
        let setup = Setup { role, size: Screen::size(), ids, model: model.clone(), mode };
        let mut errands = Errands::new(client.clone(), std::env::current_dir()?);
        (errands.model, errands.mode) = (model, mode);
        let mut interface = Self {
            client,
            state: State::new(setup, now()),
            screen: Screen::take()?,
            errands,
            watch: None,
            watch_again: None,
            since: None,
            running: None,
            history: None,
            due: None,
            drawn: Instant::now(),
            left: false,
        };
        match begin {
            Begin::New { .. } => interface.state.greet(),
            Begin::Session(session, since) => {
                interface.since = since;
                interface.happened(vec![Event::Opened(session)])?;
            }
        }
        interface.draw()?;
        // Nobody looks back before there is a picture.
        if role == Role::Controller {
            let mut history = History::new(&place::state_dir()?);
            interface.state.recall(history.load());
            interface.history = Some(history);
        }
        Ok(interface)
    }

    /// Goes on until the user leaves or the terminal is gone; the session that was open then.
    pub(super) async fn until_left(mut self) -> Result<Option<SessionId>> {
        match self.go_on().await {
            Err(error) if !is_gone(&error) => Err(error),
            _ => Ok(self.errands.session_id),
        }
    }

    async fn go_on(&mut self) -> Result<()> {
        let mut inputs = EventStream::new();
        let kinds = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()];
        let [terminate, hangup, interrupt] = kinds.map(signal);
        let mut signals = Signals {
            ends: [terminate?, hangup?, interrupt?],
            continued: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        };
        while !self.left {
            match self.first(&mut inputs, &mut signals).await {
                First::Input(Some(input)) => self.input(input?)?,
                First::Input(None) | First::End => self.left = true,
                First::Received(received) => self.received(received)?,
                First::Done(events) => {
                    self.happened(events)?;
                    self.errands.go_on();
                }
                First::Local(event) => {
                    if matches!(event, Event::CommandEnded(..)) {
                        self.running = None;
                    }
                    self.happened(vec![event])?;
                }
                First::Tick => self.happened(vec![Event::Tick])?,
                First::Due => self.draw()?,
                First::WatchAgain => self.watch_from(self.state.view.seq),
                First::Continued => {
                    self.screen.resume()?;
                    self.draw()?;
                }
            }
        }
        // What is in the scrollback by now stays.
        self.draw()
    }

    async fn first(&mut self, inputs: &mut EventStream, signals: &mut Signals) -> First {
        let moving = self.state.is_moving();
        let [terminate, hangup, interrupt] = &mut signals.ends;
        tokio::select! {
            input = inputs.next() => First::Input(input),
            received = next(self.watch.as_mut()) => First::Received(received),
            events = self.errands.next() => First::Done(events),
            event = local(self.running.as_mut()) => First::Local(event),
            () = tokio::time::sleep(TICK), if moving => First::Tick,
            () = until(self.due) => First::Due,
            () = until(self.watch_again) => First::WatchAgain,
            _ = signals.continued.recv() => First::Continued,
            _ = terminate.recv() => First::End,
            _ = hangup.recv() => First::End,
            _ = interrupt.recv() => First::End,
        }
    }

    fn input(&mut self, input: Input) -> Result<()> {
        let event = match input {
            Input::Key(key) => Event::Key(key),
            Input::Paste(text) => Event::Paste(text),
            Input::Resize(width, height) => Event::Resized(width, height),
            Input::FocusGained | Input::FocusLost | Input::Mouse(_) => return Ok(()),
        };
        self.happened(vec![event])
    }

    fn received(&mut self, received: Option<Result<Received, Error>>) -> Result<()> {
        match received {
            Some(Ok(received)) => self.happened(vec![Event::Message(Box::new(received.body))]),
            Some(Err(error)) => {
                self.watch = None;
                self.watch_again = Some(Instant::now() + WATCH_AGAIN);
                self.happened(vec![Event::Unwatched(error.to_string())])
            }
            None => {
                self.watch = None;
                self.errands.session_id.clone_from(&self.state.session_id);
                Ok(())
            }
        }
    }

    fn happened(&mut self, events: Vec<Event>) -> Result<()> {
        for event in events {
            let opened = match &event {
                Event::Opened(session) => Some(session.clone()),
                _ => None,
            };
            for effect in self.state.update(event, now()) {
                self.do_it(effect)?;
            }
            if let Some(session) = opened {
                self.watch_session(&session);
            }
        }
        let earliest = self.drawn + FRAME;
        if Instant::now() >= earliest {
            return self.draw();
        }
        self.due.get_or_insert(earliest);
        Ok(())
    }

    fn do_it(&mut self, effect: Effect) -> Result<()> {
        match effect {
            Effect::Submit { id, op, attachments } => self.errands.submit(id, op, attachments),
            Effect::Reply(params) => self.errands.reply(params),
            Effect::ListModels => self.errands.models(),
            Effect::ListSessions => self.errands.sessions(),
            Effect::Open(session_id) => self.errands.open(session_id),
            Effect::Close => {
                self.watch = None;
                self.errands.session_id = None;
            }
            Effect::Prefer { model, mode } => {
                self.errands.model = model.or(self.errands.model.take());
                self.errands.mode = mode.or(self.errands.mode);
            }
            Effect::Rename(title) => self.errands.rename(title),
            Effect::FindFiles(part) => self.errands.find(part),
            Effect::Keep(draft) => {
                if let Some(Err(why)) = self.history.as_mut().map(|history| history.add(&draft)) {
                    return self.happened(vec![Event::NotKept(why)]);
                }
            }
            Effect::Run(command) => match Running::start(&command, &self.errands.dir) {
                Ok(running) => self.running = Some(running),
                Err(error) => {
                    return self.happened(vec![Event::CommandEnded(error.to_string(), false)]);
                }
            },
            Effect::KillCommand => {
                if let Some(running) = &mut self.running {
                    running.end();
                }
            }
            Effect::Redraw => self.screen.forget(),
            Effect::Suspend => self.screen.suspend()?,
            Effect::Leave => self.left = true,
        }
        Ok(())
    }

    fn watch_session(&mut self, session: &Session) {
        self.errands.session_id = Some(session.session_id.clone());
        self.errands.dir = PathBuf::from(&session.cwd);
        let since = self.since.take().unwrap_or(session.head_seq.saturating_sub(REPLAYED));
        self.state.introduce(since);
        self.watch_from(since);
    }

    fn watch_from(&mut self, since: u64) {
        self.watch_again = None;
        let session_id = self.errands.session_id.clone();
        let watch = |id| self.client.watch(id, Some(since), true).reviving();
        self.watch = session_id.map(watch);
    }

    fn draw(&mut self) -> Result<()> {
        self.due = None;
        let above = self.state.entries();
        self.screen.paint(&above, draw::panel(&self.state))?;
        self.drawn = Instant::now();
        Ok(())
    }
}

/// Whether it is only that the terminal was closed.
fn is_gone(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| {
        let closed = [Errno::IO, Errno::NXIO, Errno::NODEV, Errno::PIPE, Errno::BADF];
        closed.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
    })
}

async fn next(watch: Option<&mut Watch>) -> Option<Result<Received, Error>> {
    match watch {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}

async fn local(running: Option<&mut Running>) -> Event {
    match running {
        Some(running) => running.next().await,
        None => std::future::pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_that_was_closed_is_told_from_other_troubles() {
        let error = |errno: Errno| anyhow::Error::from(io::Error::from(errno));
        assert!(is_gone(&error(Errno::IO)) && is_gone(&error(Errno::PIPE)));
        assert!(!is_gone(&error(Errno::NOSPC)) && !is_gone(&anyhow::anyhow!("other")));
    }
}
