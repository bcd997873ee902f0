//! Markers that make the view smaller: what they leave, whatever they say, and what is planned.

use super::*;
use crate::conversation::{Budget, tokens};

fn id(index: u64) -> ItemId {
    ItemId::from_unique(index)
}

/// A record as long as wanted: a task, then rounds of two calls, then a word of the user.
fn long(rounds: u64) -> Vec<Arc<Item>> {
    let mut items = vec![system(1, "s"), user(2, "the task")];
    for round in 0..rounds {
        let at = items.len() as u64 + 1;
        let calls = [format!("a{round}"), format!("b{round}")];
        items.push(assistant(at, "working", &[&calls[0], &calls[1]]));
        items.push(result(at + 1, &calls[0], &"x".repeat(4_000)));
        items.push(result(at + 2, &calls[1], &"y".repeat(400)));
    }
    let at = items.len() as u64 + 1;
    items.push(user(at, "more"));
    items
}

fn pushed(items: &[Arc<Item>]) -> Window {
    let mut window = Window::new();
    items.iter().cloned().for_each(|item| window.push(item));
    window
}

fn view(window: &mut Window) -> String {
    whole(window).replace(&"x".repeat(4_000), "X").replace(&"y".repeat(400), "Y")
}

#[test]
fn a_summary_and_the_kept_words_take_the_place_of_what_was_before() {
    let mut window = pushed(&long(2));
    window.push(summary(10, &id(5), &[id(2)], "so far"));
    assert_eq!(
        view(&mut window),
        "[system s;],[user the task;user so far;],[assistant working (a1,b1);],\
         [result a1 of 6: X;result b1 of 6: Y;user more;]"
    );
    window.push(assistant(11, "done", &[]));
    assert!(view(&mut window).ends_with("user more;],[assistant done ();]"));
}

#[test]
fn a_cut_between_results_and_inputs_puts_the_inputs_behind_the_summary() {
    let mut window = pushed(&long(1));
    window.push(summary(7, &id(5), &[], "so far"));
    assert_eq!(view(&mut window), "[system s;],[user so far;user more;]");
}

#[test]
fn the_last_compaction_counts_and_a_rollback_of_it_brings_the_one_before_back() {
    let mut window = pushed(&long(3));
    window.push(summary(13, &id(5), &[], "first"));
    let first = view(&mut window);
    window.push(summary(14, &id(8), &[id(2)], "second"));
    assert!(view(&mut window).starts_with("[system s;],[user the task;user second;],[assistant"));
    window.push(marker(15, &[14], None));
    assert_eq!(view(&mut window), first);
    window.push(marker(16, &[], Some(15)));
    assert!(view(&mut window).contains("second"));
}

#[test]
fn a_pruned_result_is_read_as_a_stub() {
    let mut window = pushed(&long(2));
    let marker = Marker::Pruning { items: vec![id(4)], text: "gone".to_owned() };
    window.push(item(10, ItemBody::Marker { marker }));
    let view = view(&mut window);
    assert!(view.contains("[result a0 of 3: gone;result b0 of 3: Y;]"), "{view}");
    assert!(view.contains("result a1 of 6: X"), "{view}");
}

#[test]
fn an_end_that_is_not_in_the_record_changes_nothing() {
    let mut window = pushed(&long(1));
    let before = view(&mut window);
    window.push(summary(7, &id(99), &[], "so far"));
    assert_eq!(view(&mut window), before);
}

#[test]
fn b6_a_cut_at_any_item_leaves_every_call_with_its_result() {
    let items = long(3);
    for until in &items {
        let mut window = pushed(&items);
        window.push(summary(13, &until.item_id, &[id(2)], "so far"));
        check_pairs(&view(&mut window)).expect("a valid view");
    }
}

#[test]
fn b6_a_planned_cut_is_never_inside_of_a_batch() {
    let items = long(6);
    for window_tokens in (100..12_000).step_by(50) {
        let window = pushed(&items);
        let budget = Budget::new(Some(window_tokens), None, 0);
        let Some(plan) = window.plan_compaction(&budget, window_tokens) else { continue };
        let until = items.iter().find(|item| item.item_id == plan.until).expect("of the record");
        assert!((until.index - 2).is_multiple_of(3), "{window_tokens}: cut after {}", until.index);
    }
}

#[test]
fn b7_the_summary_request_is_valid_and_seals_nothing() {
    // Cut off in the middle of a batch.
    let mut items = long(2);
    items.truncate(7);
    for narrowed in 0..4 {
        let (mut window, mut plain) = (pushed(&items), pushed(&items));
        let sent = whole(&mut window);
        window.push(assistant(8, "", &[]));
        plain.push(assistant(8, "", &[]));
        let budget = Budget::new(Some(4_000), None, 0);
        let pieces = window.summary_messages(("k", ","), (&budget, 4_000), narrowed, &mut readable);
        let request = String::from_utf8(pieces.concat()).expect("UTF-8");
        check_pairs(&request.replace(NOT_STARTED, "n")).expect("a valid request");
        assert!(request.contains("Write a summary"), "{request}");
        assert!(narrowed > 0 || request.starts_with(&sent), "the prefix that is in the cache");
        // It failed: the next request is as if it had never been made.
        for window in [&mut window, &mut plain] {
            window.push(user(9, "on"));
        }
        assert_eq!(whole(&mut window), whole(&mut plain));
    }
}

