//! Starts that meet each other, with real locks in one process.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::thread;

use super::*;
use crate::store::{Holder, Synchronous};

fn options() -> Options {
    Options {
        synchronous: Synchronous::Normal,
        shared: false,
        holder: Holder::this_process("dmn_test"),
        lease_ttl: Duration::from_secs(15),
        announcement: "process 7, socket /somewhere".to_owned(),
    }
}

struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn take(&self, patience: Duration) -> Result<Instance, Error> {
        take(&self.state(), &options(), &Clock::system(), &self.socket(), patience)
    }

    fn state(&self) -> std::path::PathBuf {
        self.0.path().join("state")
    }

    fn socket(&self) -> std::path::PathBuf {
        self.0.path().join("s")
    }

    /// A daemon that says it serves `state_dir`.
    fn serve(&self, state_dir: &Path) {
        let listener = UnixListener::bind(self.socket()).unwrap();
        let result = serde_json::json!({ "pid": 7, "state_dir": state_dir });
        let answer = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "result": result });
        thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut line = String::new();
                BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
                writeln!(stream, "{answer}").unwrap();
            }
        });
    }
}

#[test]
fn e2_the_loser_is_content_when_the_winner_answers() {
    let world = World::new();
    let Instance::Ours(_winner) = world.take(Duration::ZERO).unwrap() else {
        panic!("nobody else is there")
    };
    world.serve(&world.state());
    let second = world.take(Duration::from_secs(10)).unwrap();
    assert!(matches!(second, Instance::Served { pid: 7 }));
}

#[test]
fn e2_a_winner_that_is_starting_is_waited_for() {
    let world = World::new();
    let Instance::Ours(_winner) = world.take(Duration::ZERO).unwrap() else {
        panic!("nobody else is there")
    };
    thread::scope(|scope| {
        let loser = scope.spawn(|| world.take(Duration::from_mins(1)));
        world.serve(&world.state());
        assert!(matches!(loser.join().unwrap().unwrap(), Instance::Served { .. }));
    });
}

#[test]
fn a_holder_that_does_not_answer_there_is_named() {
    let world = World::new();
    let Instance::Ours(winner) = world.take(Duration::ZERO).unwrap() else {
        panic!("nobody else is there")
    };
    let story = world.take(Duration::ZERO).unwrap_err().story();
    assert!(story.contains("process 7, socket /somewhere"), "{story}");
    assert!(story.contains("there is no socket"), "{story}");
    assert!(story.contains("another --state-dir"), "{story}");
    world.serve(Path::new("/another"));
    let story = world.take(Duration::from_mins(1)).unwrap_err().story();
    assert!(story.contains("process 7 answers there, for /another"), "{story}");
    drop(winner);
}

#[test]
fn e33_a_state_directory_that_cannot_be_used_is_one_clear_error() {
    let world = World::new();
    std::fs::write(world.state(), "a file").unwrap();
    let story = world.take(Duration::ZERO).unwrap_err().story();
    assert!(story.contains("the state cannot be used"), "{story}");
    assert!(story.contains(world.state().to_str().unwrap()), "{story}");
}
