//! Plays a recording back in place of a server.
//!
//! Requests are answered with the recorded exchanges, in their order. A request must fit the one
//! that was recorded (the same way to the server, the same speakers and calls), since an answer to
//! another question would only look like one. What was recorded of failures is played back too.
//!
//! Invariant: a request that does not fit takes nothing from the recording.
//!
//! Receives requests from `http`; hands back heads of responses, and their bytes.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::OnceCell;

use super::recording::{Data, End, Line, outline};
use crate::clock::Clock;
use crate::config::ReplayPace;

/// A recording that is played.
#[derive(Debug)]
pub(super) struct Player {
    path: PathBuf,
    pace: ReplayPace,
    loaded: OnceCell<()>,
    left: Mutex<Left>,
}

#[derive(Debug, Default)]
struct Left {
    exchanges: VecDeque<Exchange>,
    played: usize,
}

/// One request and its answer.
#[derive(Debug)]
struct Exchange {
    id: String,
    url: String,
    outline: Vec<String>,
    head: Option<Head>,
    pieces: VecDeque<(u64, Bytes)>,
    end: Option<(u64, End)>,
}

#[derive(Debug)]
struct Head {
    ms: u64,
    status: u16,
    headers: HeaderMap,
}

/// The answer to one request.
#[derive(Debug)]
pub(super) struct Reel {
    pieces: VecDeque<(u64, Bytes)>,
    end: Option<(u64, End)>,
    watch: Watch,
}

/// Since when, and whether, a reel keeps its times.
#[derive(Debug, Clone)]
struct Watch {
    clock: Clock,
    began_ms: u64,
    pace: ReplayPace,
}

/// Why nothing is played.
#[derive(Debug)]
pub(super) enum Fault {
    /// The recording is to blame, or the request: in these words.
    Recording(String),
    /// The recorded request failed so.
    Recorded { message: String, broken: bool },
}

impl Player {
    pub(super) fn new(path: &Path, pace: ReplayPace) -> Self {
        Self { path: path.to_owned(), pace, loaded: OnceCell::new(), left: Mutex::default() }
    }

    /// The answer to a request to `url`.
    pub(super) async fn play(
        &self,
        url: &str,
        body: &[Bytes],
        clock: &Clock,
    ) -> Result<(u16, HeaderMap, Reel), Fault> {
        self.load().await.map_err(Fault::Recording)?;
        let exchange = self.next(url, &outline(&body.concat())).map_err(Fault::Recording)?;
        let watch = Watch { clock: clock.clone(), began_ms: clock.boot_ms(), pace: self.pace };
        let reel = Reel { pieces: exchange.pieces, end: exchange.end, watch };
        match exchange.head {
            Some(head) => {
                reel.watch.until(head.ms).await;
                Ok((head.status, head.headers, reel))
            }
            None => match reel.end {
                Some((ms, End::Error { message, broken })) => {
                    reel.watch.until(ms).await;
                    Err(Fault::Recorded { message, broken })
                }
                Some(_) | None => Err(self.fault("it has no answer to this request")),
            },
        }
    }

    /// Takes the next exchange, if the request fits it.
    fn next(&self, url: &str, outline: &[String]) -> Result<Exchange, String> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.path.display();
        let Some(recorded) = left.exchanges.front() else {
            return Err(format!(
                "the recording {path} ends after {} requests; a reload of the configuration \
                 starts it again",
                left.played
            ));
        };
        let number = left.played + 1;
        let differs = |what: &str, here: &str, there: &str| {
            format!(
                "request {number} does not fit the recording {path}: {what} is {here}, recorded \
                 was {there}"
            )
        };
        if way(url) != way(&recorded.url) {
            return Err(differs("its way", way(url), way(&recorded.url)) + "; set `wire`");
        }
        let known = &recorded.outline;
        let nothing = || "nothing".to_owned();
        let at = (0..outline.len().max(known.len())).find(|at| outline.get(*at) != known.get(*at));
        if let Some(at) = at {
            let said = |list: &[String]| list.get(at).cloned().unwrap_or_else(nothing);
            let what = format!("message {}", at + 1);
            return Err(differs(&what, &said(outline), &said(known)));
        }
        left.played = number;
        left.exchanges.pop_front().ok_or_else(|| "the recording is over".to_owned())
    }

    async fn load(&self) -> Result<(), String> {
        let load = async || {
            let path = self.path.clone();
            let read = tokio::task::spawn_blocking(move || read(&path)).await;
            let exchanges = read.map_err(|error| error.to_string())??;
            self.left.lock().unwrap_or_else(PoisonError::into_inner).exchanges = exchanges;
            Ok::<(), String>(())
        };
        self.loaded.get_or_try_init(load).await?;
        Ok(())
    }

    fn fault(&self, what: &str) -> Fault {
        Fault::Recording(format!("the recording {}: {what}", self.path.display()))
    }
}