#[test]
fn b11_a_kept_word_of_the_user_brings_no_result_along() {
    // An imported record: a result of a call that is summarised stands behind the kept words.
    let items = [
        system(1, "s"),
        user(2, "old words"),
        assistant(3, "", &["c1"]),
        user(4, "mixed"),
        result(5, "c1", "r1"),
        assistant(6, "a", &["c2"]),
        result(7, "c1", "late"),
        result(8, "c2", "r2"),
        user(9, "new words"),
    ];
    for until in &items {
        for kept in &items {
            let mut window = pushed(&items);
            let kept = [id(2), kept.item_id.clone()];
            window.push(summary(10, &until.item_id, &kept, "so far"));
            check_pairs(&whole(&mut window)).expect("a valid view");
        }
    }
}

/// What the session goes on knowing: the open task, the files touched, the user's own words.
#[test]
fn the_summary_request_has_all_of_it_and_the_view_keeps_what_must_stay() {
    let mut items = vec![system(1, "s"), user(2, "Port the parser. Never touch main.rs.")];
    for round in 0..20_u64 {
        let at = items.len() as u64 + 1;
        let call = format!("c{round}");
        let mut asked = Item::clone(&assistant(at, "Next file.", &[&call]));
        if let ItemBody::Assistant(answer) = &mut asked.body {
            answer.calls[0].arguments = json!({ "path": format!("src/{}.rs", round % 7) });
        }
        items.push(Arc::new(asked));
        items.push(result(at + 1, &call, &"x".repeat(2_000)));
    }
    let at = items.len() as u64 + 1;
    items.push(user(at, "Use tabs."));
    items.push(assistant(at + 1, "Tabs, then.", &["open"]));
    items.push(result(at + 2, "open", "half of src/6.rs is done"));

    let window = pushed(&items);
    let budget = Budget::new(Some(8_000), None, 100);
    let pieces = window.summary_messages(("k", ","), (&budget, 7_000), 0, &mut readable);
    let request = String::from_utf8(pieces.concat()).expect("UTF-8");
    for part in ["Port the parser.", "Use tabs.", "half of src/6.rs", "in the user's own words"] {
        assert!(request.contains(part), "{part}");
    }
    for heading in ["Task", "State", "Files", "Findings", "Next"] {
        assert!(request.contains(&format!(". {heading}: ")), "{heading}");
    }

    let plan = window.plan_compaction(&budget, 7_000).expect("much can go");
    assert_eq!(plan.kept[0], id(2), "the task, word for word");
    for file in 0..6 {
        assert!(plan.files.contains(&format!("src/{file}.rs")), "{}", plan.files);
    }
    let mut window = pushed(&items);
    window.push(summary(at + 3, &plan.until, &plan.kept, "SUMMARY"));
    let view = whole(&mut window);
    for part in ["Never touch main.rs.", "SUMMARY", "Use tabs.", "half of src/6.rs is done"] {
        assert!(view.contains(part), "{part}: {view}");
    }
    let kept_from = window.tokens(100);
    assert!(kept_from <= plan.rest + tokens::of_bytes("SUMMARY".len()) + 8, "{kept_from}");
}

#[test]
fn what_nobody_answered_stays_whatever_its_size() {
    let mut items = long(3);
    items.push(user(items.len() as u64 + 1, &"z".repeat(40_000)));
    items.push(assistant(items.len() as u64 + 1, "", &[]));
    let window = pushed(&items);
    let plan = window.plan_compaction(&Budget::new(Some(2_000), None, 0), 15_000).expect("a cut");
    assert_eq!(plan.until, id(11), "the last result before the two inputs");
}

#[test]
fn without_an_answer_to_replace_there_is_nothing_to_compact() {
    let window = pushed(&[system(1, "s"), user(2, &"z".repeat(40_000)), assistant(3, "", &[])]);
    assert_eq!(window.plan_compaction(&Budget::new(Some(1_000), None, 0), 10_000), None);
    assert_eq!(Window::new().plan_compaction(&Budget::new(None, None, 0), 0), None);
}

#[test]
fn a_pruning_takes_the_oldest_large_results_and_only_if_it_frees_enough() {
    let window = pushed(&long(10));
    // About 1,130 tokens a round, of which 1,004 are the large result.
    let plan = window.plan_pruning(&Budget::new(Some(12_000), None, 0), 11_400).expect("enough");
    assert_eq!(plan.items.first(), Some(&id(4)));
    assert_eq!(plan.items.len(), 7, "30 % of the window stay whole, which are three");
    assert!((6_500..7_000).contains(&plan.freed), "{}", plan.freed);
    assert_eq!(window.plan_pruning(&Budget::new(Some(30_000), None, 0), 11_400), None, "a fifth");
}

