//! The actor's tests: a real store in a temporary directory, the demo model, the real tools.

mod candidates;
mod documents;
mod faults;
mod house;
mod prompts;
mod queue;
mod restart;
mod rollback;
mod shared;
mod snapshot;
mod stubborn;
mod submitters;
mod turns;
mod watchers;
