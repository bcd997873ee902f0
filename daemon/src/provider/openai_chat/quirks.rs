//! What a server of this format wants, and what its refusals teach.
//!
//! The format is one that everybody varies. The table of a provider says how where it can; where it
//! says `auto`, the most common form is sent, and a refusal of that form is understood, remembered
//! ([`Lessons`]) and worth one more attempt in the other form. The same request is never sent again
//! unchanged: what was refused for its form is refused again.
//!
//! Invariant: whatever servers say, the attempts that lessons cause are bounded, since each answer
//! is learned once for a model.
//!
//! Receives a provider's table and refusals; hands the [`Profile`] of a model to `encode`.

use agentd_protocol::event::TurnErrorCode;

use super::encode::Profile;
use crate::config::{
    Auto, EmptyParameters, MaxTokensField, NullContent, ProviderConfig, ReasoningEcho, SystemRole,
};
use crate::provider::lessons::{Habit, Lessons};
use crate::provider::{ModelError, ModelEvent};

/// A provider's table, and what was learned beside it.
#[derive(Debug)]
pub(super) struct Quirks {
    reasoning: ReasoningEcho,
    content: NullContent,
    parameters: EmptyParameters,
    roles: Auto,
    max_tokens: MaxTokensField,
    system: SystemRole,
    /// OpenAI itself: its newer models know the newer names only.
    is_openai: bool,
    lessons: Lessons,
}

impl Quirks {
    pub(super) fn new(config: &ProviderConfig, host: &str, lessons: Lessons) -> Self {
        Self {
            reasoning: config.reasoning_echo,
            content: config.null_content,
            parameters: config.empty_parameters,
            roles: config.merge_roles,
            max_tokens: config.max_tokens_field,
            system: config.system_role,
            is_openai: host == "api.openai.com",
            lessons,
        }
    }

    /// What to send to `model`, as far as is known by now.
    pub(super) fn profile(&self, model: &str) -> Profile {
        let is = |habit: Habit| {
            self.configured(habit)
                .or_else(|| self.lessons.of(model, habit))
                .unwrap_or(habit == Habit::CountsCompletion && self.is_openai)
        };
        Profile {
            echoes_reasoning: is(Habit::WantsReasoning),
            fills_content: is(Habit::WantsContent),
            omits_parameters: is(Habit::OmitsParameters),
            merges_roles: is(Habit::MergesRoles),
            counts_completion: is(Habit::CountsCompletion),
            is_developer: self.system == SystemRole::Developer,
        }
    }

    /// What the table says of a habit; nothing for `auto`.
    fn configured(&self, habit: Habit) -> Option<bool> {
        match habit {
            Habit::WantsReasoning => self.reasoning.said(),
            Habit::WantsContent => match self.content {
                NullContent::Auto => None,
                NullContent::Null => Some(false),
                NullContent::Empty => Some(true),
            },
            Habit::OmitsParameters => match self.parameters {
                EmptyParameters::Auto => None,
                EmptyParameters::Object => Some(false),
                EmptyParameters::Omit => Some(true),
            },
            Habit::MergesRoles => match self.roles {
                Auto::Auto => None,
                Auto::On => Some(true),
                Auto::Off => Some(false),
            },
            Habit::CountsCompletion => match self.max_tokens {
                MaxTokensField::Auto => None,
                MaxTokensField::MaxTokens => Some(false),
                MaxTokensField::MaxCompletionTokens => Some(true),
            },
            // Questions of other formats.
            Habit::Thinks | Habit::ThinksOn | Habit::SumsUp => None,
        }
    }

    /// Takes a failure into account: of a request to `model` that was `sent` in this form. What was
    /// learned is told; the error says whether another attempt will be another request.
    pub(super) fn learn(
        &self,
        model: &str,
        sent: Profile,
        error: ModelError,
    ) -> (Option<ModelEvent>, ModelError) {
        let open = |(habit, _): &(Habit, bool)| self.configured(*habit).is_none();
        self.lessons.heed(model, refused_form(sent, &error).filter(open), error)
    }
}

