//! The socket and the start of the daemon: e1, e2, e3, e5, e6, e8, e35, e36, with real processes.
//!
//! Receives the harness; hands out who serves, and what is left alone.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use agentd_protocol::socket::{Environment, MAX_PATH_BYTES, locate};
use harness::{Client, Daemon, Framing, wait};
use rustix::process::Signal;
use serde_json::json;

fn pid_of(status: &serde_json::Value) -> u64 {
    status["pid"].as_u64().expect("a status has a pid")
}

#[tokio::test]
async fn e1_stale_socket_after_a_crash() {
    let mut daemon = Daemon::start("").await;
    daemon.kill();
    assert!(daemon.socket().exists(), "a killed daemon leaves its socket");
    daemon.restart().await;
    daemon.client().await.call("daemon/status", json!({})).await;
}

/// e2: of many that start at once one serves and the others end with 0, with and without a stale
/// socket.
#[tokio::test]
async fn e2_two_daemons_start_up_together() {
    let rounds = if std::env::var_os("AGENTD_SOAK").is_some() { 50 } else { 3 };
    for round in 0..rounds {
        let mut world = Daemon::world("");
        if round % 2 == 1 {
            world.restart().await;
            world.kill();
        }
        let log = world.path("racers.log");
        let spawn = |_| {
            let log = fs::OpenOptions::new().append(true).create(true).open(&log);
            world
                .command()
                .stderr(log.expect("the world can be written"))
                .spawn()
                .expect("it starts")
        };
        let mut children: Vec<Child> = (0..12).map(spawn).collect();
        let mut codes = Vec::new();
        wait::until("all but one to end", async || {
            children.retain_mut(|child| match child.try_wait().expect("it is ours") {
                Some(status) => {
                    codes.push(status.code());
                    false
                }
                None => true,
            });
            if children.len() == 1 { Ok(()) } else { Err(children.len()) }
        })
        .await;
        let said = fs::read_to_string(&log).expect("they wrote it");
        assert!(codes.iter().all(|code| *code == Some(0)), "{codes:?}: {said}");
        let mut winner = children.pop().expect("one is left");
        let socket = world.socket();
        wait::until("the winner", async || fs::metadata(&socket).map(drop)).await;
        let mut client = Client::connect(&socket, Framing::Lines).await;
        let status = client.call("daemon/status", json!({})).await;
        assert_eq!(pid_of(&status), u64::from(winner.id()));
        winner.kill().expect("it is ours");
        winner.wait().expect("it is ours");
    }
}

/// e3: only a socket that refuses connections is replaced; all else is an error and stays.
#[tokio::test]
async fn e3_socket_path_holds_something_else() {
    for what in ["a file", "a directory", "a link"] {
        let daemon = Daemon::world("");
        match what {
            "a file" => fs::write(daemon.socket(), "mine"),
            "a directory" => fs::create_dir(daemon.socket()),
            _ => symlink("/nonexistent", daemon.socket()),
        }
        .unwrap();
        let before = fs::symlink_metadata(daemon.socket()).unwrap();
        let output = daemon.command().output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{what}: {said}");
        assert!(said.contains(daemon.socket().to_str().unwrap()), "{what}: {said}");
        let after = fs::symlink_metadata(daemon.socket()).unwrap();
        assert_eq!((before.ino(), before.file_type()), (after.ino(), after.file_type()), "{what}");
    }
}

/// e3: a live socket of somebody else, even one that does not answer, is not taken over.
#[tokio::test]
async fn e3_a_live_socket_is_left_alone() {
    let daemon = Daemon::world("");
    let listener = UnixListener::bind(daemon.socket()).unwrap();
    let before = fs::symlink_metadata(daemon.socket()).unwrap().ino();
    let output = daemon.command().output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(fs::symlink_metadata(daemon.socket()).unwrap().ino(), before);
    drop(listener);
}

/// e3: a daemon that was stopped still holds its state directory; the next one takes nothing.
#[tokio::test]
async fn e3_a_stopped_daemon_keeps_its_socket() {
    let daemon = Daemon::start("").await;
    daemon.signal(Signal::STOP);
    let before = fs::symlink_metadata(daemon.socket()).unwrap().ino();
    let output = daemon.command().output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(fs::symlink_metadata(daemon.socket()).unwrap().ino(), before, "{said}");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    daemon.signal(Signal::CONT);
    daemon.client().await.call("daemon/status", json!({})).await;
}

