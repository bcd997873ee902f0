//! b3, b8, b9, b10 and the ways of a turn, over each wire format.
//!
//! The model server is as strict as the real ones (`harness::dialect`): it refuses orphans, doubled
//! ids, empty content, roles that do not alternate, reasoning that it did not give. So what is
//! asked of it below was fit to be sent, whatever happened before.
//!
//! Receives the harness; hands out turns that end as they should.

use harness::client::is_turn_end;
use harness::{Answer, Client, Daemon, Dialect, Gate, ModelServer};
use serde_json::{Value, json};

/// Makes a test of each function of a module for each wire format.
macro_rules! over_each_wire {
    ($module:ident: $($name:ident),* $(,)?) => {
        over_each_wire! { @ $module openai_chat Chat $($name)* }
        over_each_wire! { @ $module openai_responses Responses $($name)* }
        over_each_wire! { @ $module anthropic_messages Messages $($name)* }
    };
    (@ $module:ident $wire:ident $dialect:ident $($name:ident)*) => {
        mod $wire {
            $(#[tokio::test]
            async fn $name() {
                crate::$module::$name(harness::Dialect::$dialect).await;
            })*
        }
    };
}

over_each_wire! {
    wires:
    a_whole_turn_with_tools,
    a_prompt_is_asked_and_answered,
    an_interrupt_and_a_resume,
    a_crash_and_a_resume,
    a_stream_that_breaks_off_is_tried_again,
    an_overloaded_server_is_asked_again_when_it_says,
    b3_an_id_that_comes_again_hides_no_orphan,
    b8_an_empty_answer_is_not_sent,
    b9_inputs_without_an_answer_between_them,
    b10_there_is_one_system_text_and_notes_are_a_users,
    b11_results_whose_calls_are_gone,
    an_answer_that_was_cut_by_its_length,
}

pub(crate) struct Scene {
    dialect: Dialect,
    pub(crate) model: ModelServer,
    pub(crate) daemon: Daemon,
    pub(crate) client: Client,
    pub(crate) session: String,
}

impl Scene {
    pub(crate) async fn start(dialect: Dialect, mode: &str) -> Self {
        let model = ModelServer::speaking(dialect).await;
        // Chat's servers differ: this one takes messages of one role in a row.
        let config = format!("{}[permission]\nmode = \"{mode}\"\n", model.config());
        let daemon = Daemon::start(&config).await;
        let mut client = daemon.client().await;
        let session = client.create_session(&daemon.work_dir()).await;
        client.subscribe(&session, Some(0)).await;
        Self { dialect, model, daemon, client, session }
    }

    /// What is seen up to the end of a turn.
    pub(crate) async fn end(&mut self) -> Vec<Value> {
        self.client.watch_until(is_turn_end).await
    }

    pub(crate) async fn turn(&mut self, id: &str, text: &str) -> Vec<Value> {
        self.client.submit(&self.session, id, text).await;
        self.end().await
    }

    /// A turn that completes.
    pub(crate) async fn completes(&mut self, id: &str, text: &str) -> Vec<Value> {
        let seen = self.turn(id, text).await;
        assert_eq!(seen.last().unwrap()["type"], "turn.completed", "{seen:#?}");
        seen
    }

    pub(crate) async fn op(&mut self, id: &str, kind: &str) {
        self.client.submit_op(&self.session, id, json!({ "type": kind })).await;
    }

    pub(crate) async fn crash(&mut self) {
        self.daemon.kill();
        self.daemon.restart().await;
        self.client = self.daemon.client().await;
        self.client.subscribe(&self.session, Some(0)).await;
    }

    pub(crate) fn said(&self, request: usize) -> Vec<(String, String)> {
        let asked = self.model.asked();
        let asked = asked.get(request).unwrap_or_else(|| panic!("no request {request}"));
        self.dialect.said(&asked.body)
    }

    fn roles(&self, request: usize) -> Vec<String> {
        self.said(request).into_iter().map(|(role, _)| role).collect()
    }

    /// The texts of the results in a request.
    pub(crate) fn results(&self, request: usize) -> Vec<String> {
        let said = self.said(request);
        said.into_iter().filter(|(role, _)| role == "tool").map(|(_, text)| text).collect()
    }

