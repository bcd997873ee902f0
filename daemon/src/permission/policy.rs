//! The judgement: a mode and pooled rules against what a call would touch.
//!
//! Each target is judged on its own and the strictest verdict is the call's. Among the rules that
//! match, deny beats ask beats allow, whoever wrote them; without a match the mode decides. Three
//! things stand above that: `plan` is a ceiling that no rule lifts, a guarded path asks unless a
//! remembered answer names it, and no rule that allows lifts one that denies.
//!
//! Receives subjects from `session`; hands it verdicts, and the only approved calls there are.

use agentd_protocol::permission::{
    Action, PermissionMode, Resolution, Risk, Rule, RuleInForce, RuleOrigin,
};

use super::{ApprovedCall, PathAccess, Subject, Target, Verdict, rule, suggest};

/// The rules of a session at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// What happens where no rule decides.
    pub mode: PermissionMode,
    /// All rules in force, in any order.
    pub rules: Vec<RuleInForce>,
}

enum Ruling {
    Allow,
    Ask(String),
    Deny(String),
}

/// The columns of the table of modes.
#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
    Execute,
    Elsewhere,
    /// The session's own processes.
    Own,
}

impl Policy {
    /// Judges a call.
    pub fn judge(&self, subject: &Subject) -> Verdict {
        let mut reasons = Vec::new();
        let mut asked = Vec::new();
        for target in targets(subject) {
            match self.judge_target(subject, target) {
                Ruling::Allow => {}
                Ruling::Ask(reason) => {
                    asked.push(target);
                    if !reasons.contains(&reason) {
                        reasons.push(reason);
                    }
                }
                Ruling::Deny(reason) => return Verdict::Deny { reason },
            }
        }
        if reasons.is_empty() {
            return Verdict::Allow(approve(subject));
        }
        Verdict::Ask {
            reason: reasons.join("; "),
            suggestions: suggest::suggestions(&subject.tool, &asked),
        }
    }

    /// Approves a call on a person's word. `Err` says why it may not run all the same: the word
    /// was no, or a rule or the mode denies the call by now.
    pub fn grant(&self, subject: &Subject, resolution: Resolution) -> Result<ApprovedCall, String> {
        match resolution {
            Resolution::Allow => match self.judge(subject) {
                Verdict::Allow(call) => Ok(call),
                Verdict::Ask { .. } => Ok(approve(subject)),
                Verdict::Deny { reason } => Err(reason),
            },
            Resolution::Deny => Err("it was denied".to_owned()),
            Resolution::Cancelled => Err("the turn ended before an answer".to_owned()),
            Resolution::Expired => Err("nobody answered in time".to_owned()),
        }
    }

    fn judge_target(&self, subject: &Subject, target: Option<&Target>) -> Ruling {
        let kind = kind_of(subject, target);
        if self.mode == PermissionMode::Plan && !matches!(kind, Kind::Read) {
            return Ruling::Deny(format!("mode plan only reads in the workspace, {}", is(kind)));
        }
        let matched: Vec<&RuleInForce> =
            self.rules.iter().filter(|rule| rule::matches(rule, subject, target)).collect();
        if let Some(rule) = with_action(&matched, Action::Deny).next() {
            return Ruling::Deny(format!("{} denies it", name(rule)));
        }
        if let Some(rule) = with_action(&matched, Action::Ask).find(|ask| !lifted(ask, &matched)) {
            return Ruling::Ask(format!("{} asks", name(rule)));
        }
        let allowed = |is: fn(&Rule) -> bool| {
            with_action(&matched, Action::Allow).any(|allow| is(&allow.rule))
        };
        let named = allowed(rule::names_program);
        let mut rules = self.rules.iter();
        if !allowed(rule::is_exact_command)
            && let Some(rule) = rules.find(|r| rule::may_hide(r, subject, target, named))
        {
            return Ruling::Ask(format!(
                "the command cannot be read for certain, and {} may concern it",
                name(rule)
            ));
        }
        if let Some(Target::Path { path, guarded: true, .. }) = target
            && self.mode != PermissionMode::Full
            && !with_action(&matched, Action::Allow)
                .any(|allow| is_answer(allow) && rule::names(&allow.rule, path))
        {
            return Ruling::Ask(format!("{} is a guarded path", path.display()));
        }
        if with_action(&matched, Action::Allow).next().is_some() {
            return Ruling::Allow;
        }
        match by_mode(self.mode, kind) {
            Action::Allow => Ruling::Allow,
            Action::Ask => Ruling::Ask(format!("{} in mode {}", is(kind), mode_name(self.mode))),
            Action::Deny => Ruling::Deny(format!("{} in mode {}", is(kind), mode_name(self.mode))),
        }
    }
}

