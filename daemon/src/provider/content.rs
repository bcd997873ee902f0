//! What every wire format says alike of items: texts of parts, names, arguments, ids, pictures.
//!
//! Receives parts and calls of items from the wire formats' encoders; hands back what is sent.

use std::borrow::Cow;

use agentd_protocol::id::CallId;
use agentd_protocol::item::{Call, Item, ItemBody, Part};
use serde::Serialize;
use serde_json::{Value, json};

/// The longest name of a function.
const MAX_NAME_BYTES: usize = 64;
/// A provider's id that is shorter is a counter, which comes again in later answers.
const MIN_ID_BYTES: usize = 20;
/// The longest id that every provider takes.
const MAX_ID_BYTES: usize = 64;
/// The pictures that models can see.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// What stands between two messages of a user where roles must alternate. It tells the same to every model, so
/// that the prefix stays.
pub(super) const NO_ANSWER_YET: &str = "(no answer yet)";

/// JSON of what is sent.
pub(super) fn json_of(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings, lists and maps with string keys become JSON")
}

/// Values of one list, written one after the other with commas between them.
#[derive(Debug, Default)]
pub(super) struct Joined(Vec<u8>);

impl Joined {
    pub(super) fn push(&mut self, value: &impl Serialize) {
        if !self.0.is_empty() {
            self.0.push(b',');
        }
        self.0.extend_from_slice(&json_of(value));
    }

    pub(super) fn into_bytes(self) -> bytes::Bytes {
        self.0.into()
    }
}

/// A model may call what cannot be the name of a function; servers refuse a history that says so.
pub(super) fn function_name(name: &str) -> Cow<'_, str> {
    if (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let plain = |byte: u8| char::from(if is_plain(byte) { byte } else { b'_' });
    let name: String = name.bytes().take(MAX_NAME_BYTES).map(plain).collect();
    if name.is_empty() { Cow::Borrowed("unknown") } else { Cow::Owned(name) }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Arguments are always an object: some servers take nothing else, some fill in a template.
pub(super) fn arguments(arguments: &Value) -> Cow<'_, Value> {
    match arguments {
        Value::Object(_) => Cow::Borrowed(arguments),
        other => Cow::Owned(json!({ "invalid_arguments": other })),
    }
}

/// A schema of an object says which properties it has, be it none.
pub(super) fn parameters(schema: &Value) -> Cow<'_, Value> {
    if schema.get("properties").is_some_and(Value::is_object) && schema.get("type").is_some() {
        return Cow::Borrowed(schema);
    }
    let mut whole = json!({ "type": "object", "properties": {} });
    if let (Some(whole), Some(given)) = (whole.as_object_mut(), schema.as_object()) {
        whole.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    Cow::Owned(whole)
}

/// The id of a call where ids must be unique in the whole history: the provider's own, if it is
/// of a form that everybody takes, long enough not to come again, and given once in this answer;
/// else ours.
pub(super) fn unique_id<'a>(calls: &'a [Call], call: &'a Call) -> &'a str {
    let theirs = |call: &'a Call| {
        let id = call.provider_call_id.as_deref()?;
        let fits = (MIN_ID_BYTES..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(is_plain);
        fits.then_some(id)
    };
    match theirs(call) {
        Some(id) if calls.iter().filter(|other| theirs(other) == Some(id)).count() == 1 => id,
        _ => call.call_id.as_str(),
    }
}

/// The id under which `id_of` sent the call of `answers` that a result is of.
pub(super) fn answered_id<'a>(
    answers: Option<&'a Item>,
    call_id: &'a CallId,
    id_of: impl Fn(&'a [Call], &'a Call) -> &'a str,
) -> &'a str {
    let calls = match answers.map(|item| &item.body) {
        Some(ItemBody::Assistant(assistant)) => assistant.calls.as_slice(),
        _ => &[],
    };
    let call = calls.iter().find(|call| call.call_id == *call_id);
    call.map_or(call_id.as_str(), |call| id_of(calls, call))
}

/// The type and the base64 bytes of a picture that models can see.
pub(super) fn picture(part: &Part) -> Option<(&str, &str)> {
    match part {
        Part::Image { mime_type, data: Some(data), .. }
            if PICTURES.contains(&mime_type.as_str()) && !data.is_empty() =>
        {
            Some((mime_type, data))
        }
        Part::Image { .. } | Part::Text { .. } | Part::File { .. } => None,
    }
}

/// What is said of a part that is no [`picture`].
pub(super) fn part_text(part: &Part) -> Cow<'_, str> {
    match part {
        Part::Text { text } => Cow::Borrowed(text),
        Part::File { path } => Cow::Owned(format!("[file: {path}]")),
        Part::Image { path, data, mime_type } => {
            let kind = if data.is_some() { mime_type } else { "without data" };
            Cow::Owned(format!("[image: {}]", path.as_deref().unwrap_or(kind)))
        }
    }
}

/// The text of parts that are no pictures, each on its own line.
pub(super) fn text_of(content: &[Part]) -> Cow<'_, str> {
    let mut texts = content.iter().filter(|part| picture(part).is_none()).map(part_text);
    let first = texts.next().unwrap_or_default();
    match texts.next() {
        None => first,
        Some(second) => {
            let all: Vec<_> = [first, second].into_iter().chain(texts).collect();
            Cow::Owned(all.join("\n"))
        }
    }
}
