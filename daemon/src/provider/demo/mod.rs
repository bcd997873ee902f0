//! `demo`: a small rule-driven stand-in for a model, built in and offline.
//!
//! It is there to try agentd without an account, to develop clients and to test: it streams word by
//! word, calls the real tools (so permission is asked for like for any model), sees their results,
//! and sums up. The same items give the same events, always. It says in its text what it is.
//!
//! Its wire format is one item a line. It reads a request backwards, up to the prompt that started
//! the turn, so the length of a session costs it nothing.
//!
//! Receives requests from `session` through [`Provider`]; hands back the events of a played answer.

use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::item::Item;
use agentd_protocol::session::Usage;
use bytes::Bytes;
use futures_util::{StreamExt, stream};

use super::{ModelCall, ModelEvent, ModelStream, Provider, Request, ToolDefinition};
use crate::clock::Clock;

mod history;
mod prompt;
mod script;
#[cfg(test)]
mod tests;

use history::Turn;
use script::{Answer, Piece};

/// The pause before each word of an answer that was asked for slowly.
const PAUSE: Duration = Duration::from_millis(60);

/// Bytes that make a token, about.
const BYTES_PER_TOKEN: usize = 4;

/// The demo model.
#[derive(Debug, Clone)]
pub struct Demo {
    clock: Clock,
}

impl Demo {
    /// A demo model that waits by `clock` where it is asked to be slow.
    pub fn new(clock: Clock) -> Self {
        Self { clock }
    }
}

impl Provider for Demo {
    fn encoding_key(&self, _model: &str) -> String {
        "demo".to_owned()
    }

    fn encode(&self, _model: &str, _answers: Option<&Item>, segment: &[Arc<Item>]) -> Bytes {
        let lines: Vec<String> = segment
            .iter()
            .map(|item| serde_json::to_string(item).expect("items have string keys only"))
            .collect();
        lines.join("\n").into()
    }

    fn separator(&self) -> &'static str {
        "\n"
    }

    /// The names, one a line.
    fn encode_tools(&self, _model: &str, tools: &[ToolDefinition]) -> Bytes {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        names.join("\n").into()
    }

    fn stream(&self, request: Request) -> ModelStream {
        let clock = self.clock.clone();
        let play = move || {
            let answer = play(&request);
            let pause = if answer.slowly { PAUSE } else { Duration::ZERO };
            stream::iter(events(&request, &answer)).then(move |event| {
                let clock = clock.clone();
                async move {
                    if !pause.is_zero() {
                        clock.sleep(pause).await;
                    }
                    Ok(event)
                }
            })
        };
        stream::once(async move { play() }).flatten().boxed()
    }
}

fn play(request: &Request) -> Answer {
    let offered =
        |name: &str| request.tools.split(|byte| *byte == b'\n').any(|tool| tool == name.as_bytes());
    script::answer(&Turn::read(&request.messages), offered)
}

fn events(request: &Request, answer: &Answer) -> Vec<ModelEvent> {
    let mut events = Vec::new();
    if request.options.record.is_some() {
        events.push(ModelEvent::Warning {
            code: "not_recorded",
            message: "the demo has no server whose answers could be recorded".to_owned(),
        });
    }
    let mut usage = Usage { input: tokens(input_bytes(request)), ..Usage::default() };
    let mut finish_reason = "stop";
    for (number, piece) in answer.pieces.iter().enumerate() {
        match piece {
            Piece::Text(text) => {
                usage.output += tokens(text.len());
                events.extend(words(text).map(ModelEvent::Text));
            }
            Piece::Reasoning(text) => {
                usage.output += tokens(text.len());
                usage.reasoning += tokens(text.len());
                events.extend(words(text).map(ModelEvent::Reasoning));
            }
            Piece::Call { name, arguments } => {
                usage.output += tokens(arguments.to_string().len());
                finish_reason = "tool_calls";
                events.push(ModelEvent::Call(ModelCall {
                    provider_call_id: Some(format!("demo_{number}")),
                    name: (*name).to_owned(),
                    arguments: arguments.clone(),
                }));
            }
        }
    }
    events.push(ModelEvent::Usage(usage));
    events
        .push(ModelEvent::End { finish_reason: Some(finish_reason.to_owned()), continues: false });
    events
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split_inclusive(char::is_whitespace).map(str::to_owned)
}

fn input_bytes(request: &Request) -> usize {
    request.tools.len() + request.messages.iter().map(Bytes::len).sum::<usize>()
}

fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}
