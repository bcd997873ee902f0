//! e17: newer schemas are refused and left alone, older ones are brought up to date whole or not
//! at all.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::Connection;

use super::fixture::{self, options};
use crate::clock::Clock;
use crate::store::migrate::{MIGRATIONS, Migration, migrate, version};
use crate::store::{Error, Store};

fn bytes(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            // The lock is ours, and the shared memory is rebuilt by whoever looks.
            !path.ends_with("agentd.lock") && !path.to_string_lossy().ends_with("-shm")
        })
        .map(|path| (path.display().to_string(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn e17_a_newer_schema_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    fixture::open(dir.path()).close().await.unwrap();
    let known = MIGRATIONS.len();
    let newer = Connection::open(dir.path().join("agentd.db")).unwrap();
    newer
        .execute_batch(&format!(
            "ALTER TABLE sessions ADD COLUMN shape TEXT NOT NULL DEFAULT 'new';
             PRAGMA user_version = {}",
            known + 1
        ))
        .unwrap();
    // Still in its log, as a killed process leaves it.
    let before = bytes(dir.path());
    assert!(before.iter().any(|(name, log)| name.ends_with("-wal") && !log.is_empty()));
    std::mem::forget(newer);
    let refused = Store::open(dir.path(), options("dmn_test"), Clock::manual()).unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, Error::Failed { .. }));
    assert!(text.contains(&format!("version {}", known + 1)), "{text}");
    assert!(text.contains(&format!("up to {known}")), "{text}");
    assert_eq!(bytes(dir.path()), before);
}

#[tokio::test]
async fn another_programs_database_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let path = dir.path().join("agentd.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE sessions (a)").unwrap();
    let before = fs::read(&path).unwrap();
    let refused = Store::open(dir.path(), options("dmn_test"), Clock::manual()).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("another program") && text.contains("--state-dir"), "{text}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn an_error_of_a_statement_does_not_quote_it() {
    let conn = Connection::open_in_memory().unwrap();
    let error = Error::from(conn.execute_batch("SELECT 1 FROM nowhere").unwrap_err());
    let text = error.to_string();
    assert!(text.contains("nowhere") && !text.contains("SELECT"), "{text}");
}

const FIRST: Migration = Migration { sql: "CREATE TABLE a (x)", rewrites: false };
const REWRITE: Migration = Migration { sql: "UPDATE a SET x = x + 1", rewrites: true };
const BROKEN: Migration =
    Migration { sql: "UPDATE a SET x = 0; INSERT INTO missing VALUES (1)", rewrites: true };

fn values(path: &Path) -> Vec<i64> {
    let conn = Connection::open(path).unwrap();
    let mut rows = conn.prepare("SELECT x FROM a").unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn an_older_schema_is_copied_and_brought_up_to_date() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agentd.db");
    let conn = Connection::open(&path).unwrap();
    assert_eq!(migrate(&conn, &path, &[FIRST], true).unwrap(), Vec::<std::path::PathBuf>::new());
    conn.execute_batch("INSERT INTO a VALUES (1), (2)").unwrap();
    let copies = migrate(&conn, &path, &[FIRST, REWRITE], true).unwrap();
    assert_eq!((values(&path), version(&conn).unwrap()), (vec![2, 3], 2));
    assert_eq!(values(&copies[0]), [1, 2]);
    // Nothing is left to do.
    assert_eq!(migrate(&conn, &path, &[FIRST, REWRITE], true).unwrap().len(), 0);
}

#[test]
fn a_migration_that_fails_half_way_leaves_the_former_schema() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agentd.db");
    let conn = Connection::open(&path).unwrap();
    migrate(&conn, &path, &[FIRST], true).unwrap();
    conn.execute_batch("INSERT INTO a VALUES (1), (2)").unwrap();
    assert!(migrate(&conn, &path, &[FIRST, BROKEN], true).is_err());
    assert_eq!((values(&path), version(&conn).unwrap()), (vec![1, 2], 1));
}

#[test]
fn an_older_schema_is_not_touched_while_others_have_it_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agentd.db");
    let conn = Connection::open(&path).unwrap();
    assert!(migrate(&conn, &path, &[FIRST], false).is_err());
    assert_eq!(version(&conn).unwrap(), 0);
}
