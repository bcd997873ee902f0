//! Writes what is asked and answered into a recording, without what must stay secret.
//!
//! A recording is made to be handed on, so keys and the values of configured headers are taken out
//! of everything, answers too, also where a read cuts one. What a conversation says stays in it.
//! Each line is one write to a file opened for appending, so several requests share a file.
//!
//! Invariants: a request's line is on disk before the request is sent; a recording that fails in
//! the middle costs a line in the log, never the answer.
//!
//! Receives an exchange of `http` as it happens; hands lines to a file.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderMap;
use serde_json::value::RawValue;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use super::recording::{Data, DataLine, End, EndLine, Line, RequestLine, ResponseLine};
use super::{Endpoint, Secrets};
use crate::clock::Clock;

/// Lines up to this are one write, whatever else is written at the time.
const MAX_WRITE_BYTES: usize = 64 * 1024 * 1024;

/// What stands where something was taken out.
const SECRET: &str = "***";

/// The recording of one exchange.
pub(super) struct Tape {
    file: File,
    exchange: String,
    masker: Masker,
    secrets: Secrets,
    clock: Clock,
    began_ms: u64,
}

impl std::fmt::Debug for Tape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tape").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}

impl Tape {
    /// Begins an exchange with its request. `Err` says what is wrong with the file.
    pub(super) async fn begin(
        path: &Path,
        endpoint: &Endpoint,
        headers: &HeaderMap,
        body: &[Bytes],
        secrets: &Secrets,
    ) -> Result<Self, String> {
        let bad =
            |error: &dyn std::fmt::Display| format!("cannot record to {}: {error}", path.display());
        let mut options = tokio::fs::OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        let mut file = options.open(path).await.map_err(|error| bad(&error))?;
        file.set_max_buf_size(MAX_WRITE_BYTES);
        let clock = endpoint.clock.clone();
        let exchange = uuid::Uuid::now_v7().simple().to_string();
        let body = secrets.masked(&String::from_utf8_lossy(&body.concat()));
        let mut url = endpoint.url.clone();
        // What may hold a secret is not needed.
        let (_, _) = (url.set_password(None), url.set_username(""));
        url.set_query(None);
        let request = Line::Request(RequestLine {
            exchange: exchange.clone(),
            at: clock.now(),
            agentd: env!("CARGO_PKG_VERSION").to_owned(),
            provider: endpoint.who.clone(),
            url: url.to_string(),
            headers: written(headers, secrets),
            body: RawValue::from_string(body).map_err(|error| bad(&error))?,
        });
        write(&mut file, &request).await.map_err(|error| bad(&error))?;
        let masker = Masker { secrets: secrets.0.clone(), held: Vec::new() };
        let began_ms = clock.boot_ms();
        Ok(Self { file, exchange, masker, secrets: secrets.clone(), clock, began_ms })
    }

    /// The response began.
    pub(super) async fn response(&mut self, status: u16, headers: &HeaderMap) {
        let headers = written(headers, &self.secrets);
        let (exchange, ms) = (self.exchange.clone(), self.ms());
        self.line(&Line::Response(ResponseLine { exchange, ms, status, headers })).await;
    }

    /// A piece of it was read.
    pub(super) async fn data(&mut self, bytes: &[u8]) {
        let bytes = self.masker.take(bytes);
        self.put(bytes).await;
    }

    /// It is over.
    pub(super) async fn end(mut self, end: End) {
        let rest = self.masker.finish();
        self.put(rest).await;
        let (exchange, ms) = (self.exchange.clone(), self.ms());
        self.line(&Line::End(EndLine { exchange, ms, end })).await;
    }

    async fn put(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let data = match String::from_utf8(bytes) {
            Ok(text) => Data::Text(text),
            Err(other) => Data::Base64(STANDARD.encode(other.as_bytes())),
        };
        let (exchange, ms) = (self.exchange.clone(), self.ms());
        self.line(&Line::Data(DataLine { exchange, ms, data })).await;
    }

    async fn line(&mut self, line: &Line) {
        if let Err(error) = write(&mut self.file, line).await {
            tracing::warn!(%error, exchange = %self.exchange, "a recording misses a line");
        }
    }

    fn ms(&self) -> u64 {
        self.clock.boot_ms().saturating_sub(self.began_ms)
    }
}

async fn write(file: &mut File, line: &Line) -> std::io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    file.write_all(&bytes).await?;
    file.flush().await
}

/// Headers as they are written: what is marked as sensitive, and what servers hand out to know us
/// by, is left out.
fn written(headers: &HeaderMap, secrets: &Secrets) -> BTreeMap<String, String> {
    let value = |name: &http::HeaderName, value: &http::HeaderValue| {
        if value.is_sensitive() || name == http::header::SET_COOKIE {
            return SECRET.to_owned();
        }
        secrets.masked(&String::from_utf8_lossy(value.as_bytes()))
    };
    headers.iter().map(|(name, text)| (name.to_string(), value(name, text))).collect()
}

/// Takes secrets out of bytes that come in pieces.
struct Masker {
    secrets: Vec<String>,
    /// The end of what came, where it may be the start of a secret.
    held: Vec<u8>,
}

impl Masker {
    /// More bytes; what can be written of all so far.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        let masked = self.mask();
        let kept = self.started(&masked);
        self.held = masked[masked.len() - kept..].to_vec();
        masked[..masked.len() - kept].to_vec()
    }

    /// No more bytes.
    fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn mask(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.held);
        for secret in self.secrets.iter().filter(|secret| !secret.is_empty()) {
            while let Some(at) = memchr::memmem::find(&bytes, secret.as_bytes()) {
                bytes.splice(at..at + secret.len(), SECRET.bytes());
            }
        }
        bytes
    }

    /// How many bytes at the end may be the start of a secret.
    fn started(&self, bytes: &[u8]) -> usize {
        let start = |secret: &String| {
            let longest = secret.len().saturating_sub(1).min(bytes.len());
            (1..=longest).rev().find(|length| bytes.ends_with(&secret.as_bytes()[..*length]))
        };
        self.secrets.iter().filter_map(start).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_taken_out_however_it_is_cut() {
        let text = b"a sk-secret b sk-sec c sk-secret sk-s";
        for cut in 0..=text.len() {
            for size in 1..5 {
                let secrets = vec!["sk-secret".to_owned(), "blue-team".to_owned()];
                let mut masker = Masker { secrets, held: Vec::new() };
                let mut said = masker.take(&text[..cut]);
                for piece in text[cut..].chunks(size) {
                    said.extend(masker.take(piece));
                }
                said.extend(masker.finish());
                assert_eq!(said, b"a *** b sk-sec c *** sk-s", "{cut} {size}");
            }
        }
    }
}
