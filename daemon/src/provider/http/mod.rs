//! The way to a model server: one POST, and its answer read piece by piece.
//!
//! Common to the wire formats that speak HTTP. The client's own retries and redirects are off: the
//! first would hide costs, the second would carry a key elsewhere. There is no limit on a request's
//! whole time, since models may think long; a connection has one, and so has silence.
//!
//! Invariants: a key is read when a request needs it, marked sensitive, and no error holds it
//! ([`Secrets`]); dropping an [`Answer`] drops its connection.
//!
//! Receives bodies from the wire formats; hands back pieces of answers, or classified errors.

use std::time::Duration;

use agentd_protocol::event::TurnErrorCode;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode, Url};
use serde::Deserialize;

use super::failure::{Complaint, classify, excerpt};
use super::retry::retry_after;
use super::{Carriage, ModelError};
use crate::clock::Clock;
use crate::config::{KeySource, ProviderConfig};

mod body;
mod connect;

pub(super) use body::Rope;
use connect::Transport;
pub(super) use connect::Transports;

/// What is read of an error's body.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// What is read of a list of models: some aggregators have hundreds with long descriptions.
const MAX_LIST_BYTES: usize = 8 * 1024 * 1024;

/// How many times the longest silence of a stream an answer as a whole may take to begin.
const WHOLE_PATIENCE: u32 = 5;

/// How long an answer that is complete may take to close, so that its connection can be used again.
const CLOSE_GRACE: Duration = Duration::from_millis(50);
/// Reads that a complete answer may still need up to its end: a last line end, and the end.
const CLOSE_READS: u32 = 3;

/// A model server's address, and how to speak to it.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// The provider in messages: `provider local`.
    who: String,
    /// The configured address.
    base: Url,
    url: Url,
    key: Option<KeySource>,
    headers: HeaderMap,
    idle_timeout: Duration,
    transport: Transport,
    clock: Clock,
}

impl Endpoint {
    /// The endpoint at `path` below the configured address. `Err` says what is wrong with it.
    pub(super) fn new(
        name: &str,
        config: &ProviderConfig,
        path: &str,
        transports: &mut Transports,
        clock: Clock,
    ) -> Result<Self, String> {
        let base = config.base_url.as_deref().ok_or("`base_url` is missing")?;
        let base = Url::parse(base).map_err(|error| format!("`base_url`: {error}"))?;
        if base.cannot_be_a_base() {
            return Err("`base_url` is no address of a server".to_owned());
        }
        let url = below(&base, path);
        let mut headers = HeaderMap::new();
        for (name, value) in &config.headers {
            let bad = || format!("`headers`: {name} is no header that can be sent");
            let key = HeaderName::try_from(name).map_err(|_| bad())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        let transport = transports.of(config, &url);
        Ok(Self {
            who: format!("provider {name}"),
            base,
            url,
            key: config.api_key.clone(),
            headers,
            idle_timeout: config.idle_timeout,
            transport,
            clock,
        })
    }

    /// The provider in messages.
    pub(super) fn who(&self) -> &str {
        &self.who
    }

    /// What its waits are measured by.
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The server's name without its port.
    pub(super) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Reads the key. From here on, errors are to be masked with [`Opened::secrets`].
    pub(super) async fn open(&self) -> Result<Opened<'_>, ModelError> {
        let mut secrets = Secrets::default();
        let mut headers = self.headers.clone();
        for value in self.headers.values() {
            secrets.add(value.to_str().unwrap_or_default());
        }
        if let Some(source) = &self.key {
            let key = source.read().await.map_err(|error| self.refused(&error))?;
            secrets.add(key.expose());
            let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose()))
                .map_err(|_| self.refused("its key holds characters that no header can have"))?;
            value.set_sensitive(true);
            headers.entry(AUTHORIZATION).or_insert(value);
        }
        Ok(Opened { endpoint: self, headers, secrets })
    }

    /// The names of the list at `path` below the configured address, which servers of every format
    /// write alike: `{ data: [{ id }] }`.
    pub(super) async fn models(&self, path: &str) -> Result<Vec<String>, ModelError> {
        let opened = self.open().await?;
        let secrets = opened.secrets.clone();
        let listed = opened.listed(below(&self.base, path)).await;
        listed.map_err(|error| secrets.mask(error))
    }

    fn refused(&self, what: impl std::fmt::Display) -> ModelError {
        ModelError::new(TurnErrorCode::ProviderRefused, format!("{}: {what}", self.who))
    }

    fn broken(&self, what: impl std::fmt::Display) -> ModelError {
        let message = format!("{} at {}: {what}", self.who, self.address());
        ModelError::retryable(TurnErrorCode::ProviderUnreachable, message)
    }

    fn silent(&self, patience: Duration) -> ModelError {
        let seconds = patience.as_secs_f64();
        let silence = self.broken(format_args!("no byte came for {seconds} s (`idle_timeout`)"));
        ModelError { broken: true, ..silence }
    }

    /// The address without a path, a query or a password.
    fn address(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// A failure of the connection, in the words of its first cause.
    fn unreachable(&self, error: &reqwest::Error) -> ModelError {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        if error.is_connect() || error.is_timeout() {
            self.broken(format_args!("cannot be reached ({cause}); is it running?"))
        } else {
            let error = self.broken(format_args!("the connection broke ({cause})"));
            ModelError { broken: true, ..error }
        }
    }
}

