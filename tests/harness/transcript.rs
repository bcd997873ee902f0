//! What a client saw, as a text that is the same in every run.
//!
//! Ids become `ses_1`, `item_2` … in the order of their appearance, times, durations and numbers
//! of processes become words, the test's own directories too. Deltas of one item that come in a
//! row are joined, since where a stream is cut into pieces means nothing. A whole session or prompt
//! that a message repeats is shortened. Who watches is left out: it is told of the moment, and
//! stands at no place of its own.
//!
//! Receives messages of a subscription; hands out one line for each.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

/// What ids begin with.
const KINDS: [&str; 11] =
    ["ses_", "turn_", "item_", "call_", "prm_", "rule_", "proc_", "mem_", "skill_", "dmn_", "chk_"];

/// A transcript in the making. Ids keep their short names over all that is added.
#[derive(Debug, Default)]
pub struct Transcript {
    names: BTreeMap<String, String>,
    counts: BTreeMap<String, usize>,
    folders: Vec<(String, String)>,
    lines: Vec<String>,
}

impl Transcript {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes `name` for this directory.
    #[must_use]
    pub fn with_folder(mut self, folder: &Path, name: &str) -> Self {
        let folder = folder.to_str().expect("temporary directories are UTF-8");
        self.folders.push((folder.to_owned(), name.to_owned()));
        self
    }

    /// Adds a line of the test's own.
    pub fn note(&mut self, text: &str) {
        self.lines.push(format!("-- {text}"));
    }

    /// Adds messages of a subscription.
    pub fn add(&mut self, messages: &[Value]) {
        let lasting = |message: &&Value| message["type"] != "subscription.watchers";
        let mut messages = messages.iter().filter(lasting).peekable();
        while let Some(message) = messages.next() {
            let mut message = message.clone();
            while let Some(more) = messages.peek().filter(|next| continues(&message, next)) {
                join(&mut message, more);
                messages.next();
            }
            let line = self.line(message);
            self.lines.push(line);
        }
    }

    /// The text, for a snapshot.
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    fn line(&mut self, message: Value) -> String {
        let Value::Object(mut fields) = self.normal(message) else { return String::new() };
        let kind = fields.remove("type").unwrap_or_default();
        let kind = kind.as_str().unwrap_or("?");
        let seq = fields.remove("seq").map_or_else(|| "·".to_owned(), |seq| seq.to_string());
        fields.remove("time");
        fields.remove("session_id");
        fields.remove("watchers");
        if let Some(session) = fields.get_mut("session").filter(|s| s.get("session_id").is_some()) {
            *session = said(session, &["state", "title", "head_seq", "queue_held"]);
        }
        if let Some(Value::Array(prompts)) = fields.get_mut("prompts") {
            for prompt in prompts {
                *prompt = prompt["prompt_id"].take();
            }
        }
        let turn = fields.remove("turn_id");
        let turn = turn.as_ref().and_then(Value::as_str).unwrap_or("-");
        let rest: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{seq:>3} {turn} {kind} {}", rest.join(" ")).trim_end().to_owned()
    }

    /// The value with everything that differs from run to run replaced.
    pub fn normal(&mut self, value: Value) -> Value {
        match value {
            Value::Object(fields) => self.normal_object(fields),
            Value::Array(values) => values.into_iter().map(|value| self.normal(value)).collect(),
            Value::String(text) => Value::String(self.normal_text(&text)),
            other => other,
        }
    }

    fn normal_object(&mut self, fields: Map<String, Value>) -> Value {
        let is_system = fields.get("role").is_some_and(|role| role == "system");
        fields
            .into_iter()
            .map(|(name, value)| {
                let value = match name.as_str() {
                    "content" if is_system => Value::from("<system>"),
                    "time" | "created_at" | "updated_at" | "requested_at" | "expires_at" | "at" => {
                        Value::from("<time>")
                    }
                    "duration_ms" | "delay_ms" | "expires_in_ms" => Value::from("<ms>"),
                    // Estimated where no usage was reported, by the length of paths too.
                    "tokens" => Value::from("<tokens>"),
                    "pid" | "connection" | "owner" | "host" | "version" | "epoch" => {
                        Value::from(format!("<{name}>"))
                    }
                    _ => self.normal(value),
                };
                (name, value)
            })
            .collect()
    }

    fn normal_text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (folder, name) in &self.folders {
            text = text.replace(folder, name);
        }
        let mut normal = String::new();
        for word in
            text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')
        {
            let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
            let (word, rest) = word.split_at(end.unwrap_or(word.len()));
            normal.push_str(&self.normal_word(word));
            normal.push_str(rest);
        }
        normal
    }

    fn normal_word(&mut self, word: &str) -> String {
        if word.len() == 32 && word.bytes().all(|b| b.is_ascii_hexdigit()) {
            return "<random>".to_owned();
        }
        // A unique part is long; a word of a person's that begins alike is not.
        let kind =
            KINDS.iter().find(|kind| word.starts_with(**kind) && word.len() > kind.len() + 15);
        let Some(kind) = kind else { return word.to_owned() };
        if let Some(name) = self.names.get(word) {
            return name.clone();
        }
        let count = self.counts.entry((*kind).to_owned()).or_default();
        *count += 1;
        let name = format!("{kind}{count}");
        self.names.insert(word.to_owned(), name.clone());
        name
    }
}

/// These fields of an object, where it has them; the others would only be repeated.
fn said(object: &Value, names: &[&str]) -> Value {
    let said =
        names.iter().filter_map(|name| Some(((*name).to_owned(), object.get(*name)?.clone())));
    said.collect::<Map<String, Value>>().into()
}

/// The field that holds a piece, and the field that names what it is a piece of.
fn piece_of(message: &Value) -> Option<(&'static str, &'static str)> {
    match message["type"].as_str()? {
        "message.delta" => Some(("delta", "item_id")),
        "tool.output" => Some(("chunk", "call_id")),
        _ => None,
    }
}

fn continues(message: &Value, next: &Value) -> bool {
    piece_of(message).is_some_and(|(_, whole)| {
        ["type", whole, "attempt", "kind"].iter().all(|name| message[*name] == next[*name])
    })
}

fn join(message: &mut Value, next: &Value) {
    if let Some((piece, _)) = piece_of(message) {
        let joined = [&message[piece], &next[piece]].map(|text| text.as_str().unwrap_or_default());
        message[piece] = Value::from(joined.concat());
    }
}
