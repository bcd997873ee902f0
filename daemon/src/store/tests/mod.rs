//! Tests of the store, on real databases in temporary directories.

pub(crate) mod fixture;
mod fold;
mod group;
mod record;
