//! Requests: the view of the conversation goes out, the model's stream comes in.
//!
//! Receives the machine's wish for an answer; hands the provider a request and the machine news.

use std::sync::Arc;

use agentd_protocol::event::{RetryCause, TurnError, TurnErrorCode};
use agentd_protocol::progress::DeltaKind;
use agentd_protocol::session::{ItemsParams, Usage};
use agentd_protocol::time::Time;

use crate::conversation::Window;
use crate::provider::retry::{RetryPolicy, Verdict};
use crate::provider::{
    Carriage, LEARNED, ModelError, ModelEvent, ModelStream, Provider, ToolDefinition,
};
use crate::session::actor::Actor;
use crate::session::plan::Plan;
use crate::store;
use crate::tools::Tools;
use crate::turn::{self, Moment, Retry, StreamInput};

/// What is asked of the model.
pub(super) enum Wish {
    /// An answer; with `fit`, of a view that is not too large.
    Answer { fit: bool },
    /// A summary, whose request was too long so often.
    Summary { narrowed: u32 },
}

/// Items read at once when the view is made anew.
const PAGE: u32 = 500;

impl Actor {
    /// Sends a request, if there is one to be sent.
    pub(super) async fn request(&mut self, attempt: u32, wish: Wish) {
        self.work.attempt = attempt;
        if attempt == 1 {
            self.work.carriage = Carriage::default();
        }
        let Some(turn) = &self.state.turn else { return };
        let selected = self.services.providers().get(turn.machine.model());
        let stream = match selected {
            Ok(selected) => match self.ready(selected).await {
                Ok(ready) => match wish {
                    Wish::Answer { fit } => self.answer(ready, fit),
                    Wish::Summary { narrowed } => self.summary(ready, narrowed),
                },
                Err(error) => Some(failed(fault(TurnErrorCode::Store, &error))),
            },
            Err(error) => Some(failed(fault(TurnErrorCode::ProviderRefused, &error))),
        };
        self.work.model = stream;
    }

    /// The tools are encoded once a turn, so that a turn's requests have the same prefix.
    pub(super) fn encoded_tools(
        &mut self,
        key: String,
        provider: &dyn Provider,
        model: &str,
    ) -> bytes::Bytes {
        match &self.work.tools {
            Some((kept, tools)) if *kept == key => tools.clone(),
            _ => {
                let tools = provider.encode_tools(model, &definitions(&self.services.tools));
                self.work.tools = Some((key, tools.clone()));
                tools
            }
        }
    }

    pub(super) async fn read_window(&mut self) -> Result<Window, store::Error> {
        let mut window = Window::new();
        let mut after = None;
        loop {
            let page = ItemsParams {
                session_id: self.session_id.clone(),
                after,
                before: None,
                limit: Some(PAGE),
            };
            let page = self.services.store.items(page).await?;
            for item in page.items {
                window.push(Arc::new(item));
            }
            after = page.next;
            if after.is_none() {
                return Ok(window);
            }
        }
    }

    /// What the model's stream says, in the machine's words.
    pub(in crate::session) fn model_news(
        &mut self,
        news: Option<Result<ModelEvent, ModelError>>,
        plan: &mut Plan,
        moment: &mut Moment,
    ) {
        let ended =
            !matches!(news, Some(Ok(ref event)) if !matches!(event, ModelEvent::End { .. }));
        if ended {
            self.work.model = None;
        }
        let input = match news {
            None => self.broken_stream(silent_end()),
            Some(Err(error)) => self.broken_stream(error),
            Some(Ok(ModelEvent::Text(text))) => StreamInput::Delta { kind: DeltaKind::Text, text },
            Some(Ok(ModelEvent::Reasoning(text))) => {
                StreamInput::Delta { kind: DeltaKind::Reasoning, text }
            }
            Some(Ok(ModelEvent::Signature(signature))) => StreamInput::Signature(signature),
            Some(Ok(ModelEvent::Call(call))) => StreamInput::Call {
                provider_call_id: call.provider_call_id,
                name: call.name,
                arguments: call.arguments,
            },
            Some(Ok(ModelEvent::Usage(usage))) => StreamInput::Usage(self.priced(usage)),
            // What holds for each request of a turn is told once.
            Some(Ok(ModelEvent::Warning { code, message }))
                if self.work.warned.insert(code) || code == LEARNED =>
            {
                StreamInput::Warning { code: code.to_owned(), message }
            }
            Some(Ok(ModelEvent::Warning { .. })) => return,
            Some(Ok(ModelEvent::End { finish_reason, continues })) => {
                StreamInput::End { finish_reason, continues }
            }
        };
        self.tell_turn(turn::Input::Stream(input), plan, moment);
    }

