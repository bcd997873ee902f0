//! Questions the model asks the user.
//!
//! Receives answers from clients; hands open questions to them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{PromptId, SessionId, SubmissionId};
use crate::permission::Prompt;

/// Parameters of `question/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuestionListParams {
    /// Only this session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

/// Result of `question/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionListResult {
    /// The open questions, oldest first.
    pub prompts: Vec<Prompt>,
}

/// Parameters of `question/reply`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuestionReplyParams {
    /// The client's id for this answer; the same id again is replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<SubmissionId>,
    /// The question.
    pub prompt_id: PromptId,
    /// The answer.
    pub answer: String,
}
