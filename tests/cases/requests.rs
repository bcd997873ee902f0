//! Any history becomes a request that the strictest server takes.
//!
//! One refused request makes a session useless, for the same history is in all that follow. So
//! random histories (cut off anywhere, ids missing or repeated, names and arguments that are none,
//! empty answers and results) go through the conversation's window and the provider's encoding,
//! and `harness::history` looks for what any real server would refuse.
//!
//! Receives random histories; hands out requests to the check.

use std::sync::Arc;

use agentd::clock::Clock;
use agentd::config::{Config, ProviderConfig};
use agentd::conversation::Window;
use agentd::provider::{Providers, Selected};
use agentd_protocol::id::{CallId, ItemId, TurnId};
use agentd_protocol::item::{
    AssistantItem, AssistantPart, AssistantStatus, Call, Item, ItemBody, Origin, Part, ToolItem,
    ToolStatus,
};
use agentd_protocol::session::Usage;
use agentd_protocol::time::Time;
use harness::history;
use proptest::prelude::*;
use serde_json::{Value, json};

/// What can be in a history, after its system item and its first input.
#[derive(Debug, Clone)]
enum Step {
    Input,
    Answer {
        text: &'static str,
        calls: Vec<Asked>,
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
        3 => (text, prop::collection::vec(asked(), 0..3))
            .prop_map(|(text, calls)| Step::Answer { text, calls }),
        3 => (0..4_usize, prop::sample::select(contents))
            .prop_map(|(of, content)| Step::Result { of, content }),
        2 => Just(Step::Sent),
    ]
}

struct Play {
    selected: Selected,
    window: Window,
    items: u64,
}

impl Play {
    fn new() -> Self {
        let local = ProviderConfig {
            base_url: Some("http://127.0.0.1:1/v1".to_owned()),
            ..ProviderConfig::default()
        };
        let config = Config {
            providers: [("local".to_owned(), local)].into_iter().collect(),
            ..Config::default()
        };
        let selected = Providers::new(&config, &Clock::manual()).get("local/m").expect("a model");
        let mut play = Self { selected, window: Window::new(), items: 0 };
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
            Step::Answer { text, calls } => {
                let calls = calls.into_iter().enumerate().map(|(n, asked)| Call {
                    call_id: CallId::from_unique(n),
                    provider_call_id: asked.id.map(str::to_owned),
                    name: asked.name.to_owned(),
                    arguments: asked.arguments,
                });
                let calls = calls.collect();
                self.push(ItemBody::Assistant(AssistantItem {
                    content: vec![AssistantPart::Text { text: text.to_owned() }],
                    calls,
                    status: AssistantStatus::Complete,
                    model: "local/m".to_owned(),
                    usage: Usage::default(),
                    finish_reason: None,
                }));
            }
            Step::Result { of, content } => self.push(ItemBody::Tool(ToolItem {
                call_id: CallId::from_unique(of),
                name: "read".to_owned(),
                status: ToolStatus::Ok,
                content,
                full_output: None,
            })),
            Step::Sent => drop(self.messages()),
        }
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
        let mut play = Play::new();
        for step in steps {
            play.step(step);
        }
        play.input();
        let messages = [b"[".as_slice(), &play.messages(), b"]"].concat();
        let messages: Value = serde_json::from_slice(&messages).expect("JSON");
        let request = json!({ "model": "m", "stream": true, "messages": messages });
        prop_assert_eq!(history::check(&request), Ok(()), "{}", request);
    }
}
