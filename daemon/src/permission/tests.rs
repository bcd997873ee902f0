//! Tables for the judgement.
//!
//! Receives nothing; hands verdicts to the test runner.

use std::path::PathBuf;

use agentd_protocol::id::{CallId, PromptId, RuleId, SessionId, TurnId};
use agentd_protocol::permission::{
    Action, PermissionMode, Prompt, Resolution, Risk, Rule, RuleInForce, RuleOrigin, Scope,
};
use agentd_protocol::time::Time;
use serde_json::json;

use super::{PathAccess, Policy, Subject, Target, Verdict, may_remember};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    Allowed,
    Asked,
    Denied,
}
use Is::{Allowed, Asked, Denied};

fn rule(text: &str) -> RuleInForce {
    from(RuleOrigin::User, text)
}

/// `deny shell rm *`, `allow read`.
fn from(origin: RuleOrigin, text: &str) -> RuleInForce {
    let (action, rest) = text.split_once(' ').expect("an action first");
    let action = match action {
        "allow" => Action::Allow,
        "ask" => Action::Ask,
        "deny" => Action::Deny,
        other => panic!("no action {other}"),
    };
    let (tool, pattern) = match rest.split_once(' ') {
        Some((tool, pattern)) => (tool, Some(pattern.to_owned())),
        None => (rest, None),
    };
    RuleInForce {
        rule_id: RuleId::from("rule_1"),
        rule: Rule { tool: tool.to_owned(), pattern, action },
        scope: Scope::Always,
        origin,
    }
}

fn subject(tool: &str, risk: Risk, targets: Vec<Target>) -> Subject {
    Subject {
        call_id: CallId::from("call_1"),
        tool: tool.to_owned(),
        arguments: json!({}),
        risk,
        targets,
        cwd: PathBuf::from("/w"),
    }
}

fn shell(line: &str) -> Subject {
    let cwd =
        Target::Path { path: "/w".into(), access: PathAccess::Read, inside: true, guarded: false };
    subject("shell", Risk::Execute, vec![cwd, Target::Command(line.to_owned())])
}

fn file(tool: &str, access: PathAccess, path: &str) -> Subject {
    let risk = if access == PathAccess::Read { Risk::Read } else { Risk::Write };
    let target = Target::Path {
        path: path.into(),
        access,
        inside: path.starts_with("/w/"),
        guarded: path == "/w/.env",
    };
    subject(tool, risk, vec![target])
}

fn judge(mode: PermissionMode, rules: &[RuleInForce], subject: &Subject) -> Is {
    match (Policy { mode, rules: rules.to_vec() }).judge(subject) {
        Verdict::Allow(call) => {
            assert_eq!(call.targets(), subject.targets);
            Allowed
        }
        Verdict::Ask { .. } => Asked,
        Verdict::Deny { .. } => Denied,
    }
}

#[test]
fn modes_without_rules() {
    use PermissionMode::{Ask, Auto, AutoEdit, Full, Plan};
    let subjects = [
        file("read", PathAccess::Read, "/w/a"),
        file("write", PathAccess::Write, "/w/a"),
        shell("ls"),
        file("read", PathAccess::Read, "/etc/hosts"),
        file("write", PathAccess::Write, "/etc/hosts"),
        subject("fetch", Risk::Network, vec![Target::Host("example.org".to_owned())]),
        file("read", PathAccess::Read, "/w/.env"),
        file("write", PathAccess::Write, "/w/.env"),
        subject("plan", Risk::Read, vec![]),
        subject("other", Risk::Execute, vec![]),
    ];
    let table = [
        (Plan, [Allowed, Denied, Denied, Denied, Denied, Denied, Asked, Denied, Allowed, Denied]),
        (Ask, [Allowed, Asked, Asked, Asked, Asked, Asked, Asked, Asked, Allowed, Asked]),
        (AutoEdit, [Allowed, Allowed, Asked, Asked, Asked, Asked, Asked, Asked, Allowed, Asked]),
        (Auto, [Allowed, Allowed, Asked, Asked, Asked, Asked, Asked, Asked, Allowed, Asked]),
        (Full, [Allowed; 10]),
    ];
    for (mode, verdicts) in table {
        for (subject, verdict) in subjects.iter().zip(verdicts) {
            assert_eq!(judge(mode, &[], subject), verdict, "{mode:?} {subject:?}");
        }
    }
}

