//! `logs`: what the daemon wrote into its state directory.
//!
//! Only a daemon that `agentctl` started logs there; one that systemd or a person started logs to
//! where that one put it.
//!
//! Receives how many lines and whether to go on; hands lines to standard output.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentd_client::protocol::daemon::NoParams;
use agentd_client::protocol::method::GetDaemonStatus;
use anyhow::{Result, bail};

use crate::args::Logs;
use crate::context::Context;
use crate::place::state_dir;
use crate::render;
use crate::terminal::harmless;

/// The log's name in the state directory.
const NAME: &str = "agentd.log";
/// How often the file is looked at for more.
const INTERVAL: Duration = Duration::from_millis(200);
/// Bytes of the end of the file that are looked at for the last lines.
const TAIL_BYTES: u64 = 4 << 20;

pub(super) async fn logs(context: &Context, args: Logs) -> Result<()> {
    let path = path(context).await?;
    let mut reader = match open(&path) {
        Ok(reader) => reader,
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "there is no {}: a daemon that systemd started logs to the journal \
             (journalctl --user -u agentd), one that you started to its terminal",
            path.display()
        ),
        Err(error) => bail!("cannot read {}: {error}", path.display()),
    };
    last_lines(&mut reader, args.lines)?.iter().try_for_each(|line| show(line))?;
    if !args.follow {
        return Ok(());
    }
    loop {
        tokio::time::sleep(INTERVAL).await;
        if is_another(&reader, &path) {
            rest(&mut reader)?;
            reader = open(&path)?;
        }
        rest(&mut reader)?;
    }
}

/// In the state directory of the daemon that answers, else in this user's usual one.
async fn path(context: &Context) -> Result<PathBuf> {
    let Ok(client) = context.running().await else { return Ok(state_dir()?.join(NAME)) };
    let status = client.call::<GetDaemonStatus>(NoParams {}).await?;
    Ok(PathBuf::from(status.state_dir).join(NAME))
}

fn open(path: &Path) -> io::Result<BufReader<File>> {
    File::open(path).map(BufReader::new)
}

/// The last lines of what there is. Reads on to the end.
fn last_lines(reader: &mut BufReader<File>, count: usize) -> io::Result<Vec<String>> {
    let length = reader.get_ref().metadata()?.len();
    let from = length.saturating_sub(TAIL_BYTES);
    reader.seek(SeekFrom::Start(from))?;
    let mut lines = Vec::new();
    while let Some(line) = next_line(reader)? {
        lines.push(line);
    }
    // The first one may be the end of another.
    let cut = usize::from(from > 0).max(lines.len().saturating_sub(count));
    Ok(lines.split_off(cut.min(lines.len())))
}

fn rest(reader: &mut BufReader<File>) -> Result<()> {
    while let Some(line) = next_line(reader)? {
        show(&line)?;
    }
    Ok(())
}

/// The next line, as far as it is written.
fn next_line(reader: &mut BufReader<File>) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let read = reader.read_until(b'\n', &mut line)?;
    Ok((read > 0).then(|| String::from_utf8_lossy(&line).trim_end().to_owned()))
}

fn show(line: &str) -> Result<()> {
    render::line(&harmless(line))
}

/// Whether the name leads to another file by now: a log that grew too long is begun anew.
fn is_another(reader: &BufReader<File>, path: &Path) -> bool {
    let (Ok(ours), Ok(named)) = (reader.get_ref().metadata(), path.metadata()) else {
        return false;
    };
    (ours.dev(), ours.ino()) != (named.dev(), named.ino())
}
