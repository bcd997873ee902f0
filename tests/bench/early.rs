//! Safe reads that start while the model streams: a turn whose answer calls a slow search again and
//! again, against a turn whose answer takes as long and calls nothing.
//!
//! The search takes as long as the pause between two calls, as measured right before; so a turn
//! that waited for its answer's end would take the searches' time more.

use std::time::{Duration, Instant};

use harness::client::is_turn_end;
use harness::{Answer, Client, Daemon, ModelServer};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::table::{Table, median};

/// Calls in the answer.
const CALLS: u32 = 8;
/// A search is slow when it takes so long; there are as many files as that needs.
const SLOW_MS: u64 = 100;
/// Files that are added at once, and lines in each.
const FILES: usize = 250;
const LINES: usize = 400;
const ROUNDS: usize = 5;

/// Turns, beside the answer alone.
pub(crate) fn measure(table: &mut Table) {
    let runtime = Runtime::new().expect("a runtime starts");
    runtime.block_on(async {
        let mut ground = Ground::start().await;
        while ground.searched_ms < SLOW_MS {
            ground.add_files();
            ground.turn(search(Answer::new(), 0)).await;
        }
        let pause = Duration::from_millis(ground.searched_ms);
        let (mut bare, mut early, mut late) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            bare.push(ground.turn(streamed(pause, |answer, _| answer.text("word"))).await);
            early.push(ground.turn(streamed(pause, search)).await);
            let whole = Answer::new().pause(pause * CALLS);
            late.push(ground.turn((0..CALLS).fold(whole, search)).await);
        }
        let floor = ("an answer as long, no calls", median(bare));
        let millis = pause.as_millis();
        table.time(&format!("{CALLS} searches of {millis} ms, as they come"), median(early), floor);
        table.time(&format!("{CALLS} searches of {millis} ms, at the end"), median(late), floor);
        ground.daemon.stop().await;
    });
}

/// An answer that says so many pieces, and pauses after each.
fn streamed(pause: Duration, piece: impl Fn(Answer, u32) -> Answer) -> Answer {
    (0..CALLS).fold(Answer::new(), |answer, number| piece(answer, number).pause(pause))
}

/// A search that reads every file and finds nothing.
fn search(answer: Answer, number: u32) -> Answer {
    answer.call("grep", &json!({ "pattern": format!("nowhere{number}.*at all") }))
}

/// A daemon with files to search.
struct Ground {
    model: ModelServer,
    daemon: Daemon,
    client: Client,
    session: String,
    files: usize,
    turns: usize,
    /// How long the last search took.
    searched_ms: u64,
}

impl Ground {
    async fn start() -> Self {
        let model = ModelServer::start().await;
        let daemon = Daemon::start(&model.config()).await;
        let mut client = daemon.client().await;
        let session = client.create_session(&daemon.work_dir()).await;
        client.subscribe(&session, None).await;
        Self { model, daemon, client, session, files: 0, turns: 0, searched_ms: 0 }
    }

    fn add_files(&mut self) {
        let text = "the quick brown fox jumps over the lazy dog\n".repeat(LINES);
        for number in self.files..self.files + FILES {
            self.daemon.write_file(&format!("{number}.txt"), &text);
        }
        self.files += FILES;
    }

    /// How long a turn with this answer takes; the model says one word to its results.
    async fn turn(&mut self, answer: Answer) -> Duration {
        self.turns += 1;
        self.model.improvise(|_| Answer::saying("Done."));
        self.model.push(answer);
        let start = Instant::now();
        self.client.submit(&self.session, &format!("s{}", self.turns), "Search.").await;
        let seen = self.client.watch_until(is_turn_end).await;
        let took = start.elapsed();
        assert_eq!(seen.last().expect("its end")["type"], "turn.completed");
        for event in seen.iter().filter(|event| event["type"] == "tool.completed") {
            assert_eq!(event["status"], "ok", "{event}");
            self.searched_ms = event["duration_ms"].as_u64().expect("a time");
        }
        took
    }
}
