//! What a prompt asks of the demo model: plain requests, several in one sentence.
//!
//! `read FILE`, `list [DIR]`, `run COMMAND`, `start COMMAND` (in the background), `write FILE with
//! TEXT`, `search TEXT` and `think …`, joined by `and`, `then`, commas, semicolons, full stops or new lines. Such a word only cuts the
//! prompt where a request follows it and where it is not quoted, so that
//! `write a.txt with salt and pepper` is one request.
//!
//! Receives a prompt; hands its steps to the script.

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Read {
        path: String,
    },
    List {
        path: Option<String>,
    },
    Run {
        command: String,
    },
    /// Run it in the background.
    Start {
        command: String,
    },
    Write {
        path: String,
        content: String,
    },
    Search {
        text: String,
    },
    Think {
        about: String,
    },
}

/// All that a prompt asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    /// What to do, in order; nothing where nothing was understood.
    pub(super) steps: Vec<Step>,
    /// Stream with pauses.
    pub(super) slowly: bool,
}

/// The word that asks for pauses, in front of a request or at the prompt's end.
const SLOWLY: &str = "slowly";

/// What may stand between two requests. Longer ones first, for they contain shorter ones.
const CONNECTORS: [&str; 9] =
    [" and then ", ", and ", " then ", " and ", ", ", "; ", ". ", "\n", "! "];

/// Words in front of a request that ask for nothing.
const FILLERS: [&str; 13] = [
    "please", "now", "first", "then", "next", "finally", "also", "and", "can", "could", "would",
    "you", SLOWLY,
];

/// Understands a prompt.
pub(super) fn understand(prompt: &str) -> Wish {
    let prompt = prompt.trim();
    let (prompt, mut slowly) = match last_word(prompt) {
        Some((before, word)) if word.trim_end_matches(['.', '!']).eq_ignore_ascii_case(SLOWLY) => {
            (before, true)
        }
        _ => (prompt, false),
    };
    let mut steps = Vec::new();
    for clause in clauses(prompt) {
        let (request, asked_slowly) = skip_fillers(clause);
        slowly |= asked_slowly;
        steps.extend(step(request));
    }
    Wish { steps, slowly }
}

/// The prompt, cut at each unquoted connector that a request follows.
fn clauses(prompt: &str) -> Vec<&str> {
    let mut clauses = Vec::new();
    let mut start = 0;
    let mut quote = None;
    let mut before = ' ';
    for (at, here) in prompt.char_indices() {
        let previous = std::mem::replace(&mut before, here);
        if let Some(open) = quote {
            quote = (here != open).then_some(open);
        } else if is_quote(here) && previous.is_whitespace() {
            // An apostrophe inside a word opens nothing.
            quote = Some(here);
        } else if at >= start {
            let rest = &prompt[at..];
            if let Some(connector) = CONNECTORS.iter().find(|word| starts_with(rest, word))
                && step(skip_fillers(&rest[connector.len()..]).0).is_some()
            {
                clauses.push(&prompt[start..at]);
                start = at + connector.len();
            }
        }
    }
    clauses.push(&prompt[start..]);
    clauses
}

/// One request, if the text is one.
fn step(text: &str) -> Option<Step> {
    let (verb, rest) = first_word(text)?;
    match plain(verb).as_str() {
        "read" | "show" | "open" => {
            Some(Step::Read { path: path(skip(rest, &["me", "the", "file"]))? })
        }
        "list" => {
            let rest = skip(rest, &["all", "the", "files", "directory", "folder", "in", "of"]);
            Some(Step::List { path: path(rest) })
        }
        "run" | "execute" => text_of(skip(rest, &["the", "command"]))
            .map(|command| Step::Run { command: command.to_owned() }),
        "start" => text_of(skip(rest, &["the", "command"]))
            .map(|command| Step::Start { command: command.to_owned() }),
        "write" | "create" => write(skip(rest, &["the", "file", "a"])),
        "search" | "find" | "grep" => text_of(skip(rest, &["for", "the", "text"]))
            .map(|text| Step::Search { text: text.to_owned() }),
        "think" => {
            text_of(skip(rest, &["about"])).map(|about| Step::Think { about: about.to_owned() })
        }
        _ => None,
    }
}

/// `FILE with TEXT`, or `TEXT to FILE`.
fn write(rest: &str) -> Option<Step> {
    if let Some((file, rest)) = first_word(rest)
        && let Some((with, text)) = first_word(rest)
        && matches!(plain(with).as_str(), "with" | "containing")
    {
        let content = text_of(skip(text, &["the", "text", "content"]))?;
        return Some(Step::Write { path: path(file)?, content: content.to_owned() });
    }
    let (text, file) = rest.rsplit_once(" to ").or_else(|| rest.rsplit_once(" into "))?;
    let content = text_of(text)?.to_owned();
    Some(Step::Write { path: path(skip(file, &["the", "file"]))?, content })
}

/// The first word as a path: without quotes, and without the full stop of its sentence.
fn path(rest: &str) -> Option<String> {
    let (word, _) = first_word(rest)?;
    let bare = unquoted(word);
    let trimmed = bare.trim_end_matches(['.', ',', ';', ':', '!', '?']);
    // `.` and `..` are paths.
    let path = if trimmed.is_empty() || trimmed.ends_with('/') { bare } else { unquoted(trimmed) };
    (!path.is_empty()).then(|| path.to_owned())
}

