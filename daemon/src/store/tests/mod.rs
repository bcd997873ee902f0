//! Tests of the store, on real databases in temporary directories.

mod damage;
mod directory;
pub(crate) mod fixture;
mod fold;
mod group;
mod lease;
mod record;
mod schema;
