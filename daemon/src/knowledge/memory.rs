//! Requests to remember something, in the user's own words.
//!
//! Only what is asked for explicitly, sentence by sentence: `remember that …`, `from now on …`,
//! `请记住 …`, `记住 …`. A question (`do you remember that …?`), a negation and quoted code are no
//! requests.
//!
//! Receives a text of the user's; hands what is to be remembered to the observer.

use std::sync::LazyLock;

use regex::Regex;

/// The longest memory; more is no sentence but a document, which belongs into a file.
const MAX_CHARS: usize = 500;

static ENGLISH: LazyLock<Regex> = LazyLock::new(|| {
    let words = r"(?i)(?:^|[\s,;:(])(?:(?P<not>not|n't|never|you|i|we|they)\s+)?(?:remember\s+that\b|from\s+now\s+on\b)[\s,:]*(?P<what>\S.*)$";
    Regex::new(words).expect("it is a constant")
});

static CHINESE: LazyLock<Regex> = LazyLock::new(|| {
    let words =
        r"(?P<not>不要|不用|别|没|没有|你还|还)?(?:请|要)?记住[\s，,：:]*(?P<what>[^\s了吗].*)$";
    Regex::new(words).expect("it is a constant")
});

/// What the user asks to remember.
pub(super) fn requests(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced || line.trim_start().starts_with('>') {
            continue;
        }
        for sentence in sentences(line) {
            if let Some(request) = request(sentence)
                && !found.contains(&request)
            {
                found.push(request);
            }
        }
    }
    found
}

/// The sentences of a line, each with its mark. A dot within a word (`Cargo.toml`) ends none.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let end = rest.char_indices().find_map(|(at, mark)| {
            let after = &rest[at + mark.len_utf8()..];
            let ends = match mark {
                '。' | '！' | '？' => true,
                '.' | '!' | '?' => after.is_empty() || after.starts_with(char::is_whitespace),
                _ => false,
            };
            ends.then_some(at + mark.len_utf8())
        });
        let (sentence, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        (!sentence.is_empty()).then_some(sentence)
    })
}

fn request(sentence: &str) -> Option<String> {
    let sentence = sentence.trim();
    if sentence.ends_with(['?', '？']) {
        return None;
    }
    let found = ENGLISH.captures(sentence).or_else(|| CHINESE.captures(sentence))?;
    if found.name("not").is_some() {
        return None;
    }
    let what = found.name("what")?.as_str().trim_end_matches(['.', '!', '。', '！']).trim();
    (!what.is_empty() && what.chars().count() <= MAX_CHARS).then(|| what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explicit_requests_are_found_and_nothing_else() {
        let cases: &[(&str, &[&str])] = &[
            ("Remember that the port is 8080.", &["the port is 8080"]),
            (
                "Fix it. Please remember that tests live in Cargo.toml's members! Thanks.",
                &["tests live in Cargo.toml's members"],
            ),
            ("From now on, answer in German", &["answer in German"]),
            ("and from now on use tabs. Go.", &["use tabs"]),
            ("请记住：接口用 8080 端口。然后继续", &["接口用 8080 端口"]),
            ("记住 变量用英文", &["变量用英文"]),
            ("Do you remember that bug?", &[]),
            ("You remember that we use tabs.", &[]),
            ("I do not remember that at all.", &[]),
            ("不要记住这个。", &[]),
            ("你记住了吗？", &[]),
            ("Remember to run the tests.", &[]),
            ("```\nremember that this is code\n```\nGo.", &[]),
            ("> from now on quoted", &[]),
            ("Remember that a.\nRemember that a.\nRemember that b", &["a", "b"]),
            ("remember that", &[]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(requests(text), *expected, "{text}");
        }
        assert_eq!(requests(&format!("remember that {}", "x".repeat(600))), [""; 0]);
    }
}
