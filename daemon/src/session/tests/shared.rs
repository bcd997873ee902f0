//! Two daemons over one state, in one process: who writes first, and what the other one knows.

use agentd_protocol::event::EventBody;
use agentd_protocol::permission::{Decision, PermissionReplyParams, Scope};
use agentd_protocol::submission::Disposition;
use serde_json::json;

use super::house::{House, caller};

/// As many as make it certain that one daemon writes between another's look and its write.
const RENAMES: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn who_was_overtaken_by_another_daemon_asks_again_by_itself() {
    let (one, two) = House::pair();
    let session_id = &one.session(json!({})).await.session_id;
    let renames = async |house: &House, name: &str| {
        for number in 0..RENAMES {
            let title = format!("{name} {number}");
            let renamed = house.rename(session_id, &title).await.expect("the session is idle");
            assert_eq!(renamed.session_id, *session_id);
            let retry = json!({ "type": "retry_now" });
            house.submit(session_id, &title, retry).await.expect("the session is idle");
        }
    };
    tokio::join!(renames(&one, "one"), renames(&two, "two"));
    let now = one.registry.get(session_id).await.expect("the session");
    assert_eq!(now.lease, None);
    let mut eyes = two.watch(session_id).await;
    let mut accepted = 0;
    while accepted < 2 * RENAMES {
        eyes.until(|body| matches!(body, EventBody::SubmissionAccepted { .. })).await;
        accepted += 1;
    }
}

#[tokio::test]
async fn who_lost_a_session_without_noticing_asks_again_by_itself() {
    let (one, two) = House::pair();
    let session_id = &one.session(json!({})).await.session_id;
    let (mut eyes, mut other) = (one.watch(session_id).await, two.watch(session_id).await);
    one.say(session_id, "s1", "write a.txt with one").await;
    let prompt_id = eyes.prompt().await;
    // It is taken, worked on and given back before the first daemon's next renewal.
    two.registry.take_over(session_id).await.expect("taken");
    two.reply(&prompt_id, Decision::Deny).await.expect("it is open there too");
    other.end().await;
    let accepted = one.say(session_id, "s2", "think").await;
    assert_eq!(accepted.disposition, Disposition::Started, "the turn it knew is over");
    let end = other.end().await;
    assert_eq!((end.turn_id, end.body.name()), (accepted.turn_id, "turn.completed"));
}

#[tokio::test]
async fn what_another_daemon_remembers_is_known_at_the_next_call() {
    let (one, two) = House::pair();
    let (here, there) = (one.session(json!({})).await, two.session(json!({})).await);
    let (mut eyes, mut other) =
        (one.watch(&here.session_id).await, two.watch(&there.session_id).await);
    two.say(&there.session_id, "s1", "write a.txt with one and write b.txt with two").await;
    let first = other.prompt().await;
    one.say(&here.session_id, "s1", "write b.txt with nothing").await;
    let params = PermissionReplyParams {
        id: None,
        prompt_id: eyes.prompt().await,
        decision: Decision::Allow,
        scope: Scope::Project,
        rule: None,
        message: None,
        interrupt: false,
    };
    one.registry.reply(&caller(1), params).await.expect("remembered");
    eyes.end().await;
    std::fs::remove_file(one.work().join("b.txt")).expect("it was written");
    two.reply(&first, Decision::Allow).await.expect("accepted");
    other.end().await;
    let asked = other.names().into_iter().filter(|name| *name == "permission.requested").count();
    assert_eq!((asked, two.read("b.txt").as_deref().map(str::trim)), (1, Some("two")));
}
