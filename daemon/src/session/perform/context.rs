//! The context: how large the next request is, what could go, and the request for a summary.
//!
//! Measured when the request is about to be sent, since only then all of it is in the window.
//!
//! Receives the machine's wish for an answer or a summary; hands it measures and plans.

use agentd_protocol::event::{TurnError, TurnErrorCode};
use bytes::Bytes;

use crate::conversation::{Budget, Compaction, Pruning, Window, tokens};
use crate::provider::{ModelStream, Request, Selected};
use crate::session::actor::Actor;
use crate::session::input::Done;
use crate::store;
use crate::turn::{self, Cut, Full, MAX_FAILED_COMPACTIONS, Overflow, StreamInput};

/// What a request goes to and how large it may be.
pub(super) struct Ready {
    selected: Selected,
    /// The provider's key of encoded bytes.
    key: String,
    tools: Bytes,
    budget: Budget,
    /// The view's size, in tokens.
    tokens: u64,
}

impl Actor {
    /// Reads the window if need be, and measures it.
    pub(super) async fn ready(&mut self, selected: Selected) -> Result<Ready, store::Error> {
        if self.window.is_none() {
            self.window = Some(self.read_window().await?);
        }
        let key = selected.provider.encoding_key(&selected.name);
        let Selected { provider, name, .. } = &selected;
        let tools = self.encoded_tools(key.clone(), provider.as_ref(), name);
        let window = self.window.get_or_insert_default();
        let tools_tokens = tokens::of_bytes(tools.len());
        let options = self.state.session.model_options.as_ref();
        let longest = options.and_then(|options| options.max_output_tokens);
        let longest = longest.or(selected.facts.max_output_tokens);
        let size = window.window_of(&selected.id, selected.facts.context_window);
        let budget = Budget::new(size, longest, tools_tokens);
        let tokens = window.tokens(tools_tokens);
        Ok(Ready { selected, key, tools, budget, tokens })
    }

    /// The stream of an answer; nothing where the machine is told that the view is too large.
    pub(super) fn answer(&mut self, ready: Ready, fit: bool) -> Option<ModelStream> {
        let Ready { selected, key, tools, budget, tokens } = ready;
        let window = self.window.get_or_insert_default();
        if fit
            && budget.is_exceeded(tokens)
            && let Some(full) = full(window, &budget, tokens, None)
        {
            self.tell_next(StreamInput::Full(full));
            return None;
        }
        let fixed = window.is_unanswered().then(|| {
            let tools = tokens::of_bytes(tools.len());
            window.system_tokens() + tools
        });
        let Selected { provider, name, .. } = selected;
        let messages = window.messages(&key, provider.separator(), &mut |answers, segment| {
            provider.encode(&name, answers, segment)
        });
        self.tell_next(StreamInput::Measured { tokens, fixed });
        self.work.asked = Some((budget, tokens));
        Some(provider.stream(self.to_send(name, messages, tools)))
    }

    /// The stream of a summary; nothing where the machine is told that there is nothing to sum up.
    pub(super) fn summary(&mut self, ready: Ready, narrowed: u32) -> Option<ModelStream> {
        let Ready { selected, key, tools, budget, tokens } = ready;
        let window = self.window.get_or_insert_default();
        // What the provider says counts, else what we think.
        let tokens = if narrowed > 0 { budget.at_least(tokens) } else { tokens };
        let narrowed = narrowed.max(u32::from(budget.is_too_long(tokens)));
        let Some(plan) = window.plan_compaction(&budget, tokens) else {
            self.tell_next(StreamInput::NothingToCompact);
            return None;
        };
        let Selected { provider, name, .. } = selected;
        let messages = window.summary_messages(
            (&key, provider.separator()),
            (&budget, tokens),
            narrowed,
            &mut |answers, segment| provider.encode(&name, answers, segment),
        );
        let Compaction { until, kept, files, rest } = plan;
        let failed = window.failed_compactions();
        self.tell_next(StreamInput::Planned(Cut { until, kept, files, tokens, rest, failed }));
        Some(provider.stream(self.to_send(name, messages, tools)))
    }

    fn to_send(&self, model: String, messages: Vec<Bytes>, tools: Bytes) -> Request {
        let options = self.state.session.model_options.clone().unwrap_or_default();
        Request { model, options, messages, tools, carriage: self.work.carriage }
    }

    /// What a provider's word that an answer's request was too long comes to, if anything can be
    /// done about it.
    pub(super) fn overflow(&self, mut error: TurnError, named: Option<u64>) -> StreamInput {
        let summarizes = self.state.turn.as_ref().is_some_and(|turn| turn.machine.is_summarizing());
        let (Some(window), Some((budget, tokens))) = (&self.window, &self.work.asked) else {
            return StreamInput::Broken { error, retry: None };
        };
        if error.code != TurnErrorCode::ContextOverflow || summarizes {
            return StreamInput::Broken { error, retry: None };
        }
        let overflow = Overflow { error: error.clone(), asked: *tokens, window: named };
        // The provider knows better.
        let tokens = budget.at_least(*tokens);
        if let Some(full) = full(window, budget, tokens, Some(overflow)) {
            return StreamInput::Full(full);
        }
        if is_off(window) {
            error.message.push_str("; automatic compaction is off: run `agentctl compact`");
        }
        StreamInput::Broken { error, retry: None }
    }

    fn tell_next(&mut self, news: StreamInput) {
        self.work.ready.push_back(Done::Model(news));
    }
}

/// Whether too many compactions failed.
fn is_off(window: &Window) -> bool {
    window.failed_compactions() >= MAX_FAILED_COMPACTIONS
}

/// What can be done about a view that is too large; nothing while that is switched off.
fn full(window: &Window, budget: &Budget, tokens: u64, overflow: Option<Overflow>) -> Option<Full> {
    if is_off(window) {
        return None;
    }
    let pruning = window.plan_pruning(budget, tokens).map(|plan| {
        let Pruning { items, text, freed } = plan;
        turn::Pruning { items, text, freed }
    });
    let can = pruning.is_some() || window.plan_compaction(budget, tokens).is_some();
    can.then_some(Full { tokens, pruning, overflow })
}