/// An endpoint with its key read, for one request.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    endpoint: &'a Endpoint,
    headers: HeaderMap,
    /// What errors of this request must not say.
    pub(super) secrets: Secrets,
}

impl Opened<'_> {
    /// Sends `body`. The answer's status is a good one, and its encoding one that can be read.
    pub(super) async fn post(self, body: Rope, carriage: Carriage) -> Result<Answer, ModelError> {
        let Self { endpoint, headers, .. } = self;
        let client = endpoint.transport.client(carriage).await;
        let client = client.map_err(|error| endpoint.refused(error))?;
        let request = client
            .post(endpoint.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .headers(headers)
            .body(reqwest::Body::wrap(body));
        // A server that does not stream is silent until all is said.
        let patience = if carriage == Carriage::Whole { WHOLE_PATIENCE } else { 1 };
        let patience = endpoint.idle_timeout.saturating_mul(patience);
        endpoint.answered(request, patience).await
    }

    /// Reads a list of models.
    async fn listed(self, url: Url) -> Result<Vec<String>, ModelError> {
        let Self { endpoint, headers, .. } = self;
        let client = endpoint.transport.client(Carriage::Usual).await;
        let client = client.map_err(|error| endpoint.refused(error))?;
        let request = client.get(url).header(ACCEPT, "application/json").headers(headers);
        let answer = endpoint.answered(request, endpoint.idle_timeout).await?;
        let body = answer.whole(endpoint, MAX_LIST_BYTES).await?;
        let list: Listed = serde_json::from_slice(&body).map_err(|error| {
            let message = format!("{}: its list of models cannot be read ({error})", endpoint.who);
            ModelError::new(TurnErrorCode::BadResponse, message)
        })?;
        Ok(list.data.into_iter().map(|model| model.id).collect())
    }
}

impl Endpoint {
    /// Sends a request, waits so long for its answer, and checks how that begins.
    async fn answered(
        &self,
        request: reqwest::RequestBuilder,
        patience: Duration,
    ) -> Result<Answer, ModelError> {
        let endpoint = self;
        let response = tokio::select! {
            response = request.send() => response.map_err(|error| endpoint.unreachable(&error))?,
            () = endpoint.clock.sleep(patience) => return Err(endpoint.silent(patience)),
        };
        let answer =
            Answer { response, idle_timeout: endpoint.idle_timeout, clock: endpoint.clock.clone() };
        answer.checked(endpoint).await
    }
}

/// A list of models.
#[derive(Deserialize)]
struct Listed {
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
}

/// An address below another.
fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path.split('/'));
    }
    url
}

/// The answer to a request.
#[derive(Debug)]
pub(super) struct Answer {
    response: Response,
    idle_timeout: Duration,
    clock: Clock,
}

impl Answer {
    /// Its content type without parameters, in small letters; empty where it has none.
    pub(super) fn content_type(&self) -> String {
        let value = self.response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let kind = value.unwrap_or_default().split(';').next().unwrap_or_default();
        kind.trim().to_ascii_lowercase()
    }

