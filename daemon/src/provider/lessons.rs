//! What refusals taught about a provider: habits that no standard and no table says.
//!
//! A lesson is learned for the model that was refused, and holds for the provider's other models
//! until one of them teaches something else. Each answer to a question is learned once for a model,
//! so that a server which refuses both forms is not asked for ever. Lessons outlive a reload of the
//! configuration, as long as the provider is at the same address; a restart forgets them, and one
//! refusal brings each back.
//!
//! Receives refusals as the wire formats understand them; hands them what to send from now on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::{ModelError, ModelEvent};

/// The code of the warning that tells of a lesson.
pub const LEARNED: &str = "quirk_learned";

/// A question about a server that only a refusal answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Habit {
    /// It takes no two messages of one role in a row.
    MergesRoles,
    /// It demands its reasoning back (false: it refuses it).
    WantsReasoning,
    /// It calls the limit of an answer `max_completion_tokens` (false: `max_tokens`).
    CountsCompletion,
    /// It takes no tool whose parameters are an object without any.
    OmitsParameters,
    /// It wants an empty text where an answer has only calls.
    WantsContent,
    /// It may be asked to think (false: not this model).
    Thinks,
    /// It may be asked to think only where the answer before began with what was thought.
    ThinksOn,
    /// It may be asked for a summary of its reasoning.
    SumsUp,
}

/// What is done otherwise from now on, with the key that says it for good.
fn lesson(habit: Habit, answer: bool) -> &'static str {
    match (habit, answer) {
        (Habit::MergesRoles, _) => {
            "from now on messages of one role in a row are sent as one (`merge_roles = true`)"
        }
        (Habit::WantsReasoning, true) => {
            "from now on reasoning is sent back (`reasoning_echo = \"always\"`)"
        }
        (Habit::WantsReasoning, false) => {
            "from now on no reasoning is sent back (`reasoning_echo = \"never\"`)"
        }
        (Habit::CountsCompletion, true) => {
            "from now on an answer's limit is called so \
             (`max_tokens_field = \"max_completion_tokens\"`)"
        }
        (Habit::CountsCompletion, false) => {
            "from now on an answer's limit is called so (`max_tokens_field = \"max_tokens\"`)"
        }
        (Habit::OmitsParameters, _) => {
            "from now on tools without parameters are sent without a schema \
             (`empty_parameters = \"omit\"`)"
        }
        (Habit::Thinks, _) => "from now on it is not asked to think",
        (Habit::ThinksOn, _) => {
            "from now on it is not asked to think after an answer that did not begin with a thought"
        }
        (Habit::SumsUp, _) => "from now on it is not asked for summaries of its reasoning",
        (Habit::WantsContent, _) => {
            "from now on an answer that has only calls is sent with an empty text \
             (`null_content = \"empty\"`)"
        }
    }
}

/// What is known of one provider. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Lessons(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// By the first model that asked.
    of_provider: BTreeMap<Habit, bool>,
    of_models: BTreeMap<String, OfModel>,
}

#[derive(Debug, Default)]
struct OfModel {
    habits: BTreeMap<Habit, bool>,
    /// Every answer that was learned, also those that were given up again.
    tried: BTreeSet<(Habit, bool)>,
    window: Option<u64>,
}

impl Lessons {
    /// What was learned about `habit`, for `model`.
    pub(super) fn of(&self, model: &str, habit: Habit) -> Option<bool> {
        let known = self.lock();
        let own = known.of_models.get(model).and_then(|model| model.habits.get(&habit));
        own.or_else(|| known.of_provider.get(&habit)).copied()
    }

    /// Learns an answer. False where this one was learned before, by this model.
    pub(super) fn learn(&self, model: &str, habit: Habit, answer: bool) -> bool {
        let mut known = self.lock();
        known.of_provider.entry(habit).or_insert(answer);
        let own = known.of_models.entry(model.to_owned()).or_default();
        let is_news = own.tried.insert((habit, answer));
        if is_news {
            own.habits.insert(habit, answer);
        }
        is_news
    }

    /// Takes a failure of a request to `model` into account: the window that it names, and what it
    /// `taught`, an answer to the question of a habit. A lesson is told once, and the error says
    /// whether another attempt will be another request.
    pub(super) fn heed(
        &self,
        model: &str,
        taught: Option<(Habit, bool)>,
        error: ModelError,
    ) -> (Option<ModelEvent>, ModelError) {
        if let Some(tokens) = error.context_window {
            self.learn_window(model, tokens);
        }
        match taught {
            Some((habit, answer)) => self.teach(model, habit, answer, error),
            None => (None, error),
        }
    }

    fn teach(
        &self,
        model: &str,
        habit: Habit,
        answer: bool,
        error: ModelError,
    ) -> (Option<ModelEvent>, ModelError) {
        let is_news = self.learn(model, habit, answer);
        // Another session may have learned it while this request was under way.
        if self.of(model, habit) != Some(answer) {
            return (None, error);
        }
        let warning = is_news.then(|| {
            let message = format!("{}; {}", error.message, lesson(habit, answer));
            tracing::warn!(%model, "{message}");
            ModelEvent::Warning { code: LEARNED, message }
        });
        (warning, ModelError { adapted: true, retryable: true, ..error })
    }

    /// The window in tokens that the server said `model` has.
    pub(super) fn window(&self, model: &str) -> Option<u64> {
        self.lock().of_models.get(model)?.window
    }

    /// Learns the window of `model`. False where it is not smaller than what is known.
    pub(super) fn learn_window(&self, model: &str, tokens: u64) -> bool {
        let mut known = self.lock();
        let own = known.of_models.entry(model.to_owned()).or_default();
        let is_news = own.window.is_none_or(|window| tokens < window);
        if is_news {
            own.window = Some(tokens);
        }
        is_news
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lesson_holds_for_the_provider_until_a_model_says_otherwise() {
        let lessons = Lessons::default();
        assert_eq!(lessons.of("a", Habit::WantsReasoning), None);
        assert!(lessons.learn("a", Habit::WantsReasoning, true));
        assert_eq!(lessons.of("b", Habit::WantsReasoning), Some(true));
        assert!(lessons.clone().learn("b", Habit::WantsReasoning, false));
        let known = ["a", "b", "c"].map(|model| lessons.of(model, Habit::WantsReasoning));
        assert_eq!(known, [Some(true), Some(false), Some(true)]);
        assert_eq!(lessons.of("a", Habit::MergesRoles), None);
    }

    #[test]
    fn no_model_goes_back_and_forth() {
        let lessons = Lessons::default();
        let learned = [true, false, true, false]
            .map(|answer| lessons.learn("a", Habit::WantsReasoning, answer));
        assert_eq!(learned, [true, true, false, false]);
        assert_eq!(lessons.of("a", Habit::WantsReasoning), Some(false));
    }

    #[test]
    fn a_window_only_shrinks() {
        let lessons = Lessons::default();
        let learned = [8_192, 8_192, 16_384, 4_096].map(|size| lessons.learn_window("a", size));
        assert_eq!(learned, [true, false, false, true]);
        assert_eq!((lessons.window("a"), lessons.window("b")), (Some(4_096), None));
    }
}