#[test]
fn rules_are_pooled() {
    use PermissionMode::{Ask, Full, Plan};
    use RuleOrigin::{Builtin, Project, Remembered, Session, User};
    let write = file("write", PathAccess::Write, "/w/src/a.rs");
    let outside = file("read", PathAccess::Read, "/etc/hosts");
    let env = file("read", PathAccess::Read, "/w/.env");
    let table: Vec<(PermissionMode, Vec<RuleInForce>, &Subject, Is)> = vec![
        // A relative pattern starts at the working directory, `*` stays within a component.
        (Ask, vec![rule("allow write src/**")], &write, Allowed),
        (Ask, vec![rule("allow write *.rs")], &write, Asked),
        (Ask, vec![rule("allow write /w/src/*.rs")], &write, Allowed),
        (Ask, vec![rule("allow edit src/**")], &write, Asked),
        (Ask, vec![rule("allow * src/**")], &write, Allowed),
        (Ask, vec![rule("allow write")], &write, Allowed),
        // Deny beats ask beats allow, whoever wrote them.
        (Full, vec![rule("deny write src/**"), rule("allow write")], &write, Denied),
        (Full, vec![rule("ask write src/**"), rule("allow write")], &write, Asked),
        (Ask, vec![from(Remembered, "allow write"), rule("deny write")], &write, Denied),
        (Ask, vec![from(Session, "deny write"), rule("allow write")], &write, Denied),
        // A remembered answer lifts a built-in question and one of its own level.
        (Ask, vec![from(Remembered, "allow write"), from(Builtin, "ask write")], &write, Allowed),
        (Ask, vec![from(Remembered, "allow write"), from(User, "ask write")], &write, Asked),
        (Ask, vec![from(Remembered, "allow write"), from(Remembered, "ask *")], &write, Allowed),
        (Ask, vec![from(User, "allow write"), from(Builtin, "ask write")], &write, Asked),
        // `plan` is a ceiling.
        (Plan, vec![rule("allow *")], &write, Denied),
        (Plan, vec![rule("allow *")], &outside, Denied),
        // Outside, and what a project cannot allow.
        (Ask, vec![rule("allow read /etc/*")], &outside, Allowed),
        (Ask, vec![rule("allow read **")], &outside, Asked),
        (Ask, vec![from(Project, "allow read")], &outside, Asked),
        (Ask, vec![from(Project, "allow read /etc/*")], &outside, Asked),
        (Ask, vec![from(Project, "allow write src/**")], &write, Allowed),
        (Full, vec![from(Project, "deny read /etc/*")], &outside, Denied),
        // A guarded path asks unless an answer named it.
        (Ask, vec![rule("allow read .env")], &env, Asked),
        (Ask, vec![from(Remembered, "allow read /w/**")], &env, Asked),
        (Ask, vec![from(Remembered, "allow read /w/.env")], &env, Allowed),
        // A pattern that is none restricts everything and allows nothing.
        (Ask, vec![rule("allow write src/[")], &write, Asked),
        (Full, vec![rule("deny write src/[")], &write, Denied),
    ];
    for (mode, rules, subject, verdict) in table {
        assert_eq!(judge(mode, &rules, subject), verdict, "{mode:?} {rules:?} {subject:?}");
    }
}

#[test]
fn commands_match_by_words() {
    let table = [
        ("git status *", "git status -s", Allowed),
        ("git status *", "git status", Allowed),
        ("git status *", "git stash", Asked),
        ("git status", "git status -s", Asked),
        ("git * -s", "git status -s", Allowed),
        ("git * -s", "git a b -s", Asked),
        ("git *", "/usr/bin/git status", Asked),
        ("npm run test:*", "npm run test:unit", Allowed),
        ("*", "anything at all", Allowed),
        ("echo *", "echo 'a  b' \"c d\"", Allowed),
        ("echo 'a b'", "echo \"a b\"", Allowed),
        ("cat a=b", "cat a=b", Allowed),
        ("git *", "LANG=C git status", Asked),
        ("git status $X", "git status $X", Asked),
    ];
    for (pattern, line, verdict) in table {
        let rules = [rule(&format!("allow shell {pattern}"))];
        assert_eq!(judge(PermissionMode::Ask, &rules, &shell(line)), verdict, "{pattern} / {line}");
    }
    let project = [from(RuleOrigin::Project, "allow shell")];
    assert_eq!(judge(PermissionMode::Ask, &project, &shell("ls")), Asked);
}

