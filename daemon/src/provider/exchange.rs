//! One request and its answer, the same for every wire format over HTTP: bytes come in, a decoder
//! makes events of them, and whatever goes wrong ends the stream with one error.
//!
//! A wire format brings its [`Format`]: an address, a body, an assembler. What happens between them
//! (the key read late, secrets masked, usage told before a failure, a complete answer's tail not
//! waited for) is the same for all and stands here once.
//!
//! Invariant: a stream ends with [`ModelEvent::End`] or one error, and nothing follows.
//!
//! Receives requests from the wire formats; hands back streams of model events.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::event::TurnErrorCode;
use futures_util::{StreamExt, stream as streams};

use super::decoder::{Assemble, Decoder};
use super::http::{Answer, Endpoint, Rope, Secrets, Way};
use super::sse::MAX_EVENT_BYTES;
use super::truncation::Expected;
use super::{ModelError, ModelEvent, ModelStream, Request};

/// How long usage and a last word may take once the answer is complete.
pub(super) const TAIL_GRACE: Duration = Duration::from_secs(2);

/// What makes a wire format.
pub(super) trait Format: Send + Sync + 'static {
    /// Reads its answers.
    type Assembler: Assemble + Send + 'static;

    /// In which of its forms requests are sent at the moment.
    type Form: Copy + Send + Sync + 'static;

    /// Where requests go.
    fn endpoint(&self) -> &Endpoint;

    /// The form of requests to `model`, as far as is known by now.
    fn form(&self, model: &str) -> Self::Form;

    /// The body of a request. `Err` says what cannot be sent.
    fn body(&self, request: &Request, form: Self::Form) -> Result<Rope, String>;

    /// Puts one answer together.
    fn assembler(&self) -> Self::Assembler;

    /// Takes a failure into account before it is handed on, of a request to `model` that was `sent`
    /// in this form. What was learned of it is told beside it.
    fn learn(
        &self,
        model: &str,
        sent: Self::Form,
        error: ModelError,
    ) -> (Option<ModelEvent>, ModelError);
}

/// Sends a request. Nothing is done before the stream is polled.
pub(super) fn stream<F: Format>(format: Arc<F>, request: Request) -> ModelStream {
    // Its messages were encoded just now, in this form.
    let sent = Sent { model: request.model.clone(), form: format.form(&request.model) };
    let start = (State::Start(Box::new(request)), Arc::new(sent));
    streams::unfold(start, move |(state, sent)| {
        let format = Arc::clone(&format);
        async move {
            let (event, state) = step(&*format, &sent, state).await?;
            Some((event, (state, sent)))
        }
    })
    .boxed()
}

/// What a failure is judged by.
struct Sent<F> {
    model: String,
    form: F,
}

/// Where a request's stream is.
enum State<A> {
    Start(Box<Request>),
    Reading(Box<Reading<A>>),
    /// A lesson was told, the failure is not.
    Failed(Box<ModelError>),
    Over,
}

/// An answer that is being read.
struct Reading<A> {
    /// Absent once all that is needed of it was read.
    answer: Option<Answer>,
    /// When a complete answer's end is not waited for any longer, in boot time.
    tail_until_ms: Option<u64>,
    decoder: Decoder<A>,
    expected: Expected,
    /// An event that follows a warning.
    kept: Option<ModelEvent>,
    secrets: Secrets,
    failed: Option<ModelError>,
}

type Next<A> = Option<(Result<ModelEvent, ModelError>, State<A>)>;

/// Goes on until there is an event to hand out.
async fn step<F: Format>(
    format: &F,
    sent: &Sent<F::Form>,
    state: State<F::Assembler>,
) -> Next<F::Assembler> {
    let failed = |error| match format.learn(&sent.model, sent.form, error) {
        (Some(lesson), error) => Some((Ok(lesson), State::Failed(Box::new(error)))),
        (None, error) => Some((Err(error), State::Over)),
    };
    let mut reading = match state {
        State::Over => return None,
        State::Failed(error) => return Some((Err(*error), State::Over)),
        State::Reading(reading) => reading,
        State::Start(request) => match start(format, &request, sent.form).await {
            Ok(reading) => Box::new(reading),
            Err(error) => return failed(error),
        },
    };
    loop {
        if let Some(event) = reading.next_event(format.endpoint()) {
            return Some((Ok(event), State::Reading(reading)));
        }
        if let Some(error) = reading.failed.take() {
            return failed(reading.secrets.mask(error));
        }
        reading.answer.as_ref()?;
        if let Err(error) = reading.read(format.endpoint()).await {
            reading.answer = None;
            reading.decoder.flush_usage();
            reading.failed = Some(error);
        }
    }
}

async fn start<F: Format>(
    format: &F,
    request: &Request,
    form: F::Form,
) -> Result<Reading<F::Assembler>, ModelError> {
    let endpoint = format.endpoint();
    let body = format.body(request, form).map_err(|what| {
        let message = format!("{}: {what}", endpoint.who());
        ModelError::new(TurnErrorCode::ProviderRefused, message)
    })?;
    let expected = Expected::of(body.pieces());
    let record = request.options.record.as_deref().map(Path::new);
    let way = Way { carriage: request.carriage, record };
    let opened = endpoint.open().await?;
    let secrets = opened.secrets.clone();
    let answer = opened.post(body, way).await.map_err(|error| secrets.mask(error))?;
    let mut reading = Reading {
        answer: None,
        tail_until_ms: None,
        decoder: Decoder::new(endpoint.who(), format.assembler()),
        expected,
        kept: None,
        secrets,
        failed: None,
    };
    if answer.content_type() == "application/json" {
        reading.whole(answer, endpoint).await.map_err(|e| reading.secrets.mask(e))?;
    } else {
        reading.answer = Some(answer);
    }
    Ok(reading)
}

impl<A: Assemble> Reading<A> {
    /// The next event that is ready.
    fn next_event(&mut self, endpoint: &Endpoint) -> Option<ModelEvent> {
        if let Some(kept) = self.kept.take() {
            return Some(kept);
        }
        let event = self.decoder.pop()?;
        match self.expected.look(endpoint.who(), &event) {
            Some(warning) => {
                self.kept = Some(event);
                Some(warning)
            }
            None => Some(event),
        }
    }

    /// Reads the next piece of the answer.
    async fn read(&mut self, endpoint: &Endpoint) -> Result<(), ModelError> {
        let Some(answer) = &mut self.answer else { return Ok(()) };
        let piece = if self.decoder.is_finished() {
            let now = endpoint.clock().boot_ms();
            let tail = u64::try_from(TAIL_GRACE.as_millis()).unwrap_or(u64::MAX);
            let until = *self.tail_until_ms.get_or_insert(now.saturating_add(tail));
            answer.next_within(endpoint, Duration::from_millis(until.saturating_sub(now))).await
        } else {
            answer.next(endpoint).await?
        };
        let Some(piece) = piece else {
            self.answer = None;
            return self.decoder.close();
        };
        self.decoder.feed(&piece)?;
        if self.decoder.is_done()
            && let Some(answer) = self.answer.take()
        {
            answer.close(endpoint).await;
        }
        Ok(())
    }

    /// A server that answers without streaming.
    async fn whole(&mut self, answer: Answer, endpoint: &Endpoint) -> Result<(), ModelError> {
        let body = answer.whole(endpoint, MAX_EVENT_BYTES).await?;
        self.decoder.whole(&body)
    }
}
