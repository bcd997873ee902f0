//! Cases of streams, by their ids, on bytes.

use super::*;

#[test]
fn a1_parallel_calls_without_index_stay_apart() {
    let said = said(&[
        &d(
            r#"{"tool_calls":[{"id":"k1","type":"function","function":{"name":"read","arguments":"{\"p\":1}"}}]}"#,
        ),
        &d(
            r#"{"tool_calls":[{"id":"k2","type":"function","function":{"name":"grep","arguments":"{\"q\""}}]}"#,
        ),
        &d(r#"{"tool_calls":[{"function":{"arguments":":2}"}}]}"#),
        &f("tool_calls"),
        DONE,
    ]);
    let calls = [call("k1", "read", json!({"p": 1})), call("k2", "grep", json!({"q": 2}))];
    assert_eq!(said.calls, calls);
}

/// The kinds of a1: one index for all, no ids either, all in one chunk.
#[test]
fn a1_calls_are_told_apart_by_whatever_there_is() {
    let both = [call("", "read", json!({"p": 1})), call("", "grep", json!({"q": 2}))];
    let entries = [
        r#"{"function":{"name":"read","arguments":"{\"p\":1}"}}"#,
        r#"{"function":{"name":"grep","arguments":"{\"q\":2}"}}"#,
    ];
    let in_one = d(&format!(r#"{{"tool_calls":[{},{}]}}"#, entries[0], entries[1]));
    assert_eq!(said(&[&in_one, DONE]).calls, both, "one chunk, neither ids nor indices");
    let one_each = entries.map(|entry| d(&format!(r#"{{"tool_calls":[{entry}]}}"#)));
    assert_eq!(said(&[&one_each[0], &one_each[1], DONE]).calls, both, "a chunk each");
    let index_0 =
        entries.map(|entry| d(&format!(r#"{{"tool_calls":[{{"index":0,{}]}}"#, &entry[1..])));
    assert_eq!(said(&[&index_0[0], &index_0[1], DONE]).calls, both, "index 0 for both");
    let ids = [
        d(r#"{"tool_calls":[{"index":0,"id":"k1","function":{"name":"list","arguments":""}}]}"#),
        d(r#"{"tool_calls":[{"index":0,"id":"k2","function":{"name":"list","arguments":""}}]}"#),
    ];
    let lists = [call("k1", "list", json!({})), call("k2", "list", json!({}))];
    assert_eq!(said(&[&ids[0], &ids[1], DONE]).calls, lists, "index 0, other ids");
}

#[test]
fn a1_interleaved_calls_are_put_together() {
    let said = said(&[
        &d(
            r#"{"tool_calls":[{"index":0,"id":"k1","function":{"name":"read","arguments":"{\"p\""}},{"index":1,"id":"k2","function":{"name":"grep","arguments":"{\"q\""}}]}"#,
        ),
        &d(r#"{"tool_calls":[{"index":1,"function":{"arguments":":2}"}}]}"#),
        &d(r#"{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}"#),
        &f("tool_calls"),
        DONE,
    ]);
    let calls = [call("k1", "read", json!({"p": 1})), call("k2", "grep", json!({"q": 2}))];
    assert_eq!(said.calls, calls);
}

#[test]
fn a_complete_call_is_given_out_when_the_next_begins() {
    let first =
        d(r#"{"tool_calls":[{"index":0,"id":"k1","function":{"name":"read","arguments":"{}"}}]}"#);
    let second =
        d(r#"{"tool_calls":[{"index":1,"id":"k2","function":{"name":"grep","arguments":"{"}}]}"#);
    let mut decoder = decoder();
    decoder.feed(first.as_bytes()).expect("a good chunk");
    assert_eq!(decoder.pop(), None);
    decoder.feed(second.as_bytes()).expect("a good chunk");
    assert!(matches!(decoder.pop(), Some(ModelEvent::Call(call)) if call.name == "read"));
    assert_eq!(decoder.pop(), None);
}

#[test]
fn a5_a_call_may_have_no_id() {
    for id in [r#""id":"","#, r#""id":null,"#, ""] {
        let delta = format!(
            r#"{{"tool_calls":[{{"index":0,{id}"function":{{"name":"read","arguments":"{{}}"}}}}]}}"#
        );
        let said = said(&[&d(&delta), &f("tool_calls"), DONE]);
        assert_eq!(said.calls, [call("", "read", json!({}))]);
    }
}

#[test]
fn a8_a_name_may_come_in_pieces_or_again() {
    let rest = |name: &str| {
        d(&format!(
            r#"{{"tool_calls":[{{"index":0,"function":{{"name":"{name}","arguments":"{{}}"}}}}]}}"#
        ))
    };
    let first = |name: &str| {
        d(&format!(r#"{{"tool_calls":[{{"index":0,"id":"k1","function":{{"name":"{name}"}}}}]}}"#))
    };
    for (one, two) in [("edit_fi", "le"), ("edit_file", "edit_file"), ("edit_fi", "edit_file")] {
        let said = said(&[&first(one), &rest(two), &f("tool_calls"), DONE]);
        assert_eq!(said.calls, [call("k1", "edit_file", json!({}))], "{one} {two}");
    }
}

#[test]
fn a8_a_name_may_come_with_each_piece_of_the_arguments() {
    let piece = |arguments: &str| {
        let arguments = json!(arguments);
        d(&format!(
            r#"{{"tool_calls":[{{"index":0,"id":"k1","function":{{"name":"read","arguments":{arguments}}}}}]}}"#
        ))
    };
    let calls = [call("k1", "read", json!({"p": 1}))];
    assert_eq!(said(&[&piece("{\"p\""), &piece(":1}"), &piece(""), DONE]).calls, calls);
    assert_eq!(said(&[&piece("{\"p\":1}"), &piece("{\"p\":1}"), DONE]).calls, calls);
    assert_eq!(said(&[&piece("{}"), &piece("{\"p\""), &piece(":1}"), DONE]).calls, calls);
}

#[test]
fn a9_arguments_may_be_an_object() {
    let delta =
        r#"{"tool_calls":[{"index":0,"id":"k1","function":{"name":"read","arguments":{"p":1}}}]}"#;
    let said = said(&[&d(delta), &f("tool_calls"), DONE]);
    assert_eq!(said.calls, [call("k1", "read", json!({"p": 1}))]);
}

#[test]
fn a10_no_arguments_are_an_empty_object() {
    for arguments in [r#","arguments":"""#, r#","arguments":null"#, r#","arguments":" ""#, ""] {
        let delta = format!(
            r#"{{"tool_calls":[{{"index":0,"id":"k1","function":{{"name":"list_tasks"{arguments}}}}}]}}"#
        );
        let said = said(&[&d(&delta), &f("tool_calls"), DONE]);
        assert_eq!(said.calls, [call("k1", "list_tasks", json!({}))], "{arguments}");
    }
}

#[test]
fn a11_arguments_that_are_no_object_stay_text() {
    for arguments in ["[1]", "\"x\"", "3", "true", "{\"p\":", "{} {}", "nonsense"] {
        let text = json!(arguments);
        let delta = format!(
            r#"{{"content":"t","tool_calls":[{{"index":0,"id":"k1","function":{{"name":"read","arguments":{text}}}}},{{"index":1,"id":"k2","function":{{"name":"read","arguments":"{{}}"}}}}]}}"#
        );
        let said = said(&[&d(&delta), &f("tool_calls"), DONE]);
        let calls = [call("k1", "read", json!(arguments)), call("k2", "read", json!({}))];
        assert_eq!((said.text.as_str(), said.calls), ("t", calls.to_vec()));
    }
    let null =
        r#"{"tool_calls":[{"index":0,"id":"k1","function":{"name":"read","arguments":"null"}}]}"#;
    assert_eq!(said(&[&d(null), DONE]).calls, [call("k1", "read", json!({}))]);
}

#[test]
fn a12_calls_come_whatever_the_finish_reason() {
    for reason in ["stop", "function_call", "unheard_of", "length"] {
        let said = said(&[
            &d(r#"{"content":"checking"}"#),
            &d(
                r#"{"tool_calls":[{"index":0,"id":"k1","function":{"name":"read","arguments":"{}"}}]}"#,
            ),
            &f(reason),
            DONE,
        ]);
        assert_eq!(said.text, "checking");
        assert_eq!(said.calls, [call("k1", "read", json!({}))]);
        assert_eq!(said.finish_reason.as_deref(), Some(reason));
    }
}

#[test]
fn a13_a_finish_for_calls_without_any_is_an_end() {
    let said = said(&[&f("tool_calls"), DONE]);
    let finish_reason = Some("tool_calls".to_owned());
    assert_eq!(said, Said { ended: true, finish_reason, ..Said::default() });
}

#[test]
fn a14_an_answer_that_is_cut_off_is_no_answer() {
    let call =
        d(r#"{"tool_calls":[{"index":0,"id":"k1","function":{"name":"read","arguments":"{}"}}]}"#);
    let (said, error) = failed(&[&d(r#"{"content":"Hel"}"#), &call]);
    assert_eq!((said.text.as_str(), said.calls.len()), ("Hel", 0));
    assert_eq!((error.code, error.retryable), (TurnErrorCode::ProviderUnreachable, true));
    assert!(failed(&[]).1.retryable);
}

#[test]
fn a15_done_is_enough() {
    let expected = Said { text: "Hello".to_owned(), ended: true, ..Said::default() };
    assert_eq!(said(&[&d(r#"{"content":"Hello"}"#), DONE]), expected);
    assert_eq!(said(&[&d(r#"{"content":"Hello"}"#), &chunk(""), DONE]), expected);
}

#[test]
fn a_finish_reason_is_enough() {
    let said = said(&[&d(r#"{"content":"Hello"}"#), &f("stop")]);
    assert_eq!((said.text.as_str(), said.finish_reason.as_deref()), ("Hello", Some("stop")));
}

#[test]
fn a17_usage_may_come_with_or_without_choices() {
    let usage = r#""usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}"#;
    let expected = Usage { input: 3, output: 1, ..Usage::default() };
    for choices in [r#""choices":[],"#, r#""choices":null,"#, ""] {
        let last = format!("data: {{{choices}{usage}}}\n\n");
        let first = d(r#"{"content":"x"}"#).replace("\"id\"", "\"usage\":null,\"id\"");
        let said = said(&[&first, &f("stop"), &last, DONE]);
        assert_eq!((said.text.as_str(), said.usage), ("x", Some(expected)));
    }
}

#[test]
fn usage_details_are_read_and_odd_usage_is_no_error() {
    let details = r#"data: {"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":10,
data: "prompt_tokens_details":{"cached_tokens":20},"completion_tokens_details":{"reasoning_tokens":5}}}

"#;
    let usage = said(&[details, DONE]).usage.expect("a usage");
    assert_eq!((usage.cache_read, usage.reasoning), (20, 5));
    let hit = r#"data: {"usage":{"prompt_tokens":30,"prompt_cache_hit_tokens":7}}"#;
    assert_eq!(said(&[hit, "\n\n", DONE]).usage.map(|usage| usage.cache_read), Some(7));
    let odd = r#"data: {"usage":{"prompt_tokens":"many"}}"#;
    assert_eq!(said(&[odd, "\n\n", DONE]).usage, None);
}

#[test]
fn a18_a_first_chunk_may_have_no_choice() {
    let preamble = "data: {\"choices\":[],\"prompt_filter_results\":[{\"prompt_index\":0}]}\n\n";
    let role = d(r#"{"role":"assistant","content":""}"#);
    let said = said(&[preamble, &role, &d(r#"{"content":"ok"}"#), &f("stop"), DONE]);
    assert_eq!(said.text, "ok");
}

#[test]
fn a19_comments_are_ignored() {
    let text = d(r#"{"content":"x"}"#);
    let said = said(&[": WAITING\n\n: WAITING\n\n", &text, ": k=v\n", &f("stop"), DONE]);
    assert_eq!(said.text, "x");
}

#[test]
fn a21_empty_data_is_ignored() {
    let text = d(r#"{"content":"x"}"#);
    let empty = ": ping\n\ndata:\n\nevent: ping\ndata: \n\n";
    assert_eq!(said(&["id: 7\n", &text, empty, &f("stop"), DONE]).text, "x");
}

#[test]
fn a23_line_ends_and_cuts_do_not_matter() {
    let call =
        d(r#"{"tool_calls":[{"index":0,"id":"k1","function":{"name":"read","arguments":"{}"}}]}"#);
    let stream = [&d(r#"{"content":"x"}"#), &call, &f("stop"), DONE].concat();
    let expected = Said::of(decode([stream.as_bytes()]).0);
    for line_end in ["\n", "\r\n", "\r"] {
        let stream = stream.replace('\n', line_end);
        let bytes = stream.as_bytes();
        let after_cr = bytes.split_inclusive(|byte| *byte == b'\r');
        for reads in [vec![bytes], bytes.chunks(1).collect(), after_cr.collect()] {
            let (events, failed) = decode(reads);
            assert_eq!((Said::of(events), failed), (expected.clone(), None));
        }
    }
}

#[test]
fn a25_data_may_have_several_lines() {
    let text = "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"x\"},\"finish_reason\":null}]}\n\n";
    assert_eq!(said(&[text, &f("stop"), DONE]).text, "x");
}

#[test]
fn a26_the_last_event_may_have_no_end() {
    let text = d(r#"{"content":"x"}"#);
    assert_eq!(said(&[&text, &f("stop"), "data: [DONE]"]).text, "x");
    let (partial, error) = failed(&[&text, "data: {\"choices\":[{\"ind"]);
    assert_eq!((partial.text.as_str(), error.retryable), ("x", true));
}

#[test]
fn a27_characters_may_be_cut() {
    let stream = [&d("{\"content\":\"\u{597d}\u{1f642}\"}"), &f("stop"), DONE].concat();
    let bytes = stream.as_bytes();
    for at in 0..bytes.len() {
        let (events, failed) = decode([&bytes[..at], &bytes[at..]]);
        assert_eq!((Said::of(events).text.as_str(), failed), ("\u{597d}\u{1f642}", None), "{at}");
    }
    let inside = stream.find('\u{597d}').expect("it is there") + 1;
    let (events, error) = decode([&bytes[..inside]]);
    assert!(events.is_empty() && error.is_some_and(|error| error.retryable));
}

#[test]
fn a28_an_error_inside_a_stream_is_one() {
    let error = r#""error":{"message":"m","type":"server_error","param":null,"code":400}"#;
    for stream in [
        vec![format!("data: {{{error}}}\n\n")],
        vec![format!("data: {{\"choices\":[],{error}}}\n\n")],
        vec![d(r#"{"content":"Hel"}"#), format!("data: {{{error}}}\n\n")],
        vec![format!("{{{error}}}\n")],
        vec!["event: error\n".to_owned(), "data: {\"message\":\"m\",\"code\":400}\n\n".to_owned()],
    ] {
        let text: Vec<&str> = stream.iter().map(String::as_str).chain([DONE]).collect();
        let (said, error) = failed(&text);
        assert_eq!(said.text, if stream[0].contains("Hel") { "Hel" } else { "" });
        assert_eq!(error.provider_code.as_deref(), Some("400"), "{text:?}");
        assert_eq!((error.code, error.retryable), (TurnErrorCode::ProviderRefused, false));
        assert!(error.message.ends_with(": m"), "{error}");
    }
}

#[test]
fn a28_an_empty_error_is_none() {
    for none in ["null", "\"\"", "{}", "false"] {
        let chunk = d(r#"{"content":"x"}"#).replace("\"id\"", &format!("\"error\":{none},\"id\""));
        assert_eq!(said(&[&chunk, DONE]).text, "x");
    }
}

#[test]
fn a29_an_error_beside_choices_is_one() {
    let chunk = r#"data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":502,"message":"m"}}"#;
    let (_, error) = failed(&[chunk, "\n\n", DONE]);
    assert_eq!((error.code, error.retryable), (TurnErrorCode::ProviderUnreachable, true));
    assert_eq!(error.provider_code.as_deref(), Some("502"));
    let (_, error) = failed(&[&f("error"), DONE]);
    assert!(error.retryable);
}

#[test]
fn a30_an_error_may_be_flat() {
    let chunk = r#"data: {"choices":null,"error_type":"BadRequestError","error_message":"m"}"#;
    let (_, error) = failed(&[chunk, "\n\n"]);
    assert_eq!((error.code, error.retryable), (TurnErrorCode::ProviderRefused, false));
    assert!(error.message.ends_with(": m"), "{error}");
}

#[test]
fn what_cannot_be_read_is_an_error_that_shows_it() {
    let (said, error) = failed(&[&d(r#"{"content":"x"}"#), "data: <nonsense>\n\n", DONE]);
    assert_eq!(said.text, "x");
    assert_eq!((error.code, error.retryable), (TurnErrorCode::BadResponse, false));
    assert!(error.message.contains("<nonsense>"), "{error}");
}

#[test]
fn a42_content_may_be_a_list_of_parts() {
    let said = said(&[
        &d(r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"r"}]}]}"#),
        &d(r#"{"content":[{"type":"text","text":"x"},{"type":"unheard_of","text":"no"}]}"#),
        &d(r#"{"content":"y"}"#),
        &f("stop"),
        DONE,
    ]);
    assert_eq!((said.reasoning.as_str(), said.text.as_str()), ("r", "xy"));
}

#[test]
fn a43_reasoning_goes_on_after_a_call() {
    let said = said(&[
        &d(r#"{"reasoning_content":"r"}"#),
        &d(r#"{"tool_calls":[{"index":0,"id":"k1","function":{"name":"read","arguments":"{}"}}]}"#),
        &d(r#"{"reasoning_content":"s"}"#),
        &f("tool_calls"),
        DONE,
    ]);
    assert_eq!((said.reasoning.as_str(), said.calls.len()), ("rs", 1));
}

#[test]
fn reasoning_has_several_names_and_comes_once() {
    let both = d(r#"{"reasoning_content":"r","reasoning":"r"}"#);
    let other = d(r#"{"reasoning":"s","content":null}"#);
    assert_eq!(said(&[&both, &other, DONE]).reasoning, "rs");
}

/// What was half received of a call is none (its retry is a35 in `tests/cases/streams.rs`).
#[test]
fn a35_a_call_that_is_cut_off_is_none() {
    let (said, error) = failed(&[
        &d(r#"{"content":"Hel"}"#),
        &d(
            r#"{"tool_calls":[{"index":0,"id":"k1","function":{"name":"shell","arguments":"{\"c\":\"rm "}}]}"#,
        ),
    ]);
    assert_eq!((said.text.as_str(), said.calls.len()), ("Hel", 0));
    assert!(error.retryable && error.broken);
}

#[test]
fn a37_a_limit_may_cut_arguments() {
    for (arguments, expected) in [
        (r#"{\"path\":\"a\",\"text\":\"par"#, json!("{\"path\":\"a\",\"text\":\"par")),
        (r#"{\"path\":\"a\"}"#, json!({"path": "a"})),
    ] {
        let delta = format!(
            r#"{{"tool_calls":[{{"index":0,"id":"k1","function":{{"name":"write","arguments":"{arguments}"}}}}]}}"#
        );
        let said = said(&[&d(&delta), &f("length"), DONE]);
        assert_eq!(said.calls, [call("k1", "write", expected)]);
        assert_eq!(said.finish_reason.as_deref(), Some("length"));
    }
}

#[test]
fn a44_there_may_be_reasoning_only() {
    let said = said(&[&d(r#"{"reasoning_content":"r"}"#), &f("stop"), DONE]);
    assert_eq!((said.text.as_str(), said.reasoning.as_str()), ("", "r"));
}

#[test]
fn a45_a_closing_tag_may_have_no_opener() {
    let stream = [&d(r#"{"content":"why</think>\n\nanswer"}"#), &f("stop"), DONE];
    let on = said_with(ThinkTags::On, &stream);
    assert_eq!((on.reasoning.as_str(), on.text.as_str()), ("why", "answer"));
    for tags in [ThinkTags::Auto, ThinkTags::Off] {
        let plain = said_with(tags, &stream);
        assert_eq!((plain.reasoning.as_str(), plain.text.as_str()), ("", "why</think>\n\nanswer"));
    }
}

#[test]
fn think_tags_at_the_start_part_reasoning_from_text() {
    let pieces = ["<th", "ink>\\nwh", "y</thi", "nk>\\n\\nans", "wer"];
    let deltas = pieces.map(|piece| d(&format!(r#"{{"content":"{piece}"}}"#)));
    let stream: Vec<&str> = deltas.iter().map(String::as_str).chain([DONE]).collect();
    let said = said(&stream);
    assert_eq!((said.reasoning.as_str(), said.text.as_str()), ("why", "answer"));
    let off = said_with(ThinkTags::Off, &stream);
    assert_eq!((off.reasoning.as_str(), off.text.as_str()), ("", "<think>\nwhy</think>\n\nanswer"));
}

/// The kind of a47: a server that has a field for reasoning quotes tags, wherever they stand.
#[test]
fn a47_a_field_for_reasoning_makes_tags_text() {
    let text = "<think> is a tag, </think> too";
    let content = d(&json!({ "content": text }).to_string());
    for field in ["reasoning_content", "reasoning"] {
        let first = d(&json!({ field: "r" }).to_string());
        let said = said_with(ThinkTags::On, &[&first, &content, DONE]);
        assert_eq!((said.reasoning.as_str(), said.text.as_str()), ("r", text));
    }
}

#[test]
fn a47_tags_in_text_are_text() {
    let text = "use `</think>` here";
    assert_eq!(said(&[&d(&json!({"content": text}).to_string()), DONE]).text, text);
}

#[test]
fn other_choices_and_repeated_ends_are_ignored() {
    let other = chunk(r#"{"index":1,"delta":{"content":"no"},"finish_reason":"stop"}"#);
    let said = said(&[&other, &d(r#"{"content":"x"}"#), DONE, DONE, &d(r#"{"content":"y"}"#)]);
    assert_eq!(said.text, "x");
}

#[test]
fn bytes_that_are_no_text_do_not_cost_the_answer() {
    let mut stream = d(r#"{"content":"aXb"}"#).into_bytes();
    let at = stream.iter().position(|byte| *byte == b'X').expect("it is there");
    stream[at] = 0xFF;
    let (events, failed) = decode([stream.as_slice(), DONE.as_bytes()]);
    assert_eq!((Said::of(events).text.as_str(), failed), ("a\u{fffd}b", None));
}

#[test]
fn calls_have_a_limit() {
    let many: Vec<String> =
        (0..=1_024).map(|n| format!(r#"{{"index":{n},"function":{{"name":"read"}}}}"#)).collect();
    let (_, error) = failed(&[&d(&format!(r#"{{"tool_calls":[{}]}}"#, many.join(",")))]);
    assert_eq!(error.code, TurnErrorCode::BadResponse);
}
