//! b11 and its like: any history becomes a request that the strictest server takes, in each of the
//! wire formats.
//!
//! One refused request makes a session useless, for the same history is in all that follow. So
//! random histories (cut off anywhere, ids missing or repeated, names and arguments that are none,
//! empty answers and results) go through the conversation's window and the provider's encoding,
//! and `harness` looks for what any real server would refuse.
//!
//! Receives random histories; hands out requests to the check.

use std::sync::Arc;

use agentd::clock::Clock;
use agentd::config::{Config, ProviderConfig, Wire};
use agentd::conversation::Window;
use agentd::provider::{Providers, Selected};
use agentd_protocol::id::{CallId, ItemId, TurnId};
use agentd_protocol::item::{
    AssistantItem, AssistantPart, AssistantStatus, Call, Item, ItemBody, Origin, Part, ToolItem,
    ToolStatus,
};
use agentd_protocol::session::Usage;
use agentd_protocol::time::Time;
use harness::dialect::{check_messages, check_responses};
use harness::{Dialect, history};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What can be in a history, after its system item and its first input.
#[derive(Debug, Clone)]
enum Step {
    Input,
    Answer {
        text: &'static str,
        /// Signed reasoning before the text (else after it), after so many calls.
        thoughts: Vec<(bool, usize)>,
        calls: Vec<Asked>,
        /// It is another model's.
        foreign: bool,
    },
    /// A result of one of the last answer's calls, or of none.
    Result {
        of: usize,
        content: Vec<Part>,
    },
    /// A request was sent here.
    Sent,
}

/// A call as some model asked for it.
#[derive(Debug, Clone)]
struct Asked {
    id: Option<&'static str>,
    name: &'static str,
    arguments: Value,
}

fn asked() -> impl Strategy<Value = Asked> {
    let id = prop::sample::select(vec![None, Some(""), Some("k"), Some("l")]);
    let name = prop::sample::select(vec!["read", "", "no name", "lesen-für"]);
    let arguments =
        prop::sample::select(vec![json!({}), json!({"p": 1}), json!("{\"p"), json!("")]);
    (id, name, arguments).prop_map(|(id, name, arguments)| Asked { id, name, arguments })
}

fn step() -> impl Strategy<Value = Step> {
    let text = prop::sample::select(vec!["", " ", "text"]);
    let image =
        Part::Image { mime_type: "image/png".to_owned(), data: Some("AA".to_owned()), path: None };
    let contents = vec![vec![], vec![Part::text("")], vec![Part::text("r")], vec![image]];
    prop_oneof![
        2 => Just(Step::Input),
        3 => (
            text,
            prop::collection::vec((any::<bool>(), 0..3_usize), 0..3),
            prop::collection::vec(asked(), 0..3),
            prop::bool::weighted(0.2),
        )
            .prop_map(|(text, thoughts, calls, foreign)| {
                Step::Answer { text, thoughts, calls, foreign }
            }),
        3 => (0..4_usize, prop::sample::select(contents))
            .prop_map(|(of, content)| Step::Result { of, content }),
        2 => Just(Step::Sent),
    ]
}

struct Play {
    selected: Selected,
    window: Window,
    items: u64,
    /// The place of the last answer, which is a part of its calls' ids.
    answered: u64,
    dialect: Dialect,
}

impl Play {
    fn new(dialect: Dialect) -> Self {
        let local = ProviderConfig {
            wire: match dialect {
                Dialect::Chat => Wire::OpenaiChat,
                Dialect::Responses => Wire::OpenaiResponses,
                Dialect::Messages => Wire::AnthropicMessages,
            },
            base_url: Some("http://127.0.0.1:1/v1".to_owned()),
            ..ProviderConfig::default()
        };
        let config = Config {
            providers: [("local".to_owned(), local)].into_iter().collect(),
            ..Config::default()
        };
        let selected = Providers::new(&config, &Clock::manual()).get("local/m").expect("a model");
        let mut play = Self { selected, window: Window::new(), items: 0, answered: 0, dialect };
        play.push(ItemBody::System { content: vec![Part::text("s")] });
        play.input();
        play
    }

