//! Tables of parameters and the errors they get.

use agentd_protocol::daemon::InitializeParams;
use agentd_protocol::session::{CreateParams, ListParams};
use agentd_protocol::submission::SubmitParams;

use super::*;

fn wrong<T: DeserializeOwned + std::fmt::Debug>(params: &str) -> (Option<String>, String) {
    let error = parse::<T>(Some(params)).unwrap_err();
    let ErrorData::InvalidParams { field } = error.data else { panic!("{error:?}") };
    assert_eq!(error.code, -32602);
    (field, error.message)
}

fn assert_wrong<T: DeserializeOwned + std::fmt::Debug>(params: &str, field: &str, part: &str) {
    let (found, message) = wrong::<T>(params);
    assert_eq!(found.as_deref(), Some(field), "{message}");
    assert!(message.contains(part), "{message:?} does not say {part:?}");
    assert!(!message.contains("struct"), "{message}");
    assert!(!message.contains(" enum "), "{message}");
}

#[test]
fn absent_parameters_are_an_empty_object() {
    for params in [None, Some("null"), Some("{}"), Some(" {}")] {
        assert_eq!(parse::<ListParams>(params).unwrap(), ListParams::default());
    }
    for params in ["[]", "1", "\"x\""] {
        let (field, message) = wrong::<ListParams>(params);
        assert_eq!((field, message.contains("by name")), (None, true));
    }
}

#[test]
fn an_error_names_its_field() {
    assert_wrong::<CreateParams>(r#"{"cdw":"/"}"#, "cdw", "did you mean `cwd`?");
    assert_wrong::<CreateParams>(r#"{"zzzz":1}"#, "zzzz", "known here are cwd, roots");
    assert_wrong::<CreateParams>("{}", "cwd", "`cwd` is missing");
    assert_wrong::<CreateParams>(r#"{"cwd":5}"#, "cwd", "expected a string");
    assert_wrong::<CreateParams>(
        r#"{"cwd":"/","limits":{"max_iteration":1}}"#,
        "limits.max_iteration",
        "did you mean `max_iterations`?",
    );
    assert_wrong::<CreateParams>(r#"{"cwd":"/","limits":7}"#, "limits", "expected an object");
    assert_wrong::<CreateParams>(
        r#"{"cwd":"/","roots":["/a",2]}"#,
        "roots[1]",
        "expected a string",
    );
    assert_wrong::<CreateParams>(
        r#"{"cwd":"/","permission_mode":"al"}"#,
        "permission_mode",
        "none of plan",
    );
    assert_wrong::<InitializeParams>(
        r#"{"client":{"name":"x","version":"1"},"protocol":{"min":1}}"#,
        "protocol.max",
        "missing",
    );
    assert_wrong::<ListParams>(r#"{"archived":"some"}"#, "archived", "true, false or \"all\"");
}

#[test]
fn an_error_inside_a_submission_names_its_field() {
    let submit =
        |op: &str| format!(r#"{{"session_id":"ses_1","submission":{{"id":"a","op":{op}}}}}"#);
    let wrong = |op: &str, field: &str, part: &str| {
        assert_wrong::<SubmitParams>(&submit(op), field, part);
    };
    wrong(r#"{"type":"user_inpt","content":"x"}"#, "submission.op.type", "none of user_input");
    wrong(r#"{"type":"user_input"}"#, "submission.op.content", "missing");
    wrong(
        r#"{"type":"user_input","content":"x","delivry":1}"#,
        "submission.op.delivry",
        "did you mean `delivery`?",
    );
    wrong(
        r#"{"type":"user_input","content":5}"#,
        "submission.op",
        "expected a string or a list of parts",
    );
    wrong(r#"{"content":"x"}"#, "submission.op.type", "missing");
    wrong("7", "submission.op", "");
    assert_wrong::<SubmitParams>(
        r#"{"session_id":"ses_1","submission":{"id":"","op":{"type":"resume"}}}"#,
        "submission.id",
        "1 to 128 characters",
    );
}
