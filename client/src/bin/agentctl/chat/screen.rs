//! The terminal: rows that scroll away for good, and a panel under them that is drawn anew.
//!
//! Not ratatui's inline viewport, whose height is fixed and which has to ask the terminal where
//! the cursor is. Here the cursor always rests at the start of the panel, so that everything from
//! it on is ours to clear: a terminal that reflows its rows when it is resized takes the cursor
//! along, and nothing has to be known about it.
//!
//! Invariants: whatever ends the program or sets it aside, the terminal is as it was before; no
//! control character of a text reaches it; a row never wraps by itself.
//!
//! Receives rows; hands bytes to the terminal.

use std::io::{self, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{Hide, MoveDown, MoveToColumn, MoveUp, Show};
use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, KeyboardEnhancementFlags,
    PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use crossterm::style::{Attribute, ContentStyle, Print, SetAttribute, SetStyle};
use crossterm::terminal::{
    self, BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap,
    EndSynchronizedUpdate,
};
use crossterm::{execute, queue};
use ratatui::backend::IntoCrossterm;
use ratatui::style::Style;
use ratatui::text::Line;

use crate::terminal::{Palette, harmless};

/// The size that is assumed where the terminal does not say one.
const USUAL: (u16, u16) = (80, 24);

/// Whether a screen has the terminal now; the panic hook has to know.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while it is ours; dropped, it is as it was.
#[derive(Debug)]
pub(super) struct Screen {
    out: Stdout,
    colours: bool,
    panel: Vec<Line<'static>>,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn take() -> io::Result<Self> {
        let colours = Palette::of(&io::stdout()).has_colours();
        let screen = Self { out: io::stdout(), colours, panel: Vec::new() };
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        screen.enter()?;
        Ok(screen)
    }

    /// Columns and rows.
    pub(super) fn size() -> (u16, u16) {
        match terminal::size() {
            Ok((width, height)) if width > 0 && height > 0 => (width, height),
            _ => USUAL,
        }
    }

    /// Writes rows for good, and the panel under them.
    pub(super) fn paint(
        &mut self,
        above: &[Line<'static>],
        panel: Vec<Line<'static>>,
    ) -> io::Result<()> {
        if above.is_empty() && panel == self.panel {
            return Ok(());
        }
        queue!(self.out, BeginSynchronizedUpdate)?;
        if above.is_empty() && panel.len() == self.panel.len() {
            self.paint_changed(&panel)?;
        } else {
            self.paint_all(above, &panel)?;
            up(&mut self.out, panel.len().saturating_sub(1))?;
            queue!(self.out, MoveToColumn(0))?;
        }
        queue!(self.out, EndSynchronizedUpdate)?;
        self.panel = panel;
        self.out.flush()
    }

    /// All rows, each over what stands there. What is below goes before the last one is written:
    /// tmux takes the clearing of a whole screen for a reason to keep it.
    fn paint_all(&mut self, above: &[Line<'static>], panel: &[Line<'static>]) -> io::Result<()> {
        queue!(self.out, MoveToColumn(0))?;
        let mut rows = above.iter().chain(panel).peekable();
        while let Some(row) = rows.next() {
            let is_last = rows.peek().is_none();
            let what = if is_last { ClearType::FromCursorDown } else { ClearType::UntilNewLine };
            queue!(self.out, Clear(what))?;
            self.row(row)?;
            if !is_last {
                queue!(self.out, Print("\r\n"))?;
            }
        }
        Ok(())
    }

    /// The rows of the panel that are not what they were.
    fn paint_changed(&mut self, panel: &[Line<'static>]) -> io::Result<()> {
        let before = std::mem::take(&mut self.panel);
        let mut at = 0;
        for (index, row) in panel.iter().enumerate() {
            if before[index] == *row {
                continue;
            }
            let down = u16::try_from(index - at).unwrap_or(u16::MAX);
            if down > 0 {
                queue!(self.out, MoveDown(down))?;
            }
            queue!(self.out, MoveToColumn(0), Clear(ClearType::CurrentLine))?;
            self.row(row)?;
            queue!(self.out, MoveToColumn(0))?;
            at = index;
        }
        up(&mut self.out, at)
    }

    fn row(&mut self, row: &Line<'static>) -> io::Result<()> {
        for span in &row.spans {
            let style = self.look(row.style.patch(span.style));
            let text = harmless(&span.content);
            if style == ContentStyle::default() {
                queue!(self.out, Print(text))?;
            } else {
                queue!(self.out, SetStyle(style), Print(text), SetAttribute(Attribute::Reset))?;
            }
        }
        Ok(())
    }

    fn look(&self, style: Style) -> ContentStyle {
        let style = if self.colours { style } else { Style { fg: None, bg: None, ..style } };
        style.into_crossterm()
    }

    /// The terminal was resized or written to by somebody else: all of the panel is drawn again.
    pub(super) fn forget(&mut self) {
        self.panel = Vec::new();
    }

    /// Takes the panel away; what was written stays.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.panel).len();
        queue!(self.out, MoveToColumn(0), Clear(ClearType::CurrentLine))?;
        for _ in 1..rows {
            queue!(self.out, MoveDown(1), Clear(ClearType::CurrentLine))?;
        }
        up(&mut self.out, rows.saturating_sub(1))?;
        self.out.flush()
    }

    /// Stops this program until it is continued, with the terminal as it was.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        self.clear()?;
        give_back();
        // Ignored where nobody could continue it.
        rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)?;
        self.enter()
    }

    /// Takes the terminal again after this program was stopped and continued, by whomever.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        self.forget();
        self.enter()
    }

    /// Also where the terminal is taken already, as far as is known here: a shell that had it
    /// meanwhile made it its own, but left alone what it does not know.
    fn enter(&self) -> io::Result<()> {
        let was_taken = TAKEN.swap(true, Ordering::Relaxed);
        // It would be taken for raw, as it was left.
        terminal::disable_raw_mode()?;
        terminal::enable_raw_mode()?;
        let mut out = &self.out;
        execute!(out, Hide, DisableLineWrap, EnableBracketedPaste)?;
        if understands_keys() && !was_taken {
            let flags = KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES;
            execute!(out, PushKeyboardEnhancementFlags(flags))?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no care.
        let _ = self.clear();
        give_back();
    }
}

