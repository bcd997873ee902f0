//! The launcher's loop: hands output on while the command runs, and ends what has to end.
//!
//! One thread and one `poll`: on the daemon's pipe (its end means: end everything), on the
//! command's two streams, on the daemon's readiness to take more, and on the family. Output is read
//! only when the last piece is gone, so a slow daemon slows the command and memory stays the same.
//! The order of the two streams is that of their arrival: the stream that spoke last is read until
//! it is silent, as far as [`PATIENCE_BYTES`].
//!
//! Once the shell is gone, whoever it left behind has [`LINGER`] to say something more. Then its
//! end is reported; what they write after that is thrown away, so that they never block.
//!
//! Receives the running shell from `start`; hands output and the report to the daemon.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::Signal;

use super::family::{self, END_BYTES, End};
use super::start::{Error, Started};
use super::{Cause, Order, REPORT, Report, STDERR, STDOUT};

/// Output in one frame: what a pipe holds.
const PIECE_BYTES: usize = 64 * 1024;

/// What one stream may say in a row while the other waits.
const PATIENCE_BYTES: usize = 1024 * 1024;

/// How long output of those left behind is still taken.
const LINGER: Duration = Duration::from_millis(200);

/// What is still taken of streams that do not end, when the report is due.
const LAST_BYTES: usize = 1024 * 1024;

/// Between two rounds of SIGKILL: somebody may have forked between the look and the signal.
const KILL_EVERY: Duration = Duration::from_millis(20);

/// How long the killed may take to be gone before the report says that they are not.
const KILL_FOR: Duration = Duration::from_secs(2);

/// Reports that nothing was started.
pub(super) fn fail(error: &Error) {
    let mut outgoing = Outgoing::default();
    outgoing.report(&Report::Failed { reason: error.to_string() });
    while !outgoing.is_empty() {
        outgoing.flush();
    }
}

/// Runs until the report is taken and nobody is left.
pub(super) fn run(started: Started, order: &Order) {
    let mut relay = Relay::new(started, order);
    while !relay.is_over() {
        relay.wait();
        relay.advance(Instant::now());
    }
}

enum Phase {
    /// The shell runs.
    Running { until: Option<Instant> },
    /// It is gone, others are left.
    Lingering { until: Instant },
    /// All got SIGTERM.
    Ending { cause: Cause, until: Instant },
    /// All get SIGKILL.
    Killing { cause: Cause, again: Instant, until: Instant },
    /// There is nothing to wait for but the end of those left behind.
    Left,
}

struct Stream {
    kind: u8,
    fd: Option<OwnedFd>,
}

struct Relay {
    shell: rustix::process::Pid,
    grace: Duration,
    /// Nothing once the daemon closed it.
    daemon: Option<io::Stdin>,
    streams: [Stream; 2],
    /// The stream that spoke last, and how much in a row.
    current: usize,
    in_a_row: usize,
    /// Nothing once nobody is left.
    family: Option<io::PipeReader>,
    end: Option<End>,
    outgoing: Outgoing,
    phase: Phase,
    /// The daemon was told the end.
    reported: bool,
}

impl Relay {
    fn new(started: Started, order: &Order) -> Self {
        for fd in [started.stdout.as_fd(), started.stderr.as_fd(), io::stdout().as_fd()] {
            // At worst a read or write blocks for a moment.
            let _ = rustix::fs::fcntl_setfl(fd, OFlags::NONBLOCK);
        }
        Self {
            shell: started.shell,
            grace: Duration::from_millis(order.grace_ms),
            daemon: Some(io::stdin()),
            streams: [
                Stream { kind: STDOUT, fd: Some(started.stdout) },
                Stream { kind: STDERR, fd: Some(started.stderr) },
            ],
            current: 0,
            in_a_row: 0,
            family: Some(started.family),
            end: None,
            outgoing: Outgoing::default(),
            phase: Phase::Running {
                until: order.timeout_ms.map(|limit| Instant::now() + Duration::from_millis(limit)),
            },
            reported: false,
        }
    }

    fn is_over(&self) -> bool {
        self.reported && self.family.is_none() && self.outgoing.is_empty()
    }

    /// Waits until something can be done, and does it.
    fn wait(&mut self) {
        let room = self.outgoing.is_empty();
        let stdout = io::stdout();
        let mut polled: Vec<PollFd<'_>> = Vec::with_capacity(5);
        let daemon = add(&mut polled, self.daemon.as_ref(), PollFlags::empty());
        let family = add(&mut polled, self.family.as_ref(), PollFlags::IN);
        let write = add(&mut polled, (!room).then_some(&stdout), PollFlags::OUT);
        let [out, err] = &self.streams;
        let read = [out, err]
            .map(|stream| add(&mut polled, stream.fd.as_ref().filter(|_| room), PollFlags::IN));
        let timeout = self.timeout();
        if rustix::event::poll(&mut polled, timeout.as_ref()).is_err() {
            return;
        }
        let ready = |at: Option<usize>| at.is_some_and(|at| !polled[at].revents().is_empty());
        let (daemon, family, write) = (ready(daemon), ready(family), ready(write));
        let read = read.map(ready);
        drop(polled);
        if daemon {
            self.daemon = None;
        }
        if family {
            self.hear_family();
        }
        if write {
            self.outgoing.flush();
        }
        if read != [false; 2] {
            self.read();
        }
    }

