//! What a person reads, and what a program can act on.

use agentd_protocol::session::SessionState;

use super::*;

#[test]
fn every_error_says_what_to_do_and_has_its_code() {
    let lease = Lease {
        owner: "dmn_1".to_owned(),
        pid: 5,
        host: "box".to_owned(),
        epoch: 1,
        expires_in_ms: 10,
    };
    let failed = StoreError::Failed {
        operation: "write to a session".to_owned(),
        cause: "the disk is full".to_owned(),
        path: "/x".to_owned(),
    };
    let table = [
        (Error::SessionNotFound("ses_1".into()), -32001, "session/list"),
        (Error::TurnActive("turn_1".into()), -32002, "interrupt"),
        (Error::LeaseHeld(lease.clone()), -32003, "process 5 on box"),
        (Error::Store(StoreError::LeaseHeld(lease)), -32003, "process 5 on box"),
        (Error::NoProvider { known_models: vec!["demo/demo".to_owned()] }, -32004, "demo/demo"),
        (Error::CursorAhead { head: 7 }, -32006, "7"),
        (Error::Overloaded { retry_after_ms: 50 }, -32007, "50 ms"),
        (Error::NoActiveTurn, -32008, "auto"),
        (Error::ShuttingDown, -32009, "stopping"),
        (Error::Store(failed), -32010, "could not write to a session: the disk is full (/x)"),
        (Error::Unsupported { capability: "fork" }, -32015, "fork"),
        (Error::Internal("secret".to_owned()), -32603, "log"),
    ];
    for (error, code, part) in table {
        let error = of_session(error);
        assert_eq!(error.code, code, "{error:?}");
        assert!(error.message.contains(part), "{error:?}");
        assert!(!error.message.contains("secret"));
    }
    let state = SessionState::Idle;
    let error = of_session(Error::InvalidState { state, message: "nothing to resume".to_owned() });
    assert_eq!((error.code, error.message.as_str()), (-32013, "nothing to resume"));
}
