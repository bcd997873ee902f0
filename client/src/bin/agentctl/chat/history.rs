//! What was written in earlier runs: a file under the state directory.
//!
//! One for all directories and terminals, as a shell has it: a line of JSON for each input, the
//! newest last. Nobody else may read it, and the interface that only watches neither reads nor
//! writes it.
//!
//! Invariants: whoever adds a line or makes the file shorter holds its lock, so terminals lose
//! nothing of each other's; a new file replaces the old one whole; it stays within
//! [`MAX_BYTES`] and not far above [`HISTORY`] lines. Nobody waits for the lock: what cannot be
//! written now is written with the next.
//!
//! Receives drafts as they are sent; hands them back in the next run.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::state::{Draft, HISTORY};

/// The file's name in the state directory.
const NAME: &str = "history.jsonl";
/// Bytes of the file.
const MAX_BYTES: u64 = 1024 * 1024;
/// Bytes of an input that is kept: longer ones were pasted, and are somewhere else.
const MAX_LINE: usize = 32 * 1024;
/// Lines that the file may have above those that are remembered, so that it is not made shorter
/// with every input.
const SLACK: usize = 200;
/// How often a file is opened that others replace meanwhile.
const TRIES: usize = 5;

/// The file of what was written.
#[derive(Debug)]
pub(super) struct History {
    path: PathBuf,
    /// Lines that the file has, as far as is known here.
    lines: usize,
    /// Lines that could not be written yet.
    waiting: Vec<String>,
    failed: bool,
}

impl History {
    pub(super) fn new(state_dir: &Path) -> Self {
        Self { path: state_dir.join(NAME), lines: 0, waiting: Vec::new(), failed: false }
    }