fn up(out: &mut Stdout, rows: usize) -> io::Result<()> {
    match u16::try_from(rows).unwrap_or(u16::MAX) {
        0 => Ok(()),
        rows => queue!(out, MoveUp(rows)),
    }
}

/// Whether it is safe to ask for keys that are told apart: the console takes it for something else.
fn understands_keys() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "linux")
}

/// Puts the terminal back as it was, once.
fn give_back() {
    if !TAKEN.swap(false, Ordering::Relaxed) {
        return;
    }
    let mut out = io::stdout();
    // Whoever calls cannot do anything about a terminal that is gone.
    if understands_keys() {
        let _ = execute!(out, PopKeyboardEnhancementFlags);
    }
    let _ = execute!(out, DisableBracketedPaste, EnableLineWrap, EndSynchronizedUpdate, Show);
    let _ = terminal::disable_raw_mode();
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::process::{Command, Stdio};

    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};

    use super::*;

    /// Set where the test runs once more, in a process of its own in front of a terminal.
    const INSIDE: &str = "AGENTCTL_TEST_PANICS";

    #[test]
    fn a_panic_gives_the_terminal_back_before_it_is_told() {
        if std::env::var_os(INSIDE).is_some() {
            // Nobody drops it where a panic aborts.
            std::mem::forget(Screen::take().unwrap());
            assert!(terminal::is_raw_mode_enabled().unwrap());
            panic!("this is meant");
        }
        let window = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&window).unwrap();
        unlockpt(&window).unwrap();
        let name = ptsname(&window, Vec::new()).unwrap();
        let line = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let same = || Stdio::from(line.try_clone().unwrap());
        let path = "chat::screen::tests::a_panic_gives_the_terminal_back_before_it_is_told";
        let mut inside = Command::new(std::env::current_exe().unwrap());
        inside.args(["--exact", path, "--nocapture"]).env(INSIDE, "1").env("RUST_BACKTRACE", "0");
        inside.env("TERM", "xterm").stdin(same()).stdout(same()).stderr(same());
        let status = inside.status().unwrap();
        drop(inside);
        assert!(!status.success());
        let modes = tcgetattr(&line).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO));
        drop(line);
        let mut said = Vec::new();
        // It ends with an error: nobody has the other side any more.
        let _ = File::from(window).read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        let (before, _) = said.split_once("this is meant").expect("the panic is told");
        for end in ["\x1b[<1u", "\x1b[?2004l", "\x1b[?7h", "\x1b[?25h"] {
            assert!(before.contains(end), "{end:?} in {before:?}");
        }
    }
}
