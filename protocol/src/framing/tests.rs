//! Tables of both framings at their limits, and the property that reads do not matter.
//!
//! Receives bytes in every cut; hands nothing on.

use super::*;
use proptest::prelude::*;

const MAX: usize = 32;

/// All frames of `bytes`, read in pieces of these sizes (the rest in one).
fn frames_in(max: usize, bytes: &[u8], cuts: &[usize]) -> Vec<Frame> {
    let mut decoder = Decoder::new(max);
    let mut buffer = BytesMut::new();
    let mut frames = Vec::new();
    let mut rest = bytes;
    for &cut in cuts {
        let (piece, after) = rest.split_at(cut.min(rest.len()));
        buffer.extend_from_slice(piece);
        rest = after;
        while let Some(frame) = decoder.decode(&mut buffer) {
            frames.push(frame);
        }
        assert!(buffer.len() <= max.max(MAX_HEADER_BYTES) + 2, "{} bytes are kept", buffer.len());
    }
    buffer.extend_from_slice(rest);
    while let Some(frame) = decoder.decode_eof(&mut buffer) {
        frames.push(frame);
    }
    frames
}

fn frames(bytes: &[u8]) -> Vec<Frame> {
    frames_in(MAX, bytes, &[])
}

fn text(message: &str) -> Frame {
    Frame::Message(Bytes::copy_from_slice(message.as_bytes()))
}

fn oversize(head: &str) -> Frame {
    Frame::Oversize { head: Bytes::copy_from_slice(head.as_bytes()) }
}

#[test]
fn lines() {
    let full = "x".repeat(MAX);
    let over = "x".repeat(MAX + 1);
    for (bytes, expected) in [
        ("{}\n[]\n", vec![text("{}"), text("[]")]),
        ("{}\r\n[]\r\n", vec![text("{}"), text("[]")]),
        ("\n \t\r\n{}\n\n", vec![text("{}")]),
        ("{}", vec![text("{}")]),
        ("{}\n[]\r", vec![text("{}"), text("[]")]),
        ("", vec![]),
        ("\n", vec![]),
        (&format!("{full}\n{{}}\n"), vec![text(&full), text("{}")]),
        (&format!("{full}\r\n{{}}\n"), vec![text(&full), text("{}")]),
        (&full, vec![text(&full)]),
        (&format!("{full}\r"), vec![text(&full)]),
        (&format!("{{}}\n{over}\n[]\n"), vec![text("{}"), oversize(&full), text("[]")]),
        (&format!("{over}\r\n[]\n"), vec![oversize(&full), text("[]")]),
        (&format!("{full}\ry\n[]\n"), vec![oversize(&full), text("[]")]),
        (&over, vec![oversize(&full)]),
    ] {
        assert_eq!(frames(bytes.as_bytes()), expected, "{bytes:?}");
    }
    let bad = b"\xff\xfe\n{}\n";
    let expected = vec![Frame::Message(Bytes::from_static(b"\xff\xfe")), text("{}")];
    assert_eq!(frames(bad), expected);
}

#[test]
fn headers() {
    let full = "x".repeat(MAX);
    let over = format!("Content-Length: {}\r\n\r\n{full}y", MAX + 1);
    for (bytes, expected) in [
        ("Content-Length: 2\r\n\r\n{}Content-Length: 2\r\n\r\n[]", vec![text("{}"), text("[]")]),
        ("content-LENGTH:2\r\nContent-Type: x\r\n\r\n{}", vec![text("{}")]),
        ("Content-Type: x; charset=utf-8\r\nContent-Length : 2 \r\n\r\n{}", vec![text("{}")]),
        ("Content-Length: 2\n\n{}", vec![text("{}")]),
        ("Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", vec![text("{}")]),
        ("Content-Length: 0\r\n\r\n", vec![text("")]),
        ("Content-Length: 3\r\n\r\n{\n}", vec![text("{\n}")]),
        (&format!("Content-Length: {MAX}\r\n\r\n{full}"), vec![text(&full)]),
        (&format!("{over}Content-Length: 2\r\n\r\n{{}}"), vec![oversize(&full), text("{}")]),
        (&over[..over.len() - 1], vec![oversize(&full)]),
    ] {
        assert_eq!(frames(bytes.as_bytes()), expected, "{bytes:?}");
    }
}

#[test]
fn bad_headers_are_fatal_and_end_it() {
    let bad_header = |line: &str| Fault::BadHeader { line: line.to_owned() };
    let bad_length = |value: &str| Fault::BadLength { value: value.to_owned() };
    let long = format!("C{}\r\n", "x".repeat(MAX_HEADER_BYTES));
    let many = "Content-Type: x\r\n".repeat(MAX_HEADER_BYTES);
    for (bytes, fault) in [
        ("Content-Type: x\r\n\r\n{}", Fault::NoLength),
        ("Content-Length: 2\r\n\r\n{}\r\n\r\n", Fault::NoLength),
        ("Content-Length 2\r\n\r\n{}", bad_header("Content-Length 2")),
        ("Content-Length: two\r\n\r\n{}", bad_length("two")),
        ("Content-Length: -2\r\n\r\n{}", bad_length("-2")),
        ("Content-Length: +2\r\n\r\n{}", bad_length("+2")),
        ("Content-Length: \r\n\r\n{}", bad_length("")),
        ("Content-Length: 99999999999999999999\r\n\r\n", bad_length("99999999999999999999")),
        ("Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", bad_length("3")),
        ("Content-Length: 2\r\n\r\n{}{}", Fault::Truncated),
        ("Content-Length: 2\r\n\r\n{}[1]\r\n", bad_header("[1]")),
        ("Content-Length: 9\r\n\r\n{}", Fault::Truncated),
        ("Content-Le", Fault::Truncated),
        ("Content-Length: 9\r\n", Fault::Truncated),
        (&long, Fault::LongHeaders),
        (&many, Fault::LongHeaders),
        (&long[..long.len() - 2], Fault::LongHeaders),
    ] {
        let last = frames(bytes.as_bytes()).pop();
        assert_eq!(last, Some(Frame::Fatal(fault)), "{:?}", &bytes[..bytes.len().min(80)]);
    }
    let after = b"Content-Type: x\r\n\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(frames(after), vec![Frame::Fatal(Fault::NoLength)]);
}

