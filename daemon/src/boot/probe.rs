//! Asks who listens at a socket, without trusting that anybody does.
//!
//! Nothing here blocks for longer than it is told: a stopped daemon accepts connections without
//! answering, and with a full backlog it does not even accept them.
//!
//! Receives a path; hands `instance` and `socket` what is there.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::Deserialize;

/// What listens at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// There is no such path.
    Nothing,
    /// A socket that nobody listens at any more: connecting to it is refused.
    Stale,
    /// A daemon.
    Daemon(Daemon),
    /// Something that did not tell what it is; why.
    Unknown(String),
}

/// What a daemon says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Daemon {
    /// Its process.
    pub pid: u32,
    /// Its state directory.
    pub state_dir: String,
}

#[derive(Deserialize)]
struct Answer {
    result: Option<Daemon>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    message: String,
}

const REQUEST: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon/status\"}\n";

/// Finds out who listens at `path`, for as long as `patience`.
pub fn ask(path: &Path, patience: Duration) -> Found {
    match connect_to(path) {
        Ok(stream) => talk(&stream, patience).map_or_else(Found::Unknown, Found::Daemon),
        Err(Errno::NOENT) => Found::Nothing,
        Err(Errno::CONNREFUSED) => Found::Stale,
        Err(Errno::AGAIN) => Found::Unknown("it does not accept connections".to_owned()),
        Err(errno) => Found::Unknown(io::Error::from(errno).to_string()),
    }
}

fn connect_to(path: &Path) -> rustix::io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

fn talk(stream: &UnixStream, patience: Duration) -> Result<Daemon, String> {
    let in_words = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("it did not answer within {} s, it may be stopped", patience.as_secs_f32())
        }
        _ => error.to_string(),
    };
    let exchange = || {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        // Who refuses a connection closes it unread, and has said why before.
        let written = (&*stream).write_all(REQUEST);
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        if line.is_empty() {
            written?;
        }
        Ok(line)
    };
    let line = exchange().map_err(in_words)?;
    let answer: Answer = serde_json::from_str(&line)
        .map_err(|_| "it does not speak the protocol of agentd".to_owned())?;
    match (answer.result, answer.error) {
        (Some(daemon), _) => Ok(daemon),
        (None, Some(error)) => Err(format!("it says: {}", error.message)),
        (None, None) => Err("it does not speak the protocol of agentd".to_owned()),
    }
}

#[cfg(test)]
mod tests;
