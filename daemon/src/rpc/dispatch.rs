//! Dispatch: one entry of a message becomes a call of a method, and its outcome an answer.
//!
//! Methods are jsonrpsee's, called directly: its server dispatches neither notifications nor
//! batches in a way that keeps order. A call is polled once when it arrives, before anything after
//! it is looked at; what a handler does before its first wait is therefore done in the order of
//! arrival. Only the waiting is left to a task of its own.
//!
//! Invariants: a request has exactly one answer, a notification none; a handler that panics
//! answers `internal`; an observer reaches no controller's method.
//!
//! Receives entries from `connection`; hands calls to `handlers` and answers back.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use agentd_protocol::daemon::Role;
use agentd_protocol::error::{ErrorData, RpcError};
use agentd_protocol::method::{self, Access, Method};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jsonrpsee::core::server::{MethodCallback, MethodResponse, MethodResponseNotifyTx, Methods};
use jsonrpsee::types::{Id as JsonrpseeId, Params};
use jsonrpsee::{ConnectionId, Extensions};

use crate::rpc::context::Context;
use crate::rpc::envelope::{Entry, Id, Request, answer, error_answer};
use crate::rpc::outbound::Lane;
use crate::rpc::params::unknown_method;

/// An answer, whole but for its framing.
#[derive(Debug)]
pub struct Answer {
    /// The request's id.
    pub id: Id,
    /// The JSON text.
    pub json: Bytes,
    /// Its place among what leaves the connection.
    pub lane: Lane,
    /// To be told when the answer was queued.
    pub queued: Queued,
}

/// Who waits for an answer to be queued.
#[derive(Debug, Default)]
pub struct Queued(Vec<MethodResponseNotifyTx>);

impl Queued {
    /// The answer is in the queue.
    pub fn tell(self) {
        for waiting in self.0 {
            waiting.notify(true);
        }
    }

    /// Both.
    pub fn and(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// The methods, and how large an answer may be. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// The methods.
    pub methods: Methods,
    /// Bytes of one message, either way.
    pub max_message_bytes: usize,
}

/// A call that was handed over.
pub enum Begun {
    /// It is over; a notification has no answer.
    Done(Option<Answer>),
    /// It waits for something.
    Pending(BoxFuture<'static, Option<Answer>>),
}

/// What every answer to a method starts with, since it is called with the id null.
const NULL_ID: &str = r#"{"jsonrpc":"2.0","id":null,"#;

/// Answers whose place matters: after the last notification of a former subscription, before
/// the first of the new one.
fn lane_of(method: &str) -> Lane {
    match method {
        method::SessionSubscribe::NAME
        | method::SessionUnsubscribe::NAME
        | method::DaemonSubscribe::NAME
        | method::DaemonUnsubscribe::NAME => Lane::InOrder,
        _ => Lane::First,
    }
}

/// Whether a method's answers are pages, which may be as large as a message.
pub fn is_page(method: &str) -> bool {
    matches!(
        method,
        method::SessionList::NAME
            | method::SessionItems::NAME
            | method::SessionEvents::NAME
            | method::SessionExport::NAME
    )
}

impl Dispatch {
    /// Hands an entry over. Does not block and does not wait.
    pub fn begin(&self, context: &Arc<Context>, entry: Entry<'_>) -> Begun {
        match entry {
            Entry::Request(request) => self.call(context, request),
            Entry::Invalid { id, error } => Begun::Done(Some(failed(id, &error))),
            Entry::Response => Begun::Done(None),
        }
    }

    fn call(&self, context: &Arc<Context>, request: Request<'_>) -> Begun {
        let Request { id, method, params } = request;
        let refuse = |error: &RpcError| Begun::Done(id.clone().map(|id| failed(id, error)));
        let Some((name, callback)) = self.methods.method_with_name(&method) else {
            return refuse(&unknown_method(&method));
        };
        if let Some(error) = forbidden(name, context.role()) {
            return refuse(&error);
        }
        let params = Params::new(params.map(serde_json::value::RawValue::get));
        let mut extensions = Extensions::new();
        extensions.insert(context.clone());
        let max_message_bytes = self.max_message_bytes;
        let finish = move |response: Option<MethodResponse>| {
            let id = id?;
            let Some(response) = response else {
                tracing::error!(method = name, "a handler panicked");
                return Some(failed(id, &internal(name)));
            };
            Some(answered(id, response, max_message_bytes, lane_of(name)))
        };
        match callback {
            MethodCallback::Sync(callback) => {
                let run = || callback(JsonrpseeId::Null, params, usize::MAX, extensions);
                Begun::Done(finish(std::panic::catch_unwind(AssertUnwindSafe(run)).ok()))
            }
            MethodCallback::Async(callback) => {
                let (connection, params) = (ConnectionId::default(), params.into_owned());
                let run = callback(JsonrpseeId::Null, params, connection, usize::MAX, extensions);
                let run = AssertUnwindSafe(run).catch_unwind().map(Result::ok);
                poll_once(run.map(finish).boxed())
            }
            // None is registered: subscribing and unsubscribing are ordinary methods here.
            MethodCallback::Subscription(_) | MethodCallback::Unsubscription(_) => {
                Begun::Done(finish(None))
            }
        }
    }
}

fn poll_once(mut call: BoxFuture<'static, Option<Answer>>) -> Begun {
    match (&mut call).now_or_never() {
        Some(answer) => Begun::Done(answer),
        None => Begun::Pending(call),
    }
}

fn forbidden(name: &str, role: Role) -> Option<RpcError> {
    let is_controllers = method::find(name).is_some_and(|row| row.access == Access::Controller);
    (is_controllers && role == Role::Observer).then(|| {
        RpcError::new(
            ErrorData::Forbidden { role: Some(role) },
            format!(
                "an observer cannot call `{name}`: connect again and call `initialize` with the \
                 role `controller`"
            ),
        )
    })
}

fn answered(id: Id, response: MethodResponse, max_message_bytes: usize, lane: Lane) -> Answer {
    let success = response.is_success();
    let (json, waiting, _) = response.into_parts();
    let payload = json.get().strip_prefix(NULL_ID).expect("jsonrpsee writes version and id first");
    let json = answer(&id, payload);
    if json.len() > max_message_bytes {
        return failed(id, &too_large(json.len(), max_message_bytes));
    }
    let waiting = waiting.filter(|_| success).into_iter().collect();
    Answer { id, json, lane, queued: Queued(waiting) }
}

/// The error instead of an answer that is larger than a message may be.
pub fn too_large(bytes: usize, max_message_bytes: usize) -> RpcError {
    RpcError::new(
        ErrorData::InvalidParams { field: None },
        format!(
            "the answer would have {bytes} bytes and a message may have {max_message_bytes}: ask \
             for less at once"
        ),
    )
}

/// The answer to a request that failed.
pub fn failed(id: Id, error: &RpcError) -> Answer {
    let json = error_answer(&id, error);
    Answer { id, json, lane: Lane::First, queued: Queued::default() }
}

fn internal(method: &str) -> RpcError {
    RpcError::new(
        ErrorData::Internal,
        format!("`{method}` failed by a fault of the daemon: its log says more"),
    )
}