    /// The next bytes; `None` at the proper end.
    pub(super) async fn next(&mut self, endpoint: &Endpoint) -> Result<Option<Bytes>, ModelError> {
        let Self { response, idle_timeout, clock } = self;
        tokio::select! {
            piece = response.chunk() => piece.map_err(|error| endpoint.unreachable(&error)),
            () = clock.sleep(*idle_timeout) => Err(endpoint.silent(*idle_timeout)),
        }
    }

    /// The next bytes, if they come within `grace`. For what is not needed any more.
    pub(super) async fn next_within(&mut self, grace: Duration) -> Option<Bytes> {
        let Self { response, clock, .. } = self;
        tokio::select! {
            piece = response.chunk() => piece.ok().flatten(),
            () = clock.sleep(grace) => None,
        }
    }

    /// Gives a complete answer the chance to close, without waiting for a server that does not.
    pub(super) async fn close(mut self) {
        for _ in 0..CLOSE_READS {
            if self.next_within(CLOSE_GRACE).await.is_none() {
                return;
            }
        }
    }

    /// The whole body, up to `limit` bytes.
    pub(super) async fn whole(
        mut self,
        endpoint: &Endpoint,
        limit: usize,
    ) -> Result<Bytes, ModelError> {
        let mut whole = BytesMut::new();
        while let Some(piece) = self.next(endpoint).await? {
            if whole.len() + piece.len() > limit {
                let message = format!("{}: its answer is longer than {limit} bytes", endpoint.who);
                return Err(ModelError::new(TurnErrorCode::BadResponse, message));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    async fn checked(self, endpoint: &Endpoint) -> Result<Self, ModelError> {
        let status = self.response.status();
        if status != StatusCode::OK {
            return Err(self.refusal(endpoint, status).await);
        }
        let encoding = self.response.headers().get(CONTENT_ENCODING);
        if let Some(encoding) = encoding.filter(|encoding| *encoding != "identity") {
            let encoding = encoding.to_str().unwrap_or("unknown");
            let message = format!(
                "{}: its answer is compressed ({encoding}), which was not asked for; switch that \
                 off in the server or the proxy before it",
                endpoint.who
            );
            return Err(ModelError::new(TurnErrorCode::BadResponse, message));
        }
        if self.content_type() == "text/html" {
            let page = self.start().await;
            let message = format!(
                "{}: it answered with status 200 and a page (text/html) instead of a stream; check \
                 `base_url`; the page starts: {}",
                endpoint.who,
                excerpt(&String::from_utf8_lossy(&page))
            );
            return Err(ModelError::new(TurnErrorCode::BadResponse, message));
        }
        Ok(self)
    }

    async fn refusal(self, endpoint: &Endpoint, status: StatusCode) -> ModelError {
        let wait = retry_after(self.response.headers(), self.clock.now());
        let kind = self.content_type();
        let body = self.start().await;
        let mut complaint = Complaint::of_body(&body);
        if kind == "text/html" {
            complaint.message = format!("a page (text/html): {}", complaint.message);
        }
        let error = classify(&endpoint.who, Some(status.as_u16()), &complaint);
        ModelError { retry_after: wait.or(error.retry_after), ..error }
    }

    /// The start of an error's body; what cannot be read of it is not worth another error.
    async fn start(mut self) -> BytesMut {
        let mut start = BytesMut::new();
        while start.len() < MAX_ERROR_BYTES
            && let Some(piece) = self.next_within(self.idle_timeout).await
        {
            start.extend_from_slice(&piece);
        }
        start.truncate(MAX_ERROR_BYTES);
        start
    }
}

/// What must not be in any message: keys, and the values of configured headers.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// Shorter values would mask words of every text.
    const MIN_CHARS: usize = 6;

    fn add(&mut self, secret: &str) {
        let secret = secret.strip_prefix("Bearer ").unwrap_or(secret);
        if secret.chars().count() >= Self::MIN_CHARS {
            self.0.push(secret.to_owned());
        }
    }

    /// The error with each secret as `***`.
    pub(super) fn mask(&self, mut error: ModelError) -> ModelError {
        for secret in &self.0 {
            error.message = error.message.replace(secret, "***");
            error.provider_code = error.provider_code.map(|code| code.replace(secret, "***"));
        }
        error
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(***)")
    }
}
