//! Limits of outputs, and bytes that become text piece by piece.
//!
//! Receives nothing; hands verdicts to the test runner.

use proptest::prelude::*;

use crate::tools::output::{Decoder, MAX_BYTES, MAX_LINES, Output, Shown};

fn shown(pieces: &[&str]) -> (tempfile::TempDir, Shown) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut output = Output::new(&directory.path().join("state/outputs"));
    for piece in pieces {
        output.push(piece);
    }
    (directory, output.finish())
}

#[test]
fn what_fits_is_shown_whole_and_kept_nowhere() {
    let (directory, output) = shown(&["a\n", "b"]);
    assert_eq!(output, Shown { text: "a\nb".to_owned(), full: None });
    assert!(std::fs::read_dir(directory.path()).expect("it is there").next().is_none());
    let lines = "x\n".repeat(MAX_LINES - 10);
    assert_eq!(shown(&[&lines]).1.text, lines);
}

#[test]
fn of_more_the_head_and_the_tail_are_shown() {
    let all: String = (0..100_000).map(|n| format!("{n}\n")).collect::<Vec<_>>().concat();
    let (directory, output) = shown(&[&all]);
    let full = output.full.expect("it was cut");
    assert_eq!(full.bytes, all.len() as u64);
    assert_eq!(std::fs::read_to_string(&full.path).expect("it is kept"), all);
    assert!(full.path.ends_with(&format!("{}.txt", crate::tools::file::sha256(all.as_bytes()))));
    assert!(output.text.starts_with("0\n1\n") && output.text.ends_with("99998\n99999\n"));
    assert!(output.text.len() <= MAX_BYTES && output.text.lines().count() <= MAX_LINES);
    let note = output.text.lines().find(|line| line.starts_with('[')).expect("a note");
    let kept = output.text.len() - note.len() - 1;
    let lines = 100_000 - (output.text.lines().count() - 1);
    let dropped = all.len() - kept;
    let path = &full.path;
    assert_eq!(note, format!("[{dropped} bytes ({lines} lines) left out; all of it is in {path}]"));
    let left: Vec<_> =
        std::fs::read_dir(directory.path().join("state/outputs")).expect("it was made").collect();
    assert_eq!(left.len(), 1, "no temporary file is left");
}

#[test]
fn an_output_that_cannot_be_kept_says_so() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("it can be written");
    let output = Output::of(&file.join("outputs"), &"x\n".repeat(5_000));
    assert_eq!(output.full, None);
    assert!(output.text.contains("it could not be kept: "), "{}", output.text);
}

#[test]
fn c12_cuts_fall_between_characters() {
    // Every place of a wide character around every limit there is.
    for limit in [23 * 1024, 26 * 1024, MAX_BYTES - 512, MAX_BYTES, 2 * 26 * 1024] {
        for before in limit - 4..=limit {
            let text = format!("{}🙂{}", "a".repeat(before), "b".repeat(60_000));
            let (_directory, output) = shown(&[&text]);
            assert!(output.text.len() <= MAX_BYTES);
            let (_directory, reversed) = shown(&[&"b".repeat(60_000), "🙂", &"a".repeat(before)]);
            assert!(reversed.text.len() <= MAX_BYTES);
        }
    }
    let mut decoder = Decoder::default();
    let bytes = [&b"a".repeat(100)[..], b"\xF0\x9F\x99\x82"].concat();
    let (start, end) = bytes.split_at(102);
    assert_eq!(decoder.decode(start) + &decoder.decode(end), "a".repeat(100) + "🙂");
}

proptest! {
    /// However bytes are cut into pieces, they become the same text, replaced once for each
    /// mistake as the standard library does.
    #[test]
    fn pieces_decode_as_the_whole(
        bytes in prop::collection::vec(
            prop_oneof![Just(b'a'), Just(0xF0), Just(0x9F), Just(0x99), Just(0x82), any::<u8>()],
            0..64,
        ),
        cuts in prop::collection::vec(0_usize..64, 0..8),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut decoder = Decoder::default();
        let mut text: String =
            cuts.windows(2).map(|cut| decoder.decode(&bytes[cut[0]..cut[1]])).collect();
        text.push_str(decoder.finish());
        prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
    }

}

proptest! {
    // Each case writes a file.
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Nothing is lost between what is shown and what is said to be left out.
    #[test]
    fn every_byte_is_shown_or_counted(
        pieces in prop::collection::vec(("[a-zé\n]{0,40}", 1_usize..4_000), 0..12),
    ) {
        let pieces: Vec<String> = pieces.iter().map(|(text, n)| text.repeat(*n)).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let all = pieces.concat();
        let (_directory, output) = shown(&pieces);
        match &output.full {
            None => prop_assert_eq!(&output.text, &all),
            Some(full) => {
                prop_assert_eq!(full.bytes, all.len() as u64);
                let (head, rest) = output.text.split_once('[').expect("a note");
                let (note, tail) = rest.split_once("]\n").expect("its end");
                let dropped: usize =
                    note.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
                // A line end was added where the head had none.
                let added = usize::from(!all.starts_with(head));
                prop_assert_eq!(head.len() - added + dropped + tail.len(), all.len());
                prop_assert!(all.ends_with(tail));
                prop_assert!(output.text.len() <= MAX_BYTES);
            }
        }
    }
}
