//! Calls come out whole however their deltas were cut, in each of the styles that servers have.

use proptest::prelude::*;

use super::*;

/// How a server says which call a delta belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Style {
    /// The standard's way: an index always, id and name in the first delta.
    Standard,
    /// No id at all.
    IndexOnly,
    /// No index; the id in the first delta only.
    FirstId,
    /// No index; the id in each delta.
    EachId,
    /// Index, id and name in each delta.
    Everything,
    /// Index 0 for all calls.
    IndexZero,
}

const STYLES: [Style; 6] = [
    Style::Standard,
    Style::IndexOnly,
    Style::FirstId,
    Style::EachId,
    Style::Everything,
    Style::IndexZero,
];

fn delta(style: Style, call: usize, name: &str, piece: &str, first: bool) -> String {
    let mut function = json!({ "arguments": piece });
    if first || style == Style::Everything {
        function["name"] = json!(name);
    }
    let mut entry = json!({ "function": function });
    match style {
        Style::Standard | Style::IndexOnly | Style::Everything => entry["index"] = json!(call),
        Style::IndexZero => entry["index"] = json!(0),
        Style::FirstId | Style::EachId => {}
    }
    let with_id = match style {
        Style::Standard | Style::FirstId | Style::IndexZero => first,
        Style::EachId | Style::Everything => true,
        Style::IndexOnly => false,
    };
    if with_id {
        entry["id"] = json!(format!("k{call}"));
    }
    d(&json!({ "tool_calls": [entry] }).to_string())
}

fn pieces(text: &str, cuts: &[prop::sample::Index]) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(chars.len() + 1)).collect();
    ends.push(chars.len());
    ends.sort_unstable();
    let mut start = 0;
    ends.into_iter()
        .map(|end| {
            let piece = chars[start..end].iter().collect();
            start = end;
            piece
        })
        .collect()
}

fn arguments() -> impl Strategy<Value = Value> {
    let text = "[{}\"é\\\\ a]{0,6}";
    prop_oneof![
        Just(json!({})),
        text.prop_map(|text| json!({ "p": text })),
        (text, any::<i32>()).prop_map(|(text, n)| json!({ "p": { "{": n }, "q": [text, {}] })),
    ]
}

proptest! {
    #[test]
    fn calls_do_not_depend_on_how_they_were_cut(
        style in prop::sample::select(STYLES.to_vec()),
        calls in prop::collection::vec(
            (
                prop::sample::select(vec!["read", "read_file", "grep"]),
                arguments(),
                prop::collection::vec(any::<prop::sample::Index>(), 0..5),
            ),
            1..4,
        ),
    ) {
        let mut stream = String::new();
        let mut expected = Vec::new();
        for (at, (name, arguments, cuts)) in calls.iter().enumerate() {
            for (n, piece) in pieces(&arguments.to_string(), cuts).iter().enumerate() {
                stream.push_str(&delta(style, at, name, piece, n == 0));
            }
            let id = if style == Style::IndexOnly { String::new() } else { format!("k{at}") };
            expected.push(call(&id, name, arguments.clone()));
        }
        let (events, failed) = decode([stream.as_bytes(), DONE.as_bytes()]);
        prop_assert_eq!(failed, None);
        prop_assert_eq!(Said::of(events).calls, expected, "{}", stream);
    }
}
