//! A terminal without a window: a program in front of it, its screen as text, its keys from here.
//!
//! The program has a real pseudo-terminal as its controlling one, so it gets the signals of a
//! resize and of its keys; what it writes goes through a parser of terminal sequences, which knows
//! what a person would see.
//!
//! Receives a command and keys; hands out the screen, and how the program left the terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use vt100::Parser;

use crate::wait;

/// Rows that scrolled away and are kept.
const SCROLLBACK: usize = 20_000;
/// Bytes of one read.
const CHUNK: usize = 64 * 1024;

/// A terminal and the program in front of it.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keyboard: File,
    /// The program's side; held open, so that how it was left can be looked at.
    line: Option<OwnedFd>,
    screen: Arc<Mutex<Screen>>,
    reading: Option<JoinHandle<()>>,
}

struct Screen {
    parser: Parser,
    bytes: u64,
    /// How often the program asked for keys that are told apart, and did not take it back.
    keyboard_level: i32,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

fn not_zero(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("a terminal has a size")
}

impl Terminal {
    /// Starts a program in a terminal of this size; its arguments, directory and environment are
    /// those of `command`.
    pub fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let keyboard =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("terminals are there");
        grantpt(&keyboard).expect("it is ours");
        unlockpt(&keyboard).expect("it is ours");
        let name = ptsname(&keyboard, Vec::new()).expect("it has a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let line = rustix::fs::open(&name, flags, rustix::fs::Mode::empty());
        let line = line.expect("the name leads to it");
        let same = || Stdio::from(line.try_clone().expect("there are descriptors"));
        // A session of its own, whose terminal this is.
        let mut started = Command::new("setsid");
        started.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        started.env_clear();
        for (name, value) in command.get_envs() {
            started.env(name, value.unwrap_or_default());
        }
        if let Some(dir) = command.get_current_dir() {
            started.current_dir(dir);
        }
        let keyboard = File::from(keyboard);
        resize(&keyboard, columns, rows);
        let child = started.stdin(same()).stdout(same()).stderr(same()).spawn();
        let parser = Parser::new(not_zero(rows), not_zero(columns), SCROLLBACK);
        let screen = Arc::new(Mutex::new(Screen { parser, bytes: 0, keyboard_level: 0 }));
        let (source, shown) =
            (keyboard.try_clone().expect("there are descriptors"), screen.clone());
        let reading = std::thread::spawn(move || read(source, &shown));
        Self {
            child: child.expect("setsid is there"),
            keyboard,
            line: Some(line),
            screen,
            reading: Some(reading),
        }
    }

    /// Writes keys as the terminal sends them.
    pub fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the program reads");
    }

    /// Pastes a text, as a terminal brackets it. Beside a thread that writes: the program reads
    /// it in pieces.
    pub fn paste(&mut self, text: &str) {
        let bracketed = format!("\x1b[200~{text}\x1b[201~");
        let mut keyboard = self.keyboard.try_clone().expect("there are descriptors");
        let writing = std::thread::spawn(move || keyboard.write_all(bracketed.as_bytes()));
        writing.join().expect("it does not panic").expect("the program reads");
    }

