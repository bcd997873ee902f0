//! Reads a provider's key from where the configuration says it is.
//!
//! A key is read when a request needs it, so that a file can be changed without a reload. No
//! error holds it, and [`Key`] shows nothing of itself in logs.
//!
//! Receives a [`KeySource`]; hands a [`Key`] to `provider`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::config::file::{Unreadable, read_regular};
use crate::config::provider::KeySource;

/// The longest key.
const MAX_KEY_BYTES: u64 = 64 << 10;
/// How long a command may take; a person may have to unlock a key ring.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// A provider's key.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The key itself, for a header.
    pub fn expose(&self) -> &str {
        &self.0
    }

    fn of(text: &str) -> Result<Self, Fault> {
        match text.trim() {
            "" => Err(Fault::Empty),
            key if key.contains(char::is_control) => Err(Fault::NotOneLine),
            key => Ok(Self(key.to_owned())),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(***)")
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[error("no key from {place}: {fault}")]
pub struct KeyError {
    place: String,
    fault: Fault,
}

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(
        "it is not set; set it where the daemon is started, or leave `api_key` out and store a key \
         with `agentctl login PROVIDER`"
    )]
    NotSet,
    #[error("this daemon was given no credentials; LoadCredential= in its unit does that")]
    NoCredentials,
    #[error("it is empty")]
    Empty,
    #[error("it holds more than one line")]
    NotOneLine,
    #[error("it is {0}, not a file")]
    NotAFile(&'static str),
    #[error("it is longer than {MAX_KEY_BYTES} bytes")]
    TooLong,
    #[error("it cannot be read: {0}")]
    Read(std::io::Error),
    #[error("it cannot be started: {0}")]
    Start(std::io::Error),
    #[error("it ended with {0}")]
    Exit(std::process::ExitStatus),
    #[error("it took longer than {} s", COMMAND_TIMEOUT.as_secs())]
    Slow,
}

impl KeySource {
    /// Reads the key.
    pub async fn read(&self) -> Result<Key, KeyError> {
        self.read_with(|name| std::env::var(name).ok()).await
    }

    pub(super) async fn read_with(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Key, KeyError> {
        let (place, key) = match self {
            Self::Env(name) => (
                format!("the variable {name}"),
                variable(name).ok_or(Fault::NotSet).and_then(|text| Key::of(&text)),
            ),
            Self::File(path) => {
                (format!("the file {}", path.display()), from_file(path.clone()).await)
            }
            Self::Command(command) => (
                // The arguments may be secrets.
                format!("the command {}", command.first().map_or("", String::as_str)),
                from_command(command).await,
            ),
            Self::Credential(name) => (
                format!("the credential {name}"),
                match variable("CREDENTIALS_DIRECTORY") {
                    Some(directory) => from_file(Path::new(&directory).join(name)).await,
                    None => Err(Fault::NoCredentials),
                },
            ),
        };
        key.map_err(|fault| KeyError { place, fault })
    }
}

async fn from_file(path: PathBuf) -> Result<Key, Fault> {
    let content = tokio::task::spawn_blocking(move || read_regular(&path, MAX_KEY_BYTES))
        .await
        .expect("reading a file does not panic, and nobody aborts it")
        .map_err(|unreadable| match unreadable {
            Unreadable::NotAFile(found) => Fault::NotAFile(found),
            Unreadable::TooLong => Fault::TooLong,
            Unreadable::Io(error) => Fault::Read(error),
        })?;
    Key::of(&String::from_utf8_lossy(&content))
}

async fn from_command(command: &[String]) -> Result<Key, Fault> {
    let (program, arguments) = command.split_first().ok_or(Fault::Empty)?;
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(COMMAND_TIMEOUT, output)
        .await
        .map_err(|_| Fault::Slow)?
        .map_err(Fault::Start)?;
    if !output.status.success() {
        return Err(Fault::Exit(output.status));
    }
    Key::of(&String::from_utf8_lossy(&output.stdout))
}