/// All of the text without the quotes around it.
fn text_of(rest: &str) -> Option<&str> {
    let text = rest.trim();
    let bare = unquoted(text.trim_end_matches(['.', '!']));
    let text = if bare.len() < text.trim_end_matches(['.', '!']).len() { bare } else { text };
    (!text.is_empty()).then_some(text)
}

fn is_quote(char: char) -> bool {
    matches!(char, '"' | '`' | '\'')
}

fn unquoted(text: &str) -> &str {
    ['"', '`', '\'']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(text)
}

/// The first word, quoted or not, and what follows it.
fn first_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let open = text.chars().next()?;
    let quoted = is_quote(open).then(|| text[1..].find(open)).flatten();
    let end = match quoted {
        Some(length) => length + 2,
        None => text.find(char::is_whitespace).unwrap_or(text.len()),
    };
    Some((&text[..end], &text[end..]))
}

fn last_word(text: &str) -> Option<(&str, &str)> {
    let at = text.rfind(char::is_whitespace)?;
    Some((text[..at].trim_end(), text[at..].trim_start()))
}

/// Leaves out these words in front.
fn skip<'a>(mut text: &'a str, words: &[&str]) -> &'a str {
    while let Some((word, rest)) = first_word(text)
        && !rest.trim().is_empty()
        && words.contains(&plain(word).as_str())
    {
        text = rest;
    }
    text.trim_start()
}

/// Leaves out words that ask for nothing, and says whether one of them asked for pauses.
fn skip_fillers(mut text: &str) -> (&str, bool) {
    let mut slowly = false;
    while let Some((word, rest)) = first_word(text)
        && FILLERS.contains(&plain(word).as_str())
    {
        slowly |= plain(word) == SLOWLY;
        text = rest;
    }
    (text, slowly)
}

/// A word in small letters, without the marks around it.
fn plain(word: &str) -> String {
    word.trim_matches(|mark: char| mark.is_ascii_punctuation()).to_ascii_lowercase()
}

fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Step {
        Step::Read { path: path.to_owned() }
    }

    fn list(path: Option<&str>) -> Step {
        Step::List { path: path.map(str::to_owned) }
    }

    fn run(command: &str) -> Step {
        Step::Run { command: command.to_owned() }
    }

    fn write(path: &str, content: &str) -> Step {
        Step::Write { path: path.to_owned(), content: content.to_owned() }
    }

    fn search(text: &str) -> Step {
        Step::Search { text: text.to_owned() }
    }

    fn think(about: &str) -> Step {
        Step::Think { about: about.to_owned() }
    }

    #[test]
    fn plain_requests_are_understood() {
        let table = [
            ("read a.txt", vec![read("a.txt")]),
            ("Read the file a.txt.", vec![read("a.txt")]),
            ("please, can you show me `my file.txt`?", vec![read("my file.txt")]),
            ("read ../x/.", vec![read("../x/.")]),
            ("list", vec![list(None)]),
            ("list .", vec![list(Some("."))]),
            ("list the files in src", vec![list(Some("src"))]),
            ("list all files", vec![list(Some("files"))]),
            ("run cargo test --all", vec![run("cargo test --all")]),
            ("run `echo a; echo b and read c`.", vec![run("echo a; echo b and read c")]),
            ("run ls .", vec![run("ls .")]),
            (
                "start `npm run dev` and read a.txt",
                vec![Step::Start { command: "npm run dev".to_owned() }, read("a.txt")],
            ),
            ("write b.txt with hello", vec![write("b.txt", "hello")]),
            ("write b.txt with salt and pepper.", vec![write("b.txt", "salt and pepper.")]),
            ("write \"hi there\" to the file b.txt", vec![write("b.txt", "hi there")]),
            ("search for TODO", vec![search("TODO")]),
            ("think about life", vec![think("life")]),
        ];
        for (prompt, steps) in table {
            assert_eq!(understand(prompt), Wish { steps, slowly: false }, "{prompt}");
        }
    }

    #[test]
    fn several_requests_in_one_prompt() {
        let expected = vec![read("a.txt"), write("b.txt", "hello")];
        for prompt in [
            "read a.txt and then write b.txt with hello",
            "read a.txt, then write b.txt with hello",
            "First read a.txt. Then write b.txt with hello",
            "read a.txt\nwrite b.txt with hello",
            "read a.txt; please write b.txt with hello",
            "Read a.txt AND write b.txt with 'hello'",
        ] {
            assert_eq!(understand(prompt).steps, expected, "{prompt}");
        }
    }

    #[test]
    fn slowly_asks_for_pauses() {
        for prompt in ["slowly read a", "read a slowly", "please slowly read a", "read a slowly."] {
            assert_eq!(understand(prompt), Wish { steps: vec![read("a")], slowly: true });
        }
        assert!(!understand("write a with `it goes slowly`").slowly);
    }

    #[test]
    fn what_is_no_request_is_not_understood() {
        for prompt in ["", "hello", "read", "run", "write", "write a poem", "what's up, doc?", "«»"]
        {
            assert_eq!(understand(prompt).steps, [], "{prompt}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(prompt in "(read|write|with|and|'|\"|`|\\.|, | |é|a){0,12}") {
            understand(&prompt);
        }
    }
}
