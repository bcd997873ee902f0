//! How values are written: durations as text, limits with a duration, switches with a third way.
//!
//! Durations are jiff's friendly form (`"90s"`, `"10m"`, `"1h 30m"`, `"90d"`); a day has 24 hours
//! here, months and years have no fixed length and are refused.
//!
//! Receives values of a layer; hands them to serde's derived code in the other files.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::config::provider::Auto;
use crate::config::tools::ShellRead;

/// Longer ones are mistakes, and would overflow sums of times.
const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);

fn parse_duration(text: &str) -> Option<Duration> {
    let span: Span = text.parse().ok()?;
    let signed = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(signed).ok().filter(|duration| *duration <= LONGEST)
}

fn duration_text(duration: Duration) -> String {
    let signed = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    format!("{signed:#}")
}

/// Reads a text; a value of another kind is told what was expected.
struct Text(&'static str);

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

/// A duration, in the schema.
pub(super) struct DurationText;

impl JsonSchema for DurationText {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A duration: \"90s\", \"10m\", \"1h 30m\", \"7d\".",
            "pattern": "[0-9]"
        })
    }
}

/// A duration or `"off"`, in the schema.
pub(super) struct OptionalDurationText;

impl JsonSchema for OptionalDurationText {
    fn schema_name() -> Cow<'static, str> {
        "DurationOrOff".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A duration (\"90s\", \"10m\", \"7d\"), or \"off\".",
            "pattern": "[0-9]|^off$"
        })
    }
}

/// `"90s"`.
pub(super) mod duration {
    use super::{Deserializer, Duration, Error, Serializer, Text, Unexpected};

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::duration_text(*value))
    }

    const EXPECTED: &str = "a duration such as \"90s\", \"10m\" or \"7d\"";

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let text = deserializer.deserialize_str(Text(EXPECTED))?;
        super::parse_duration(&text)
            .ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &EXPECTED))
    }
}

/// `"90s"` or `"off"`.
pub(super) mod optional_duration {
    use super::{Deserializer, Duration, Error, Serializer, Text, Unexpected};

    #[expect(clippy::ref_option, reason = "serde hands fields over like this")]
    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(duration) => super::duration::serialize(duration, serializer),
            None => serializer.serialize_str("off"),
        }
    }

    const EXPECTED: &str = "a duration such as \"90s\", \"10m\" or \"7d\", or \"off\"";

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = deserializer.deserialize_str(Text(EXPECTED))?;
        if text == "off" {
            return Ok(None);
        }
        super::parse_duration(&text)
            .map(Some)
            .ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &EXPECTED))
    }
}

/// `[limits]`: as on the wire, but for the duration.
pub(super) mod limits {
    use agentd_protocol::session::Limits;

    use super::{
        Deserialize, Deserializer, Duration, JsonSchema, OptionalDurationText, Serialize,
        Serializer, optional_duration,
    };

    /// `[limits]`.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    #[expect(clippy::struct_field_names, reason = "the names are those of the keys")]
    #[schemars(rename = "LimitsConfig")]
    pub(in crate::config) struct Form {
        /// Model requests of a turn.
        max_iterations: Option<u32>,
        /// Input not from the cache plus output, of a turn.
        max_tokens: Option<u64>,
        /// USD of a turn.
        max_cost_usd: Option<f64>,
        /// Time of a turn, without waiting for people.
        #[serde(with = "optional_duration")]
        #[schemars(with = "OptionalDurationText")]
        max_duration: Option<Duration>,
        /// Tokens of a session.
        max_session_tokens: Option<u64>,
        /// USD of a session.
        max_session_cost_usd: Option<f64>,
    }

    impl Default for Form {
        fn default() -> Self {
            Self::from(&crate::config::Config::default().limits)
        }
    }

    impl From<&Limits> for Form {
        fn from(limits: &Limits) -> Self {
            Self {
                max_iterations: limits.max_iterations,
                max_tokens: limits.max_tokens,
                max_cost_usd: limits.max_cost_usd,
                max_duration: limits.max_duration_ms.map(Duration::from_millis),
                max_session_tokens: limits.max_session_tokens,
                max_session_cost_usd: limits.max_session_cost_usd,
            }
        }
    }

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Limits,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Form::from(value).serialize(serializer)
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Limits, D::Error> {
        let form = Form::deserialize(deserializer)?;
        Ok(Limits {
            max_iterations: form.max_iterations,
            max_tokens: form.max_tokens,
            max_cost_usd: form.max_cost_usd,
            max_duration_ms: form
                .max_duration
                .map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
            max_session_tokens: form.max_session_tokens,
            max_session_cost_usd: form.max_session_cost_usd,
        })
    }
}

impl Serialize for Auto {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::On => serializer.serialize_bool(true),
            Self::Off => serializer.serialize_bool(false),
        }
    }
}

impl<'de> Deserialize<'de> for Auto {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Switch;
        impl Visitor<'_> for Switch {
            type Value = Auto;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\", true or false")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Auto, E> {
                match text {
                    "auto" => Ok(Auto::Auto),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }

            fn visit_bool<E: Error>(self, on: bool) -> Result<Auto, E> {
                Ok(if on { Auto::On } else { Auto::Off })
            }
        }
        deserializer.deserialize_any(Switch)
    }
}

impl JsonSchema for Auto {
    fn schema_name() -> Cow<'static, str> {
        "Auto".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": ["auto", true, false] })
    }
}

impl Serialize for ShellRead {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Also(paths) => paths.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ShellRead {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AllOrPaths;
        impl<'de> Visitor<'de> for AllOrPaths {
            type Value = ShellRead;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"all\" or a list of directories")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ShellRead, E> {
                match text {
                    "all" => Ok(ShellRead::All),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, paths: A) -> Result<ShellRead, A::Error> {
                Vec::<PathBuf>::deserialize(SeqAccessDeserializer::new(paths)).map(ShellRead::Also)
            }
        }
        deserializer.deserialize_any(AllOrPaths)
    }
}

impl JsonSchema for ShellRead {
    fn schema_name() -> Cow<'static, str> {
        "ShellRead".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "const": "all" }, { "type": "array", "items": { "type": "string" } }]
        })
    }
}
