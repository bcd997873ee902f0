//! The brakes: limits, looked at before each request.
//!
//! Soft, then hard: the last request that fits is announced to the model; calls it makes all the
//! same are not run. The overshoot is one answer.
//!
//! Receives totals from the machine; hands it a verdict on the next request.

use agentd_protocol::event::{Limit, LimitScope};
use agentd_protocol::session::{Limits, Usage};

/// Model requests of a turn where nothing else is said.
pub const DEFAULT_MAX_ITERATIONS: u32 = 50;

/// What the brakes say about the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Go,
    /// It is the last that fits.
    Last(Limit, LimitScope),
    /// It does not fit.
    Stop(Limit, LimitScope),
}

/// What the brakes look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Totals {
    pub(super) iterations: u32,
    pub(super) turn: Usage,
    pub(super) session: Usage,
    pub(super) longest_answer: (u64, f64),
    pub(super) active_ms: u64,
    /// The longest iteration so far.
    pub(super) longest_ms: u64,
}

/// Whether another request fits.
pub(super) fn before_request(limits: &Limits, totals: &Totals) -> Verdict {
    let max_iterations = limits.max_iterations.unwrap_or(DEFAULT_MAX_ITERATIONS);
    let (longest_tokens, longest_cost) = totals.longest_answer;
    let cost = |usage: Usage| usage.cost_usd.unwrap_or(0.0);
    let verdicts = [
        whole(totals.iterations.into(), 1, Some(max_iterations.into()), Limit::Iterations),
        whole(totals.turn.billable_tokens(), longest_tokens, limits.max_tokens, Limit::Tokens),
        money(cost(totals.turn), longest_cost, limits.max_cost_usd),
        whole(totals.active_ms, totals.longest_ms, limits.max_duration_ms, Limit::Duration),
    ];
    let of_session = [
        whole(
            totals.session.billable_tokens(),
            longest_tokens,
            limits.max_session_tokens,
            Limit::Tokens,
        ),
        money(cost(totals.session), longest_cost, limits.max_session_cost_usd),
    ];
    let verdicts = verdicts
        .into_iter()
        .map(|verdict| (verdict, LimitScope::Turn))
        .chain(of_session.into_iter().map(|verdict| (verdict, LimitScope::Session)));
    let mut answer = Verdict::Go;
    for (fit, scope) in verdicts {
        match fit {
            Fit::Stop(limit) => return Verdict::Stop(limit, scope),
            Fit::Last(limit) if answer == Verdict::Go => answer = Verdict::Last(limit, scope),
            Fit::Last(_) | Fit::Go => {}
        }
    }
    answer
}

enum Fit {
    Go,
    Last(Limit),
    Stop(Limit),
}

/// `used` of `max` is used and the next request may use `next`: the one after it has to fit too.
fn whole(used: u64, next: u64, max: Option<u64>, limit: Limit) -> Fit {
    match max {
        Some(max) if used >= max => Fit::Stop(limit),
        Some(max) if used.saturating_add(next) >= max => Fit::Last(limit),
        Some(_) | None => Fit::Go,
    }
}

fn money(used: f64, next: f64, max: Option<f64>) -> Fit {
    match max {
        Some(max) if used >= max => Fit::Stop(Limit::Cost),
        Some(max) if used + next >= max => Fit::Last(Limit::Cost),
        Some(_) | None => Fit::Go,
    }
}

/// A turn's time, with and without waiting for people. It stands at the last reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stopwatch {
    read_at_ms: u64,
    elapsed_ms: u64,
    waited_ms: u64,
    waits: bool,
    /// The active time at which the iteration began.
    iteration_from_ms: u64,
    /// The longest iteration before it.
    longest_ms: u64,
}

impl Stopwatch {
    pub(super) fn start(now_ms: u64) -> Self {
        Self { read_at_ms: now_ms, ..Self::default() }
    }

    /// Takes a reading. A clock that went back has not moved.
    pub(super) fn tick(&mut self, now_ms: u64) {
        let passed = now_ms.saturating_sub(self.read_at_ms);
        self.elapsed_ms += passed;
        if self.waits {
            self.waited_ms += passed;
        }
        self.read_at_ms = self.read_at_ms.max(now_ms);
    }

    /// Goes on at this reading, on another clock: what lies between does not count.
    pub(super) fn go_on(&mut self, now_ms: u64) {
        self.read_at_ms = now_ms;
    }

    /// Says whether the turn waits for people from now on.
    pub(super) fn waits(&mut self, waits: bool) {
        self.waits = waits;
    }

    /// An iteration begins.
    pub(super) fn iteration(&mut self) {
        self.longest_ms = self.longest_ms();
        self.iteration_from_ms = self.active_ms();
    }

    /// Everything since the start.
    pub(super) fn elapsed_ms(&self) -> u64 {
        self.elapsed_ms
    }

    /// Without waiting for people.
    pub(super) fn active_ms(&self) -> u64 {
        self.elapsed_ms - self.waited_ms
    }

    /// The longest iteration so far, without waiting for people.
    pub(super) fn longest_ms(&self) -> u64 {
        self.longest_ms.max(self.active_ms() - self.iteration_from_ms)
    }
}
