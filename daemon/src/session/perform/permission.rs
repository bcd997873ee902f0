//! Prompts: made with a preview, asked, answered by nobody where nobody can be asked, expired.
//!
//! Receives the policy's wish to ask; hands the machine prompts and their ends.

use std::time::Duration;

use agentd_protocol::event::Resolved;
use agentd_protocol::id::{CallId, PromptId};
use agentd_protocol::permission::{Prompt, Resolution, Suggestion};
use agentd_protocol::submission::OnPrompt;

use crate::permission::{Policy, Subject, Target};
use crate::session::actor::Actor;
use crate::session::input::Done;
use crate::session::plan::Plan;
use crate::session::timers::Timer;
use crate::session::work::PreparedCall;
use crate::turn::{self, Judgement, Moment};

/// What the record says where nobody could be asked.
const NOBODY: &str = "nobody could be asked: allow it beforehand by a rule or a mode, or run \
where somebody can answer";

impl Actor {
    /// The policy in force for this session.
    pub(super) fn policy(&self) -> Policy {
        let mut rules = self.services.configured_rules();
        rules.extend(self.state.rules.iter().cloned());
        let mode = match &self.state.turn {
            Some(turn) => turn.machine.permission_mode(),
            None => self.state.session.permission_mode,
        };
        Policy { mode, rules }
    }

    /// Reads the remembered rules if any changed since they were read. Nobody tells of what another
    /// daemon of a shared store remembers or forgets, so there they are read each time.
    pub(super) async fn refresh_rules(&mut self) {
        let version = self.services.rules_version();
        if version == self.state.rules_version && !self.services.store.is_shared() {
            return;
        }
        match self.services.store.rules(Some(&self.session_id)).await {
            Ok(rules) => {
                self.state.rules = rules;
                self.state.rules_version = version;
            }
            Err(error) => tracing::warn!(%error, "remembered rules cannot be read"),
        }
    }

    /// Makes a prompt; its preview may read files. A call that would fail all the same is not asked
    /// about, as long as saying so tells nothing of what is asked about.
    pub(super) fn prompt(
        &mut self,
        call: PreparedCall,
        reason: &str,
        suggestions: Vec<Suggestion>,
    ) {
        let Some(turn) = &self.state.turn else { return };
        let now = self.services.clock.now();
        let expires_at = self.prompt_timeout().map(|timeout| {
            let timeout = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
            agentd_protocol::time::Time::from_unix_millis(now.unix_millis().saturating_add(timeout))
        });
        let mut prompt = Box::new(Prompt {
            prompt_id: PromptId::from_unique(uuid::Uuid::new_v4().simple()),
            session_id: self.session_id.clone(),
            turn_id: turn.machine.turn_id().clone(),
            call_id: call.subject.call_id.clone(),
            tool: call.subject.tool.clone(),
            summary: call.prepared.summary.clone(),
            risk: call.prepared.risk,
            arguments: call.subject.arguments.clone(),
            preview: None,
            suggestions,
            requested_at: now,
            expires_at,
        });
        tracing::debug!(call = %prompt.call_id, reason, "a call is asked about");
        let context = std::sync::Arc::clone(&self.context);
        self.work.ask(call.subject.call_id.clone(), move || {
            if is_open(&call.subject)
                && let Some(reason) = call.tool.refusal(&call.subject.arguments, &context)
            {
                let (call_id, judgement) = (prompt.call_id, Judgement::Fail(reason));
                return Done::Judged { call_id, judgement };
            }
            prompt.preview = call.tool.preview(&call.subject.arguments, &context);
            Done::Asked { call_id: prompt.call_id.clone(), prompt }
        });
    }

    fn prompt_timeout(&self) -> Option<Duration> {
        self.services.config.current().permission.timeout
    }

    /// Asks; and answers at once where nobody can be asked.
    pub(in crate::session) fn ask(
        &mut self,
        call_id: CallId,
        prompt: Box<Prompt>,
        plan: &mut Plan,
        moment: &mut Moment,
    ) {
        let prompt_id = prompt.prompt_id.clone();
        let judgement = Judgement::Ask(prompt);
        self.tell_turn(turn::Input::Judged { call_id, judgement }, plan, moment);
        if self.nobody_to_ask() {
            let resolved = resolved(prompt_id, Resolution::Deny, Some(NOBODY.to_owned()));
            let input = turn::Input::Answered { resolved, interrupt: false };
            self.tell_turn(input, plan, moment);
        } else if let Some(timeout) = self.prompt_timeout() {
            self.timers.set_once(Timer::Expire, timeout);
        }
    }

    fn nobody_to_ask(&self) -> bool {
        let Some(turn) = &self.state.turn else { return false };
        let submitter = self.attached.get(turn.machine.submission_id());
        let own = submitter.and_then(|submitter| submitter.connection);
        turn.params.on_prompt == OnPrompt::Deny
            && !self.services.watchers.has_other(&self.session_id, own)
    }

    /// Ends the prompts whose time is over and sets the timer for the next one.
    pub(in crate::session) fn expire_prompts(&mut self, plan: &mut Plan, moment: &mut Moment) {
        let now = moment.now;
        let prompts = self.state.session.prompts.clone();
        let expiring = prompts.iter().filter_map(|p| Some((p, p.expires_at?)));
        let (over, open): (Vec<_>, Vec<_>) = expiring.partition(|(_, at)| *at <= now);
        for (prompt, _) in over {
            let resolved = resolved(prompt.prompt_id.clone(), Resolution::Expired, None);
            let input = turn::Input::Answered { resolved, interrupt: false };
            self.tell_turn(input, plan, moment);
        }
        if let Some(next) = open.iter().map(|(_, at)| *at).min() {
            let wait = u64::try_from(next.unix_millis() - now.unix_millis()).unwrap_or(0);
            self.timers.set(Timer::Expire, Duration::from_millis(wait));
        }
    }
}

/// Whether a call would touch nothing but what the model may know of anyway.
fn is_open(subject: &Subject) -> bool {
    let is_open =
        |target: &Target| matches!(target, Target::Path { inside: true, guarded: false, .. });
    subject.targets.iter().all(is_open)
}

fn resolved(prompt_id: PromptId, decision: Resolution, message: Option<String>) -> Resolved {
    Resolved { prompt_id, decision, scope: None, rule: None, message, by: None }
}