    /// What was written before, the oldest first; nothing where that cannot be read.
    pub(super) fn load(&mut self) -> Vec<Draft> {
        let lines = File::open(&self.path).and_then(last_lines).unwrap_or_default();
        self.lines = lines.len();
        let first = lines.len().saturating_sub(HISTORY);
        // One that is being written may be cut off; it is somebody else's.
        lines[first..].iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Keeps an input. An error is told once.
    pub(super) fn add(&mut self, draft: &Draft) -> Result<(), String> {
        let line = serde_json::to_string(draft).expect("a draft is plain text");
        if line.len() > MAX_LINE {
            return Ok(());
        }
        self.waiting.push(line);
        self.write().or_else(|error| {
            let more = self.waiting.len().saturating_sub(HISTORY);
            self.waiting.drain(..more);
            if error.kind() == io::ErrorKind::WouldBlock
                || std::mem::replace(&mut self.failed, true)
            {
                return Ok(());
            }
            Err(format!("what you write is not kept: {}: {error}", self.path.display()))
        })
    }

    fn write(&mut self) -> io::Result<()> {
        let mut file = self.locked()?;
        let mut text = self.waiting.join("\n");
        text.push('\n');
        file.write_all(text.as_bytes())?;
        self.lines += self.waiting.len();
        self.waiting.clear();
        if self.lines > HISTORY + SLACK || file.metadata()?.len() > MAX_BYTES {
            self.shorten(file)?;
        }
        Ok(())
    }

    /// The file with its lock, which others may have replaced while it was opened.
    fn locked(&self) -> io::Result<File> {
        if let Some(folder) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        for _ in 0..TRIES {
            let mut options = OpenOptions::new();
            options.append(true).read(true).create(true).mode(0o600);
            let file =
                options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(&self.path)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            let there = std::fs::symlink_metadata(&self.path)?;
            if there.ino() == file.metadata()?.ino() {
                return Ok(file);
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Leaves the last lines, in half the bytes there may be.
    fn shorten(&mut self, file: File) -> io::Result<()> {
        let lines = last_lines(file.try_clone()?)?;
        let mut bytes = 0;
        let fits = |line: &&String| {
            bytes += line.len() as u64 + 1;
            bytes <= MAX_BYTES / 2
        };
        let kept = lines.iter().rev().take(HISTORY).take_while(fits).count();
        let new = self.path.with_extension("new");
        let mut options = OpenOptions::new();
        let mut shorter = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        for line in &lines[lines.len() - kept..] {
            writeln!(shorter, "{line}")?;
        }
        std::fs::rename(&new, &self.path)?;
        self.lines = kept;
        // Whoever waits for its lock sees that it is not the file any more.
        drop(file);
        Ok(())
    }
}

/// The whole lines of the file's end.
fn last_lines(mut file: File) -> io::Result<Vec<String>> {
    let from = file.metadata()?.len().saturating_sub(2 * MAX_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(2 * MAX_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let whole = if from == 0 { &*text } else { text.split_once('\n').map_or("", |(_, rest)| rest) };
    Ok(whole.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn draft(text: &str) -> Draft {
        serde_json::from_value(serde_json::json!({ "text": text })).unwrap()
    }

    fn texts(history: &mut History) -> Vec<String> {
        history.load().into_iter().map(|draft| draft.text).collect()
    }

    #[test]
    fn terminals_add_to_each_others() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state/agentd");
        let mut terminals = [History::new(&state), History::new(&state)];
        assert_eq!(texts(&mut terminals[0]), Vec::<String>::new());
        for (terminal, text) in [(0, "one"), (1, "two\nlines"), (0, "three")] {
            terminals[terminal].add(&draft(text)).unwrap();
        }
        assert_eq!(texts(&mut terminals[1]), ["one", "two\nlines", "three"]);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&state.join(NAME)), mode(&state)), (0o600, 0o700));
        // While somebody else has the lock nothing is lost, and nobody waits.
        let lock = terminals[1].locked().unwrap();
        terminals[0].add(&draft("four")).unwrap();
        assert_eq!(texts(&mut terminals[1]).len(), 3);
        drop(lock);
        terminals[0].add(&draft("five")).unwrap();
        assert_eq!(texts(&mut terminals[1])[3..], ["four", "five"]);
    }

    #[test]
    fn it_stays_short_and_nothing_is_lost_by_that() {
        let dir = tempfile::tempdir().unwrap();
        let adding = |name: &'static str| {
            let mut history = History::new(dir.path());
            move || {
                for number in 0..HISTORY {
                    history.add(&draft(&format!("{name} {number}"))).unwrap();
                }
                while !history.waiting.is_empty() {
                    let _ = history.write();
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(adding("a"));
            scope.spawn(adding("b"));
        });
        let mut history = History::new(dir.path());
        let kept = texts(&mut history);
        assert_eq!(kept.len(), HISTORY);
        assert!(history.lines <= 2 * (HISTORY + SLACK), "{}", history.lines);
        for name in ["a", "b"] {
            let numbers: Vec<usize> = kept
                .iter()
                .filter_map(|text| text.strip_prefix(name)?.trim().parse().ok())
                .collect();
            let gapless = numbers.windows(2).all(|pair| pair[1] == pair[0] + 1);
            assert!(gapless && numbers.last().is_none_or(|last| *last == HISTORY - 1), "{name}");
        }
    }

    #[test]
    fn bytes_are_bounded_too() {
        let dir = tempfile::tempdir().unwrap();
        let mut history = History::new(dir.path());
        let long = "x".repeat(MAX_LINE - 100);
        for number in 0..40 {
            history.add(&draft(&format!("{number} {long}"))).unwrap();
            let bytes = std::fs::metadata(&history.path).unwrap().len();
            assert!(bytes <= MAX_BYTES, "{bytes}");
        }
        assert!(texts(&mut history).last().unwrap().starts_with("39 "));
        history.add(&draft(&"x".repeat(MAX_LINE))).unwrap();
        assert!(texts(&mut history).last().unwrap().starts_with("39 "), "too long to be kept");
    }

    #[test]
    fn what_is_no_line_is_passed_over_and_what_cannot_be_is_said_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut history = History::new(dir.path());
        std::fs::write(&history.path, b"{\"text\":\"one\"}\nnonsense \xff\n{\"te").unwrap();
        assert_eq!(texts(&mut history), ["one"]);
        let file = dir.path().join("a file");
        std::fs::write(&file, "").unwrap();
        let mut history = History::new(&file);
        assert!(history.add(&draft("x")).unwrap_err().contains("a file/history.jsonl"));
        history.add(&draft("y")).unwrap();
    }
}
