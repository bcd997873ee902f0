//! Identifiers: opaque strings with a prefix that says what they name.
//!
//! Every id the daemon hands out is a prefix and a unique part (sortable by time, but for prompt
//! ids, which are random so that nobody can guess one). A client never takes an id apart and never
//! makes one, except for [`SubmissionId`], which is the client's own choice and the key under
//! which a submission runs at most once.
//!
//! Receives strings from the wire; hands typed names to every other module.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// What every id of this kind starts with.
            pub const PREFIX: &str = $prefix;

            /// The id whose unique part is `unique`.
            pub fn from_unique(unique: impl fmt::Display) -> Self {
                Self(format!(concat!($prefix, "{}"), unique).into())
            }

            /// The id as it is on the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

ids! {
    /// A session: one conversation with its directory, model, limits and mode.
    SessionId "ses_";
    /// A turn: what one submission set off, up to its terminal event.
    TurnId "turn_";
    /// An item: one entry of the conversation.
    ItemId "item_";
    /// A tool call. Never the provider's own id, which may repeat.
    CallId "call_";
    /// A prompt: a question for a person that holds a call back. Random.
    PromptId "prm_";
    /// A permission rule that can be forgotten again.
    RuleId "rule_";
    /// A background process started by a tool.
    ProcessId "proc_";
    /// A remembered fact or a candidate for one.
    MemoryId "mem_";
    /// A skill or a candidate for one.
    SkillId "skill_";
    /// One run of the daemon.
    DaemonId "dmn_";
}

/// A submission's id, chosen by the client: 1 to 128 characters, unique in its session.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct SubmissionId(#[schemars(length(min = 1, max = 128))] Arc<str>);

/// A submission id that is empty or longer than 128 characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a submission id has 1 to 128 characters, this one has {0}")]
pub struct InvalidSubmissionId(usize);

impl SubmissionId {
    /// The longest id, in characters.
    pub const MAX_CHARS: usize = 128;

    /// The id as it is on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SubmissionId {
    type Error = InvalidSubmissionId;

    fn try_from(text: String) -> Result<Self, InvalidSubmissionId> {
        match text.chars().count() {
            1..=Self::MAX_CHARS => Ok(Self(text.into())),
            count => Err(InvalidSubmissionId(count)),
        }
    }
}

impl From<SubmissionId> for String {
    fn from(id: SubmissionId) -> Self {
        id.0.as_ref().to_owned()
    }
}

impl fmt::Display for SubmissionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SubmissionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_their_text() {
        let id = TurnId::from_unique("01h");
        assert_eq!(id.as_str(), "turn_01h");
        assert_eq!(format!("{id} {id:?}"), "turn_01h turn_01h");
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"turn_01h\"");
        assert_eq!(serde_json::from_str::<TurnId>("\"turn_01h\"").unwrap(), id);
        // A client's ids are told apart by what they name, not by their looks.
        assert_eq!(serde_json::from_str::<TurnId>("\"x\"").unwrap(), TurnId::from("x"));
        assert!(serde_json::from_str::<TurnId>("7").is_err());
    }

    #[test]
    fn prefixes_differ() {
        let mut prefixes = [
            SessionId::PREFIX,
            TurnId::PREFIX,
            ItemId::PREFIX,
            CallId::PREFIX,
            PromptId::PREFIX,
            RuleId::PREFIX,
            ProcessId::PREFIX,
            MemoryId::PREFIX,
            SkillId::PREFIX,
            DaemonId::PREFIX,
        ];
        prefixes.sort_unstable();
        assert!(prefixes.windows(2).all(|pair| !pair[1].starts_with(pair[0])), "{prefixes:?}");
    }

    #[test]
    fn a_submission_id_has_1_to_128_characters() {
        for (text, fine) in
            [("", false), ("a", true), (&"é".repeat(128), true), (&"x".repeat(129), false)]
        {
            let json = serde_json::to_string(text).unwrap();
            let parsed = serde_json::from_str::<SubmissionId>(&json);
            assert_eq!(parsed.is_ok(), fine, "{text:?}");
            match parsed {
                Ok(id) => assert_eq!(id.as_str(), text),
                Err(error) => assert!(error.to_string().contains("1 to 128"), "{error}"),
            }
        }
    }
}