#[test]
fn d2_only_a_plain_command_matches_a_pattern() {
    let rules = [rule("allow shell ls *")];
    for (line, verdict) in [
        ("ls", Allowed),
        ("ls -la src", Allowed),
        ("  ls  'a b'\n", Allowed),
        ("ls && touch pwn", Asked),
        ("ls;touch pwn", Asked),
        ("lsof", Asked),
        ("ls $(touch pwn)", Asked),
        ("ls > f", Asked),
        ("ls >f", Asked),
        ("ls\ntouch pwn", Asked),
        ("ls &", Asked),
        ("ls | sh", Asked),
        ("ls `touch pwn`", Asked),
        ("ls \"$(touch pwn)\"", Asked),
        ("ls ~", Asked),
        ("ls *.rs", Asked),
        ("ls {a,b}", Asked),
        ("ls #", Asked),
        ("ls 'a", Asked),
        ("ls \\\n touch", Asked),
        ("! ls", Asked),
        ("time ls", Asked),
        ("X=1 ls", Asked),
        ("(ls)", Asked),
        ("", Asked),
    ] {
        assert_eq!(judge(PermissionMode::Ask, &rules, &shell(line)), verdict, "{line:?}");
    }
}

#[test]
fn d3_a_literal_in_single_quotes_is_plain() {
    let rules = [rule("allow shell echo *")];
    for (line, verdict) in [
        ("echo '$(touch pwn)'", Allowed),
        ("echo $(touch pwn)", Asked),
        ("echo <(touch pwn)", Asked),
        ("echo \"${x:=$(touch pwn)}\"", Asked),
        ("echo <<E\n$(touch pwn)\nE", Asked),
    ] {
        assert_eq!(judge(PermissionMode::Ask, &rules, &shell(line)), verdict, "{line:?}");
    }
}

#[test]
fn restrictive_rules_find_what_hides() {
    let deny = [rule("deny shell rm *"), rule("allow shell *")];
    for (line, verdict) in [
        ("rm x", Denied),
        ("/bin/rm x", Denied),
        ("\\rm x", Denied),
        ("r''m x", Denied),
        ("ls; rm x", Denied),
        ("A=1 B=2 rm x", Denied),
        ("env rm x", Denied),
        ("timeout 5 rm x", Denied),
        ("find . -exec rm {} +", Denied),
        ("echo $(rm x)", Denied),
        ("bash -c 'rm -rf x'", Denied),
        // Nobody named these programs, so what follows may be what they run.
        ("echo rm x", Asked),
        ("./unknown-wrapper rm x", Asked),
        ("echo remove x", Allowed),
        ("./unknown x", Allowed),
        ("echo cm0geA== | base64 -d | sh", Asked),
        ("eval \"$X\"", Asked),
        ("python3 x.py", Asked),
        ("ls && pwd", Asked),
    ] {
        for mode in [PermissionMode::Ask, PermissionMode::Full] {
            assert_eq!(judge(mode, &deny, &shell(line)), verdict, "{mode:?} {line:?}");
        }
    }
    let named = [rule("deny shell rm *"), rule("allow shell echo *")];
    assert_eq!(judge(PermissionMode::Ask, &named, &shell("echo rm x")), Allowed);
    // Without anything to find, mode `full` runs what it cannot read.
    assert_eq!(judge(PermissionMode::Full, &[], &shell("ls && pwd")), Allowed);
    // What a person allowed word for word runs all the same.
    let exact = [rule("deny shell rm *"), from(RuleOrigin::Remembered, "allow shell python3 x.py")];
    assert_eq!(judge(PermissionMode::Ask, &exact, &shell("python3 x.py")), Allowed);
}

#[test]
fn d4_an_assignment_does_not_skip_an_ask_rule() {
    let rules = [rule("ask shell git *"), rule("allow shell *")];
    for line in ["git push", "CI=1 git push", "A=1 B=2 git push"] {
        assert_eq!(judge(PermissionMode::Full, &rules, &shell(line)), Asked, "{line}");
    }
}

#[test]
fn d18_the_strictest_verdict_wins() {
    let rules = [rule("allow shell ls*")];
    let line = "ls; curl http://127.0.0.1/x | sh";
    assert_eq!(judge(PermissionMode::Ask, &rules, &shell(line)), Asked);
    // One target inside, one outside: the outside one decides.
    let mut two = file("apply_patch", PathAccess::Write, "/w/a");
    two.targets.extend(file("apply_patch", PathAccess::Write, "/etc/a").targets);
    assert_eq!(judge(PermissionMode::AutoEdit, &[], &two), Asked);
}

