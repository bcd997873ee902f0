//! When to send a request again: a pure function of the error and of how often it was tried.
//!
//! The transport's form of retry only: the same request, because the network or the server failed.
//! What an answer means (too long, cut off, empty) is the loop's business. The HTTP client's own
//! retries are off, so this is the only place that decides.
//!
//! Receives a [`ModelError`] and a count from `session`; hands back a wait or a stop.

use std::time::{Duration, SystemTime};

use agentd_protocol::time::Time;
use http::HeaderMap;

use super::ModelError;

/// The wait before the first retry.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait that a provider did not ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How far a wait is spread around its value, so that many clients do not come back at once.
const SPREAD: f64 = 0.1;

/// How often and how long a provider's requests are tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Retries, so one less than requests.
    pub max_retries: u32,
    /// The longest wait that a provider may ask for.
    pub max_wait: Duration,
}

/// What to do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Wait so long, then send the request again.
    Retry(Duration),
    /// Give up.
    Stop {
        /// The provider asked for a longer wait than we are willing to take: after it, it may be
        /// tried again.
        retry_after: Option<Duration>,
    },
}

impl RetryPolicy {
    /// What to do about `error`, with which request number `attempt` (1, 2, 3 …) failed. `chance`
    /// is a random number from 0 to 1.
    pub fn decide(&self, error: &ModelError, attempt: u32, chance: f64) -> Verdict {
        if error.adapted {
            return Verdict::Retry(Duration::ZERO);
        }
        if !error.retryable {
            return Verdict::Stop { retry_after: None };
        }
        if let Some(wait) = error.retry_after.filter(|wait| *wait > self.max_wait) {
            return Verdict::Stop { retry_after: Some(wait) };
        }
        if attempt > self.max_retries {
            return Verdict::Stop { retry_after: error.retry_after };
        }
        Verdict::Retry(error.retry_after.unwrap_or_else(|| backoff(attempt, chance)))
    }
}

/// Half a second, doubled with each attempt, spread by ±10 %.
fn backoff(attempt: u32, chance: f64) -> Duration {
    let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1));
    let wait = FIRST_WAIT.saturating_mul(doubled).min(LONGEST_WAIT);
    wait.mul_f64(1.0 + SPREAD * (2.0 * chance.clamp(0.0, 1.0) - 1.0))
}

/// How long a response asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date.
/// Nothing where it says nothing that can be understood; zero for a date that is past.
pub(super) fn retry_after(headers: &HeaderMap, now: Time) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok();
    let millis = text("retry-after-ms").and_then(number).map(|millis| millis / 1_000.0);
    if let Some(wait) = millis.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        return Some(wait);
    }
    let after = text("retry-after")?;
    if let Some(seconds) = number(after) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(after).ok()?;
    let date = date.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let now = Duration::from_millis(u64::try_from(now.unix_millis()).ok()?);
    Some(date.saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use agentd_protocol::event::TurnErrorCode;

    use super::*;

    const POLICY: RetryPolicy = RetryPolicy { max_retries: 5, max_wait: Duration::from_secs(45) };

    fn error(retry_after: Option<Duration>) -> ModelError {
        let code = TurnErrorCode::ProviderUnreachable;
        ModelError { retry_after, ..ModelError::retryable(code, "m") }
    }

    #[test]
    fn waits_double_up_to_thirty_seconds() {
        let patient = RetryPolicy { max_retries: 20, ..POLICY };
        let waits: Vec<_> =
            (1..=9).map(|attempt| patient.decide(&error(None), attempt, 0.5)).collect();
        let millis = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000];
        assert_eq!(waits, millis.map(|wait| Verdict::Retry(Duration::from_millis(wait))));
    }

    #[test]
    fn waits_are_spread_by_a_tenth() {
        for (chance, millis) in [(0.0, 450), (1.0, 550), (7.0, 550)] {
            let wait = Verdict::Retry(Duration::from_millis(millis));
            assert_eq!(POLICY.decide(&error(None), 1, chance), wait);
        }
    }

    #[test]
    fn another_form_is_tried_at_once_whatever_the_count() {
        let refused = ModelError::new(TurnErrorCode::ProviderRefused, "m");
        let adapted = ModelError { adapted: true, ..refused };
        let none = RetryPolicy { max_retries: 0, ..POLICY };
        assert_eq!(none.decide(&adapted, 1, 0.5), Verdict::Retry(Duration::ZERO));
    }

    #[test]
    fn five_retries_are_six_requests() {
        assert!(matches!(POLICY.decide(&error(None), 5, 0.5), Verdict::Retry(_)));
        assert_eq!(POLICY.decide(&error(None), 6, 0.5), Verdict::Stop { retry_after: None });
        let none = RetryPolicy { max_retries: 0, ..POLICY };
        assert_eq!(none.decide(&error(None), 1, 0.5), Verdict::Stop { retry_after: None });
    }

    #[test]
    fn what_is_final_is_not_tried_again() {
        let refused = ModelError::new(TurnErrorCode::ProviderRefused, "m");
        assert_eq!(POLICY.decide(&refused, 1, 0.5), Verdict::Stop { retry_after: None });
    }

    #[test]
    fn the_providers_own_wait_wins_up_to_a_limit() {
        for wait in [Duration::ZERO, Duration::from_secs(2), Duration::from_secs(45)] {
            assert_eq!(POLICY.decide(&error(Some(wait)), 3, 0.5), Verdict::Retry(wait));
        }
        let long = Duration::from_secs(46);
        assert_eq!(
            POLICY.decide(&error(Some(long)), 1, 0.5),
            Verdict::Stop { retry_after: Some(long) }
        );
    }

    #[test]
    fn a33_retry_after_has_several_forms() {
        let now = Time::from_unix_millis(1_767_225_600_000);
        let table = [
            ("retry-after", "2", Some(2_000)),
            ("retry-after", "1.5", Some(1_500)),
            ("retry-after", "Thu, 01 Jan 2026 00:00:02 GMT", Some(2_000)),
            ("retry-after", "Wed, 31 Dec 2025 23:59:58 GMT", Some(0)),
            ("retry-after", "soon", None),
            ("retry-after", "86400", Some(86_400_000)),
            ("retry-after", "-1", None),
            ("retry-after", "NaN", None),
            ("retry-after", "1e300", None),
            ("retry-after-ms", "250", Some(250)),
            ("retry-after-ms", "soon", None),
            ("x-other", "2", None),
        ];
        for (name, value, millis) in table {
            let name = http::HeaderName::from_static(name);
            let headers = HeaderMap::from_iter([(name.clone(), value.parse().expect("a value"))]);
            let wait = millis.map(Duration::from_millis);
            assert_eq!(retry_after(&headers, now), wait, "{name}: {value}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn milliseconds_win_over_seconds() {
        let headers = [("retry-after", "2"), ("retry-after-ms", "100")].map(|(name, value)| {
            (http::HeaderName::from_static(name), value.parse().expect("a value"))
        });
        let now = Time::from_unix_millis(0);
        let wait = retry_after(&HeaderMap::from_iter(headers), now);
        assert_eq!(wait, Some(Duration::from_millis(100)));
    }
}
