//! The socket in real directories.

use std::os::unix::fs::{chown, symlink};
use std::os::unix::net::UnixStream;

use super::*;
use crate::testing;

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A place named by the user, in a private directory.
fn named(dir: &tempfile::TempDir) -> Location {
    at(dir.path().join("s"), Origin::Option)
}

fn at(path: PathBuf, origin: Origin) -> Location {
    Location { path, origin, shortened_from: None, ignored_runtime_dir: None }
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o7777
}

fn refused(location: &Location) -> String {
    let error = Socket::bind(location, uid()).map(drop).unwrap_err();
    let story = error.story();
    assert!(story.contains(location.path.parent().unwrap().to_str().unwrap()), "{story}");
    story
}

#[test]
fn e1_a_stale_socket_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let location = named(&dir);
    drop(UnixListener::bind(&location.path).unwrap());
    assert!(UnixStream::connect(&location.path).is_err());
    let (mut socket, _listener) = Socket::bind(&location, uid()).unwrap();
    UnixStream::connect(&location.path).unwrap();
    socket.unlink();
    assert!(!location.path.exists());
}

#[test]
fn e2_a_socket_that_is_no_longer_ours_is_not_unlinked() {
    let dir = tempfile::tempdir().unwrap();
    let location = named(&dir);
    let (socket, listener) = Socket::bind(&location, uid()).unwrap();
    drop(listener);
    std::fs::remove_file(&location.path).unwrap();
    let (_other, _listener) = Socket::bind(&location, uid()).unwrap();
    drop(socket);
    UnixStream::connect(&location.path).unwrap();
}

#[test]
fn e3_what_is_no_stale_socket_of_ours_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let location = named(&dir);
    let path = &location.path;
    std::fs::write(path, "precious").unwrap();
    assert!(refused(&location).contains("a file"));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "precious");
    std::fs::remove_file(path).unwrap();
    std::fs::create_dir(path).unwrap();
    assert!(refused(&location).contains("a directory"));
    std::fs::remove_dir(path).unwrap();
    symlink("/nowhere", path).unwrap();
    assert!(refused(&location).contains("a symbolic link"));
    std::fs::remove_file(path).unwrap();
    // Alive, but it does not answer.
    let listener = UnixListener::bind(path).unwrap();
    assert!(refused(&location).contains("listens there already"));
    UnixStream::connect(path).unwrap();
    drop(listener);
    if uid() == 0 {
        chown(path, Some(4_242), None).unwrap();
        assert!(refused(&location).contains("user 4242"));
        assert!(path.exists());
    }
}

#[test]
fn e35_only_the_owner_connects_whatever_the_umask() {
    // The mask belongs to the process.
    if !testing::alone(module_path!(), "e35_only_the_owner_connects_whatever_the_umask") {
        return;
    }
    for umask in [0o000, 0o077] {
        rustix::process::umask(Mode::from_raw_mode(umask));
        let base = tempfile::tempdir().unwrap();
        let own = at(base.path().join("agentd/agentd.sock"), Origin::RuntimeDir);
        let (_socket, _listener) = Socket::bind(&own, uid()).unwrap();
        assert_eq!(mode(&own.path), 0o600);
        assert_eq!(mode(own.path.parent().unwrap()), 0o700);
        let deep = at(base.path().join("a/b/s"), Origin::Option);
        let (_socket, _listener) = Socket::bind(&deep, uid()).unwrap();
        assert_eq!(mode(&deep.path), 0o600);
        assert_eq!(mode(deep.path.parent().unwrap()), 0o700);
    }
}

#[test]
fn e35_our_own_directory_is_made_private_and_a_named_one_is_not_changed() {
    let base = tempfile::tempdir().unwrap();
    let open = |name: &str, mode: u32| {
        let dir = base.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(mode)).unwrap();
        dir
    };
    let own = open("agentd", 0o755);
    let (_socket, _listener) =
        Socket::bind(&at(own.join("agentd.sock"), Origin::RuntimeDir), uid()).unwrap();
    assert_eq!(mode(&own), 0o700);
    let sticky = open("tmp", 0o1777);
    let location = at(sticky.join("s"), Origin::Variable);
    let bound = Socket::bind(&location, uid());
    assert_eq!(bound.is_ok(), cfg!(target_os = "linux"));
    assert_eq!(mode(&sticky), 0o1777);
    let shared = open("shared", 0o777);
    assert!(refused(&at(shared.join("s"), Origin::Option)).contains("others can write"));
    assert_eq!(mode(&shared), 0o777);
}

#[test]
fn e36_a_directory_that_somebody_took_first_is_refused() {
    let base = tempfile::tempdir().unwrap();
    let own = base.path().join("agentd-1");
    let location = at(own.join("agentd.sock"), Origin::TempDir);
    symlink("/usr", &own).unwrap();
    assert!(refused(&location).contains("a symbolic link"));
    std::fs::remove_file(&own).unwrap();
    std::fs::create_dir(&own).unwrap();
    // As another user would see it.
    let error = Socket::bind(&location, uid() + 1).map(drop).unwrap_err();
    assert!(error.story().contains("belongs to user"), "{}", error.story());
    assert_eq!(own.read_dir().unwrap().count(), 0);
}

#[test]
fn e5_an_inherited_socket_stays_linked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let mut socket = Socket::inherited(&listener);
    assert_eq!(socket.path, path);
    socket.unlink();
    drop(socket);
    assert!(path.exists());
}
