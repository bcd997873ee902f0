//! What agentd's foundation costs, against floors that are measured in the same run.
//!
//! A figure alone says more about the machine than about agentd: a disk that is busy makes every
//! commit ten times slower. So each figure stands beside the least that could do the same on this
//! machine (an `fdatasync`, an echo over a socket, a bare broadcast), and the ratio is what
//! counts. Floor and figure are measured in turns, and medians are shown.
//!
//! `cargo bench -p agentd-tests` runs all, with a word after `--` only the parts whose name has
//! it. What was measured when is in `tests/benchmarks.md`.
//!
//! Receives the command line; hands out one table.

mod append;
mod early;
mod fanout;
mod ground;
mod iteration;
mod replay;
mod round_trip;
mod start;
mod table;

use table::Table;

/// A name, and what it measures.
type Part = (&'static str, fn(&mut Table));

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [part, socket] = &arguments[..]
        && part == round_trip::ECHO
    {
        return round_trip::echo(socket);
    }
    // Cargo's own arguments begin with a dash.
    let wanted: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    let parts: [Part; 8] = [
        ("append", append::measure),
        ("fanout", fanout::measure),
        ("replay", replay::measure),
        ("round_trip", round_trip::measure),
        ("iteration_read", iteration::measure_read),
        ("iteration_shell", iteration::measure_shell),
        ("early", early::measure),
        ("start", start::measure),
    ];
    let mut table = Table::default();
    for (name, measure) in parts {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())) {
            measure(&mut table);
        }
    }
    table.print();
}