/// e5: a socket that was handed over is used, and is still there when the daemon stops.
#[tokio::test]
async fn e5_activated_socket_must_stay_linked() {
    let daemon = Daemon::world("");
    let path = daemon.path("run/handed.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let inode = fs::symlink_metadata(&path).unwrap().ino();
    for _ in 0..2 {
        let inner = daemon.command_without_socket();
        let mut command = std::process::Command::new("sh");
        // The listener comes as standard input, since the library can hand over no other.
        command
            .arg("-c")
            .arg("exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" \"$@\"");
        command.arg(inner.get_program()).args(inner.get_args());
        command.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let listener = listener.try_clone().unwrap();
        command.stdin(std::os::fd::OwnedFd::from(listener)).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut client = Client::connect(&path, Framing::Lines).await;
        let status = client.call("daemon/status", json!({})).await;
        assert_eq!(pid_of(&status), u64::from(child.id()));
        client.call("daemon/shutdown", json!({ "mode": "now" })).await;
        let code = wait::until("the daemon to end", async || {
            child.try_wait().expect("it is ours").ok_or("it runs")
        });
        assert_eq!(code.await.code(), Some(0));
        assert_eq!(fs::symlink_metadata(&path).unwrap().ino(), inode);
    }
}

/// e6: a path over the system's limit is replaced by a short one that both sides find.
#[tokio::test]
async fn e6_socket_path_over_length_limit() {
    for length in [MAX_PATH_BYTES, MAX_PATH_BYTES + 1, MAX_PATH_BYTES + 2, MAX_PATH_BYTES + 80] {
        let daemon = Daemon::world("");
        let folder = daemon.path("run");
        let rest = length - folder.as_os_str().len() - 1;
        let socket = folder.join("é".repeat(rest / 2) + &"x".repeat(rest % 2));
        assert_eq!(socket.as_os_str().len(), length);
        let environment = Environment {
            option: Some(&socket),
            variable: None,
            runtime_dir: None,
            temp_dir: Path::new("/tmp"),
            current_dir: Path::new("/"),
            uid: rustix::process::geteuid().as_raw(),
        };
        let path = locate(&environment, |_| false).path;
        assert_eq!(path == socket, length <= MAX_PATH_BYTES);
        let mut command = daemon.command_without_socket();
        let mut child = command.arg("--socket").arg(&socket).stderr(Stdio::null()).spawn().unwrap();
        // It is bound a moment before it listens.
        wait::until("the daemon", async || Client::ask(&path, "daemon/status").await).await;
        let mut client = Client::connect(&path, Framing::Lines).await;
        let status = client.call("daemon/status", json!({})).await;
        assert_eq!(pid_of(&status), u64::from(child.id()), "{length} bytes");
        client.call("daemon/shutdown", json!({ "mode": "now" })).await;
        child.wait().unwrap();
        assert!(!path.exists());
        if path != socket {
            // Somebody else may use it too; then it stays.
            let _ = fs::remove_dir(path.parent().unwrap());
        }
    }
}

/// A directory that is not ours.
fn foreign_directory(daemon: &Daemon) -> PathBuf {
    if !rustix::process::geteuid().is_root() {
        return PathBuf::from("/usr");
    }
    let foreign = daemon.path("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::set_permissions(&foreign, Permissions::from_mode(0o700)).unwrap();
    chown(&foreign, Some(4_242), Some(4_242)).unwrap();
    foreign
}

/// e8: a runtime directory of somebody else is passed over with a warning, and left as it is.
#[tokio::test]
async fn e8_runtime_directory_of_other_user() {
    let daemon = Daemon::world("");
    let foreign = foreign_directory(&daemon);
    let uid = rustix::process::geteuid().as_raw();
    let socket = daemon.path(&format!("agentd-{uid}/agentd.sock"));
    let mut command = daemon.command_without_socket();
    command.env("XDG_RUNTIME_DIR", &foreign).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait::until("the socket", async || fs::symlink_metadata(&socket).map(drop)).await;
    assert_eq!(fs::metadata(socket.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    let mut client = Client::connect(&socket, Framing::Lines).await;
    client.call("daemon/shutdown", json!({ "mode": "now" })).await;
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(foreign.to_str().unwrap()), "{said}");
    assert!(!foreign.join("agentd").exists());
}

/// e35: the socket is the owner's alone, whatever the umask.
#[tokio::test]
async fn e35_socket_open_to_other_users() {
    for umask in ["000", "077"] {
        let daemon = Daemon::world("");
        let inner = daemon.command();
        let mut command = std::process::Command::new("sh");
        command.arg("-c").arg(format!("umask {umask}; exec \"$0\" \"$@\""));
        command.arg(inner.get_program()).args(inner.get_args());
        command.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let socket = daemon.socket();
        let mode =
            wait::until("the socket", async || fs::symlink_metadata(&socket)).await.mode() & 0o777;
        assert_eq!(mode, 0o600, "umask {umask}");
        assert_eq!(fs::metadata(daemon.path("state")).unwrap().mode() & 0o077, 0, "umask {umask}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// e36: a link planted where the lock or the socket belongs is not followed.
#[tokio::test]
async fn e36_predictable_path_in_shared_directory() {
    let mut daemon = Daemon::start("").await;
    let locks: Vec<_> = fs::read_dir(daemon.path("state"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "lock"))
        .collect();
    daemon.stop().await;
    let precious = daemon.path("precious");
    fs::write(&precious, "mine").unwrap();
    for lock in locks {
        fs::remove_file(&lock).unwrap();
        symlink(&precious, &lock).unwrap();
        let output = daemon.command().output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(lock.to_str().unwrap()), "{said}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
        fs::remove_file(&lock).unwrap();
    }
    if rustix::process::geteuid().is_root() {
        // The directory that the daemon would use belongs to somebody else already.
        let taken = daemon.path("agentd-0");
        fs::create_dir(&taken).unwrap();
        chown(&taken, Some(4_242), Some(4_242)).unwrap();
        let output = daemon.command_without_socket().output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(taken.to_str().unwrap()), "{said}");
    }
    daemon.restart().await;
    assert!(fs::symlink_metadata(daemon.socket()).unwrap().file_type().is_socket());
}
