//! Reading a command line as far as rules need it.
//!
//! An allow rule may match only what is read for certain: one simple command of plain words,
//! without operators, expansions, redirections or assignments. [`words`] returns those words or
//! nothing. Restrictive rules go the other way: [`fragments`] finds whatever could be a command in
//! a line that is not simple, and would rather find too much.
//!
//! Receives command lines from `rule` and `suggest`; hands them their words.

use globset::GlobBuilder;

/// Words that are syntax when they come first.
const RESERVED: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "in", "select", "function", "time", "coproc",
];

/// Programs that run what their arguments name: interpreters, wrappers, package runners.
const INDIRECT: &[&str] = &[
    ".", "ash", "awk", "bash", "builtin", "bun", "bunx", "busybox", "chroot", "chrt", "cmd",
    "command", "csh", "dash", "deno", "doas", "docker", "ed", "env", "eval", "ex", "exec", "fd",
    "find", "fish", "flock", "gawk", "gdb", "ionice", "java", "ksh", "ltrace", "lua", "make",
    "mawk", "nice", "node", "nohup", "npm", "npx", "nsenter", "parallel", "perl", "php", "pipx",
    "pnpm", "podman", "python", "ruby", "rsync", "script", "sed", "setsid", "sh", "source", "ssh",
    "stdbuf", "strace", "su", "sudo", "tar", "taskset", "tcsh", "time", "timeout", "trap",
    "ts-node", "tsx", "unshare", "uv", "uvx", "vi", "vim", "watch", "xargs", "yarn", "zsh",
];

/// The words of a line that is one simple command of plain words; `None` for every other line.
pub(super) fn words(line: &str) -> Option<Vec<String>> {
    let words = plain_words(line, false)?;
    let first = words.first()?;
    let is_command = !first.is_empty() && !first.contains('=');
    (is_command && !RESERVED.contains(&first.as_str())).then_some(words)
}

/// Whether the program runs other programs that its arguments name.
pub(super) fn is_indirect(program: &str) -> bool {
    let name = base_name(program);
    // python3, python3.12, lua5.4, perl5 …
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    INDIRECT.contains(&name) || INDIRECT.contains(&stem)
}

/// What could be commands in a line that is not simple: its pieces between operators, without
/// quotes and leading assignments, each with the program's bare name. The flag says that the piece
/// starts with a program that runs others, so that any of its words may be one.
pub(super) fn fragments(line: &str) -> Vec<(Vec<String>, bool)> {
    let operators = [';', '&', '|', '\n', '\r', '(', ')', '{', '}', '<', '>', '`', '$'];
    line.split(operators)
        .filter_map(|piece| {
            let mut words: Vec<String> = piece
                .split_whitespace()
                .map(|word| word.replace(['\'', '"', '\\'], ""))
                .skip_while(|word| word.contains('=') || word == "!" || is_reserved(word))
                .collect();
            let first = words.first_mut()?;
            *first = base_name(first).to_owned();
            let indirect = is_indirect(first);
            Some((words, indirect))
        })
        .collect()
}

fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Splits at blanks, takes quotes off, and gives up at anything that a shell would expand or take
/// for syntax. `stars` lets `*` through, for patterns.
fn plain_words(line: &str, stars: bool) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.trim_matches([' ', '\t', '\n']).chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        quoted if quoted == c => break,
                        '$' | '`' | '\\' | '!' if c == '"' => return None,
                        '*' if stars => return None,
                        quoted => word.push(quoted),
                    }
                }
            }
            '*' if stars => word.get_or_insert_default().push(c),
            c if c.is_alphanumeric() || "_-./:,@%+=".contains(c) => {
                word.get_or_insert_default().push(c);
            }
            _ => return None,
        }
    }
    words.extend(word);
    Some(words)
}

/// A pattern of words: `*` alone at the end stands for any further words, elsewhere for one word,
/// and inside a word for any of its characters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    words: Vec<String>,
    open: bool,
}

impl Pattern {
    /// A pattern of an allow rule: `None` if it is not made of plain words, since it could then
    /// never match a simple command.
    pub(super) fn strict(text: &str) -> Option<Self> {
        Some(Self::of(plain_words(text, true)?)).filter(|p| p.open || !p.words.is_empty())
    }

    /// A pattern of a restrictive rule: read somehow, so that none is ever silently void.
    pub(super) fn loose(text: &str) -> Self {
        let words = text.split_whitespace().map(|word| word.replace(['\'', '"', '\\'], ""));
        Self::of(words.collect())
    }

    fn of(mut words: Vec<String>) -> Self {
        let open = words.last().is_some_and(|word| word == "*");
        if open {
            words.pop();
        }
        Self { words, open }
    }

    /// Whether these words match.
    pub(super) fn matches(&self, words: &[String]) -> bool {
        let enough = if self.open {
            words.len() >= self.words.len()
        } else {
            words.len() == self.words.len()
        };
        enough && self.words.iter().zip(words).all(|(pattern, word)| word_matches(pattern, word))
    }

    /// Whether everything that `other` matches is matched by this one as well.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let fits = match (self.open, other.open) {
            (true, _) => other.words.len() >= self.words.len(),
            (false, false) => other.words.len() == self.words.len(),
            (false, true) => false,
        };
        fits && self.words.iter().zip(&other.words).all(|(wide, narrow)| {
            wide == narrow || wide == "*" || (!narrow.contains('*') && word_matches(wide, narrow))
        })
    }
}

fn word_matches(pattern: &str, word: &str) -> bool {
    if !pattern.contains('*') {
        return pattern == word;
    }
    let escaped: Vec<String> = pattern.split('*').map(globset::escape).collect();
    GlobBuilder::new(&escaped.join("*"))
        .literal_separator(false)
        .build()
        .is_ok_and(|glob| glob.compile_matcher().is_match(word))
}
