//! Tests of the store, on real databases in temporary directories.

mod damage;
mod directory;
pub(crate) mod fixture;
mod fold;
mod group;
mod lease;
pub(crate) mod life;
mod pages;
mod processes;
mod reads;
mod record;
mod schema;

/// Does in one operation what the writer does step by step when it is idle.
fn upkeep_all(conn: &rusqlite::Connection) -> Result<(), super::Error> {
    let nowhere = std::path::Path::new("/nonexistent");
    while super::purge::step(conn, nowhere)? || super::search::index_step(conn)? {}
    Ok(())
}
