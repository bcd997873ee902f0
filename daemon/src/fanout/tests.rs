//! Tests of the hubs.
