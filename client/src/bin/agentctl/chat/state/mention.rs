//! Files in an input: `@name`, and `@"name"` where the name has blanks or quotes.
//!
//! Inside of quotes a backslash stands before a quote or a backslash of the name.
//!
//! Receives texts and names; hands names and mentions back.

use percent_encoding::percent_decode_str;

/// Completions that are offered, shown or not.
pub(crate) const OFFERED: usize = 50;

/// Whether a name is that of an image, and of which kind.
pub(crate) fn image_type(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit_once('.')?;
    match ending.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        _ => None,
    }
}

/// The names of images that were dropped on the terminal, which writes them as a shell would have
/// them, as addresses, or as they are. Empty for any other text.
pub(super) fn dropped(text: &str) -> Vec<String> {
    let text = text.trim();
    if text.contains('\n') {
        return Vec::new();
    }
    let is_image = |name: &String| name.contains('/') && image_type(name).is_some();
    let words = shlex::split(text).unwrap_or_default();
    let names: Vec<String> = words.iter().map(|word| bare(word)).collect();
    if !names.is_empty() && names.iter().all(is_image) {
        return names;
    }
    let whole = bare(text);
    let is_path = ["/", "./", "../"].iter().any(|start| whole.starts_with(start));
    if is_path && is_image(&whole) { vec![whole] } else { Vec::new() }
}

/// A path, also if it is written as an address.
fn bare(name: &str) -> String {
    match name.strip_prefix("file://") {
        Some(path) => percent_decode_str(path).decode_utf8_lossy().into_owned(),
        None => name.to_owned(),
    }
}

/// A file's name as it is written in an input.
pub(crate) fn mention(name: &str) -> String {
    if !name.contains(|c: char| c.is_whitespace() || c == '"' || c == '\\') {
        return format!("@{name}");
    }
    format!("@\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A mention that is still being written, without a quote at its end where more is to come.
pub(super) fn offered(name: &str) -> String {
    let mut mention = mention(name);
    if name.ends_with('/') && mention.ends_with('"') {
        mention.pop();
    }
    mention
}

/// A place where a file is mentioned.
struct Mention {
    /// Where its `@` is.
    from: usize,
    name: String,
    /// It could go on behind the text.
    open: bool,
}

/// The mentions of a text; an `@` inside of a word is none.
fn mentions(text: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].find('@') {
        let from = at + next;
        at = from + 1;
        let apart = text[..from].chars().next_back().is_none_or(|c| c.is_whitespace() || c == '(');
        if !apart {
            continue;
        }
        let (name, length, open) = if let Some(quoted) = text[at..].strip_prefix('"') {
            let (name, length, open) = unquoted(quoted);
            (name, length + 1, open)
        } else {
            let name = text[at..].split(char::is_whitespace).next().unwrap_or_default();
            (name.to_owned(), name.len(), at + name.len() == text.len())
        };
        at += length;
        found.push(Mention { from, name, open });
    }
    found
}

/// What stands before a closing quote or the line's end, how many bytes it takes with the quote,
/// and whether there was none.
fn unquoted(text: &str) -> (String, usize, bool) {
    let mut name = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (name, at + 1, false),
            '\n' => return (name, at, false),
            '\\' => {
                let escaped = chars.next_if(|(_, c)| matches!(c, '"' | '\\'));
                name.push(escaped.map_or('\\', |(_, c)| c));
            }
            c => name.push(c),
        }
    }
    (name, text.len(), true)
}

/// The files that an input mentions.
pub(super) fn mentioned(text: &str) -> Vec<String> {
    let names = mentions(text).into_iter().map(|mention| mention.name);
    names.filter(|name| !name.is_empty()).collect()
}

/// The mention at the end of a text that is being written: as it stands there, and its name so
/// far.
pub(super) fn unfinished(text: &str) -> Option<(&str, String)> {
    let last = mentions(text).pop().filter(|mention| mention.open)?;
    Some((&text[last.from..], last.name))
}

/// Files whose path holds `part`, whatever the case: those whose name begins with it come first,
/// then the shorter ones.
pub(crate) fn matching<'a>(files: impl Iterator<Item = &'a str>, part: &str) -> Vec<String> {
    let part = part.to_lowercase();
    let mut found: Vec<(u8, &str)> = Vec::new();
    for file in files {
        let path = file.to_lowercase();
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(&path);
        if path.starts_with(&part) || name.starts_with(&part) {
            found.push((0, file));
        } else if path.contains(&part) {
            found.push((1, file));
        }
    }
    found.sort_by_key(|(rank, file)| (*rank, file.len(), *file));
    found.dedup();
    found.into_iter().take(OFFERED).map(|(_, file)| file.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_undone_as_a_shell_would() {
        for (text, names) in [
            ("'/tmp/a picture.PNG' ", vec!["/tmp/a picture.PNG"]),
            (r"/tmp/a\ \(1\)\'s.png", vec!["/tmp/a (1)'s.png"]),
            (r"'/tmp/it'\''s.png'", vec!["/tmp/it's.png"]),
            (r#"/tmp/a\"b\\c.png"#, vec![r#"/tmp/a"b\c.png"#]),
            ("'/tmp/a.png' '/tmp/b c.jpg'", vec!["/tmp/a.png", "/tmp/b c.jpg"]),
            ("file:///tmp/a%20b%C3%A9.png", vec!["/tmp/a bé.png"]),
            ("/tmp/not quoted.png", vec!["/tmp/not quoted.png"]),
            ("/tmp/it's.png", vec!["/tmp/it's.png"]),
            ("look at /tmp/a.png", vec![]),
            ("/tmp/a.png\n/tmp/b.png", vec![]),
            ("a.png", vec![]),
            ("/tmp/a.txt", vec![]),
        ] {
            assert_eq!(dropped(text), names, "{text}");
        }
    }

    #[test]
    fn names_come_back_as_they_were() {
        for name in ["a.rs", "a b.rs", "a\"b.rs", r"a\b.rs", r#"\" "\"#, "é\u{2003}x", "dir/"] {
            let text = format!("see {} and", mention(name));
            assert_eq!(mentioned(&text), [name], "{text}");
        }
        let text = "see @a.rs, (@b.rs and @\"c d.png\" but not e@f.g or @";
        assert_eq!(mentioned(text), ["a.rs,", "b.rs", "c d.png"]);
        assert_eq!(mentioned("@\"open\nline @x"), ["open", "x"]);
    }

    #[test]
    fn what_is_being_written_goes_to_the_end() {
        for (text, expected) in [
            ("look at @src/m", Some(("@src/m", "src/m"))),
            ("@", Some(("@", ""))),
            ("@\"my fi", Some(("@\"my fi", "my fi"))),
            ("@\"my file\"", None),
            ("@\"my file\" x", None),
            ("@a b", None),
            ("a@b", None),
        ] {
            let found = unfinished(text);
            let found = found.as_ref().map(|(word, name)| (*word, name.as_str()));
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(offered("my dir/"), "@\"my dir/");
    }

    #[test]
    fn the_best_come_first() {
        let files = ["lib/main.rs", "domain/x.rs", "main.rs", "main/", "z.rs", "main.rs"];
        let found = matching(files.into_iter(), "MA");
        assert_eq!(found, ["main/", "main.rs", "lib/main.rs", "domain/x.rs"]);
    }
}
