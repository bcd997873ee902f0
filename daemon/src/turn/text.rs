//! The sentences that agentd itself says to a model.
//!
//! They are part of the record and of the prefix that providers cache, so they change rarely.
//!
//! Receives nothing; hands texts to the machine.

use agentd_protocol::event::{AbortReason, Limit, LimitScope};
use agentd_protocol::process::{ProcessEnd, ProcessExit};

/// The result of a call that had not started when its turn was cut off.
pub(super) const INTERRUPTED_BEFORE_START: &str = "Tool execution was interrupted before a result \
     was recorded. This call must be retried if still needed.";

/// The result of a call that had started when its turn was cut off.
pub const INTERRUPTED_AFTER_START: &str = "Tool execution was interrupted after it had \
     started. It may have taken effect; its outcome is unknown. Check before you repeat it.";

/// The result of a call in an iteration that was announced as the last.
pub(super) const LAST_STEP: &str = "Not run: this was the last step.";

/// The result of the last call of an answer that the output limit cut.
pub(super) const CUT_OFF: &str = "Not run: the answer was cut off by the output limit, so this \
     call may be incomplete. Send it again, in smaller pieces if it is long.";

/// The result of a call that has succeeded before.
pub(super) const DUPLICATE: &str = "Not run again: the same call succeeded before in this turn \
     and nothing has changed since. Use its earlier result.";

/// Asks once more for an answer that had neither text nor call.
pub(super) const NO_TEXT: &str =
    "Your last answer was empty. Answer the user, or call a tool if there is work left.";

/// Asks for the rest of an answer that the output limit cut.
pub(super) const CONTINUE: &str = "Your last answer was cut off by the output limit. Go on exactly \
     where it stopped, without repeating what you have written.";

/// No answer is old enough to be summed up.
pub(super) const NOTHING_TO_COMPACT: &str =
    "there is nothing that a summary could take the place of";

/// A model was asked for a summary.
pub(super) const NO_SUMMARY: &str = "the model wrote no summary";

/// Says that nothing is compacted any more unasked.
pub(super) fn compaction_off(failures: u32) -> String {
    format!(
        "automatic compaction is off for this session, after {failures} in a row that failed or \
         freed little: `agentctl compact` turns it on again once one succeeds"
    )
}

/// What a model reads in the place of what was summed up.
pub(super) fn summary(said: &str, files: &str, in_the_middle: bool) -> String {
    let mut text = format!(
        "This sums up the conversation up to here; of what was before, only the user's words \
         above are kept.\n\n{said}"
    );
    if !files.is_empty() {
        text.push_str("\n\nFiles that calls have named so far, by tool:\n");
        text.push_str(files.trim_end());
    }
    if in_the_middle {
        text.push_str("\n\nGo on with the work where it stopped.");
    }
    text
}

/// About how many tokens so many bytes of text are.
pub(super) fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

/// Asks for an answer after a record that did not fit together.
pub(super) const RECHECK: &str = "Go on and answer the latest input.";

/// The result of a call whose prompt nobody answered in time.
pub(super) const EXPIRED: &str =
    "Permission denied: nobody answered the prompt in time. Go on without this call if you can.";

/// What a denied call's result says.
pub(super) fn denied(message: Option<&str>) -> String {
    match message {
        Some(message) => format!("Permission denied: {message}"),
        None => "Permission denied by the user.".to_owned(),
    }
}

const LIMITS: [Limit; 4] = [Limit::Iterations, Limit::Tokens, Limit::Cost, Limit::Duration];
const SCOPES: [LimitScope; 2] = [LimitScope::Turn, LimitScope::Session];

/// Announces the last step.
pub(super) fn last_step_notice(limit: Limit, scope: LimitScope) -> String {
    let what = match limit {
        Limit::Iterations => "number of steps",
        Limit::Tokens => "token budget",
        Limit::Cost => "cost budget",
        Limit::Duration => "time budget",
        Limit::NoProgress => "progress",
    };
    let whose = match scope {
        LimitScope::Turn => "this turn",
        LimitScope::Session => "this session",
    };
    format!(
        "This is the last step: the {what} of {whose} is used up. Do not call tools. Report what \
         is done and what is left."
    )
}

/// The limit that a notice of [`last_step_notice`] announced.
pub(super) fn announced_limit(notice: &str) -> Option<(Limit, LimitScope)> {
    LIMITS
        .into_iter()
        .flat_map(|limit| SCOPES.map(|scope| (limit, scope)))
        .find(|(limit, scope)| last_step_notice(*limit, *scope) == notice)
}

const CHANGED_TO: &str = "From here on, the model of this session is ";

/// Says that another model goes on from here.
pub(super) fn model_changed(model: &str) -> String {
    format!("{CHANGED_TO}{model}.")
}

/// The model that a note of [`model_changed`] named.
pub(super) fn changed_model(note: &str) -> Option<&str> {
    note.strip_prefix(CHANGED_TO)?.strip_suffix('.')
}

/// Characters of a command in a note.
const LINE_CHARS: usize = 200;

/// Tells of background commands that ended; nothing where the model had them ended.
pub(super) fn exits_note(exits: &[ProcessExit]) -> Option<String> {
    let news: Vec<&ProcessExit> =
        exits.iter().filter(|exit| exit.reason != ProcessEnd::Killed).collect();
    let line = |exit: &&ProcessExit| {
        let command = exit.command.split_whitespace().collect::<Vec<_>>().join(" ");
        let cut = command.chars().nth(LINE_CHARS).map_or("", |_| "…");
        let command: String = command.chars().take(LINE_CHARS).collect();
        format!("The background command {} (`{command}{cut}`) {}.", exit.process_id, exit.how())
    };
    let mut lines: Vec<String> = news.iter().map(line).collect();
    if news.iter().any(|exit| exit.reason != ProcessEnd::Stopped) {
        lines.push("shell_output shows what was written last.".to_owned());
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Tells a model why there is a new turn without new input.
pub fn resume_note(ended: Option<AbortReason>) -> String {
    let why = match ended {
        Some(AbortReason::Crashed) => "agentd was stopped without warning",
        Some(AbortReason::Shutdown) => "agentd was stopped",
        Some(AbortReason::LeaseLost) => "another process took the session over",
        Some(_) => "it was interrupted",
        None => "it ended early",
    };
    format!(
        "Go on with the work of the last turn: {why}. Where the outcome of a call is unknown, \
         check before you repeat it."
    )
}