    fn push(&mut self, body: ItemBody) {
        self.items += 1;
        self.window.push(Arc::new(Item {
            item_id: ItemId::from_unique(self.items),
            index: self.items,
            turn_id: TurnId::from_unique(1),
            created_at: Time::from_unix_millis(0),
            hidden_by: None,
            body,
        }));
    }

    fn input(&mut self) {
        let content = vec![Part::text("u")];
        self.push(ItemBody::User { content, origin: Origin::User, submission_id: None });
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Input => self.input(),
            Step::Answer { text, thoughts, calls, foreign } => {
                self.answered = self.items;
                let calls = calls.into_iter().enumerate().map(|(n, asked)| Call {
                    call_id: self.call_id(n),
                    provider_call_id: asked.id.map(str::to_owned),
                    name: asked.name.to_owned(),
                    arguments: asked.arguments,
                });
                let calls = calls.collect();
                let thought = |after: usize| AssistantPart::Reasoning {
                    text: "hm".to_owned(),
                    signature: self.signature(after),
                };
                let (before, after): (Vec<_>, Vec<_>) =
                    thoughts.into_iter().partition(|(before, _)| *before);
                let content = before
                    .into_iter()
                    .map(|(_, after)| thought(after))
                    .chain([AssistantPart::Text { text: text.to_owned() }])
                    .chain(after.into_iter().map(|(_, after)| thought(after)))
                    .collect();
                self.push(ItemBody::Assistant(AssistantItem {
                    content,
                    calls,
                    status: AssistantStatus::Complete,
                    model: if foreign { "other/m" } else { "local/m" }.to_owned(),
                    usage: Usage::default(),
                    finish_reason: None,
                }));
            }
            Step::Result { of, content } => self.push(ItemBody::Tool(ToolItem {
                call_id: self.call_id(of),
                name: "read".to_owned(),
                status: ToolStatus::Ok,
                content,
                full_output: None,
            })),
            Step::Sent => drop(self.messages()),
        }
    }

    fn call_id(&self, n: usize) -> CallId {
        CallId::from_unique(format!("{}_{n}", self.answered))
    }

    /// What the model wants back with the reasoning `hm`.
    fn signature(&self, after_calls: usize) -> Option<String> {
        let block = match self.dialect {
            Dialect::Chat => return None,
            Dialect::Responses => json!({
                "type": "reasoning", "id": "rs_1", "encrypted_content": "sealed:hm",
            }),
            Dialect::Messages => json!({ "type": "thinking", "signature": "signed:hm" }),
        };
        Some(json!({ "after_calls": after_calls, "block": block }).to_string())
    }

    /// Checks the request that is sent now.
    fn check(&mut self) -> Result<(), String> {
        let messages = [b"[".as_slice(), &self.messages(), b"]"].concat();
        let messages: Value = serde_json::from_slice(&messages).expect("JSON");
        let request = match self.dialect {
            Dialect::Chat => json!({ "model": "m", "stream": true, "messages": messages }),
            Dialect::Responses => {
                json!({ "model": "m", "stream": true, "store": false, "input": messages })
            }
            Dialect::Messages => {
                // The system text is taken out when a request is sent.
                let (system, messages) = messages.as_array().expect("a list").split_at(1);
                json!({
                    "model": "m", "max_tokens": 1, "system": system[0]["content"],
                    "messages": messages,
                })
            }
        };
        let checked = match self.dialect {
            Dialect::Chat => history::check(&request),
            Dialect::Responses => check_responses(&request),
            Dialect::Messages => check_messages(&request),
        };
        checked.map_err(|why| format!("{why}\n{request:#}"))
    }

    fn messages(&mut self) -> Vec<u8> {
        let Selected { provider, name, .. } = &self.selected;
        let key = provider.encoding_key(name);
        let encode = &mut |answers: Option<&Item>, items: &[Arc<Item>]| {
            provider.encode(name, answers, items)
        };
        self.window.messages(&key, provider.separator(), encode).concat()
    }
}

proptest! {
    #[test]
    fn any_history_becomes_a_request_that_servers_take(
        steps in prop::collection::vec(step(), 0..20),
    ) {
        for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Messages] {
            let mut play = Play::new(dialect);
            for step in steps.clone() {
                play.step(step);
            }
            play.input();
            prop_assert_eq!(play.check(), Ok(()), "{:?}", dialect);
        }
    }
}
