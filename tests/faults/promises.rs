//! What clients were told so far, and whether a log keeps it.
//!
//! Receives what clients saw and were answered; hands out the first promise that a log breaks.

use std::collections::{BTreeMap, BTreeSet};

use harness::client::is_turn_end;
use serde_json::Value;

/// What was promised to the clients of one session.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// Events by their number, as some client saw them.
    events: BTreeMap<u64, Value>,
    /// Submissions that were accepted, with the answer.
    accepted: BTreeMap<String, Value>,
}

impl Promises {
    /// Notes events that a client saw.
    pub(crate) fn saw(&mut self, messages: &[Value]) {
        for message in messages {
            let Some(seq) = message["seq"].as_u64() else { continue };
            if let Some(before) = self.events.insert(seq, message.clone()) {
                assert_eq!(before, *message, "an event was told twice, differently");
            }
        }
    }

    /// Notes an answer to a submission.
    pub(crate) fn accepted(&mut self, id: &str, result: &Value) {
        if let Some(before) = self.accepted.insert(id.to_owned(), result.clone()) {
            let same = ["submission_id", "disposition", "turn_id", "seq"];
            for field in same {
                assert_eq!(before[field], result[field], "{id} was answered twice, differently");
            }
        }
    }

    /// Whether `id` was answered.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.accepted.contains_key(id)
    }

    /// The last event that a client saw.
    pub(crate) fn head(&self) -> u64 {
        self.events.keys().next_back().copied().unwrap_or(0)
    }

    /// Checks a whole log. `is_at_rest` says that no turn runs, so every one must have ended.
    pub(crate) fn check(&self, log: &[Value], is_at_rest: bool) {
        for (index, event) in log.iter().enumerate() {
            assert_eq!(event["seq"].as_u64(), Some(index as u64 + 1), "a hole before {event}");
        }
        for (seq, event) in &self.events {
            let at = usize::try_from(*seq).expect("numbers are small") - 1;
            assert_eq!(log.get(at), Some(event), "what was told is not what is kept");
        }
        let accepted: BTreeSet<&str> = of_type(log, "submission.accepted")
            .filter_map(|event| event["submission_id"].as_str())
            .collect();
        for id in self.accepted.keys() {
            assert!(accepted.contains(id.as_str()), "the accepted submission {id} is lost");
        }
        check_turns(log, is_at_rest);
    }
}

fn of_type<'a>(log: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    log.iter().filter(move |event| event["type"] == kind)
}

fn check_turns(log: &[Value], is_at_rest: bool) {
    let mut by_submission = BTreeMap::new();
    for started in of_type(log, "turn.started") {
        let before =
            by_submission.insert(started["submission_id"].to_string(), &started["turn_id"]);
        assert_eq!(before, None, "a submission ran twice: {started}");
    }
    for started in of_type(log, "turn.started") {
        let ends = log
            .iter()
            .filter(|event| is_turn_end(event) && event["turn_id"] == started["turn_id"])
            .count();
        let may_run = !is_at_rest && ends == 0;
        assert!(ends == 1 || may_run, "a turn has {ends} ends: {started}");
    }
    // Each call of each answer has one result once its turn has ended; those of an attempt that
    // was taken back have none.
    let discarded: Vec<&Value> = of_type(log, "message.reset")
        .flat_map(|reset| reset["discarded"].as_array().into_iter().flatten())
        .collect();
    let results: Vec<&Value> =
        of_type(log, "tool.completed").map(|event| &event["call_id"]).collect();
    for call in of_type(log, "tool.called") {
        let count = results.iter().filter(|id| ***id == call["call_id"]).count();
        let expected = usize::from(!discarded.contains(&&call["call_id"]));
        assert!(count == expected || (!is_at_rest && count == 0), "{count} results for {call}");
    }
}