    /// No request was refused, and each extends the one before.
    fn check(&self) {
        self.model.assert_all_taken();
        for request in 1..self.model.asked().len() {
            self.assert_extends(request, request - 1);
        }
    }

    /// A request has the bytes of an earlier one before its end.
    pub(crate) fn assert_extends(&self, request: usize, earlier: usize) {
        let asked = self.model.asked();
        let [before, after] =
            [earlier, request].map(|index| self.dialect.prefix(&asked[index].bytes));
        assert!(
            after.starts_with(&before),
            "request {request} leaves the prefix:\n{before}\n\n{after}"
        );
    }
}

/// Whether a request has the reasoning of earlier answers in it, as it came.
fn has_reasoning(dialect: Dialect, body: &Value, thought: &str) -> bool {
    let mark = match dialect {
        Dialect::Chat => return !body.to_string().contains(thought),
        Dialect::Responses => format!("sealed:{thought}"),
        Dialect::Messages => format!("signed:{thought}"),
    };
    body.to_string().contains(&mark)
}

/// A picture of one pixel.
const PIXEL: [u8; 67] = [
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0, 0x0a, b'I', b'D', b'A', b'T',
    0x78, 0x9c, 0x63, 0x60, 0, 0, 0, 2, 0, 1, 0x48, 0xaf, 0xa4, 0x71, 0, 0, 0, 0, b'I', b'E', b'N',
    b'D', 0xae, 0x42, 0x60, 0x82,
];

/// Reasoning, text, two calls at once, a picture as a result and another as an input.
async fn a_whole_turn_with_tools(dialect: Dialect) {
    let mut scene = Scene::start(dialect, "ask").await;
    scene.daemon.write_file("a.txt", "the first\n");
    std::fs::write(scene.daemon.work_dir().join("pixel.png"), PIXEL).unwrap();
    let calls = Answer::new()
        .reasoning("I read both of them.")
        .text("Let me look.")
        .call("read", &json!({ "path": "a.txt" }))
        .call("read", &json!({ "path": "pixel.png" }))
        .usage(100, 20);
    scene.model.push(calls);
    scene.model.push(Answer::new().reasoning("Both are there.").text("Done.").usage(150, 5));
    scene.model.push(Answer::saying("A pixel."));
    let seen = scene.completes("s1", "Read both.").await;
    let item = |text: &str| {
        let completed = |message: &&Value| {
            message["type"] == "message.completed" && message["item"].to_string().contains(text)
        };
        seen.iter().find(completed).unwrap_or_else(|| panic!("no {text}"))["item"].clone()
    };
    let answer = item("Let me look.");
    let content: Vec<(&Value, &Value)> =
        answer["content"].as_array().unwrap().iter().map(|p| (&p["type"], &p["text"])).collect();
    let expected = [("reasoning", "I read both of them."), ("text", "Let me look.")];
    assert_eq!(content[0], (&json!(expected[0].0), &json!(expected[0].1)));
    assert_eq!(content[1], (&json!(expected[1].0), &json!(expected[1].1)));
    assert_eq!(answer["calls"].as_array().unwrap().len(), 2);
    assert_eq!(answer["usage"]["input"], 100, "cached tokens are a part of it");
    let cached = if dialect == Dialect::Chat { 0 } else { 40 };
    assert_eq!(answer["usage"]["cache_read"], cached);
    assert!(scene.results(1)[0].contains("the first"), "{:?}", scene.results(1));
    let asked = scene.model.asked();
    assert!(asked[1].body.to_string().contains("iVBORw0KGgo"), "the picture is in the request");
    assert!(has_reasoning(dialect, &asked[1].body, "I read both of them."));

    let mut picture = harness::client::input(&scene.session, "s2", "");
    picture["submission"]["op"]["content"] = json!([
        { "type": "text", "text": "What is this?" },
        { "type": "image", "mime_type": "image/png", "data": "iVBORw0KGgo=" },
    ]);
    scene.client.call("session/submit", picture).await;
    assert_eq!(scene.end().await.last().unwrap()["type"], "turn.completed");
    let asked = scene.model.asked();
    assert!(has_reasoning(dialect, &asked[2].body, "Both are there."));
    assert_eq!(asked[2].body.to_string().matches("iVBORw0KGgo").count(), 2);
    scene.check();
}