fn patterns(subject: &Subject) -> Vec<String> {
    let policy = Policy { mode: PermissionMode::Ask, rules: Vec::new() };
    let Verdict::Ask { suggestions, .. } = policy.judge(subject) else { panic!("it should ask") };
    let mut patterns: Vec<String> =
        suggestions.into_iter().filter_map(|s| s.rule.pattern).collect();
    patterns.dedup();
    patterns
}

#[test]
fn d9_nothing_wide_is_suggested() {
    for line in ["python3 x.py", "npx a", "make", "node -e 1", "cargo test -q", "rm x", "ls -la"] {
        assert_eq!(patterns(&shell(line)), [line]);
    }
    assert_eq!(patterns(&shell("git status -s")), ["git status *"]);
    assert_eq!(patterns(&shell("git -c core.pager=x status")), ["git -c core.pager=x status"]);
    for line in ["ls; rm x", "echo $X", "sh -c 'a*'", "X=1 make"] {
        assert!(patterns(&shell(line)).is_empty(), "{line}");
    }
    assert_eq!(patterns(&file("write", PathAccess::Write, "/w/a[1].rs")), ["/w/a[[]1[]].rs"]);
    // What is suggested allows the call it came from.
    for line in ["git status -s", "python3 'x y.py'"] {
        let rules = [rule(&format!("allow shell {}", patterns(&shell(line))[0]))];
        assert_eq!(judge(PermissionMode::Ask, &rules, &shell(line)), Allowed, "{line}");
    }
    let write = file("write", PathAccess::Write, "/w/a[1].rs");
    let rules = [rule(&format!("allow write {}", patterns(&write)[0]))];
    assert_eq!(judge(PermissionMode::Ask, &rules, &write), Allowed);
}

fn prompt(subject: &Subject) -> Prompt {
    let policy = Policy { mode: PermissionMode::Ask, rules: Vec::new() };
    let Verdict::Ask { suggestions, .. } = policy.judge(subject) else { panic!("it should ask") };
    Prompt {
        prompt_id: PromptId::from("prm_1"),
        session_id: SessionId::from("ses_1"),
        turn_id: TurnId::from("turn_1"),
        call_id: subject.call_id.clone(),
        tool: subject.tool.clone(),
        summary: String::new(),
        risk: subject.risk,
        arguments: json!({}),
        preview: None,
        suggestions,
        requested_at: Time::from_unix_millis(0),
        expires_at: None,
    }
}

#[test]
fn an_answer_carries_a_suggestion_or_less() {
    let git = prompt(&shell("git status -s"));
    let python = prompt(&shell("python3 x.py"));
    let table = [
        (&git, "allow shell git status *", true),
        (&git, "allow shell git status -s", true),
        (&git, "allow shell git status --porcelain *", true),
        (&git, "allow shell git *", false),
        (&git, "allow shell git sta*", false),
        (&git, "allow shell *", false),
        (&git, "allow shell", false),
        (&git, "allow read", false),
        (&git, "allow * git status *", false),
        (&git, "deny shell git status *", false),
        (&python, "allow shell python3 x.py", true),
        (&python, "allow shell python3 *", false),
        (&python, "allow shell python3 y.py", false),
    ];
    for (prompt, text, may) in table {
        assert_eq!(may_remember(prompt, &rule(text).rule), may, "{text}");
    }
    let none = prompt(&shell("ls; rm x"));
    assert!(!may_remember(&none, &rule("allow shell ls").rule));
}

#[test]
fn a_persons_word_lifts_no_denial() {
    let call = shell("rm x");
    let ask = Policy { mode: PermissionMode::Ask, rules: Vec::new() };
    let granted = ask.grant(&call, Resolution::Allow).expect("nothing denies it");
    assert_eq!(granted.tool(), "shell");
    assert_eq!(granted.targets(), call.targets);
    for resolution in [Resolution::Deny, Resolution::Cancelled, Resolution::Expired] {
        ask.grant(&call, resolution).expect_err("it was not allowed");
    }
    let deny = Policy { mode: PermissionMode::Ask, rules: vec![rule("deny shell rm *")] };
    let reason = deny.grant(&call, Resolution::Allow).expect_err("a rule denies it");
    assert_eq!(reason, "the rule of your configuration `shell rm *` denies it");
    let plan = Policy { mode: PermissionMode::Plan, rules: Vec::new() };
    plan.grant(&call, Resolution::Allow).expect_err("the mode denies it");
}
