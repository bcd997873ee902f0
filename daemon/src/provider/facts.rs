//! What is known of well-known models where the configuration says nothing: windows, limits,
//! prices, and how they are made to think.
//!
//! The table is small on purpose and dated: it holds for the two providers whose names are known
//! without a table of their own, and only for a model's exact name, with or without a date. What is
//! not in it has no window and no price, and a limit in money is refused for it. Prices are those
//! of prompts of usual length. As of 2026-11-30, from the providers' own pages on models and
//! prices, at `platform.claude.com/docs` and `developers.openai.com/api/docs`.
//!
//! Receives hosts and names of models; hands facts to `set` and the wire formats.

use agentd_protocol::daemon::Price;

use super::set::ModelFacts;

const ANTHROPIC: &str = "api.anthropic.com";
const OPENAI: &str = "api.openai.com";

/// Name, window, longest answer; USD per million tokens: input, from the cache, to the cache,
/// output.
type Row = (&'static str, u64, u64, [f64; 4]);

const M: u64 = 1_000_000;

const CLAUDE: [Row; 16] = [
    ("claude-fable-5-1", M, 128_000, [10.0, 0.25, 12.5, 50.0]),
    ("claude-fable-5", M, 128_000, [10.0, 1.0, 12.5, 50.0]),
    ("claude-opus-5-5", M, 128_000, [4.0, 0.2, 5.0, 20.0]),
    ("claude-opus-5", M, 128_000, [5.0, 0.5, 6.25, 25.0]),
    ("claude-opus-4-8", M, 128_000, [5.0, 0.5, 6.25, 25.0]),
    ("claude-opus-4-7", M, 128_000, [5.0, 0.5, 6.25, 25.0]),
    ("claude-opus-4-6", 200_000, 128_000, [5.0, 0.5, 6.25, 25.0]),
    ("claude-opus-4-5", 200_000, 64_000, [5.0, 0.5, 6.25, 25.0]),
    ("claude-opus-4-1", 200_000, 32_000, [15.0, 1.5, 18.75, 75.0]),
    ("claude-sonnet-5-5", M, 128_000, [2.0, 0.1, 2.5, 10.0]),
    ("claude-sonnet-5", M, 128_000, [2.0, 0.2, 2.5, 10.0]),
    ("claude-sonnet-4-6", 200_000, 64_000, [3.0, 0.3, 3.75, 15.0]),
    ("claude-sonnet-4-5", 200_000, 64_000, [3.0, 0.3, 3.75, 15.0]),
    ("claude-sonnet-4", 200_000, 64_000, [3.0, 0.3, 3.75, 15.0]),
    ("claude-haiku-5-5", M, 128_000, [0.1, 0.01, 0.125, 0.5]),
    ("claude-haiku-4-5", 200_000, 64_000, [1.0, 0.1, 1.25, 5.0]),
];

const GPT: [Row; 19] = [
    ("gpt-5.5", 1_050_000, 128_000, [5.0, 0.5, 5.0, 30.0]),
    ("gpt-5.4", 1_050_000, 128_000, [2.5, 0.25, 2.5, 15.0]),
    ("gpt-5.4-mini", 400_000, 128_000, [0.75, 0.075, 0.75, 4.5]),
    ("gpt-5.4-nano", 400_000, 128_000, [0.2, 0.02, 0.2, 1.25]),
    ("gpt-5.3-codex", 400_000, 128_000, [1.75, 0.175, 1.75, 14.0]),
    ("gpt-5.2", 400_000, 128_000, [1.75, 0.175, 1.75, 14.0]),
    ("gpt-5.2-codex", 400_000, 128_000, [1.75, 0.175, 1.75, 14.0]),
    ("gpt-5.1", 400_000, 128_000, [1.25, 0.125, 1.25, 10.0]),
    ("gpt-5.1-codex", 400_000, 128_000, [1.25, 0.125, 1.25, 10.0]),
    ("gpt-5", 400_000, 128_000, [1.25, 0.125, 1.25, 10.0]),
    ("gpt-5-mini", 400_000, 128_000, [0.25, 0.025, 0.25, 2.0]),
    ("gpt-5-nano", 400_000, 128_000, [0.05, 0.005, 0.05, 0.4]),
    ("gpt-4.1", 1_047_576, 32_768, [2.0, 0.5, 2.0, 8.0]),
    ("gpt-4.1-mini", 1_047_576, 32_768, [0.4, 0.1, 0.4, 1.6]),
    ("gpt-4.1-nano", 1_047_576, 32_768, [0.1, 0.025, 0.1, 0.4]),
    ("gpt-4o", 128_000, 16_384, [2.5, 1.25, 2.5, 10.0]),
    ("gpt-4o-mini", 128_000, 16_384, [0.15, 0.075, 0.15, 0.6]),
    ("o3", 200_000, 100_000, [2.0, 0.5, 2.0, 8.0]),
    ("o4-mini", 200_000, 100_000, [1.1, 0.275, 1.1, 4.4]),
];

/// What is known of `model` at `host`; nothing for others.
pub(super) fn built_in(host: &str, model: &str) -> ModelFacts {
    let rows: &[Row] = match host {
        ANTHROPIC => &CLAUDE,
        OPENAI => &GPT,
        _ => &[],
    };
    let row = rows.iter().find(|(name, ..)| model.strip_prefix(name).is_some_and(is_date));
    let Some((_, window, answer, [input, cached_input, cache_write, output])) = row.copied() else {
        return ModelFacts::default();
    };
    ModelFacts {
        context_window: Some(window),
        max_output_tokens: Some(answer),
        price: Some(Price { input, cached_input, cache_write, output }),
    }
}

/// Whether this is nothing, or a date as models' names end with: `-20251001`, `-2025-08-07`.
fn is_date(rest: &str) -> bool {
    rest.is_empty()
        || (rest.starts_with('-')
            && rest.bytes().filter(u8::is_ascii_digit).count() == 8
            && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
}

/// How a model of the Messages format is made to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thinks {
    /// Not at all: it refuses the field.
    Never,
    /// With a budget in tokens, which other servers of the format understand too.
    ByBudget,
    /// As much as it finds right, with an effort.
    ByEffort,
}

/// How `model` is made to think.
pub(super) fn thinks(model: &str) -> Thinks {
    let Some(at) = model.find("claude-") else { return Thinks::ByBudget };
    let mut numbers = model[at..]
        .split(['-', '.', '@', ':', '_'])
        .filter_map(|word| word.parse::<u64>().ok())
        // Dates are no versions.
        .map(|number| if number < 1_000 { number } else { 0 });
    match (numbers.next(), numbers.next().unwrap_or(0)) {
        (Some(3), 7) | (Some(4), 0..=5) => Thinks::ByBudget,
        (Some(0..=3), _) => Thinks::Never,
        (Some(_) | None, _) => Thinks::ByEffort,
    }
}

/// Whether `model` is one that reasons, and may be asked for it, in the Responses format.
pub(super) fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let reasons = ["gpt-5", "gpt-6", "gpt-oss", "codex", "o1", "o3", "o4"];
    reasons.iter().any(|start| name.starts_with(start)) && !name.contains("-chat")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_with_and_without_its_date() {
        let window = |host, model| built_in(host, model).context_window;
        let table = [
            (ANTHROPIC, "claude-haiku-4-5", Some(200_000)),
            (ANTHROPIC, "claude-haiku-4-5-20251001", Some(200_000)),
            (ANTHROPIC, "claude-opus-4-9", None),
            (ANTHROPIC, "claude-sonnet-4-20250514", Some(200_000)),
            (OPENAI, "gpt-5-2025-08-07", Some(400_000)),
            (OPENAI, "gpt-5.4", Some(1_050_000)),
            (OPENAI, "gpt-5.4-pro", None),
            ("example.org", "gpt-5.4", None),
            (OPENAI, "claude-haiku-4-5", None),
        ];
        for (host, model, expected) in table {
            assert_eq!(window(host, model), expected, "{model} at {host}");
        }
    }

    #[test]
    fn every_row_is_sensible() {
        for (name, window, answer, [input, cached, write, output]) in CLAUDE.iter().chain(&GPT) {
            assert!(answer < window, "{name}");
            assert!(cached < input && input <= write && input < output, "{name}");
        }
    }

    #[test]
    fn models_think_in_their_own_ways() {
        let table = [
            ("claude-3-5-haiku-20241022", Thinks::Never),
            ("claude-3-opus-20240229", Thinks::Never),
            ("claude-3-7-sonnet-20250219", Thinks::ByBudget),
            ("claude-sonnet-4-20250514", Thinks::ByBudget),
            ("claude-haiku-4-5-20251001", Thinks::ByBudget),
            ("anthropic.claude-opus-4-5@20251101", Thinks::ByBudget),
            ("claude-opus-4-6", Thinks::ByEffort),
            ("claude-sonnet-5", Thinks::ByEffort),
            ("claude-opus-5-5", Thinks::ByEffort),
            ("qwen3-coder", Thinks::ByBudget),
        ];
        for (model, expected) in table {
            assert_eq!(thinks(model), expected, "{model}");
        }
    }

    #[test]
    fn what_reasons_is_told_by_its_name() {
        for model in ["gpt-5", "gpt-5.3-codex", "o4-mini", "openai/gpt-oss-20b"] {
            assert!(reasons(model), "{model}");
        }
        for model in ["gpt-4.1", "gpt-4o", "gpt-5-chat-latest", "qwen3"] {
            assert!(!reasons(model), "{model}");
        }
    }
}