async fn a_prompt_is_asked_and_answered(dialect: Dialect) {
    let mut scene = Scene::start(dialect, "ask").await;
    let write = |name: &str| json!({ "path": name, "content": "x\n" });
    scene.model.push(Answer::new().call("write", &write("a")).call("write", &write("b")));
    scene.model.push(Answer::saying("One of them."));
    scene.client.submit(&scene.session, "s1", "Write.").await;
    for decision in ["allow", "deny"] {
        let seen = scene.client.watch_until_type("permission.requested").await;
        let prompt = seen.last().unwrap()["prompt"]["prompt_id"].clone();
        let reply = json!({ "prompt_id": prompt, "decision": decision });
        scene.client.call("permission/reply", reply).await;
    }
    assert_eq!(scene.end().await.last().unwrap()["type"], "turn.completed");
    assert!(scene.results(1)[1].contains("denied"), "{:?}", scene.results(1));
    scene.check();
}

async fn an_interrupt_and_a_resume(dialect: Dialect) {
    let mut scene = Scene::start(dialect, "ask").await;
    let gate = Gate::new();
    let half = Answer::new().reasoning("Hm.").text("The first half,").wait(&gate).text(" no more");
    scene.model.push(half);
    scene.client.submit(&scene.session, "s1", "Tell me.").await;
    gate.reached().await;
    scene.client.watch_until_text("The first half,").await;
    scene.op("i1", "interrupt").await;
    assert_eq!(scene.end().await.last().unwrap()["reason"], "interrupted");
    scene.model.push(Answer::saying("The second half."));
    scene.op("r1", "resume").await;
    assert_eq!(scene.end().await.last().unwrap()["type"], "turn.completed");
    let said = scene.said(1);
    assert_eq!(said[1], ("assistant".to_owned(), "The first half,".to_owned()), "{said:?}");
    scene.check();
}

/// In a tool, after a call that was signed for: the bytes of the first request come out again.
async fn a_crash_and_a_resume(dialect: Dialect) {
    let mut scene = Scene::start(dialect, "full").await;
    scene.model.push(Answer::new().reasoning("First this.").call("list", &json!({})));
    let command = json!({ "command": "echo started; sleep 1000" });
    scene.model.push(Answer::new().reasoning("Then that.").call("shell", &command));
    scene.client.submit(&scene.session, "s1", "Run it.").await;
    let started =
        |message: &Value| message["chunk"].as_str().is_some_and(|chunk| chunk.contains("started"));
    scene.client.watch_until(started).await;
    scene.crash().await;
    assert_eq!(scene.end().await.last().unwrap()["reason"], "crashed");
    // In the middle of a stream as well: what was not signed yet is not sent.
    let gate = Gate::new();
    let half = Answer::new().reasoning("Well").wait(&gate).text("no more");
    scene.model.push(half);
    scene.op("r1", "resume").await;
    gate.reached().await;
    scene.crash().await;
    scene.end().await;
    scene.model.push(Answer::saying("I check."));
    scene.op("r2", "resume").await;
    let is_last = |message: &Value| message["type"] == "turn.completed";
    scene.client.watch_until(is_last).await;
    let results = scene.results(3);
    assert!(results[1].contains("its outcome is unknown"), "{results:?}");
    let last = &scene.model.asked()[3].body;
    assert!(
        has_reasoning(dialect, last, "First this.") && has_reasoning(dialect, last, "Then that.")
    );
    scene.check();
}

async fn a_stream_that_breaks_off_is_tried_again(dialect: Dialect) {
    let mut scene = Scene::start(dialect, "ask").await;
    scene.model.push(Answer::new().reasoning("Hm.").text("Half").call("list", &json!({})).cut());
    scene.model.push(Answer::saying("Whole."));
    let seen = scene.completes("s1", "Hello.").await;
    assert!(seen.iter().any(|message| message["type"] == "message.reset"));
    assert_eq!(scene.roles(1), ["user"]);
    scene.check();
}

