//! Which rules match what a call would touch.
//!
//! A rule that allows must match for certain; one that restricts matches whenever it may be meant.
//! A pattern that cannot be read therefore never allows and always restricts.
//!
//! Receives rules and targets from `policy`; hands back the actions that are pooled.

use std::path::Path;

use agentd_protocol::permission::{Action, Rule, RuleInForce, RuleOrigin};
use globset::GlobBuilder;

use super::command::{self, Pattern};
use super::{Subject, Target};

/// Whether the rule speaks about this target of the call; `None` stands for a call that touches
/// nothing that can be named.
pub(super) fn matches(rule: &RuleInForce, subject: &Subject, target: Option<&Target>) -> bool {
    let Rule { tool, pattern, action } = &rule.rule;
    if tool != "*" && *tool != subject.tool {
        return false;
    }
    if *action == Action::Allow && rule.origin == RuleOrigin::Project {
        let named = pattern.is_some();
        match target {
            // What no mode of a project allows, its rules cannot allow either.
            Some(Target::Path { inside: false, .. } | Target::Host(_)) => return false,
            Some(Target::Command(_)) if !named => return false,
            _ => {}
        }
    }
    let Some(pattern) = pattern else { return true };
    match target {
        // A process has no name that anybody could have written into a rule.
        None | Some(Target::Process(_)) => false,
        Some(Target::Command(line)) => match action {
            Action::Allow => allows_command(pattern, line),
            Action::Ask | Action::Deny => restricts_command(pattern, line),
        },
        // The pattern of a tool that runs commands is a command, not a path.
        Some(Target::Path { .. }) if runs_commands(subject) => false,
        Some(Target::Path { path, .. }) => {
            path_matches(pattern, &subject.cwd, path).unwrap_or(*action != Action::Allow)
        }
        Some(Target::Host(host)) => host_matches(pattern, host).unwrap_or(*action != Action::Allow),
    }
}

/// Whether a restrictive pattern may concern this command though it cannot be seen to: in a line
/// that is not simple, behind a program that runs others, or behind one that nobody named. `named`
/// says that an allow rule names the program.
pub(super) fn may_hide(
    rule: &RuleInForce,
    subject: &Subject,
    target: Option<&Target>,
    named: bool,
) -> bool {
    let Some(Target::Command(line)) = target else { return false };
    let concerns = rule.rule.tool == "*" || rule.rule.tool == subject.tool;
    let restrictive = rule.rule.action != Action::Allow && concerns;
    let Some(pattern) = rule.rule.pattern.as_deref().filter(|_| restrictive) else { return false };
    let Some(words) = command::words(line) else { return true };
    let indirect = words.first().is_some_and(|program| command::is_indirect(program));
    let pattern = Pattern::loose(pattern);
    indirect || (!named && (1..words.len()).any(|start| pattern.matches(&words[start..])))
}

/// Whether the pattern starts with a program's name.
pub(super) fn names_program(rule: &Rule) -> bool {
    let program = rule.pattern.as_deref().and_then(|pattern| pattern.split_whitespace().next());
    program.is_some_and(|program| !program.contains('*'))
}

/// Whether the pattern stands for one command only.
pub(super) fn is_exact_command(rule: &Rule) -> bool {
    rule.pattern.as_deref().is_some_and(|pattern| !pattern.contains('*'))
}

/// Whether the rule names this path and no other.
pub(super) fn names(rule: &Rule, path: &Path) -> bool {
    rule.pattern.as_deref() == Some(globset::escape(&path.to_string_lossy()).as_str())
}

fn runs_commands(subject: &Subject) -> bool {
    subject.targets.iter().any(|target| matches!(target, Target::Command(_)))
}

fn allows_command(pattern: &str, line: &str) -> bool {
    match (Pattern::strict(pattern), command::words(line)) {
        (Some(pattern), Some(words)) => pattern.matches(&words),
        _ => false,
    }
}

fn restricts_command(pattern: &str, line: &str) -> bool {
    let pattern = Pattern::loose(pattern);
    if command::words(line).is_some_and(|words| pattern.matches(&words)) {
        return true;
    }
    command::fragments(line).iter().any(|(words, indirect)| {
        let starts = if *indirect { words.len() } else { 1 };
        (0..starts).any(|start| pattern.matches(&words[start..]))
    })
}

/// Relative patterns start at `cwd`; `*` stays within a path component. `None`: not a glob.
fn path_matches(pattern: &str, cwd: &Path, path: &Path) -> Option<bool> {
    let absolute = if Path::new(pattern).is_absolute() {
        pattern.to_owned()
    } else {
        let cwd = globset::escape(&cwd.to_string_lossy());
        format!("{}/{pattern}", cwd.trim_end_matches('/'))
    };
    let glob = GlobBuilder::new(&absolute).literal_separator(true).build().ok()?;
    Some(glob.compile_matcher().is_match(path))
}

fn host_matches(pattern: &str, host: &str) -> Option<bool> {
    let glob = GlobBuilder::new(pattern).case_insensitive(true).build().ok()?;
    Some(glob.compile_matcher().is_match(host))
}
