//! The table of figures, and the arithmetic behind it.
//!
//! Receives samples of the parts; hands out lines for people.

use std::time::Duration;

/// How often floor and figure take turns.
pub(crate) const ROUNDS: usize = 5;

/// Figures beside their floors.
#[derive(Default)]
pub(crate) struct Table(Vec<[String; 5]>);

impl Table {
    /// A figure that is better when it is smaller, in microseconds.
    pub(crate) fn time(&mut self, what: &str, ours: Duration, floor: (&str, Duration)) {
        let ratio = ours.as_secs_f64() / floor.1.as_secs_f64();
        self.row(what, micros(ours), floor.0, micros(floor.1), ratio);
    }

    /// A figure that is better when it is larger, by the second.
    pub(crate) fn rate(&mut self, what: &str, ours: f64, floor: (&str, f64)) {
        self.row(what, per_second(ours), floor.0, per_second(floor.1), ours / floor.1);
    }

    fn row(&mut self, what: &str, ours: String, floor: &str, least: String, ratio: f64) {
        let row = [what.to_owned(), ours, floor.to_owned(), least, format!("{ratio:.2}")];
        self.0.push(row);
    }

    /// Prints all that was measured as a table in Markdown.
    #[expect(clippy::print_stdout, reason = "the table is what this program is for")]
    pub(crate) fn print(&self) {
        println!("| what | agentd | floor | floor's | ratio |\n|---|---|---|---|---|");
        for [what, ours, floor, least, ratio] in &self.0 {
            println!("| {what} | {ours} | {floor} | {least} | {ratio} |");
        }
    }
}

fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

fn per_second(rate: f64) -> String {
    if rate >= 1e6 { format!("{:.2} M/s", rate / 1e6) } else { format!("{rate:.0} /s") }
}

/// The middle one.
pub(crate) fn median<T: PartialOrd + Copy>(mut samples: Vec<T>) -> T {
    samples.sort_by(|a, b| a.partial_cmp(b).expect("samples are numbers"));
    samples[samples.len() / 2]
}
