//! The machine's tests: tables of cases, and random schedules against the invariants.

mod brakes;
mod cases;
mod context;
mod early;
mod edges;
mod rig;
mod schedules;
mod table;