    fn priced(&self, usage: Usage) -> Usage {
        let Some(turn) = &self.state.turn else { return usage };
        match self.services.providers().get(turn.machine.model()) {
            Ok(selected) => selected.facts.priced(usage),
            Err(_) => usage,
        }
    }

    fn broken_stream(&mut self, error: ModelError) -> StreamInput {
        let attempts = self.work.attempt;
        let named = error.context_window;
        let error = self.with_both_windows(error);
        if error.broken {
            self.work.carriage = self.work.carriage.next();
        }
        let (retry, retry_at) = match self.retry_policy().map(|policy| {
            (policy.decide(&error, attempts, fastrand::f64()), policy.max_retries + 1)
        }) {
            Some((Verdict::Retry(delay), max_attempts)) => {
                let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                let max_attempts = max_attempts.max(attempts + 1);
                (Some(Retry { delay_ms, max_attempts, cause: cause(&error) }), None)
            }
            Some((Verdict::Stop { retry_after }, _)) => (None, retry_after),
            None => (None, None),
        };
        let retry_at = retry_at.map(|wait| {
            let wait = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
            let now = self.services.clock.now().unix_millis();
            Time::from_unix_millis(now.saturating_add(wait))
        });
        let error = TurnError {
            code: error.code,
            message: error.message,
            retryable: error.retryable,
            status: error.status,
            provider_code: error.provider_code,
            attempts,
            retry_at,
        };
        match retry {
            Some(retry) => StreamInput::Broken { error, retry: Some(retry) },
            None => self.overflow(error, named),
        }
    }

    /// An overflow says both windows, where the configuration's is not the server's.
    fn with_both_windows(&self, error: ModelError) -> ModelError {
        let served = error.context_window;
        let model = self.state.turn.as_ref().map(|turn| turn.machine.model());
        let selected = model.and_then(|model| self.services.providers().get(model).ok());
        match (served, selected.and_then(|selected| selected.believed_window)) {
            (Some(served), Some(believed)) => {
                let message = format!(
                    "{}; the model's window is {served} tokens there and {believed} in the \
                     configuration (`context_window`)",
                    error.message
                );
                ModelError { message, ..error }
            }
            _ => error,
        }
    }

    fn retry_policy(&self) -> Option<RetryPolicy> {
        let turn = self.state.turn.as_ref()?;
        self.services.providers().get(turn.machine.model()).ok().map(|selected| selected.retry)
    }
}

/// A stream that is nothing but an error.
fn failed(error: ModelError) -> ModelStream {
    Box::pin(futures_util::stream::iter([Err(error)]))
}

fn cause(error: &ModelError) -> RetryCause {
    RetryCause { code: error.code, message: error.message.clone(), status: error.status }
}

fn definitions(tools: &Tools) -> Vec<ToolDefinition> {
    tools
        .specs()
        .map(|spec| ToolDefinition {
            name: spec.name.clone(),
            description: spec.description.clone(),
            input_schema: spec.input_schema.clone(),
        })
        .collect()
}

/// A stream ended without a word: providers end with an end or an error.
fn silent_end() -> ModelError {
    let message = "the provider's stream ended without its end";
    ModelError::retryable(TurnErrorCode::BadResponse, message)
}

/// No request could be sent.
fn fault(code: TurnErrorCode, error: &dyn std::error::Error) -> ModelError {
    ModelError::new(code, error.to_string())
}
