//! The log: to stderr, which a terminal, systemd or launchd reads. When a client started the
//! daemon, nobody reads its stderr for long: then it goes on in a file of bounded size as soon as
//! the state directory is ours.
//!
//! Nothing at level info is written per request, so that a client that polls does not fill it.
//!
//! Invariant: every line passes the mask.
//!
//! Receives events of `tracing` from everywhere; hands lines to stderr or `log_file`.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::boot::error::Error;
use crate::boot::log_file::{LogFile, NAME};
use crate::boot::mask::mask;

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Where lines go: stderr, until there is a file.
#[derive(Debug, Clone, Default)]
pub struct Sink(Arc<OnceLock<Mutex<LogFile>>>);

/// Starts the log on stderr.
pub fn start(level: &str, format: Format) -> Result<Sink, Error> {
    // A plain level is ours; the libraries' own lines are for those who ask for them.
    let directives = match level.parse::<LevelFilter>() {
        Ok(level) => format!("{},agentd={level}", level.min(LevelFilter::WARN)),
        Err(_) => level.to_owned(),
    };
    let filter = EnvFilter::try_new(directives).map_err(|_| Error::LogLevel(level.to_owned()))?;
    let colours = io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    let sink = Sink::default();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(sink.clone())
        .with_ansi(colours)
        .log_internal_errors(false);
    // A second start in one process keeps the first log.
    let _ = match format {
        Format::Text => lines.try_init(),
        Format::Json => lines.json().flatten_event(true).try_init(),
    };
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(sink)
}

impl Sink {
    /// From now on lines go to a file in `directory`, of at most `max_bytes` with the one before
    /// it. If it cannot be written, that is said and stderr goes on.
    pub fn move_to(&self, directory: &Path, max_bytes: u64) {
        let path = directory.join(NAME);
        match LogFile::open(&path, max_bytes) {
            Ok(file) => {
                // Called once.
                let _ = self.0.set(Mutex::new(file));
            }
            Err(error) => tracing::warn!(
                path = %path.display(), %error,
                "the log file cannot be written, so the log goes to stderr"
            ),
        }
    }
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { sink: self.clone(), text: Vec::new() }
    }
}

/// One event, written when it is whole.
#[derive(Debug)]
pub struct Line {
    sink: Sink,
    text: Vec<u8>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.text);
        let text = mask(&text);
        // A log that cannot be written is nothing the daemon could report anywhere else.
        let _ = match self.sink.0.get() {
            None => io::stderr().write_all(text.as_bytes()),
            Some(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.write_all(text.as_bytes())
            }
        };
    }
}
