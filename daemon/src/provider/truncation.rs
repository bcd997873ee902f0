//! Whether a server has read what was sent: some cut a prompt that is too long from the front, and
//! answer as if nothing were missing, with neither tools nor system message.
//!
//! All that shows it is the usage. Text has about four bytes a token, and even the most repetitive
//! one hardly four times as many, so a count that is a quarter of what is expected is no estimate
//! gone wrong. A request with images says nothing: their bytes are not read as text.
//!
//! Receives a request's pieces and the events of its answer; hands a warning to `exchange`.

use bytes::Bytes;

use super::ModelEvent;

/// Bytes of a token, more or less.
const BYTES_PER_TOKEN: usize = 4;
/// A smaller request fits into any window.
const LEAST_TOKENS: u64 = 4_096;
/// The server read less than this part of what was sent.
const PART: u64 = 4;

/// The code of the warning.
const PROMPT_TRUNCATED: &str = "prompt_truncated";

/// What a request's usage should say. What was sent is looked into only where it says less.
#[derive(Debug)]
pub(super) struct Expected {
    body: Vec<Bytes>,
    /// It was looked at.
    told: bool,
}

impl Expected {
    /// Of a request with this body.
    pub(super) fn of(body: Vec<Bytes>) -> Self {
        Self { body, told: false }
    }

    fn tokens(&self) -> u64 {
        self.body.iter().map(Bytes::len).sum::<usize>().div_ceil(BYTES_PER_TOKEN) as u64
    }

    fn has_image(&self) -> bool {
        self.body.iter().any(|piece| memchr::memmem::find(piece, b"base64").is_some())
    }

    /// The warning that goes before an event of `who`'s answer, once.
    pub(super) fn look(&mut self, who: &str, event: &ModelEvent) -> Option<ModelEvent> {
        let ModelEvent::Usage(usage) = event else { return None };
        let (read, sent) = (usage.input, self.tokens());
        if read == 0 || std::mem::replace(&mut self.told, true) {
            return None;
        }
        let too_few = sent >= LEAST_TOKENS && read.saturating_mul(PART) <= sent;
        (too_few && !self.has_image()).then(|| ModelEvent::Warning {
            code: PROMPT_TRUNCATED,
            message: format!(
                "{who}: it read {read} tokens of a request that has about {sent}, so the start of \
                 the conversation is lost to the model; give the server a larger window, and say \
                 it in `context_window` of the model"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use agentd_protocol::session::Usage;

    use super::*;

    fn warned(body: &str, input: u64) -> bool {
        let (before, after) = body.split_at(body.len() / 2);
        let pieces = [before, after].map(|piece| Bytes::from(piece.to_owned()));
        let mut expected = Expected::of(pieces.to_vec());
        let usage = ModelEvent::Usage(Usage { input, ..Usage::default() });
        let first = expected.look("provider p", &usage).is_some();
        assert_eq!(expected.look("provider p", &usage), None, "it is told once");
        first
    }

    #[test]
    fn a57_usage_far_below_what_was_sent_is_told() {
        let body = "word ".repeat(12_000);
        assert!(warned(&body, 2_048), "15,000 tokens were sent");
        for input in [0, 5_000, 12_000, 20_000] {
            assert!(!warned(&body, input), "{input}");
        }
        assert!(!warned("short", 1));
        assert!(!warned(&format!("{body}data:image/png;base64,"), 2_048));
    }

    #[test]
    fn an_early_report_without_a_count_is_not_the_last() {
        let mut expected = Expected::of(vec![Bytes::from("word ".repeat(12_000))]);
        let usage = |input| ModelEvent::Usage(Usage { input, ..Usage::default() });
        assert_eq!(expected.look("p", &usage(0)), None);
        assert!(expected.look("p", &usage(2_048)).is_some());
    }
}
