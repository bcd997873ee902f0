//! Submissions: the only way to change a session.
//!
//! A submission's id is the client's; in one session it runs at most once, however often it is
//! sent. The same id with the same parameters is answered with the first outcome.
//!
//! Receives what clients want; hands it, checked in shape, to the session's actor.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::RestoredFiles;
use crate::id::{ItemId, PromptId, SessionId, SubmissionId, TurnId};
use crate::item::Content;
use crate::permission::{PermissionMode, PermissionReply};
use crate::session::{Limits, ModelOptions};

/// What a client wants done, under an id of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The client's id, 1 to 128 characters, unique in the session.
    pub id: SubmissionId,
    /// What to do.
    pub op: Op,
}

/// What to do with an input while a turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Steer if a turn runs, else start one.
    #[default]
    Auto,
    /// Into the running turn; `no_active_turn` without one.
    Steer,
    /// A turn of its own after the running one and those already queued.
    Queue,
    /// Abort the running turn, then start, before the queue.
    Replace,
    /// `turn_active` if one runs.
    Reject,
}

/// The operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Op {
    /// Input for the model.
    UserInput {
        /// The input; not blank.
        content: Content,
        /// What to do while a turn runs.
        #[serde(default)]
        delivery: Delivery,
        /// For `steer` and `replace`: `turn_mismatch` if another turn runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_turn_id: Option<TurnId>,
    },
    /// End the running turn.
    Interrupt {
        /// Drop the queued inputs too, each with an event.
        #[serde(default)]
        drop_queue: bool,
        /// `turn_mismatch` if another turn runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_turn_id: Option<TurnId>,
    },
    /// Go on from what the record holds, without new input.
    Resume {},
    /// Compact now; runs as a turn.
    Compact {},
    /// Answer a permission prompt.
    PermissionReply(PermissionReply),
    /// Answer a question of the model.
    QuestionReply {
        /// The question.
        prompt_id: PromptId,
        /// The answer.
        answer: String,
    },
    /// Take a queued input out again.
    Dequeue {
        /// The input's submission.
        submission_id: SubmissionId,
    },
    /// End a retry's wait.
    RetryNow {},
    /// Change what holds from the next iteration on.
    Configure {
        /// The model, `provider/name`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// Options for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model_options: Option<ModelOptions>,
        /// The permission mode.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        permission_mode: Option<PermissionMode>,
        /// Limits; those that are absent stay as they are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Limits>,
    },
    /// Hide the last turns from the model's view.
    Rollback {
        /// How many.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turns: Option<u32>,
        /// Give the files that tools changed their former content.
        #[serde(default)]
        restore_files: bool,
        /// Only say what would happen.
        #[serde(default)]
        dry_run: bool,
        /// Take this rollback back instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undo: Option<ItemId>,
    },
}

impl Op {
    /// The op's `type` on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::UserInput { .. } => "user_input",
            Self::Interrupt { .. } => "interrupt",
            Self::Resume {} => "resume",
            Self::Compact {} => "compact",
            Self::PermissionReply(_) => "permission_reply",
            Self::QuestionReply { .. } => "question_reply",
            Self::Dequeue { .. } => "dequeue",
            Self::RetryNow {} => "retry_now",
            Self::Configure { .. } => "configure",
            Self::Rollback { .. } => "rollback",
        }
    }
}

/// What becomes of a turn whose submitter is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// It goes on.
    #[default]
    Continue,
    /// It is aborted after 5 s with reason `disconnected`.
    Interrupt,
}

/// What becomes of a call that would need a person's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnPrompt {
    /// It waits.
    #[default]
    Wait,
    /// It is denied at once unless another controller is subscribed.
    Deny,
}

/// Parameters of `session/submit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitParams {
    /// The session.
    pub session_id: SessionId,
    /// What to do.
    pub submission: Submission,
    /// Limits of the turn that this starts; those that are absent are the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// When the submitter is gone.
    #[serde(default)]
    pub on_disconnect: OnDisconnect,
    /// When a call needs a person's word.
    #[serde(default)]
    pub on_prompt: OnPrompt,
}

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// It started a turn.
    Started,
    /// It goes into the running turn.
    Steered,
    /// It waits for its turn.
    Queued,
    /// The running turn is being aborted for it.
    Replaced,
    /// It was done.
    Applied,
}

/// Result of `session/submit`; committed before it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubmitResult {
    /// The submission.
    pub submission_id: SubmissionId,
    /// What became of it.
    pub disposition: Disposition,
    /// The turn it started, will start, went into or ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// The session's last event at that moment.
    pub seq: u64,
    /// The same id was accepted before; nothing changed now.
    pub replayed: bool,
    /// What a rollback did; with `dry_run`, what it would do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
}