/// Which form a server refused, and whether its other form is the habit itself. Nothing where the
/// refusal is about something else, or the other form is what was sent.
fn refused_form(sent: Profile, error: &ModelError) -> Option<(Habit, bool)> {
    let is_about_form = error.code == TurnErrorCode::ProviderRefused
        && !matches!(error.status, Some(401 | 403 | 404 | 409));
    if !is_about_form {
        return None;
    }
    let words = error.message.to_ascii_lowercase();
    let says = |any: &[&str]| any.iter().any(|part| words.contains(part));
    let unknown = says(&UNKNOWN);
    if says(&["reasoning_content", "reasoning content", "reasoning_details"])
        || (sent.echoes_reasoning && unknown && !says(&["max_tokens", "max_completion_tokens"]))
    {
        let wants =
            !unknown && says(&["must", "missing", "required", "pass", "provide", "expected"]);
        return (wants != sent.echoes_reasoning && (wants || unknown))
            .then_some((Habit::WantsReasoning, wants));
    }
    if says(&["must alternate", "alternating roles", "alternate user/assistant", "roles alternate"])
    {
        return (!sent.merges_roles).then_some((Habit::MergesRoles, true));
    }
    if says(&["max_completion_tokens"]) || (says(&["max_tokens"]) && unknown) {
        let counts = !sent.counts_completion;
        return (counts || unknown).then_some((Habit::CountsCompletion, counts));
    }
    if says(&["properties"]) && says(&["empty", "at least one", "object type", "minproperties"]) {
        return (!sent.omits_parameters).then_some((Habit::OmitsParameters, true));
    }
    let no_content = says(&["nonetype", "content: null"])
        || (says(&["content"])
            && says(&["null", "none", "required", "missing", "string", "str type"]));
    (no_content && !sent.fills_content).then_some((Habit::WantsContent, true))
}

