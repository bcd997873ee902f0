//! Tables, JSON and small words for numbers and times.
//!
//! Receives results; hands text to standard output, with errors of writing passed up.

use std::io::{IsTerminal, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use agentd_client::protocol::session::{SessionState, Usage};
use agentd_client::protocol::time::Time;
use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::terminal::harmless;

/// A line on standard output.
pub(crate) fn line(text: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout().lock(), "{text}")?)
}

/// A value as JSON: on a terminal for people, else one line.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let text = if std::io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)?
    } else {
        serde_json::to_string(value)?
    };
    line(&text)
}

/// A table, fitted to the terminal; `none` says what there is when there are no rows.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: Vec<[String; N]>,
    none: &str,
) -> Result<()> {
    if rows.is_empty() {
        eprintln!("{none}");
        return Ok(());
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let arrangement = if std::io::stdout().is_terminal() {
        ContentArrangement::Dynamic
    } else {
        ContentArrangement::Disabled
    };
    table.set_content_arrangement(arrangement);
    table.set_header(header.map(str::to_uppercase));
    for row in rows {
        table.add_row(row.map(|cell| harmless(&cell).replace(['\n', '\t'], " ")));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for row in table.lines() {
        line(row.trim_end())?;
    }
    Ok(())
}

/// Names and values, one a line.
pub(crate) fn fields(fields: &[(&str, String)]) -> Result<()> {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        line(&format!("{name:width$}  {}", harmless(value)))?;
    }
    Ok(())
}

fn now_millis() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// How long until then.
pub(crate) fn until(time: Time) -> String {
    duration(u64::try_from(time.unix_millis() - now_millis()).unwrap_or(0))
}

/// How long ago, in a word.
pub(crate) fn ago(time: Time) -> String {
    match u64::try_from(now_millis() - time.unix_millis()) {
        Ok(millis) if millis >= 1000 => format!("{} ago", duration(millis)),
        _ => "now".to_owned(),
    }
}

/// A duration with its greatest unit.
pub(crate) fn duration(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0 => format!("{millis} ms"),
        1..=99 if millis < 10_000 => format!("{seconds}.{} s", millis % 1000 / 100),
        1..=99 => format!("{seconds} s"),
        100..=5999 => format!("{} min", seconds / 60),
        6000..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A size in bytes with its unit.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut tenths = u128::from(bytes) * 10 / 1024;
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    for (index, unit) in units.iter().enumerate() {
        if tenths < 10_240 || index + 1 == units.len() {
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
        tenths /= 1024;
    }
    unreachable!("the last unit takes all")
}

/// Tokens and money, in short.
pub(crate) fn usage(usage: &Usage) -> String {
    let mut text = format!("{} in, {} out", count(usage.input), count(usage.output));
    if usage.cache_read > 0 {
        text = format!("{text}, {} cached", count(usage.cache_read));
    }
    match usage.cost_usd {
        Some(cost) if cost > 0.0 => format!("{text}, ${cost:.4}"),
        _ => text,
    }
}

/// A number of things: `1 item`, `2 items`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn count(tokens: u64) -> String {
    match tokens {
        0..=9_999 => tokens.to_string(),
        10_000..=999_999 => format!("{} k", tokens / 1000),
        _ => format!("{}.{} M", tokens / 1_000_000, tokens % 1_000_000 / 100_000),
    }
}

/// A session's state as on the wire.
pub(crate) fn state(state: SessionState) -> &'static str {
    match state {
        SessionState::Idle => "idle",
        SessionState::Running => "running",
        SessionState::Waiting => "waiting",
        SessionState::Interrupted => "interrupted",
        SessionState::Failed => "failed",
    }
}

/// A word of the wire, for values that have no words of their own here.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_short() {
        for (millis, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1500, "1.5 s"),
            (12_345, "12 s"),
            (125_000, "2 min"),
            (7_200_000, "2 h"),
            (400_000_000, "4 d"),
        ] {
            assert_eq!(duration(millis), text);
        }
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (1 << 30, "1.0 GiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        for (tokens, text) in [(9_999, "9999"), (45_600, "45 k"), (1_234_567, "1.2 M")] {
            assert_eq!(count(tokens), text);
        }
    }
}