async fn an_overloaded_server_is_asked_again_when_it_says(dialect: Dialect) {
    let mut scene = Scene::start(dialect, "ask").await;
    for status in [529, 503] {
        scene.model.push(Answer::refusing(status, "Overloaded").header("retry-after-ms", "1"));
    }
    scene.model.push(Answer::saying("Here I am."));
    let seen = scene.completes("s1", "Hello.").await;
    let waits: Vec<&Value> =
        seen.iter().filter(|message| message["type"] == "retry.scheduled").collect();
    assert_eq!(waits.len(), 2);
    assert_eq!((&waits[0]["delay_ms"], &waits[0]["cause"]["status"]), (&json!(1), &json!(529)));
    scene.check();
}

/// The server gives every first call of an answer the same id.
async fn b3_an_id_that_comes_again_hides_no_orphan(dialect: Dialect) {
    let mut scene = Scene::start(dialect, "full").await;
    scene.model.push(Answer::calling("shell", &json!({ "command": "echo one" })));
    scene.model.push(Answer::calling("shell", &json!({ "command": "echo started; sleep 1000" })));
    scene.client.submit(&scene.session, "s1", "Run both.").await;
    let started =
        |message: &Value| message["chunk"].as_str().is_some_and(|chunk| chunk.contains("started"));
    scene.client.watch_until(started).await;
    scene.crash().await;
    scene.end().await;
    scene.model.push(Answer::saying("ok"));
    scene.completes("s2", "Go on.").await;
    let results = scene.results(2);
    assert!(results[0].contains("one"), "{results:?}");
    assert!(results[1].contains("its outcome is unknown"), "{results:?}");
    scene.check();
}

async fn b8_an_empty_answer_is_not_sent(dialect: Dialect) {
    let mut scene = Scene::start(dialect, "ask").await;
    scene.model.push(Answer::new());
    scene.model.push(Answer::new().reasoning("Hm.").text(" \n"));
    scene.completes("s1", "Hello?").await;
    scene.model.push(Answer::saying("ok"));
    scene.completes("s2", "Still there?").await;
    let said = scene.said(2);
    let users = said.iter().filter(|(role, _)| role == "user").count();
    assert_eq!(users, 3, "input, note, input: {said:?}");
    assert!(said.iter().all(|(_, text)| !text.trim().is_empty()), "{said:?}");
    scene.check();
}

/// A failed turn between them, a queued one, one that is steered.
async fn b9_inputs_without_an_answer_between_them(dialect: Dialect) {
    let mut scene = Scene::start(dialect, "ask").await;
    scene.model.push(Answer::refusing(401, "no such key"));
    let failed = scene.turn("s1", "One.").await;
    assert_eq!(failed.last().unwrap()["type"], "turn.failed");
    let gate = Gate::new();
    scene.model.push(Answer::new().text("I list.").wait(&gate).call("list", &json!({})));
    scene.client.submit(&scene.session, "s2", "Two.").await;
    gate.reached().await;
    scene.client.submit(&scene.session, "s3", "Three.").await;
    scene.model.push(Answer::saying("ok"));
    gate.open();
    assert_eq!(scene.end().await.last().unwrap()["type"], "turn.completed");
    let said = scene.said(2);
    let texts: Vec<&str> = said.iter().map(|(_, text)| text.as_str()).collect();
    for text in ["One.", "Two.", "Three."] {
        assert!(texts.contains(&text), "{said:?}");
    }
    scene.check();
}

async fn b10_there_is_one_system_text_and_notes_are_a_users(dialect: Dialect) {
    let mut scene = Scene::start(dialect, "ask").await;
    scene.model.push(Answer::new());
    scene.model.push(Answer::calling("list", &json!({})));
    let mut params = harness::client::input(&scene.session, "s1", "List.");
    params["limits"] = json!({ "max_iterations": 2 });
    scene.client.call("session/submit", params).await;
    assert_eq!(scene.end().await.last().unwrap()["type"], "turn.exhausted");
    scene.model.push(Answer::saying("Going on."));
    scene.op("r1", "resume").await;
    assert_eq!(scene.end().await.last().unwrap()["type"], "turn.completed");
    let said = scene.said(2);
    for words in ["was empty", "last step", "ended early"] {
        let note = said.iter().find(|(_, text)| text.contains(words));
        assert_eq!(note.unwrap_or_else(|| panic!("{words}: {said:?}")).0, "user");
    }
    scene.check();
}

