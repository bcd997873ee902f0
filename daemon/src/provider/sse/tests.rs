//! Events do not depend on how their bytes were cut.

use proptest::prelude::*;

use super::*;

type Events = Vec<(String, String)>;

fn split<'a>(
    splitter: &mut Splitter,
    reads: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Events, TooLong> {
    let mut events = Vec::new();
    let mut sink = |event: Event<'_>| {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("whole characters");
        events.push((text(event.name), text(event.data)));
        Ok(())
    };
    for read in reads {
        splitter.feed(read, &mut sink)?;
    }
    splitter.finish(&mut sink)?;
    Ok(events)
}

fn events(bytes: &[u8]) -> Events {
    split(&mut Splitter::new(), [bytes]).expect("short enough")
}

fn event(name: &str, data: &str) -> (String, String) {
    (name.to_owned(), data.to_owned())
}

#[test]
fn lines_are_understood() {
    type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);
    let table: [Row<'_>; 13] = [
        ("one", "data: x\n\n", &[("", "x")]),
        ("no space", "data:x\n\n", &[("", "x")]),
        ("one space only", "data:  x\n\n", &[("", " x")]),
        ("several lines", "data: x\ndata\ndata: y\n\n", &[("", "x\n\ny")]),
        ("a name", "event: error\ndata: x\n\ndata: y\n\n", &[("error", "x"), ("", "y")]),
        ("a name without data", "event: ping\n\ndata: y\n\n", &[("", "y")]),
        ("empty data", "data:\n\ndata: \n\n", &[("", ""), ("", "")]),
        ("comments", ": hi\n\n: ho\ndata: x\n: he\n\n", &[("", "x")]),
        ("other fields", "id: 7\nretry: 9\nfoo\ndata: x\n\n", &[("", "x")]),
        ("blank lines", "\n\n\ndata: x\n\n\n\n", &[("", "x")]),
        ("a byte order mark", "\u{feff}data: x\n\n", &[("", "x")]),
        ("no end", "data: x\n\ndata: y", &[("", "x"), ("", "y")]),
        (
            "bare JSON",
            "data: x\n{\"e\":1}\ndata: y\n\n",
            &[("", "x"), ("", "{\"e\":1}"), ("", "y")],
        ),
    ];
    for (what, text, expected) in table {
        let expected: Events = expected.iter().map(|(name, data)| event(name, data)).collect();
        assert_eq!(events(text.as_bytes()), expected, "{what}");
    }
}

#[test]
fn a_second_byte_order_mark_is_no_mark() {
    assert_eq!(events("data: x\n\u{feff}data: y\n\n".as_bytes()), [event("", "x")]);
}

#[test]
fn lines_and_events_have_a_limit() {
    let mut lines = Splitter::with_limit(8);
    assert_eq!(split(&mut lines, [b"data: abc".as_slice()]), Err(TooLong));
    let mut pieces = Splitter::with_limit(8);
    assert_eq!(split(&mut pieces, [b"data:".as_slice(), b"abcd"]), Err(TooLong));
    let mut data = Splitter::with_limit(8);
    let lines = b"data: abc\ndata: abc\ndata: abc\n\n".as_slice();
    assert_eq!(split(&mut data, [lines]), Err(TooLong));
    let mut comments = Splitter::with_limit(8);
    let many = b":abcdef\n\n".repeat(100);
    assert_eq!(split(&mut comments, [many.as_slice()]), Ok(Vec::new()));
}

#[test]
fn a_sink_that_fails_ends_it() {
    #[derive(Debug, PartialEq)]
    struct Full;
    impl From<TooLong> for Full {
        fn from(_: TooLong) -> Self {
            Self
        }
    }
    let mut seen = 0;
    let mut sink = |_: Event<'_>| {
        seen += 1;
        if seen == 2 { Err(Full) } else { Ok(()) }
    };
    let result = Splitter::new().feed(b"data: 1\n\ndata: 2\n\ndata: 3\n\n", &mut sink);
    assert_eq!((result, seen), (Err(Full), 2));
}

/// Cuts `bytes` at the given places.
fn cut<'a>(bytes: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = places.iter().map(|place| place.index(bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut start = 0;
    ends.into_iter()
        .map(|end| {
            let piece = &bytes[start..end];
            start = end;
            piece
        })
        .collect()
}

proptest! {
    #[test]
    fn events_do_not_depend_on_cuts_and_line_ends(
        lines in prop::collection::vec("(data|data: |event: |: |id: |x|)(é|🙂|a|:| ){0,4}", 0..20),
        line_end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let expected = events(lines.join("\n").as_bytes());
        let text = lines.join(line_end);
        let reads = cut(text.as_bytes(), &places);
        prop_assert_eq!(split(&mut Splitter::new(), reads).expect("short enough"), expected);
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut sink = |_: Event<'_>| Ok::<_, TooLong>(());
        let mut splitter = Splitter::new();
        for byte in &bytes {
            prop_assert_eq!(splitter.feed(&[*byte], &mut sink), Ok(()));
        }
        prop_assert_eq!(splitter.finish(&mut sink), Ok(()));
    }
}