#[test]
fn failures_in_a_row_are_counted_until_one_is_of_use() {
    let mut window = pushed(&long(2));
    let failed = |index| {
        let message = "why".to_owned();
        item(index, ItemBody::Marker { marker: Marker::CompactionFailed { message } })
    };
    let before = whole(&mut window);
    window.push(failed(10));
    assert_eq!(whole(&mut window), before, "nothing changed");
    let mut useless = Item::clone(&summary(11, &id(5), &[], "so far"));
    if let ItemBody::Marker { marker: Marker::Compaction { useless, .. } } = &mut useless.body {
        *useless = true;
    }
    window.push(Arc::new(useless));
    assert_eq!(window.failed_compactions(), 2);
    window.push(summary(12, &id(5), &[], "so far"));
    assert_eq!(window.failed_compactions(), 0);
    window.push(failed(13));
    assert_eq!(window.failed_compactions(), 1);
}

#[test]
fn tokens_are_the_providers_own_and_an_estimate_of_what_is_new() {
    let mut window = pushed(&[system(1, &"s".repeat(396)), user(2, &"u".repeat(196))]);
    assert_eq!(window.tokens(10), 103 + 53 + 10, "a quarter of the bytes, and the tools");
    let mut answer = Item::clone(&assistant(3, "a", &["c"]));
    if let ItemBody::Assistant(answer) = &mut answer.body {
        answer.usage = Usage { input: 500, output: 20, ..Usage::default() };
    }
    window.push(Arc::new(answer));
    window.push(result(4, "c", &"r".repeat(40)));
    assert_eq!(window.tokens(10), 520 + 14);
    // A marker makes it another view, which nobody has counted.
    window.push(summary(5, &id(4), &[], "so far"));
    assert_eq!(window.tokens(10), 103 + 6 + 10);
}

proptest! {
    #[test]
    fn any_markers_leave_a_valid_view(steps in prop::collection::vec(marked_step(), 0..40)) {
        let play = Play::new(&steps);
        let texts = |view: &str| view.replace(NOT_STARTED, "n").replace(STARTED, "s");
        for request in &play.requests {
            check_pairs(&texts(request))?;
        }
        let budget = Budget::new(Some(20), None, 0);
        for narrowed in 0..3 {
            let of = (&budget, 40);
            let pieces = play.window.summary_messages(("k", ","), of, narrowed, &mut readable);
            check_pairs(&texts(std::str::from_utf8(&pieces.concat()).expect("UTF-8")))?;
        }
        if let Some(plan) = play.window.plan_compaction(&budget, 40) {
            let mut window = Window::new();
            play.record.iter().cloned().for_each(|item| window.push(item));
            let index = play.record.len() as u64 + 1;
            window.push(summary(index, &plan.until, &plan.kept, "sum"));
            check_pairs(&texts(&whole(&mut window)))?;
        }
    }

    #[test]
    fn markers_leave_the_same_bytes_after_a_rebuild(
        steps in prop::collection::vec(marked_step(), 0..40),
    ) {
        let play = Play::new(&steps);
        let last = play.requests.last().expect("one request at least");
        prop_assert_eq!(
            play.rebuilt().replace(STARTED, NOT_STARTED),
            last.replace(STARTED, NOT_STARTED)
        );
    }
}

#[test]
fn a_models_window_is_what_was_said_of_it_or_refused() {
    let overflow = |index: u64, model: &str, tokens: u64, window: Option<u64>| {
        let marker = Marker::Overflow { model: model.to_owned(), tokens, window };
        item(index, ItemBody::Marker { marker })
    };
    let mut window = pushed(&long(1));
    assert_eq!((window.window_of("a/a", None), window.window_of("a/a", Some(9))), (None, Some(9)));
    let before = view(&mut window);
    window.push(overflow(7, "a/a", 90_000, None));
    window.push(overflow(8, "a/a", 100_000, None));
    assert_eq!(window.window_of("a/a", None), Some(90_000), "the shortest that was too long");
    window.push(overflow(9, "a/a", 800, None));
    assert_eq!(window.window_of("a/a", None), Some(4_096), "nothing is so small");
    assert_eq!(window.window_of("a/a", Some(5_000)), Some(5_000), "what is known is no guess");
    assert_eq!(window.window_of("b/b", None), None, "another model has another");
    window.push(overflow(10, "a/a", 800, Some(2_000)));
    for (known, counts) in [(None, 2_000), (Some(5_000), 2_000), (Some(1_500), 1_500)] {
        assert_eq!(window.window_of("a/a", known), Some(counts), "what the provider said is");
    }
    assert_eq!(view(&mut window), before, "it is nothing for the model");
}
