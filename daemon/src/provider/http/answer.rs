//! An answer, read piece by piece: from the network, or from a recording.
//!
//! Invariants: what is read is recorded before it is handed on; dropping an answer drops its
//! connection.
//!
//! Receives a response of `http` or a reel of `replay`; hands pieces to `exchange`, or a classified
//! error.

use std::time::Duration;

use agentd_protocol::event::TurnErrorCode;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::{Response, StatusCode};

use super::Endpoint;
use super::record::Tape;
use super::recording::End;
use super::replay::Reel;
use crate::clock::Clock;
use crate::provider::ModelError;
use crate::provider::failure::{Complaint, classify, excerpt};
use crate::provider::retry::retry_after;

/// What is read of an error's body.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// How long an answer that is complete may take to close, so that its connection can be used again.
const CLOSE_GRACE: Duration = Duration::from_millis(50);
/// Reads that a complete answer may still need up to its end: a last line end, and the end.
const CLOSE_READS: u32 = 3;

/// The answer to a request.
#[derive(Debug)]
pub(in crate::provider) struct Answer {
    status: u16,
    headers: HeaderMap,
    source: Source,
    /// What is read is written there.
    tapes: Vec<Tape>,
    idle_timeout: Duration,
    clock: Clock,
}

#[derive(Debug)]
enum Source {
    Network(Response),
    Recording(Reel),
}

impl Answer {
    /// The answer that came over the network.
    pub(super) async fn new(endpoint: &Endpoint, response: Response, tapes: Vec<Tape>) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self::begin(endpoint, (status, headers), Source::Network(response), tapes).await
    }

    /// The answer of a recording.
    pub(super) async fn of_recording(
        endpoint: &Endpoint,
        (status, headers, reel): (u16, HeaderMap, Reel),
        tapes: Vec<Tape>,
    ) -> Self {
        Self::begin(endpoint, (status, headers), Source::Recording(reel), tapes).await
    }

    async fn begin(
        endpoint: &Endpoint,
        (status, headers): (u16, HeaderMap),
        source: Source,
        mut tapes: Vec<Tape>,
    ) -> Self {
        for tape in &mut tapes {
            tape.response(status, &headers).await;
        }
        let (idle_timeout, clock) = (endpoint.idle_timeout, endpoint.clock.clone());
        Self { status, headers, source, tapes, idle_timeout, clock }
    }

    /// Its content type without parameters, in small letters; empty where it has none.
    pub(in crate::provider) fn content_type(&self) -> String {
        let value = self.headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let kind = value.unwrap_or_default().split(';').next().unwrap_or_default();
        kind.trim().to_ascii_lowercase()
    }

    /// The next bytes; `None` at the proper end.
    pub(in crate::provider) async fn next(
        &mut self,
        endpoint: &Endpoint,
    ) -> Result<Option<Bytes>, ModelError> {
        let (clock, idle_timeout) = (self.clock.clone(), self.idle_timeout);
        let read = tokio::select! {
            // A wait is not begun for what is there.
            biased;
            read = self.source.read(endpoint) => read,
            () = clock.sleep(idle_timeout) => Err(endpoint.silent(idle_timeout)),
        };
        match &read {
            Ok(Some(piece)) => self.record(piece).await,
            Ok(None) => self.recorded(&End::Complete).await,
            Err(error) => self.recorded(&End::of(error)).await,
        }
        read
    }

    /// The next bytes, if they come within `grace`. For what is not needed any more.
    pub(in crate::provider) async fn next_within(
        &mut self,
        endpoint: &Endpoint,
        grace: Duration,
    ) -> Option<Bytes> {
        let clock = self.clock.clone();
        let piece = tokio::select! {
            biased;
            read = self.source.read(endpoint) => read.ok().flatten(),
            () = clock.sleep(grace) => None,
        };
        match &piece {
            Some(piece) => self.record(piece).await,
            None => self.recorded(&End::Left).await,
        }
        piece
    }

    async fn record(&mut self, piece: &[u8]) {
        for tape in &mut self.tapes {
            tape.data(piece).await;
        }
    }

    async fn recorded(&mut self, end: &End) {
        for tape in self.tapes.drain(..) {
            tape.end(end.clone()).await;
        }
    }

    /// Gives a complete answer the chance to close, without waiting for a server that does not.
    pub(in crate::provider) async fn close(mut self, endpoint: &Endpoint) {
        for _ in 0..CLOSE_READS {
            if self.next_within(endpoint, CLOSE_GRACE).await.is_none() {
                return;
            }
        }
        self.recorded(&End::Left).await;
    }

    /// The whole body, up to `limit` bytes.
    pub(in crate::provider) async fn whole(
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

    /// Fails if it is no answer, or none that can be read.
    pub(super) async fn checked(self, endpoint: &Endpoint) -> Result<Self, ModelError> {
        let status = self.status;
        if status != StatusCode::OK.as_u16() {
            return Err(self.refusal(endpoint, status).await);
        }
        let encoding = self.headers.get(CONTENT_ENCODING);
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
            let page = self.start(endpoint).await;
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

    async fn refusal(self, endpoint: &Endpoint, status: u16) -> ModelError {
        let wait = retry_after(&self.headers, self.clock.now());
        let kind = self.content_type();
        let body = self.start(endpoint).await;
        let mut complaint = Complaint::of_body(&body);
        if kind == "text/html" {
            complaint.message = format!("a page (text/html): {}", complaint.message);
        }
        let error = classify(&endpoint.who, Some(status), &complaint);
        ModelError { retry_after: wait.or(error.retry_after), ..error }
    }

    /// The start of an error's body; what cannot be read of it is not worth another error.
    async fn start(mut self, endpoint: &Endpoint) -> BytesMut {
        let mut start = BytesMut::new();
        // For all of it together: a server that sends a byte now and then holds up no turn.
        let patience = u64::try_from(self.idle_timeout.as_millis()).unwrap_or(u64::MAX);
        let until = self.clock.boot_ms().saturating_add(patience);
        while start.len() < MAX_ERROR_BYTES {
            let left = Duration::from_millis(until.saturating_sub(self.clock.boot_ms()));
            let Some(piece) = self.next_within(endpoint, left).await else { break };
            start.extend_from_slice(&piece);
        }
        start.truncate(MAX_ERROR_BYTES);
        self.recorded(&End::Left).await;
        start
    }
}

impl Source {
    async fn read(&mut self, endpoint: &Endpoint) -> Result<Option<Bytes>, ModelError> {
        match self {
            Self::Network(response) => {
                response.chunk().await.map_err(|error| endpoint.unreachable(&error))
            }
            Self::Recording(reel) => reel.next().await.map_err(|fault| endpoint.not_played(fault)),
        }
    }
}
