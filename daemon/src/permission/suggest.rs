//! Rules that an answer to a prompt may carry.
//!
//! A suggestion is never wider than the call it came from allows: a path is named exactly, a
//! command exactly too, unless its first two words are a family whose further words only say what
//! to show or check. So nothing wide is ever offered for an interpreter or a wrapper.
//!
//! Receives what was asked about from `policy` and answers from `session`; hands suggestions and
//! yes or no back.

use agentd_protocol::permission::{Action, Prompt, Rule, Scope, Suggestion};

use super::Target;
use super::command::{self, Pattern};

/// Commands that only show or stage things, whatever words follow. (`git diff` is none: its
/// `--output` writes anywhere. Nor is anything of `cargo`: its `--config` runs anything.)
const FAMILIES: &[(&str, &str)] =
    &[("git", "status"), ("git", "add"), ("git", "ls-files"), ("git", "rev-parse")];

/// The suggestions for a call that asks about these targets; none if it asks about several things
/// at once, since an answer carries one rule.
pub(super) fn suggestions(tool: &str, asked: &[Option<&Target>]) -> Vec<Suggestion> {
    let [Some(target)] = asked else { return Vec::new() };
    let Some(pattern) = pattern_for(target) else { return Vec::new() };
    let rule = Rule { tool: tool.to_owned(), pattern: Some(pattern), action: Action::Allow };
    [Scope::Session, Scope::Project, Scope::Always]
        .map(|scope| Suggestion { scope, rule: rule.clone() })
        .to_vec()
}

/// Whether an answer to this prompt may have this rule remembered: it is one of the suggestions or
/// narrower.
pub fn may_remember(prompt: &Prompt, rule: &Rule) -> bool {
    rule.action == Action::Allow
        && prompt.suggestions.iter().any(|suggestion| is_within(&suggestion.rule, rule))
}

fn is_within(wide: &Rule, narrow: &Rule) -> bool {
    if wide.tool != narrow.tool || wide.action != narrow.action {
        return false;
    }
    let (Some(wide), Some(narrow)) = (&wide.pattern, &narrow.pattern) else {
        return wide.pattern.is_none();
    };
    // Only suggestions for commands have room below them; a path or a host is named exactly.
    wide == narrow
        || (wide.ends_with(" *")
            && match (Pattern::strict(wide), Pattern::strict(narrow)) {
                (Some(wide), Some(narrow)) => wide.covers(&narrow),
                _ => false,
            })
}

fn pattern_for(target: &Target) -> Option<String> {
    match target {
        Target::Path { path, .. } => Some(globset::escape(path.to_str()?)),
        Target::Host(host) => Some(globset::escape(host)),
        Target::Process(_) => None,
        Target::Command(line) => {
            let words = command::words(line)?;
            if let [program, sub, ..] = words.as_slice()
                && FAMILIES.contains(&(program, sub))
            {
                return Some(format!("{program} {sub} *"));
            }
            let exact = !words.iter().any(|word| word.contains('*'));
            exact.then(|| line.trim().to_owned())
        }
    }
}
