//! Finding a text in a file's bytes, and putting another in its place.
//!
//! A model sees lines, not line endings, and it may write either kind; so a line's end matches a
//! line's end, whichever of the two it is. What is put in takes the endings of what it replaces,
//! line by line, and no byte outside the place that matched is touched or even decoded. Where a text
//! is not there byte for byte, it is looked for once more with letters and their marks composed
//! (Unicode's canonical equivalence, UAX #15): `é` is one character or two, and nobody sees which.
//!
//! Pure. Receives bytes from `edit`; hands it places and bytes.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use super::composed;

/// Places that are looked for; more are only counted as more.
const MAX_PLACES: usize = 1_000;

/// Lines of a file in which the nearest place is looked for.
const MAX_SEARCHED_LINES: usize = 20_000;

/// Lines of the sought text that are compared.
const MAX_COMPARED_LINES: usize = 200;

/// Below this, two lines are not like each other.
const LIKE: f64 = 0.6;

/// Bytes with the carriage returns of CRLF taken out, and the way back.
struct Folded<'a> {
    bytes: Cow<'a, [u8]>,
    /// Where in `bytes` the line feeds are that had one, ascending.
    had_return: Vec<usize>,
}

impl<'a> Folded<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let mut had_return = Vec::new();
        let mut folded: Vec<u8> = Vec::new();
        let mut from = 0;
        for at in memmem::find_iter(bytes, b"\r\n") {
            folded.extend_from_slice(&bytes[from..at]);
            had_return.push(folded.len());
            from = at + 1;
        }
        if had_return.is_empty() {
            return Self { bytes: Cow::Borrowed(bytes), had_return };
        }
        folded.extend_from_slice(&bytes[from..]);
        Self { bytes: Cow::Owned(folded), had_return }
    }

    /// The place in the unfolded bytes. One that ends before a line feed ends before its carriage
    /// return, one that starts with a line feed starts with it.
    fn unfold(&self, place: usize) -> usize {
        place + self.had_return.partition_point(|feed| *feed < place)
    }
}

/// The text with plain line feeds.
pub(super) fn folded(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// All places where `old` is, in order, also those that overlap; at most [`MAX_PLACES`].
pub(super) fn places(content: &[u8], old: &str) -> Vec<Range<usize>> {
    let exact = exact_places(content, old);
    if !exact.is_empty() || (old.is_ascii() && content.is_ascii()) {
        return exact;
    }
    let Ok(text) = std::str::from_utf8(content) else { return exact };
    let composed = composed::Composed::of(text);
    let places = exact_places(composed.text().as_bytes(), &composed::composed(old));
    places.into_iter().filter_map(|place| composed.original(&place)).collect()
}

fn exact_places(content: &[u8], old: &str) -> Vec<Range<usize>> {
    let content = Folded::of(content);
    let old = folded(old);
    let finder = memmem::Finder::new(old.as_bytes());
    let mut places = Vec::new();
    let mut from = 0;
    while places.len() < MAX_PLACES
        && let Some(at) = content.bytes.get(from..).and_then(|rest| finder.find(rest))
    {
        let start = from + at;
        places.push(content.unfold(start)..content.unfold(start + old.len()));
        from = start + 1;
    }
    places
}

/// The content with `new` in these places, which are in order; one that overlaps the one before
/// it is left as it is.
pub(super) fn replaced(content: &[u8], places: &[Range<usize>], new: &str) -> Vec<u8> {
    let new = folded(new);
    let mut result = Vec::with_capacity(content.len() + new.len());
    let mut from = 0;
    for place in places {
        if place.start < from {
            continue;
        }
        result.extend_from_slice(&content[from..place.start]);
        result.extend_from_slice(&with_line_ends(&new, content, place));
        from = place.end;
    }
    result.extend_from_slice(&content[from..]);
    result
}

/// `new` with the line endings of the place it goes to. Lines that both have at the start or at
/// the end keep the endings they have there; lines between take that of the line they follow.
fn with_line_ends(new: &str, content: &[u8], place: &Range<usize>) -> Vec<u8> {
    let region = &content[place.clone()];
    let returns: Vec<bool> = memchr::memchr_iter(b'\n', region)
        .map(|feed| feed > 0 && region[feed - 1] == b'\r')
        .collect();
    let folded = Folded::of(region);
    let old: Vec<&[u8]> = folded.bytes.split(|byte| *byte == b'\n').collect();
    let lines: Vec<&[u8]> = new.as_bytes().split(|byte| *byte == b'\n').collect();
    let shorter = old.len().min(lines.len());
    let same_start = old.iter().zip(&lines).take_while(|(a, b)| a == b).count();
    let both_ends = old.iter().rev().zip(lines.iter().rev());
    let same_end = both_ends.take_while(|(a, b)| a == b).count().min(shorter - same_start);
    let around = ends_with_return(content, place);
    let mut result = Vec::with_capacity(new.len() + lines.len());
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            // The end of the line before this one.
            let from_end = lines.len() - index;
            let end = if index <= same_start || from_end > same_end {
                returns.get(index - 1).or(returns.last())
            } else {
                // More lines than there were: those before the first end as it does.
                let from_start = returns.len().saturating_sub(from_end);
                returns.get(from_start)
            };
            let with_return = end.copied().unwrap_or(around);
            result.extend_from_slice(if with_return { b"\r\n" } else { b"\n" });
        }
        result.extend_from_slice(line);
    }
    result
}

