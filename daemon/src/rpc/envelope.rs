//! Envelopes: what a message asks for, and how an answer is wrapped.
//!
//! jsonrpsee's own envelope knows fewer ids than the standard (no negative ones, none beyond
//! 2^64) and takes a request with another id for a notification, so that its sender would wait
//! for ever. Here an id is a piece of the client's text which is sent back as it came.
//!
//! Invariants: whatever the bytes are, parsing ends in exactly one [`Incoming`]; an [`Id`] is
//! null, a string or an integer.
//!
//! Receives messages from `connection`; hands entries to `dispatch` and answers to `outbound`.

use std::fmt;

use agentd_protocol::error::{ErrorData, RpcError};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The largest batch, in entries: as many as a connection may have calls running.
pub const MAX_BATCH: usize = 256;

/// A message.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// One entry.
    Single(Entry<'a>),
    /// A batch of 1 to [`MAX_BATCH`] entries.
    Batch(Vec<Entry<'a>>),
    /// No message at all; answered with the id null.
    Broken(RpcError),
}

/// One entry of a message.
#[derive(Debug)]
pub enum Entry<'a> {
    /// A request, or a notification if it has no id.
    Request(Request<'a>),
    /// An answer to something that was never asked; nothing is done about it.
    Response,
    /// No request.
    Invalid {
        /// Its id, where it has a proper one.
        id: Id,
        /// What is wrong with it.
        error: RpcError,
    },
}

/// A request.
#[derive(Debug)]
pub struct Request<'a> {
    /// Its id; a notification has none.
    pub id: Option<Id>,
    /// The method's name.
    pub method: String,
    /// The parameters, as they came.
    pub params: Option<&'a RawValue>,
}

/// A request's id: the client's own text for null, a string or an integer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Id(Box<str>);

impl Id {
    /// The id of an answer to something that had none.
    pub fn null() -> Self {
        Self("null".into())
    }

    fn of(value: &RawValue) -> Option<Self> {
        let text = value.get();
        let is_integer = text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
        (text == "null" || text.starts_with('"') || is_integer).then(|| Self(text.into()))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads a message.
pub fn parse(message: &[u8]) -> Incoming<'_> {
    let text = match std::str::from_utf8(message) {
        Ok(text) => text,
        Err(error) => {
            return Incoming::Broken(parse_error(format!(
                "the message is not UTF-8: byte {} is not part of a character",
                error.valid_up_to()
            )));
        }
    };
    if text.trim_start().starts_with('[') { parse_batch(text) } else { parse_single(text) }
}

fn parse_single(text: &str) -> Incoming<'_> {
    match serde_json::from_str::<Envelope<'_>>(text) {
        Ok(envelope) => Incoming::Single(envelope.into_entry()),
        // A wrong shape is found before a syntax error that comes after it.
        Err(error) => match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => Incoming::Single(not_a_request(&error)),
            Err(error) => Incoming::Broken(parse_error(format!("the message is no JSON: {error}"))),
        },
    }
}

fn parse_batch(text: &str) -> Incoming<'_> {
    let entries: Vec<&RawValue> = match serde_json::from_str(text) {
        Ok(entries) => entries,
        Err(error) => {
            return Incoming::Broken(parse_error(format!("the message is no JSON: {error}")));
        }
    };
    if entries.is_empty() {
        return Incoming::Broken(invalid_request("the batch is empty: send at least one request"));
    }
    if entries.len() > MAX_BATCH {
        return Incoming::Broken(invalid_request(format!(
            "the batch has {} entries and none was run: send at most {MAX_BATCH} at once",
            entries.len()
        )));
    }
    Incoming::Batch(entries.into_iter().map(|entry| parse_entry(entry.get())).collect())
}

fn parse_entry(text: &str) -> Entry<'_> {
    match serde_json::from_str::<Envelope<'_>>(text) {
        Ok(envelope) => envelope.into_entry(),
        Err(error) => not_a_request(&error),
    }
}

/// An answer that carries `payload`, which is `"result":…}` or `"error":…}`.
pub fn answer(id: &Id, payload: &str) -> Bytes {
    [r#"{"jsonrpc":"2.0","id":"#, &id.0, ",", payload].concat().into()
}

/// The answer to a request that failed.
pub fn error_answer(id: &Id, error: &RpcError) -> Bytes {
    let error = serde_json::to_string(error).expect("an error has string keys and plain values");
    answer(id, &format!(r#""error":{error}}}"#))
}

/// The id of a request of which only the head was kept; null where it cannot be seen.
pub fn peek_id(head: &[u8]) -> Id {
    let mut seen = None;
    // The head is cut, so this ends in an error; what matters was seen on the way.
    let _ = serde_json::Deserializer::from_slice(head).deserialize_map(IdIn(&mut seen));
    seen.unwrap_or_else(Id::null)
}

/// Looks for an id. An integer must be followed by something: at the very end it may be cut.
struct IdIn<'a>(&'a mut Option<Id>);

impl<'de> Visitor<'de> for IdIn<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key != "id" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let id = Id::of(map.next_value()?);
            let may_go_on =
                id.as_ref().is_some_and(|id| id.0.ends_with(|end: char| end.is_ascii_digit()));
            if may_go_on {
                // Fails where nothing follows.
                let next = map.next_key::<IgnoredAny>()?;
                *self.0 = id;
                if next.is_none() {
                    return Ok(());
                }
                map.next_value::<IgnoredAny>()?;
            } else {
                *self.0 = id;
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default, borrow, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// A member that is there, also when it is null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

impl<'a> Envelope<'a> {
    fn into_entry(self) -> Entry<'a> {
        let id = match self.id.map(Id::of) {
            None => None,
            Some(Some(id)) => Some(id),
            Some(None) => {
                return Entry::Invalid {
                    id: Id::null(),
                    error: invalid_request("the id must be a string, an integer or null"),
                };
            }
        };
        if self.method.is_none() && (self.result.is_some() || self.error.is_some()) {
            return Entry::Response;
        }
        let invalid = |message: &str| Entry::Invalid {
            id: id.clone().unwrap_or_else(Id::null),
            error: invalid_request(message),
        };
        if self.jsonrpc.is_none_or(|version| version.get() != r#""2.0""#) {
            return invalid(r#"the message must have "jsonrpc":"2.0""#);
        }
        let method = self.method.and_then(|method| serde_json::from_str(method.get()).ok());
        match method {
            Some(method) => Entry::Request(Request { id, method, params: self.params }),
            None => invalid("the message must have a method, which is a string"),
        }
    }
}

fn not_a_request(error: &serde_json::Error) -> Entry<'static> {
    let message = match error.to_string() {
        text if text.starts_with("duplicate field") => format!("the request has a {text}"),
        _ => "a request must be an object with jsonrpc, method, and as needed id and params"
            .to_owned(),
    };
    Entry::Invalid { id: Id::null(), error: invalid_request(message) }
}

fn parse_error(message: String) -> RpcError {
    RpcError::new(ErrorData::ParseError, message)
}

fn invalid_request(message: impl Into<String>) -> RpcError {
    RpcError::new(ErrorData::InvalidRequest, message)
}

#[cfg(test)]
mod tests;