#[test]
fn the_framing_is_kept() {
    let mut decoder = Decoder::new(MAX);
    assert_eq!(decoder.framing(), None);
    let mut buffer = BytesMut::from(&b"{}\nContent-Length: 2\n"[..]);
    assert_eq!(decoder.decode(&mut buffer), Some(text("{}")));
    assert_eq!(decoder.framing(), Some(Framing::Lines));
    assert_eq!(decoder.decode(&mut buffer), Some(text("Content-Length: 2")));
    assert_eq!(Decoder::with_framing(MAX, Framing::Headers).framing(), Some(Framing::Headers));
}

#[test]
fn an_endless_message_is_told_once_then_given_up() {
    for start in [&b""[..], b"Content-Length: 999999999999\r\n\r\n"] {
        let mut decoder = Decoder::new(MAX);
        let mut buffer = BytesMut::from(start);
        let mut seen = Vec::new();
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..=MAX_SKIPPED_BYTES >> 20 {
            buffer.extend_from_slice(&piece);
            while let Some(frame) = decoder.decode(&mut buffer) {
                seen.push(frame);
            }
            assert!(buffer.is_empty(), "nothing of it is kept");
        }
        let fault = Fault::Endless { limit: MAX_SKIPPED_BYTES };
        assert_eq!(seen, vec![oversize(&"x".repeat(MAX)), Frame::Fatal(fault)]);
    }
}

#[test]
fn the_head_is_4_kib() {
    let line = "x".repeat(3 * HEAD_BYTES);
    let frames = frames_in(2 * HEAD_BYTES, line.as_bytes(), &[]);
    assert_eq!(frames, vec![oversize(&"x".repeat(HEAD_BYTES))]);
}

#[test]
fn what_is_encoded_can_be_decoded() {
    for framing in [Framing::Lines, Framing::Headers] {
        let mut wire = BytesMut::new();
        encode(framing, b"{\n \"a\": 1\r\n}", &mut wire);
        encode(framing, b"[]", &mut wire);
        let mut decoder = Decoder::with_framing(MAX, framing);
        let mut decoded = Vec::new();
        while let Some(Frame::Message(message)) = decoder.decode(&mut wire) {
            decoded.push(serde_json::from_slice::<serde_json::Value>(&message).unwrap());
        }
        assert_eq!(decoded, vec![serde_json::json!({ "a": 1 }), serde_json::json!([])]);
    }
}

/// Streams that visit every state: good and bad, at the limits, in both framings.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just("{}\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("\n".to_owned()),
        (MAX - 2..MAX + 4, any::<bool>()).prop_map(|(n, cr)| format!(
            "{}{}\n",
            "x".repeat(n),
            if cr { "\r" } else { "" }
        )),
        (0..3 * MAX).prop_map(|n| format!("{}\r{}\n", "y".repeat(n), "z".repeat(n % 3))),
    ];
    let message = prop_oneof![
        (0..2 * MAX).prop_map(|n| format!("Content-Length: {n}\r\n\r\n{}", "x".repeat(n))),
        Just("Content-Type: a\r\ncontent-length:2\r\n\r\n{}".to_owned()),
        Just("Content-Length: 2\n\n{}".to_owned()),
        Just("Content-Length: x\r\n\r\n".to_owned()),
        Just("Content\r\n\r\n".to_owned()),
        (MAX_HEADER_BYTES - 24..MAX_HEADER_BYTES + 4)
            .prop_map(|n| format!("Content-Length: 0\r\nC:{}\r\n\r\n", "x".repeat(n))),
    ];
    let tail = (0..2 * MAX).prop_map(|n| "t".repeat(n));
    let lines = (prop::collection::vec(line, 0..8), tail).prop_map(|(v, t)| v.concat() + &t);
    let messages = (prop::collection::vec(message, 1..6), 0..40usize).prop_map(|(v, cut)| {
        let all = v.concat();
        all[..all.len().saturating_sub(cut)].to_owned()
    });
    prop_oneof![lines, messages].prop_map(String::into_bytes)
}

proptest! {
    #[test]
    fn reads_do_not_matter(bytes in stream(), cuts in prop::collection::vec(1..50usize, 0..400)) {
        let whole = frames_in(MAX, &bytes, &[]);
        prop_assert_eq!(&frames_in(MAX, &bytes, &cuts), &whole);
        prop_assert_eq!(&frames_in(MAX, &bytes, &vec![1; bytes.len()]), &whole);
    }
}