/// How the line ends in which a place ends; at the end of the file, the line before it.
fn ends_with_return(content: &[u8], place: &Range<usize>) -> bool {
    let after = memchr::memchr(b'\n', &content[place.end..]).map(|at| place.end + at);
    let feed = after.or_else(|| memchr::memrchr(b'\n', &content[..place.start]));
    feed.is_some_and(|feed| feed > 0 && content[feed - 1] == b'\r')
}

/// The line, from 1, on which a place starts.
pub(super) fn line_of(content: &[u8], place: &Range<usize>) -> usize {
    memchr::memchr_iter(b'\n', &content[..place.start]).count() + 1
}

/// What is most like a text that is not there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Near {
    /// Its first line, from 1.
    pub(super) line: usize,
    /// Its lines as they are.
    pub(super) lines: Vec<String>,
    /// It differs in nothing but white space.
    pub(super) only_blanks: bool,
}

/// The lines that are most like `old`, if any are.
pub(super) fn nearest(content: &[u8], old: &str) -> Option<Near> {
    let content = String::from_utf8_lossy(content);
    let lines: Vec<&str> = content.lines().take(MAX_SEARCHED_LINES).collect();
    let sought: Vec<&str> =
        old.trim_matches(['\r', '\n']).lines().take(MAX_COMPARED_LINES).collect();
    let (start, equal) = (0..lines.len())
        .map(|start| (start, equal_lines(&lines[start..], &sought)))
        // The first of the best.
        .max_by_key(|(start, equal)| (*equal, std::cmp::Reverse(*start)))?;
    let start = if equal > 0 { start } else { like(&lines, &sought)? };
    let end = (start + sought.len()).min(lines.len());
    let only_blanks = equal == sought.iter().filter(|line| !line.trim().is_empty()).count();
    let found = lines[start..end].iter().map(|line| (*line).to_owned()).collect();
    Some(Near { line: start + 1, lines: found, only_blanks: only_blanks && equal > 0 })
}

/// How many lines are the same but for white space around them.
fn equal_lines(lines: &[&str], sought: &[&str]) -> usize {
    let pairs = lines.iter().zip(sought).map(|(a, b)| (a.trim(), b.trim()));
    pairs.filter(|(a, b)| a == b && !a.is_empty()).count()
}

/// Where the longest sought line has its like.
fn like(lines: &[&str], sought: &[&str]) -> Option<usize> {
    let (index, line) = sought.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let likeness = |other: &str| strsim::sorensen_dice(line.trim(), other.trim());
    let best = lines
        .iter()
        .enumerate()
        // Far shorter or longer lines cannot be like it.
        .filter(|(_, other)| other.len() <= 3 * line.len() + 3 && line.len() <= 3 * other.len() + 3)
        .map(|(at, other)| (at, likeness(other)))
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .filter(|(_, likeness)| *likeness >= LIKE);
    best.map(|(at, _)| at.saturating_sub(index))
}
