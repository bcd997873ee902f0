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

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentd_protocol::event::TurnErrorCode;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;
use serde::Deserialize;

use super::{Carriage, ModelError};
use crate::clock::Clock;
use crate::config::{KeySource, ProviderConfig};

mod answer;
mod body;
mod connect;
mod record;
mod recording;
mod replay;

pub(super) use answer::Answer;
pub(super) use body::Rope;
use connect::Transport;
pub(super) use connect::Transports;
use record::Tape;
use recording::End;
use replay::{Fault, Player};

/// What is read of a list of models: some aggregators have hundreds with long descriptions.
const MAX_LIST_BYTES: usize = 8 * 1024 * 1024;

/// How many times the longest silence of a stream an answer as a whole may take to begin.
const WHOLE_PATIENCE: u32 = 5;

/// Where a request carries its key.
#[derive(Debug, Clone)]
pub(super) enum KeyHeader {
    /// `authorization: Bearer …`.
    Bearer,
    /// This header has it as it is.
    Plain(HeaderName),
}

/// A model server's address, and how to speak to it.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// The provider in messages: `provider local`.
    who: String,
    /// The configured address.
    base: Url,
    url: Url,
    key: Option<KeySource>,
    key_header: KeyHeader,
    headers: HeaderMap,
    idle_timeout: Duration,
    transport: Transport,
    clock: Clock,
    /// Every exchange is written there.
    record: Option<PathBuf>,
    /// It answers in place of the server.
    player: Option<Player>,
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
        let player = config.replay.as_deref().map(|path| Player::new(path, config.replay_pace));
        // A recording needs no address.
        let nowhere = player.as_ref().map(|_| "http://replay.invalid");
        let base = config.base_url.as_deref().or(nowhere).ok_or("`base_url` is missing")?;
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
            key_header: KeyHeader::Bearer,
            headers,
            idle_timeout: config.idle_timeout,
            transport,
            clock,
            record: config.record.clone(),
            player,
        })
    }

    /// The same, with its key elsewhere.
    pub(super) fn with_key_in(self, key_header: KeyHeader) -> Self {
        Self { key_header, ..self }
    }

    /// The same with one more header, unless the table has it.
    pub(super) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.entry(name).or_insert(value);
        self
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
        for value in self.headers.values().filter(|value| value.is_sensitive()) {
            secrets.add(value.to_str().unwrap_or_default());
        }
        if let Some(source) = self.key.as_ref().filter(|_| self.player.is_none()) {
            let key = source.read().await.map_err(|error| self.refused(&error))?;
            secrets.add(key.expose());
            let (name, value) = match &self.key_header {
                KeyHeader::Bearer => (AUTHORIZATION, format!("Bearer {}", key.expose())),
                KeyHeader::Plain(name) => (name.clone(), key.expose().to_owned()),
            };
            let mut value = HeaderValue::try_from(value)
                .map_err(|_| self.refused("its key holds characters that no header can have"))?;
            value.set_sensitive(true);
            headers.entry(name).or_insert(value);
        }
        Ok(Opened { endpoint: self, headers, secrets })
    }

    /// The names of the list at `path` below the configured address, which servers of every format
    /// write alike: `{ data: [{ id }] }`.
    pub(super) async fn models(&self, path: &str) -> Result<Vec<String>, ModelError> {
        if self.player.is_some() {
            return Ok(Vec::new());
        }
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

/// How one request is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way<'a> {
    pub(super) carriage: Carriage,
    /// It is written there, beside where all of the endpoint's are.
    pub(super) record: Option<&'a Path>,
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
    pub(super) async fn post(self, body: Rope, way: Way<'_>) -> Result<Answer, ModelError> {
        let Self { endpoint, mut headers, secrets } = self;
        for (name, value) in [(CONTENT_TYPE, "application/json"), (ACCEPT, "text/event-stream")] {
            headers.entry(name).or_insert(HeaderValue::from_static(value));
        }
        let pieces = body.pieces();
        let mut tapes = Vec::new();
        for path in endpoint.record.as_deref().into_iter().chain(way.record) {
            let tape = Tape::begin(path, endpoint, &headers, &pieces, &secrets).await;
            tapes.push(tape.map_err(|error| endpoint.refused(error))?);
        }
        if let Some(player) = &endpoint.player {
            let played = player.play(endpoint.url.as_str(), &pieces, &endpoint.clock).await;
            let played = played.map_err(|fault| endpoint.not_played(fault))?;
            return Answer::of_recording(endpoint, played, tapes).await.checked(endpoint).await;
        }
        let client = endpoint.transport.client(way.carriage, &endpoint.clock).await;
        let client = client.map_err(|error| endpoint.refused(error))?;
        let body = reqwest::Body::wrap(body);
        let request = client.post(endpoint.url.clone()).headers(headers).body(body);
        // A server that does not stream is silent until all is said.
        let patience = if way.carriage == Carriage::Whole { WHOLE_PATIENCE } else { 1 };
        endpoint.answered(request, endpoint.idle_timeout.saturating_mul(patience), tapes).await
    }

    /// Reads a list of models.
    async fn listed(self, url: Url) -> Result<Vec<String>, ModelError> {
        let Self { endpoint, headers, .. } = self;
        let client = endpoint.transport.client(Carriage::Usual, &endpoint.clock).await;
        let client = client.map_err(|error| endpoint.refused(error))?;
        let request = client.get(url).header(ACCEPT, "application/json").headers(headers);
        let answer = endpoint.answered(request, endpoint.idle_timeout, Vec::new()).await?;
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
        tapes: Vec<Tape>,
    ) -> Result<Answer, ModelError> {
        let response = tokio::select! {
            biased;
            response = request.send() => response.map_err(|error| self.unreachable(&error)),
            () = self.clock.sleep(patience) => Err(self.silent(patience)),
        };
        match response {
            Ok(response) => Answer::new(self, response, tapes).await.checked(self).await,
            Err(error) => {
                for tape in tapes {
                    tape.end(End::of(&error)).await;
                }
                Err(error)
            }
        }
    }

    fn not_played(&self, fault: Fault) -> ModelError {
        match fault {
            Fault::Recording(what) => self.refused(what),
            Fault::Recorded { message, broken } => {
                let code = TurnErrorCode::ProviderUnreachable;
                ModelError { broken, ..ModelError::retryable(code, message) }
            }
        }
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
            // As it looks inside a JSON string.
            let escaped = serde_json::Value::from(secret).to_string();
            if escaped.len() > secret.len() + 2 {
                self.0.push(escaped[1..escaped.len() - 1].to_owned());
            }
        }
    }

    fn masked(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
    }

    /// The error with each secret as `***`.
    pub(super) fn mask(&self, mut error: ModelError) -> ModelError {
        error.message = self.masked(&error.message);
        error.provider_code = error.provider_code.map(|code| self.masked(&code));
        error
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(***)")
    }
}
