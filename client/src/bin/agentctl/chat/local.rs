//! What is done on this machine: a command that the user runs, and files that go along.
//!
//! `!command` is the user's own doing and not the model's: it runs here, with the user's
//! environment and rights, and the daemon hears of it with the next input only.
//!
//! Invariants: one command at a time, in a process group of its own, which ends with us.
//!
//! Receives commands and names; hands back events and parts of an input.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use agentd_client::protocol::item::{Content, Part};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout, Command};

use super::state::{Event, image_type};

/// Bytes of an image: base64 makes a third more of them, and a message holds 16 MiB.
const MAX_IMAGE_BYTES: u64 = 10 * 1024 * 1024;
/// Bytes that are read of a command's output at once.
const CHUNK: usize = 8 * 1024;

/// A command that runs.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    output: Option<ChildStdout>,
    /// The start of a character whose rest did not come yet.
    rest: Vec<u8>,
    asked: bool,
}

impl Running {
    /// Starts a command in a shell.
    pub(super) fn start(command: &str, dir: &Path) -> io::Result<Self> {
        let mut child = Command::new("/bin/sh")
            .arg("-c")
            // Both streams in their order.
            .arg(format!("exec 2>&1\n{command}"))
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take();
        Ok(Self { child, output, rest: Vec::new(), asked: false })
    }

    /// What it does next. Cancel-safe.
    pub(super) async fn next(&mut self) -> Event {
        while let Some(output) = &mut self.output {
            self.rest.reserve(CHUNK);
            match output.read_buf(&mut self.rest).await {
                Ok(1..) => return Event::CommandOutput(take_text(&mut self.rest)),
                Ok(0) | Err(_) => self.output = None,
            }
        }
        match self.child.wait().await {
            Ok(status) => Event::CommandEnded(in_words(status), status.success()),
            Err(error) => Event::CommandEnded(error.to_string(), false),
        }
    }

    /// Asks it to end; asked again, ends it.
    pub(super) fn end(&mut self) {
        let signal = if self.asked { Signal::KILL } else { Signal::TERM };
        self.asked = true;
        self.signal(signal);
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(pid) = pid {
            // It may have ended by now.
            let _ = kill_process_group(pid, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

fn in_words(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("exit {code}"))
}

/// The whole characters of what there is.
fn take_text(bytes: &mut Vec<u8>) -> String {
    let whole = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Ok(_) | Err(_) => bytes.len(),
    };
    let rest = bytes.split_off(whole);
    String::from_utf8_lossy(&std::mem::replace(bytes, rest)).into_owned()
}

/// An input with the files that go along, and why some do not.
pub(super) async fn attach(
    content: Content,
    names: &[PathBuf],
    dir: &Path,
) -> (Content, Vec<String>) {
    let (mut parts, mut complaints) = (Vec::new(), Vec::new());
    for name in names {
        let text = name.to_string_lossy();
        let bare = text.trim_end_matches([',', '.', ';', ':', ')', '?', '!']);
        let found = [text.as_ref(), bare].into_iter().find(|name| dir.join(name).is_file());
        let Some(name) = found else { continue };
        match image_type(name) {
            Some(mime_type) => match image(&dir.join(name), name, mime_type).await {
                Ok(part) => parts.push(part),
                Err(error) => complaints.push(format!("{name} does not go along: {error}")),
            },
            None => parts.push(Part::File { path: name.to_owned() }),
        }
    }
    if parts.is_empty() {
        return (content, complaints);
    }
    let parts = content.into_parts().into_iter().chain(parts);
    (Content::Parts(parts.collect()), complaints)
}

async fn image(path: &Path, name: &str, mime_type: &str) -> io::Result<Part> {
    if tokio::fs::metadata(path).await?.len() > MAX_IMAGE_BYTES {
        let limit = MAX_IMAGE_BYTES / 1024 / 1024;
        return Err(io::Error::other(format!("it is larger than {limit} MiB")));
    }
    let data = Some(STANDARD.encode(tokio::fs::read(path).await?));
    Ok(Part::Image { mime_type: mime_type.to_owned(), data, path: Some(name.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(command: &str) -> (String, String, bool) {
        let mut running = Running::start(command, Path::new("/")).unwrap();
        let mut output = String::new();
        loop {
            match running.next().await {
                Event::CommandOutput(text) => output.push_str(&text),
                Event::CommandEnded(outcome, ok) => return (output, outcome, ok),
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_command_says_what_it_says_and_how_it_ended() {
        let said = |output: &str, outcome: &str, ok| (output.to_owned(), outcome.to_owned(), ok);
        assert_eq!(run("echo a; echo b >&2").await, said("a\nb\n", "exit 0", true));
        assert_eq!(run("exit 3").await, said("", "exit 3", false));
        let mut running = Running::start("echo up; sleep 600", Path::new("/")).unwrap();
        assert!(matches!(running.next().await, Event::CommandOutput(text) if text == "up\n"));
        running.end();
        let Event::CommandEnded(outcome, false) = running.next().await else { panic!("it ends") };
        assert!(outcome.contains("15"), "{outcome}");
    }

    #[test]
    fn characters_stay_whole() {
        let mut bytes = "aé".as_bytes()[..2].to_vec();
        assert_eq!(take_text(&mut bytes), "a");
        bytes.push("é".as_bytes()[1]);
        assert_eq!(take_text(&mut bytes), "é");
        let mut broken = vec![b'a', 0xff, b'b'];
        assert_eq!(take_text(&mut broken), "a\u{fffd}b");
    }

    #[tokio::test]
    async fn files_and_images_go_along() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.rs"), "x").unwrap();
        std::fs::write(dir.path().join("p.png"), b"\x89PNG").unwrap();
        let names = ["a.rs,", "p.png", "absent.png"].map(PathBuf::from);
        let (content, complaints) = attach(Content::Text("see".into()), &names, dir.path()).await;
        let image = Part::Image {
            mime_type: "image/png".into(),
            data: Some("iVBORw==".into()),
            path: Some("p.png".into()),
        };
        let parts = vec![Part::text("see"), Part::File { path: "a.rs".into() }, image];
        assert_eq!((content, complaints), (Content::Parts(parts), vec![]));
    }
}