/// What a rollback does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rollback {
    /// Its marker, which `undo` names; absent for a `dry_run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<ItemId>,
    /// The items that are hidden, or shown again where a rollback is taken back.
    pub items: Vec<ItemId>,
    /// What became of files.
    pub files: RestoredFiles,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(op: &str) -> String {
        let params =
            format!(r#"{{"session_id": "ses_1", "submission": {{"id": "s", "op": {op}}}}}"#);
        match serde_json::from_str::<SubmitParams>(&params) {
            Ok(params) => panic!("{op} was taken for {:?}", params.submission.op),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_typing_mistake_is_refused_by_its_name() {
        for (op, words) in [
            (r#"{"type": "user_input", "content": "a", "delivry": "auto"}"#, "`delivry`"),
            (r#"{"type": "user_input", "content": "a", "delivery": "late"}"#, "`late`"),
            (r#"{"type": "user_input", "contents": "a"}"#, "`contents`"),
            (r#"{"type": "user_input"}"#, "`content`"),
            (r#"{"type": "user_input", "content": 5}"#, "a string or a list of parts"),
            (r#"{"type": "user_input", "content": [{"type": "text", "txt": "a"}]}"#, "`txt`"),
            (r#"{"type": "user_input", "content": [{"type": "txt", "text": "a"}]}"#, "`txt`"),
            (r#"{"type": "resume", "turn": 1}"#, "`turn`"),
            (r#"{"type": "compact", "x": 1}"#, "`x`"),
            (r#"{"type": "retry_now", "x": 1}"#, "`x`"),
            (r#"{"type": "interrupt", "drop": true}"#, "`drop`"),
            (r#"{"type": "dequeue", "submission_id": "s", "x": 1}"#, "`x`"),
            (r#"{"type": "dequeue", "submission_id": ""}"#, "1 to 128"),
            (r#"{"type": "configure", "modle": "a/b"}"#, "`modle`"),
            (r#"{"type": "configure", "limits": {"max_iteration": 1}}"#, "`max_iteration`"),
            (r#"{"type": "configure", "permission_mode": "yolo"}"#, "`yolo`"),
            (r#"{"type": "rollback", "turn": 1}"#, "`turn`"),
            (r#"{"type": "permission_reply", "prompt_id": "p", "decison": "allow"}"#, "`decison`"),
            (
                r#"{"type": "permission_reply", "prompt_id": "p", "decision": "allow", "x": 1}"#,
                "`x`",
            ),
            (r#"{"type": "permission_reply", "prompt_id": "p", "decision": "maybe"}"#, "`maybe`"),
            (r#"{"type": "permission_reply", "decision": "allow"}"#, "`prompt_id`"),
            (
                r#"{"type": "permission_reply", "prompt_id": "p", "decision": "allow",
                    "rule": {"tool": "shell", "pattern": "x", "action": "allow"}}"#,
                "`pattern`",
            ),
            (r#"{"type": "question_reply", "prompt_id": "p", "answr": "x"}"#, "`answr`"),
            (r#"{"type": "restart"}"#, "`restart`"),
            (r#"{"delivery": "auto"}"#, "`type`"),
            (r#""resume""#, "resume"),
        ] {
            let message = refusal(op);
            assert!(message.contains(words), "{op}: {message}");
        }
    }

    #[test]
    fn every_op_says_its_name() {
        for op in [
            r#"{"type": "user_input", "content": "a"}"#,
            r#"{"type": "interrupt"}"#,
            r#"{"type": "resume"}"#,
            r#"{"type": "compact"}"#,
            r#"{"type": "permission_reply", "prompt_id": "p", "decision": "deny"}"#,
            r#"{"type": "question_reply", "prompt_id": "p", "answer": ""}"#,
            r#"{"type": "dequeue", "submission_id": "s"}"#,
            r#"{"type": "retry_now"}"#,
            r#"{"type": "configure"}"#,
            r#"{"type": "rollback", "turns": 1}"#,
        ] {
            let typed: Op = serde_json::from_str(op).unwrap();
            assert!(op.contains(&format!("\"{}\"", typed.name())), "{op}");
        }
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let params = r#"{"session_id": "ses_1", "submission": {"id": "s", "op":
            {"type": "user_input", "content": "a"}}}"#;
        let params: SubmitParams = serde_json::from_str(params).unwrap();
        assert_eq!((params.on_disconnect, params.on_prompt), Default::default());
        let Op::UserInput { delivery, .. } = params.submission.op else { panic!("an input") };
        assert_eq!(delivery, Delivery::Auto);
    }
}
