//! The state directory: private, locked, never through a link, and one clear error where it
//! cannot be used.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::fixture::{self, options};
use crate::clock::Clock;
use crate::store::directory::network_name;
use crate::store::{Error, Options, Store};

fn try_open(dir: &Path) -> Result<Store, Error> {
    Store::open(dir, options("dmn_test"), Clock::manual())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn it_is_private_whatever_the_umask_says() {
    let outside = tempfile::tempdir().unwrap();
    let dir = outside.path().join("deep/state");
    let store = try_open(&dir).unwrap();
    fixture::create(&store, "a").await;
    assert_eq!(mode(&dir), 0o700);
    for file in ["agentd.lock", "agentd.db", "agentd.db-wal", "agentd.db-shm"] {
        assert_eq!(mode(&dir.join(file)), 0o600, "{file}");
    }
    store.close().await.unwrap();
    // Opened up by somebody: closed again.
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(dir.join("agentd.db"), fs::Permissions::from_mode(0o644)).unwrap();
    let store = try_open(&dir).unwrap();
    assert_eq!((mode(&dir), mode(&dir.join("agentd.db"))), (0o700, 0o600));
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_second_daemon_is_told_who_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    for shared in [false, true] {
        let second = Options { shared, ..options("second") };
        match Store::open(dir.path(), second, Clock::manual()) {
            Err(Error::InUse { holder, .. }) if !shared => assert_eq!(holder, "test dmn_test"),
            Err(Error::InUse { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    store.close().await.unwrap();
    try_open(dir.path()).unwrap().close().await.unwrap();
}

/// e36: a planted link is not followed, and what it points at is not touched.
#[test]
fn e36_nothing_is_opened_through_a_link() {
    for planted in ["agentd.lock", "agentd.db"] {
        let outside = tempfile::tempdir().unwrap();
        let (dir, target) = (outside.path().join("state"), outside.path().join("target"));
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(&target, "precious").unwrap();
        symlink(&target, dir.join(planted)).unwrap();
        let refused = try_open(&dir).unwrap_err().to_string();
        assert!(refused.contains(planted), "{refused}");
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    }
}

/// e33 and its kind: one clear error that names the path.
#[test]
fn e33_a_directory_that_cannot_be_used_is_one_clear_error() {
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("file");
    fs::write(&file, "x").unwrap();
    let crowded = outside.path().join("crowded");
    fs::create_dir(&crowded).unwrap();
    fs::write(crowded.join("other"), "x").unwrap();
    fs::set_permissions(&crowded, fs::Permissions::from_mode(0o755)).unwrap();
    let table = [
        (file.clone(), "not a directory"),
        (file.join("below"), "Not a directory"),
        (crowded.clone(), "holds other files"),
        ("/proc/agentd".into(), "No such file or directory"),
    ];
    for (dir, expected) in table {
        let refused = try_open(&dir).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
        assert!(refused.contains(dir.to_str().unwrap()), "{refused}");
    }
    assert_eq!(mode(&crowded), 0o755);
}

#[test]
fn network_file_systems_are_known() {
    for (magic, name) in [(0x6969, Some("NFS")), (0xFF53_4D42, Some("SMB")), (0xEF53, None)] {
        assert_eq!(network_name(magic), name);
    }
}
