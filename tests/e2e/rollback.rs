//! Going back, over the socket: the next request to the model has nothing of the hidden turn, and
//! has it again when the rollback is taken back.

use harness::model_server::Answer;
use serde_json::{Value, json};

use crate::scene::{FULL, Scene};

fn texts(body: &Value) -> String {
    body["messages"].to_string()
}

#[tokio::test]
async fn the_model_forgets_the_hidden_turn_and_remembers_it_again() {
    let mut scene = Scene::start(FULL).await;
    scene.model.push(Answer::saying("the first answer"));
    scene.turn("s1", "the first question").await;
    let write = json!({ "path": "out.txt", "content": "out" });
    scene.model.push(Answer::calling("write", &write));
    scene.model.push(Answer::saying("the second answer"));
    scene.turn("s2", "the second question").await;
    assert!(scene.daemon.work_dir().join("out.txt").exists());

    let op = json!({ "type": "rollback", "restore_files": true });
    let done = scene.op("r", op).await;
    assert_eq!(done["rollback"]["files"]["restored"], json!(["out.txt"]), "{done}");
    assert!(!scene.daemon.work_dir().join("out.txt").exists());
    scene.model.push(Answer::saying("the third answer"));
    scene.turn("s3", "the third question").await;
    let asked = texts(&scene.model.asked().last().unwrap().body);
    assert!(asked.contains("the first answer") && asked.contains("the third question"), "{asked}");
    assert!(!asked.contains("the second"), "{asked}");

    // A new daemon builds the same view from the record.
    scene.crash().await;
    let undo = json!({ "type": "rollback", "undo": done["rollback"]["item_id"] });
    scene.op("u", undo).await;
    scene.model.push(Answer::saying("the fourth answer"));
    scene.submit("s4", "the fourth question").await;
    scene.asked(5).await;
    let asked = texts(&scene.model.asked().last().unwrap().body);
    for part in ["the second answer", "the third answer", "the fourth question"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
}
