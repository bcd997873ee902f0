//! Commands in the background: looked at, exiting between two turns, and gone with their daemon.
//!
//! Receives the harness; hands out what the model is told and what the record says.

use harness::{Answer, wait};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};

use crate::scene::{FULL, Scene, end_of, of_type};

fn start(command: &str) -> Answer {
    Answer::calling("shell", &json!({ "command": command, "background": true }))
}

fn lives(pid: &str) -> bool {
    let pid = pid.trim().parse().ok().and_then(Pid::from_raw).expect("a process id");
    test_kill_process(pid).is_ok()
}

async fn processes(scene: &mut Scene) -> Value {
    scene.state().await["processes"].clone()
}

/// A session with a long command in the background; its id in the session and in the system.
async fn sleeping() -> (Scene, Value, String) {
    let mut scene = Scene::start(FULL).await;
    scene.model.push(start("echo $$ >pid; exec sleep 300"));
    scene.model.push(Answer::saying("It runs."));
    let seen = scene.turn("s1", "Start it.").await;
    let id = of_type(&seen, "process.started")[0]["process_id"].clone();
    let pid = std::fs::read_to_string(scene.daemon.work_dir().join("pid")).expect("it wrote it");
    (scene, id, pid)
}

/// Its end is recorded when it comes, and told with the next input.
#[tokio::test]
async fn an_exit_between_two_turns_is_recorded_and_told() {
    let mut scene = Scene::start(FULL).await;
    scene.model.push(start("until [ -e end ]; do sleep 0.01; done; echo bye; exit 7"));
    scene.model.push(Answer::saying("It runs."));
    let seen = scene.turn("s1", "Start it.").await;
    assert_eq!(end_of(&seen), "turn.completed");
    let started = of_type(&seen, "process.started")[0].clone();
    let id = started["process_id"].as_str().expect("an id").to_owned();
    assert_eq!(processes(&mut scene).await[0]["process_id"], json!(id));
    assert!(scene.results(1)[0].contains(&id));

    scene.daemon.write_file("end", "");
    let exited = scene.until("process.exited").await;
    assert_eq!((&exited["process_id"], &exited["exit"]), (&json!(id), &json!(7)));
    assert_eq!(processes(&mut scene).await, Value::Null);

    scene.model.push(Answer::calling("shell_output", &json!({ "process_id": id })));
    scene.model.push(Answer::saying("It said bye."));
    assert_eq!(end_of(&scene.turn("s2", "And?").await), "turn.completed");
    let asked = json!(scene.messages(2)).to_string();
    assert!(asked.contains("exited with code 7"), "{asked}");
    let results = scene.results(3);
    let looked = results.last().expect("a result");
    assert!(looked.contains("exited with code 7") && looked.contains("bye"), "{looked}");
    scene.assert_stable_prefix();
    scene.model.assert_all_taken();
}

/// kill -9 leaves nothing, and the next daemon says so to the record and to the model.
#[tokio::test]
async fn a_killed_daemon_takes_it_along_and_the_next_one_says_so() {
    let (mut scene, id, pid) = sleeping().await;
    assert!(lives(&pid));
    scene.crash().await;
    wait::until("the command to be gone", async || {
        if lives(&pid) { Err("it lives".to_owned()) } else { Ok(()) }
    })
    .await;
    let exited = scene.until("process.exited").await;
    assert_eq!((&exited["process_id"], &exited["reason"]), (&id, &json!("stopped")));
    assert_eq!(processes(&mut scene).await, Value::Null);

    scene.model.push(Answer::calling("shell_output", &json!({ "process_id": id })));
    scene.model.push(Answer::saying("It is gone."));
    let seen = scene.turn("s2", "And?").await;
    assert_eq!(end_of(&seen), "turn.completed");
    let asked = json!(scene.messages(2)).to_string();
    assert!(asked.contains("agentd was stopped or restarted"), "{asked}");
    let results = scene.results(3);
    assert!(results.last().expect("a result").contains("no background command"), "{results:?}");
    scene.model.assert_all_taken();
}

/// What the model had ended, it knows of.
#[tokio::test]
async fn an_end_by_the_model_is_recorded_and_is_no_news() {
    let mut scene = Scene::start(FULL).await;
    scene.model.push(start("echo $$ >pid; exec sleep 300"));
    scene.model.improvise(|request| {
        let text = request.to_string();
        let Some((_, rest)) = text.split_once("running in the background as ") else {
            return Answer::saying("It did not start.");
        };
        let id: String = rest.chars().take("proc_00000000".len()).collect();
        if text.contains(&format!("{id} was ended")) {
            return Answer::saying("Done.");
        }
        Answer::calling("shell_kill", &json!({ "process_id": id }))
    });
    let seen = scene.turn("s1", "Start it and end it.").await;
    assert_eq!(end_of(&seen), "turn.completed");
    let pid = std::fs::read_to_string(scene.daemon.work_dir().join("pid")).expect("it wrote it");
    assert!(!lives(&pid));
    let exited = match of_type(&seen, "process.exited").first() {
        Some(exited) => (*exited).clone(),
        None => scene.until("process.exited").await,
    };
    assert_eq!(exited["reason"], "killed");
    assert!(!json!(scene.messages(2)).to_string().contains("The background command"));
}

/// An orderly stop ends it too, and its end is on record before the daemon is gone.
#[tokio::test]
async fn an_orderly_stop_records_its_end() {
    let (mut scene, id, pid) = sleeping().await;
    scene.daemon.stop().await;
    assert!(!lives(&pid));
    scene.daemon.restart().await;
    scene.client = scene.daemon.client().await;
    let log = scene.client.events(&scene.session).await;
    let exited = of_type(&log, "process.exited");
    let ends: Vec<_> = exited.iter().map(|exit| (&exit["process_id"], &exit["reason"])).collect();
    assert_eq!(ends, [(&id, &json!("stopped"))]);
}

/// What fails at once is seen by the call itself, and is no background command.
#[tokio::test]
async fn what_fails_at_once_is_told_at_once() {
    let mut scene = Scene::start(FULL).await;
    scene.model.push(start("no-such-command-here"));
    scene.model.push(Answer::saying("I see."));
    scene.turn("s1", "Start it.").await;
    let result = &scene.results(1)[0];
    assert!(result.contains("127") && result.contains("not found"), "{result}");
    assert_eq!(processes(&mut scene).await, Value::Null);
    scene.check().await;
}