    /// Gives the terminal another size.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.with(|screen| screen.parser.set_size(not_zero(rows), not_zero(columns)));
        resize(&self.keyboard, columns, rows);
    }

    /// What a person sees: rows without blanks at their ends.
    pub fn seen(&self) -> String {
        self.with(|screen| {
            let columns = screen.parser.screen().size().1.get();
            trimmed(screen.parser.screen().rows(0, columns))
        })
    }

    /// What a person sees who scrolls up: everything that was written.
    pub fn all(&self) -> String {
        self.with(|screen| {
            let screen = screen.parser.screen_mut();
            let (rows, columns) = screen.size();
            let (rows, columns) = (usize::from(rows.get()), columns.get());
            let mut lines = Vec::new();
            let mut above = screen.scrollback_len();
            while above > 0 {
                screen.set_scrollback(above);
                lines.extend(screen.rows(0, columns).take(rows.min(above)));
                above = above.saturating_sub(rows);
            }
            screen.set_scrollback(0);
            lines.extend(screen.rows(0, columns));
            trimmed(lines.into_iter())
        })
    }

    /// The screen with its colours, for pictures.
    pub fn picture(&self) -> vt100::Screen {
        self.with(|screen| screen.parser.screen().clone())
    }

    /// How many bytes the program wrote.
    pub fn written(&self) -> u64 {
        self.with(|screen| screen.bytes)
    }

    /// Waits until the screen is as `is_there` says; the screen then.
    pub async fn until(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        wait::until(what, async || {
            let seen = self.seen();
            if is_there(&seen) { Ok(seen) } else { Err(Shown(seen)) }
        })
        .await
    }

    /// Waits until a text is on the screen; the screen then.
    pub async fn shows(&self, text: &str) -> String {
        self.until(text, |seen| seen.contains(text)).await
    }

    /// Waits until a text is not on the screen any more.
    pub async fn hides(&self, text: &str) -> String {
        self.until(&format!("the end of {text}"), |seen| !seen.contains(text)).await
    }

    /// The program.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the process is ours");
    }

    /// Waits until the program ended.
    pub async fn exit(&mut self) -> ExitStatus {
        wait::until("the program to end", async || {
            let status = self.child.try_wait().expect("the process is ours");
            status.ok_or_else(|| Shown(self.seen()))
        })
        .await
    }

    /// How often the program asked for keys that are told apart, and did not take it back.
    pub fn keyboard_level(&self) -> i32 {
        self.with(|screen| screen.keyboard_level)
    }

    /// Whether the program gets every key as it is pressed.
    pub fn is_raw(&self) -> bool {
        let line = self.line.as_ref().expect("it is held");
        let modes = tcgetattr(line).expect("it is a terminal").local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Whether the terminal is as a shell wants it: lines and echo, a cursor, no brackets around
    /// what is pasted.
    pub fn is_restored(&self) -> bool {
        let line = self.line.as_ref().expect("it is held");
        let modes = tcgetattr(line).expect("it is a terminal").local_modes;
        let screen = self.picture();
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
            && !screen.hide_cursor()
            && !screen.bracketed_paste()
            && self.keyboard_level() == 0
    }

    /// Waits until the terminal is so: what the program wrote last may still be on its way.
    pub async fn restored(&self) {
        wait::until("a terminal as before", async || {
            if self.is_restored() { Ok(()) } else { Err(Shown(self.seen())) }
        })
        .await;
    }

    fn with<T>(&self, look: impl FnOnce(&mut Screen) -> T) -> T {
        look(&mut self.screen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let shown = format!("the screen:\n{}\n", self.all());
            let _ = std::io::stderr().write_all(shown.as_bytes());
        }
        // Both can only fail for a process that is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.line = None;
        if let Some(reading) = self.reading.take() {
            let _ = reading.join();
        }
    }
}

/// A screen as it was seen when a wait ended in vain.
struct Shown(String);

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\n{}", self.0)
    }
}

fn resize(keyboard: &File, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(keyboard, size).expect("it is a terminal");
}

/// Reads until nobody holds the program's side any more.
fn read(mut source: File, screen: &Mutex<Screen>) {
    let mut chunk = vec![0; CHUNK];
    let mut waiting = Vec::new();
    while let Ok(count @ 1..) = source.read(&mut chunk) {
        waiting.extend_from_slice(&chunk[..count]);
        let whole = whole_pictures(&waiting);
        let mut screen = screen.lock().unwrap_or_else(PoisonError::into_inner);
        screen.keyboard_level += keyboard_level(&waiting[..whole]);
        screen.parser.process(&waiting[..whole]);
        screen.bytes += count as u64;
        waiting.drain(..whole);
    }
    let mut screen = screen.lock().unwrap_or_else(PoisonError::into_inner);
    screen.keyboard_level += keyboard_level(&waiting);
    screen.parser.process(&waiting);
}

/// What it asks for more than it takes back.
fn keyboard_level(bytes: &[u8]) -> i32 {
    let count = |mark: &[u8]| bytes.windows(mark.len()).filter(|window| *window == mark).count();
    let signed = |count| i32::try_from(count).expect("few in a piece");
    signed(count(b"\x1b[>1u")) - signed(count(b"\x1b[<1u"))
}

/// How much can be shown: a picture that a program draws at once is not seen half drawn.
fn whole_pictures(bytes: &[u8]) -> usize {
    let last = |mark: &[u8]| bytes.windows(mark.len()).rposition(|window| window == mark);
    match (last(b"\x1b[?2026h"), last(b"\x1b[?2026l")) {
        (Some(begin), None) => begin,
        (Some(begin), Some(end)) if begin > end => begin,
        // The start of a sequence may be the start of a picture.
        _ => bytes
            .iter()
            .rposition(|byte| *byte == 0x1b)
            .filter(|at| at + 8 > bytes.len())
            .unwrap_or(bytes.len()),
    }
}

fn trimmed(rows: impl Iterator<Item = String>) -> String {
    let rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
    rows.join("\n").trim_end().to_owned()
}