    /// Until the next thing that time alone brings about.
    fn timeout(&self) -> Option<Timespec> {
        let until = match self.phase {
            Phase::Running { until: Some(until) }
            | Phase::Lingering { until }
            | Phase::Ending { until, .. }
            | Phase::Killing { again: until, .. } => until,
            Phase::Running { until: None } | Phase::Left => return None,
        };
        let left = until.saturating_duration_since(Instant::now());
        Timespec::try_from(left).ok()
    }

    /// Goes on to the next phase, if it is time.
    fn advance(&mut self, now: Instant) {
        let gone = self.family.is_none();
        match self.phase {
            Phase::Running { .. } | Phase::Lingering { .. } | Phase::Left
                if self.daemon.is_none() && !gone =>
            {
                self.terminate(Cause::Cancel, now);
            }
            Phase::Running { .. } if self.end.is_some() && gone => self.report(Cause::Exit),
            Phase::Running { .. } if self.end.is_some() => {
                self.phase = Phase::Lingering { until: now + LINGER };
                self.advance(now);
            }
            Phase::Running { until: Some(until) } if now >= until => {
                self.terminate(Cause::Timeout, now);
            }
            Phase::Lingering { until } if gone || self.is_silent() || now >= until => {
                self.report(Cause::Exit);
            }
            Phase::Ending { cause, .. } if gone => self.report(cause),
            Phase::Ending { cause, until } if now >= until => {
                self.phase = Phase::Killing { cause, again: now, until: now + KILL_FOR };
                self.advance(now);
            }
            Phase::Killing { cause, until, .. } if gone || now >= until => self.report(cause),
            Phase::Killing { cause, again, until } if now >= again => {
                family::signal(self.unreaped(), Signal::KILL);
                self.phase = Phase::Killing { cause, again: now + KILL_EVERY, until };
            }
            _ => {}
        }
    }

    fn is_silent(&self) -> bool {
        self.streams.iter().all(|stream| stream.fd.is_none())
    }

    fn terminate(&mut self, cause: Cause, now: Instant) {
        family::signal(self.unreaped(), Signal::TERM);
        self.phase = Phase::Ending { cause, until: now + self.grace };
    }

    fn unreaped(&self) -> Option<rustix::process::Pid> {
        self.end.is_none().then_some(self.shell)
    }

    /// Takes what the streams still hold and tells the daemon the end.
    fn report(&mut self, cause: Cause) {
        self.phase = Phase::Left;
        if self.reported {
            return;
        }
        for _ in 0..LAST_BYTES / PIECE_BYTES {
            if !self.read() {
                break;
            }
        }
        let left = if self.family.is_some() { family::size() } else { 0 };
        let End { code, signal } = self.end.unwrap_or(End { code: None, signal: None });
        self.outgoing.report(&Report::Ended { cause, code, signal, left });
        self.reported = true;
    }

    fn hear_family(&mut self) {
        let Some(family) = &mut self.family else { return };
        let mut bytes = [0; END_BYTES];
        match family.read_exact(&mut bytes) {
            Ok(()) => self.end = Some(End::from_bytes(bytes)),
            Err(_) => self.family = None,
        }
    }

    /// Reads one piece from the stream that spoke last, else from the other. False: both are
    /// silent or closed.
    fn read(&mut self) -> bool {
        let (current, other) = (self.current, 1 - self.current);
        if self.in_a_row >= PATIENCE_BYTES {
            self.in_a_row = 0;
            return self.read_from(other) || self.read_from(current);
        }
        self.read_from(current) || self.read_from(other)
    }

    fn read_from(&mut self, index: usize) -> bool {
        let stream = &mut self.streams[index];
        let Some(fd) = &stream.fd else { return false };
        let mut piece = vec![0; PIECE_BYTES];
        match rustix::io::read(fd, &mut piece) {
            Ok(0) => stream.fd = None,
            Ok(bytes) => {
                if !self.reported {
                    self.outgoing.frame(stream.kind, &piece[..bytes]);
                }
                self.in_a_row = if index == self.current { self.in_a_row + bytes } else { bytes };
                self.current = index;
                return true;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => stream.fd = None,
        }
        false
    }
}

/// Has `poll` look at this too, if it is there; where it stands among the polled.
fn add<'a, F: AsFd>(
    polled: &mut Vec<PollFd<'a>>,
    fd: Option<&'a F>,
    flags: PollFlags,
) -> Option<usize> {
    polled.push(PollFd::from_borrowed_fd(fd?.as_fd(), flags));
    Some(polled.len() - 1)
}

/// What is on its way to the daemon.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    written: usize,
    /// The daemon takes nothing more.
    broken: bool,
}

impl Outgoing {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn frame(&mut self, kind: u8, payload: &[u8]) {
        if self.broken {
            return;
        }
        let length = u32::try_from(payload.len() + 1).expect("frames are far below 4 GiB");
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.push(kind);
        self.bytes.extend_from_slice(payload);
        self.flush();
    }

    fn report(&mut self, report: &Report) {
        let json = serde_json::to_vec(report).expect("a report is plain JSON");
        self.frame(REPORT, &json);
    }

    /// Writes as much as the daemon takes now.
    fn flush(&mut self) {
        while self.written < self.bytes.len() {
            match rustix::io::write(io::stdout(), &self.bytes[self.written..]) {
                Ok(written) => self.written += written,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.broken = true;
                    break;
                }
            }
        }
        self.bytes.clear();
        self.written = 0;
    }
}