impl Reel {
    /// The next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        if let Some((ms, bytes)) = self.pieces.pop_front() {
            self.watch.until(ms).await;
            return Ok(Some(bytes));
        }
        match self.end.take() {
            Some((ms, End::Error { message, broken })) => {
                self.watch.until(ms).await;
                Err(Fault::Recorded { message, broken })
            }
            Some((_, End::Complete | End::Left)) => Ok(None),
            None => {
                Err(Fault::Recording("the recording of this answer breaks off here".to_owned()))
            }
        }
    }
}

impl Watch {
    async fn until(&self, ms: u64) {
        if self.pace == ReplayPace::Recorded {
            let passed = self.clock.boot_ms().saturating_sub(self.began_ms);
            self.clock.sleep(Duration::from_millis(ms.saturating_sub(passed))).await;
        }
    }
}

/// What of an address depends on the wire format only.
fn way(url: &str) -> &str {
    ["chat/completions", "responses", "messages"]
        .into_iter()
        .find(|way| url.ends_with(way))
        .unwrap_or_else(|| url.rsplit('/').next().unwrap_or_default())
}

fn read(path: &Path) -> Result<VecDeque<Exchange>, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("the recording {shown} cannot be read: {error}"))?;
    let mut exchanges = VecDeque::new();
    let lines: Vec<&str> = text.lines().collect();
    for (place, line) in lines.iter().enumerate() {
        match serde_json::from_str::<Line>(line) {
            Ok(line) => add(&mut exchanges, line),
            // The last line of a recording that broke off.
            Err(_) if place + 1 == lines.len() => {}
            Err(error) => {
                let number = place + 1;
                return Err(format!("the recording {shown}, line {number}: {error}"));
            }
        }
    }
    Ok(exchanges)
}

fn add(exchanges: &mut VecDeque<Exchange>, line: Line) {
    match line {
        Line::Request(request) => exchanges.push_back(Exchange {
            id: request.exchange,
            url: request.url,
            outline: outline(request.body.get().as_bytes()),
            head: None,
            pieces: VecDeque::new(),
            end: None,
        }),
        Line::Response(response) => {
            if let Some(exchange) = find(exchanges, &response.exchange) {
                let headers = response.headers.iter().filter_map(|(name, value)| {
                    let name = HeaderName::try_from(name).ok()?;
                    Some((name, HeaderValue::try_from(value).ok()?))
                });
                let headers = headers.collect();
                exchange.head = Some(Head { ms: response.ms, status: response.status, headers });
            }
        }
        Line::Data(data) => {
            let bytes = match data.data {
                Data::Text(text) => Bytes::from(text),
                Data::Base64(text) => STANDARD.decode(text).unwrap_or_default().into(),
            };
            if let Some(exchange) = find(exchanges, &data.exchange) {
                exchange.pieces.push_back((data.ms, bytes));
            }
        }
        Line::End(end) => {
            if let Some(exchange) = find(exchanges, &end.exchange) {
                exchange.end = Some((end.ms, end.end));
            }
        }
    }
}

fn find<'a>(exchanges: &'a mut VecDeque<Exchange>, id: &str) -> Option<&'a mut Exchange> {
    exchanges.iter_mut().rfind(|exchange| exchange.id == id)
}