/// How servers say that they do not know a field.
const UNKNOWN: [&str; 12] = [
    "unknown",
    "unexpected",
    "unrecognized",
    "unsupported",
    "not supported",
    "not permitted",
    "not allowed",
    "additional propert",
    "extra field",
    "extra input",
    "extra_forbidden",
    "does not accept",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, message: &str) -> ModelError {
        let error = ModelError::new(TurnErrorCode::ProviderRefused, message);
        ModelError { status: Some(status), ..error }
    }

    fn quirks(change: impl FnOnce(&mut ProviderConfig)) -> Quirks {
        let mut config = ProviderConfig::default();
        change(&mut config);
        Quirks::new(&config, "host", Lessons::default())
    }

    #[test]
    fn refusals_are_understood() {
        let plain = Profile::default();
        let table = [
            (
                400,
                "Conversation roles must alternate user/assistant/user/assistant/...",
                (Habit::MergesRoles, true),
            ),
            (
                500,
                "After the optional system message, conversation roles must alternate",
                (Habit::MergesRoles, true),
            ),
            (
                400,
                "The `reasoning_content` in the thinking mode must be passed back to the API.",
                (Habit::WantsReasoning, true),
            ),
            (
                400,
                "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
                (Habit::WantsReasoning, true),
            ),
            (
                400,
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                (Habit::CountsCompletion, true),
            ),
            (
                400,
                "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties: should be non-empty for OBJECT type",
                (Habit::OmitsParameters, true),
            ),
            (
                400,
                "tools.0.function.parameters.properties must not be empty",
                (Habit::OmitsParameters, true),
            ),
            (
                400,
                "Invalid type for 'messages[2].content': expected a string, got null instead.",
                (Habit::WantsContent, true),
            ),
            (
                422,
                "messages.2.content: Input should be a valid string",
                (Habit::WantsContent, true),
            ),
            (
                500,
                "Value is not callable: can only concatenate str (not \"NoneType\") to str",
                (Habit::WantsContent, true),
            ),
        ];
        for (status, message, expected) in table {
            let found = refused_form(plain, &refusal(status, message));
            assert_eq!(found, Some(expected), "{message}");
        }
        for (status, message) in [
            (400, "bad"),
            (400, "temperature must be below 2"),
            (401, "reasoning_content must be passed"),
            (400, "max_tokens is too large: this model supports at most 4096 completion tokens"),
            (400, "Invalid schema for function 'x': 'q' is not in properties"),
        ] {
            assert_eq!(refused_form(plain, &refusal(status, message)), None, "{message}");
        }
    }

    #[test]
    fn a39_a_refused_echo_is_given_up() {
        let echoing = Profile { echoes_reasoning: true, ..Profile::default() };
        for message in [
            "messages.2.reasoning_content: Extra inputs are not permitted",
            "property 'messages.2' : unknown field",
            "property 'reasoning_content' is unsupported",
            "Additional properties are not allowed ('reasoning_content' was unexpected)",
        ] {
            let found = refused_form(echoing, &refusal(422, message));
            assert_eq!(found, Some((Habit::WantsReasoning, false)), "{message}");
            let silent = refused_form(Profile::default(), &refusal(422, message));
            assert_eq!(silent, None, "{message}");
        }
    }

    #[test]
    fn a_lesson_is_told_once_and_tried_once_more() {
        let quirks = quirks(|_| {});
        let sent = quirks.profile("m");
        let error = || refusal(400, "roles must alternate");
        let (warning, first) = quirks.learn("m", sent, error());
        assert!(
            matches!(warning, Some(ModelEvent::Warning { code: "quirk_learned", .. })),
            "{warning:?}"
        );
        assert!(first.adapted && first.retryable);
        assert!(quirks.profile("m").merges_roles && quirks.profile("other").merges_roles);
        // One that was under way meanwhile is sent again, and nothing is told twice.
        let (warning, second) = quirks.learn("m", sent, error());
        assert_eq!((warning, second.adapted), (None, true));
        // Refused in the other form too: that is final.
        let (warning, third) = quirks.learn("m", quirks.profile("m"), error());
        assert_eq!((warning, third), (None, error()));
    }

    #[test]
    fn nobody_is_asked_for_ever() {
        let quirks = quirks(|_| {});
        let mut adapted = 0;
        for round in 0..10 {
            let sent = quirks.profile("m");
            let message = if sent.echoes_reasoning { "unknown" } else { "must be passed back" };
            let error = refusal(400, &format!("reasoning_content {message}"));
            adapted += u32::from(quirks.learn("m", sent, error).1.adapted);
            assert!(round > 1 || adapted == round + 1);
        }
        assert_eq!(adapted, 2);
        assert!(!quirks.profile("m").echoes_reasoning);
    }

    #[test]
    fn a_table_that_says_it_is_not_taught() {
        let quirks = quirks(|config| {
            config.merge_roles = Auto::Off;
            config.reasoning_echo = ReasoningEcho::Never;
        });
        for message in ["roles must alternate", "reasoning_content must be passed back"] {
            let (warning, error) = quirks.learn("m", quirks.profile("m"), refusal(400, message));
            assert_eq!((warning, error.adapted), (None, false), "{message}");
        }
    }

    #[test]
    fn the_limit_has_the_name_that_its_server_knows() {
        let of = |field, host: &str| {
            let config = ProviderConfig { max_tokens_field: field, ..ProviderConfig::default() };
            Quirks::new(&config, host, Lessons::default()).profile("m").counts_completion
        };
        assert!(of(MaxTokensField::Auto, "api.openai.com"));
        assert!(!of(MaxTokensField::Auto, "127.0.0.1"));
        assert!(of(MaxTokensField::MaxCompletionTokens, "127.0.0.1"));
        assert!(!of(MaxTokensField::MaxTokens, "api.openai.com"));
    }
}
