//! Tables of messages and what they are taken for.

use super::*;

fn shape(message: &[u8]) -> String {
    match parse(message) {
        Incoming::Single(entry) => entry_shape(&entry),
        Incoming::Batch(entries) => {
            let entries: Vec<String> = entries.iter().map(entry_shape).collect();
            format!("[{}]", entries.join(" "))
        }
        Incoming::Broken(error) => format!("broken {}", error.code),
    }
}

fn entry_shape(entry: &Entry<'_>) -> String {
    match entry {
        Entry::Request(Request { id, method, params }) => {
            let id = id.as_ref().map_or("-".to_owned(), ToString::to_string);
            format!("{method}#{id} {}", params.map_or("-", RawValue::get))
        }
        Entry::Response => "response".to_owned(),
        Entry::Invalid { id, error } => format!("invalid#{id} {}", error.code),
    }
}

#[test]
fn what_a_message_is_taken_for() {
    let table: &[(&[u8], &str)] = &[
        (br#"{"jsonrpc":"2.0","id":1,"method":"m"}"#, "m#1 -"),
        (br#" {"method":"m","params":{"a":1},"id":"x","jsonrpc":"2.0"} "#, r#"m#"x" {"a":1}"#),
        (br#"{"jsonrpc":"2.0","method":"m"}"#, "m#- -"),
        (br#"{"jsonrpc":"2.0","id":null,"method":"m","params":null}"#, "m#null null"),
        (br#"{"jsonrpc":"2.0","id":1,"method":"m","more":true}"#, "m#1 -"),
        (br#"{"jsonrpc":"2.0","id":1,"method":"a\u002fb"}"#, "a/b#1 -"),
        (br#"{"jsonrpc":"2.0","id":1,"result":null}"#, "response"),
        (br#"{"jsonrpc":"2.0","id":1,"error":{}}"#, "response"),
        // The id is told wherever it can be read.
        (br#"{"jsonrpc":"2.0","id":1}"#, "invalid#1 -32600"),
        (br#"{"jsonrpc":"2.0","id":1,"method":7}"#, "invalid#1 -32600"),
        (br#"{"jsonrpc":"1.0","id":"x","method":"m"}"#, r#"invalid#"x" -32600"#),
        (br#"{"id":1,"method":"m"}"#, "invalid#1 -32600"),
        (br#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, "invalid#null -32600"),
        (br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, "invalid#null -32600"),
        (b"7", "invalid#null -32600"),
        (br#""text""#, "invalid#null -32600"),
        // What is no JSON is told as that, whatever its start looks like.
        (b"7 8", "broken -32700"),
        (br#"{"jsonrpc":1,"id":1 "method":"m"}"#, "broken -32700"),
        (b"{", "broken -32700"),
        (b"\xff", "broken -32700"),
        (b"[]", "broken -32600"),
        (b"[1", "broken -32700"),
        (br#"[1,{"jsonrpc":"2.0","id":1,"method":"m"}]"#, "[invalid#null -32600 m#1 -]"),
    ];
    for (message, expected) in table {
        assert_eq!(&shape(message), expected, "{}", String::from_utf8_lossy(message));
    }
}

#[test]
fn a_batch_has_a_largest_size() {
    let batch = |entries: usize| format!("[{}]", vec!["1"; entries].join(","));
    assert!(matches!(parse(batch(MAX_BATCH).as_bytes()), Incoming::Batch(_)));
    assert_eq!(shape(batch(MAX_BATCH + 1).as_bytes()), "broken -32600");
}

#[test]
fn the_id_of_a_message_that_was_cut() {
    let table: &[(&[u8], &str)] = &[
        (br#"{"jsonrpc":"2.0","id":12,"method":"session/submit","params":{"te"#, "12"),
        (br#"{"id":"a","#, r#""a""#),
        (br#"{"id":-5}"#, "-5"),
        (br#"{"params":{"id":3},"id":4,"x":"#, "4"),
        // It may go on where it was cut.
        (br#"{"jsonrpc":"2.0","id":12"#, "null"),
        (br#"{"jsonrpc":"2.0","id":"a"#, "null"),
        (br#"{"jsonrpc":"2.0","id":12,"#, "null"),
        (br#"{"jsonrpc":"2.0","id":nul"#, "null"),
        (br#"{"params":{"id":3}"#, "null"),
        (br#"{"id":1.5,"method":"m","#, "null"),
        (b"[{\"id\":1,\"method\":\"m\",", "null"),
        (b"xxxx", "null"),
        (b"{\"id\":1,\"method\":\"\xff\",", "1"),
        (b"", "null"),
    ];
    for (head, expected) in table {
        assert_eq!(&peek_id(head).to_string(), expected, "{}", String::from_utf8_lossy(head));
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_taken_for_something(bytes: Vec<u8>) {
        shape(&bytes);
        peek_id(&bytes);
    }
}
