//! Finding and replacing, as properties.
//!
//! Receives nothing; hands verdicts to the test runner.

use proptest::prelude::*;

use crate::tools::matching::{line_of, nearest, places, replaced};

#[test]
fn places_that_overlap_are_all_found_and_replaced_once() {
    let found = places(b"aaa", "aa");
    assert_eq!(found, [0..2, 1..3]);
    assert_eq!(replaced(b"aaa", &found, "b"), b"ba");
    assert_eq!(line_of(b"a\r\nb\nc", &(5..6)), 3);
}

#[test]
fn the_first_of_the_nearest_is_named() {
    let near = nearest(b"a\nfoo(1)\nb\nfoo(1)\n", "  foo(1)").expect("it is there but for blanks");
    assert_eq!((near.line, near.only_blanks), (2, true));
    assert_eq!(nearest(b"", "foo"), None);
    assert_eq!(nearest(b"\n\n", "\n"), None);
    // A text longer than what follows.
    let near = nearest(b"x\nlast line here\n", "last line hero\nmore\nand more").expect("alike");
    assert_eq!((near.line, near.lines.len()), (2, 1));
}

/// Content in which both kinds of line endings, and bytes that are no UTF-8, are frequent.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"a".to_vec()),
        Just(b"b".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\xE9".to_vec()),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn without_returns(bytes: &[u8]) -> Vec<u8> {
    let mut result: Vec<u8> = Vec::new();
    for byte in bytes {
        if *byte == b'\n' && result.last() == Some(&b'\r') {
            result.pop();
        }
        result.push(*byte);
    }
    result
}

#[test]
fn lines_that_come_before_the_first_end_as_it_does() {
    assert_eq!(replaced(b"\r\n", &places(b"\r\n", "\n"), "a\n\n"), b"a\r\n\r\n");
    assert_eq!(replaced(b"\n", &places(b"\n", "\n"), "a\n\n"), b"a\n\n");
}

proptest! {
    /// No byte outside the place changes, and apart from line endings the result is what plain
    /// replacing gives.
    #[test]
    fn only_the_place_changes(content in content(), old in "[ab\n]{1,4}", new in "[ab\n]{0,4}") {
        for place in places(&content, &old) {
            prop_assert_eq!(without_returns(&content[place.clone()]), old.as_bytes());
            let result = replaced(&content, std::slice::from_ref(&place), &new);
            prop_assert!(result.starts_with(&content[..place.start]));
            prop_assert!(result.ends_with(&content[place.end..]));
            let middle = &result[place.start..result.len() - (content.len() - place.end)];
            prop_assert_eq!(without_returns(middle), new.as_bytes());
        }
    }

    /// Putting a text in its own place changes nothing, line endings included.
    #[test]
    fn the_same_text_changes_nothing(content in content(), old in "[ab\n]{1,4}") {
        let found = places(&content, &old);
        prop_assert_eq!(replaced(&content, &found, &old), content);
    }

    /// A file with one kind of line endings keeps it.
    #[test]
    fn a_file_keeps_its_line_endings(
        lines in prop::collection::vec("[ab]{0,3}", 2..8),
        old in "[ab\n]{1,4}",
        new in "[ab\n]{0,6}",
    ) {
        let content = lines.join("\r\n").into_bytes();
        for place in places(&content, &old) {
            let result = replaced(&content, &[place], &new);
            let feeds = memchr::memchr_iter(b'\n', &result).count();
            prop_assert_eq!(memchr::memmem::find_iter(&result, b"\r\n").count(), feeds);
        }
    }
}