fn approve(subject: &Subject) -> ApprovedCall {
    ApprovedCall {
        call_id: subject.call_id.clone(),
        tool: subject.tool.clone(),
        arguments: subject.arguments.clone(),
        targets: subject.targets.clone(),
    }
}

/// What is judged one by one: the targets, or the call itself where it names none.
fn targets(subject: &Subject) -> Vec<Option<&Target>> {
    if subject.targets.is_empty() {
        return vec![None];
    }
    subject.targets.iter().map(Some).collect()
}

fn kind_of(subject: &Subject, target: Option<&Target>) -> Kind {
    match target {
        Some(Target::Path { inside: false, .. } | Target::Host(_)) => Kind::Elsewhere,
        Some(Target::Path { access: PathAccess::Read, .. }) => Kind::Read,
        Some(Target::Path { access: PathAccess::Write, .. }) => Kind::Write,
        Some(Target::Command(_)) => Kind::Execute,
        Some(Target::Process(_)) => Kind::Own,
        None => match subject.risk {
            Risk::Read => Kind::Read,
            Risk::Write => Kind::Write,
            Risk::Execute => Kind::Execute,
            Risk::Network => Kind::Elsewhere,
        },
    }
}

fn by_mode(mode: PermissionMode, kind: Kind) -> Action {
    match (mode, kind) {
        (_, Kind::Read)
        | (PermissionMode::Full, _)
        | (PermissionMode::Ask | PermissionMode::AutoEdit | PermissionMode::Auto, Kind::Own)
        | (PermissionMode::AutoEdit | PermissionMode::Auto, Kind::Write) => Action::Allow,
        (PermissionMode::Plan, _) => Action::Deny,
        // `auto` runs commands confined; until there is something that confines them, it asks.
        (PermissionMode::Ask | PermissionMode::AutoEdit | PermissionMode::Auto, _) => Action::Ask,
    }
}

fn with_action<'a>(
    matched: &'a [&'a RuleInForce],
    action: Action,
) -> impl Iterator<Item = &'a RuleInForce> {
    matched.iter().copied().filter(move |rule| rule.rule.action == action)
}

/// An answer that a person had remembered lifts a built-in question and one of its own level.
fn lifted(ask: &RuleInForce, matched: &[&RuleInForce]) -> bool {
    with_action(matched, Action::Allow).any(|allow| {
        is_answer(allow) && (ask.origin == RuleOrigin::Builtin || ask.origin == allow.origin)
    })
}

fn is_answer(rule: &RuleInForce) -> bool {
    matches!(rule.origin, RuleOrigin::Remembered | RuleOrigin::Session)
}

fn is(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "this reads in the workspace",
        Kind::Write => "this writes in the workspace",
        Kind::Execute => "this runs a command",
        Kind::Elsewhere => "this reaches outside the workspace",
        Kind::Own => "this ends a command of the session",
    }
}

fn mode_name(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Plan => "plan",
        PermissionMode::Ask => "ask",
        PermissionMode::AutoEdit => "auto-edit",
        PermissionMode::Auto => "auto",
        PermissionMode::Full => "full",
    }
}

fn name(rule: &RuleInForce) -> String {
    let whose = match rule.origin {
        RuleOrigin::Builtin => "the built-in rule",
        RuleOrigin::User => "the rule of your configuration",
        RuleOrigin::Project => "the project's rule",
        RuleOrigin::Remembered => "the remembered rule",
        RuleOrigin::Session => "the session's rule",
    };
    match &rule.rule.pattern {
        Some(pattern) => format!("{whose} `{} {pattern}`", rule.rule.tool),
        None => format!("{whose} for `{}`", rule.rule.tool),
    }
}