/// An imported history in which the answers with the calls, or all the results, are missing.
async fn b11_results_whose_calls_are_gone(dialect: Dialect) {
    let mut scene = Scene::start(dialect, "ask").await;
    scene.model.push(Answer::new().reasoning("Hm.").text("I list.").call("list", &json!({})));
    scene.model.push(Answer::saying("Nothing there."));
    scene.completes("s1", "List.").await;
    let params = json!({ "session_id": scene.session, "format": "json" });
    let exported = scene.client.call("session/export", params).await;
    for gone in ["calls", "results"] {
        let mut document: Value =
            serde_json::from_str(exported["content"].as_str().unwrap()).unwrap();
        document["items"].as_array_mut().unwrap().retain(|item| match gone {
            "calls" => item["calls"].as_array().is_none_or(Vec::is_empty),
            _ => item["role"] != "tool",
        });
        let params = json!({ "content": document.to_string() });
        let imported = scene.client.call("session/import", params).await;
        scene.session = imported["session_id"].as_str().unwrap().to_owned();
        scene.client.subscribe(&scene.session, None).await;
        scene.model.push(Answer::saying("ok"));
        scene.completes("s2", "Go on.").await;
    }
    scene.model.assert_all_taken();
    assert_eq!(scene.results(2), Vec::<String>::new());
    assert!(scene.results(3)[0].contains("must be retried"), "{:?}", scene.results(3));
}

/// The last call of such an answer is not run, and is answered all the same.
async fn an_answer_that_was_cut_by_its_length(dialect: Dialect) {
    let mut scene = Scene::start(dialect, "full").await;
    let cut = Answer::new().call("list", &json!({})).call_with_text("write", "{\"path\": \"a.t");
    scene.model.push(cut.finish_reason("length"));
    scene.model.push(Answer::saying("In smaller pieces."));
    scene.completes("s1", "Write.").await;
    let results = scene.results(1);
    assert!(results[1].contains("cut off by the output limit"), "{results:?}");
    scene.check();
}

/// The provider says that its turn has not ended: it goes on without new input.
#[tokio::test]
async fn a_turn_that_the_provider_paused_goes_on() {
    for dialect in [Dialect::Responses, Dialect::Messages] {
        let mut scene = Scene::start(dialect, "ask").await;
        scene.model.push(Answer::new().text("I search.").pausing());
        scene.model.push(Answer::saying("Found."));
        scene.completes("s1", "Search.").await;
        assert_eq!(scene.roles(1), ["user", "assistant"]);
        scene.model.push(Answer::saying("Welcome."));
        scene.completes("s2", "Thanks.").await;
        scene.check();
    }
}

/// Each model gets back what is its own and nothing that another one signed.
#[tokio::test]
async fn a_session_that_goes_from_one_wire_to_another_and_back() {
    let other = ModelServer::speaking(Dialect::Responses).await;
    let model = ModelServer::speaking(Dialect::Messages).await;
    let second = other.config().replace("providers.test", "providers.other");
    let second = second.split_once('\n').unwrap().1;
    let daemon = Daemon::start(&format!("{}{second}", model.config())).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    let dialect = Dialect::Messages;
    let mut scene = Scene { dialect, model, daemon, client, session };
    let call = |thought: &str| Answer::new().reasoning(thought).call("list", &json!({}));
    let configure = async |scene: &mut Scene, id: &str, model: &str| {
        let op = json!({ "type": "configure", "model": model });
        scene.client.submit_op(&scene.session, id, op).await;
    };
    scene.model.push(call("Mine."));
    scene.model.push(Answer::saying("One."));
    scene.completes("s1", "One?").await;
    configure(&mut scene, "c1", "other/model").await;
    other.push(call("Theirs."));
    other.push(Answer::saying("Two."));
    scene.completes("s2", "Two?").await;
    configure(&mut scene, "c2", "test/model").await;
    scene.model.push(Answer::saying("Three."));
    scene.completes("s3", "Three?").await;
    other.assert_all_taken();
    scene.model.assert_all_taken();
    let bodies = [&other.asked()[1].body, &scene.model.asked()[2].body].map(Value::to_string);
    let has =
        |body: usize| ["signed:Mine.", "sealed:Theirs."].map(|mark| bodies[body].contains(mark));
    assert_eq!([has(0), has(1)], [[false, true], [true, false]], "{bodies:#?}");
}
