//! Input text: from the command line, from standard input, or both.
//!
//! Receives words and a pipe; hands one text that is not blank to `session/submit`.

use std::io::{IsTerminal, Read};

use anyhow::{Context, Result};

use crate::failure::Misuse;

/// The longest text that is read from a pipe: 8 MiB, half of what a message can hold.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// The input: `words`, with what a pipe holds after them; `-` alone waits for the terminal too.
/// `usage` is what says how to give one.
pub(crate) fn input(words: &[String], usage: &str) -> Result<String> {
    let from_stdin = words == ["-"];
    let words = if from_stdin { String::new() } else { words.join(" ") };
    let stdin = std::io::stdin();
    let piped =
        if from_stdin || !stdin.is_terminal() { read(stdin.lock())? } else { String::new() };
    joined(&words, &piped, usage)
}

fn joined(words: &str, piped: &str, usage: &str) -> Result<String> {
    let text = match (words.trim(), piped.trim()) {
        ("", "") => {
            return Err(Misuse(format!("there is no text: `{usage}`, or pipe it in")).into());
        }
        (words, "") => words.to_owned(),
        ("", piped) => piped.to_owned(),
        (words, piped) => format!("{words}\n\n{piped}"),
    };
    Ok(text)
}

fn read(stdin: impl Read) -> Result<String> {
    let mut bytes = Vec::new();
    stdin.take(MAX_BYTES + 1).read_to_end(&mut bytes).context("cannot read standard input")?;
    if bytes.len() as u64 > MAX_BYTES {
        let text = format!("standard input is longer than {MAX_BYTES} bytes: put it into a file");
        return Err(Misuse(text).into());
    }
    String::from_utf8(bytes)
        .map_err(|_| Misuse("standard input is not UTF-8 text".to_owned()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_pipe() {
        assert_eq!(joined("explain", "", "x").unwrap(), "explain");
        assert_eq!(joined("", "a\nb\n", "x").unwrap(), "a\nb");
        assert_eq!(joined("explain", "a\nb\n", "x").unwrap(), "explain\n\na\nb");
        let error = joined(" ", "\n", "agentctl run 'TEXT'").unwrap_err();
        assert!(error.is::<Misuse>() && error.to_string().contains("run 'TEXT'"), "{error}");
    }

    #[test]
    fn what_is_no_text_is_refused() {
        assert!(read(&b"\xff\xfe"[..]).unwrap_err().is::<Misuse>());
        assert!(read(std::io::repeat(b'x')).unwrap_err().is::<Misuse>());
        assert_eq!(read("é".as_bytes()).unwrap(), "é");
    }
}
