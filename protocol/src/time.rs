//! Points in time as the wire writes them: RFC 3339, UTC, with milliseconds.
//!
//! Receives a clock's reading from the daemon; hands its one textual form to events and shapes.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time with millisecond resolution, for example `2026-01-31T08:15:30.250Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(jiff::Timestamp);

impl Time {
    /// The time `millis` milliseconds after 1970-01-01T00:00:00Z; the nearest one that can be
    /// written when it is out of range.
    pub fn from_unix_millis(millis: i64) -> Self {
        Self(jiff::Timestamp::from_millisecond(millis).unwrap_or(if millis < 0 {
            jiff::Timestamp::MIN
        } else {
            jiff::Timestamp::MAX
        }))
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub fn unix_millis(self) -> i64 {
        self.0.as_millisecond()
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let time = jiff::Timestamp::deserialize(deserializer)?;
        Ok(Self::from_unix_millis(time.as_millisecond()))
    }
}

impl JsonSchema for Time {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_with_milliseconds_in_utc() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_769_847_330_250, "2026-01-31T08:15:30.250Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            let time = Time::from_unix_millis(millis);
            assert_eq!(serde_json::to_value(time).unwrap(), text);
            assert_eq!(serde_json::from_value::<Time>(text.into()).unwrap(), time);
            assert_eq!(time.unix_millis(), millis);
        }
    }

    #[test]
    fn read_in_any_zone_and_precision() {
        for text in [
            "2026-01-31T08:15:30.250999Z",
            "2026-01-31T09:15:30.25+01:00",
            "2026-01-31 08:15:30.25Z",
        ] {
            let time: Time = serde_json::from_value(text.into()).unwrap();
            assert_eq!(time.to_string(), "2026-01-31T08:15:30.250Z", "{text}");
        }
        for text in ["", "yesterday", "2026-01-31", "2026-01-31T08:15:30"] {
            assert!(serde_json::from_value::<Time>(text.into()).is_err(), "{text}");
        }
    }

    #[test]
    fn out_of_range_is_the_nearest() {
        assert!(Time::from_unix_millis(i64::MAX).to_string().starts_with("9999-"));
        assert!(Time::from_unix_millis(i64::MIN) < Time::from_unix_millis(0));
    }
}
