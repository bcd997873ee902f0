//! What is found at a path, with real sockets.

use std::os::unix::net::UnixListener;
use std::thread;

use super::*;

const SHORT: Duration = Duration::from_millis(50);

/// Answers one request with this line, then ends.
fn answering(line: &'static str) -> (tempfile::TempDir, thread::JoinHandle<()>) {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("s")).unwrap();
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut String::new()).unwrap();
        writeln!(stream, "{line}").unwrap();
    });
    (dir, served)
}

fn asked(line: &'static str) -> Found {
    let (dir, served) = answering(line);
    let found = ask(&dir.path().join("s"), Duration::from_secs(10));
    served.join().unwrap();
    found
}

#[test]
fn what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    assert_eq!(ask(&path, SHORT), Found::Nothing);
    let listener = UnixListener::bind(&path).unwrap();
    // It accepts and says nothing, as a stopped process does.
    assert!(matches!(ask(&path, SHORT), Found::Unknown(why) if why.contains("did not answer")));
    drop(listener);
    assert_eq!(ask(&path, SHORT), Found::Stale);
}

#[test]
fn a_daemon_says_who_it_is_and_others_do_not() {
    let daemon = Daemon { pid: 7, state_dir: "/s".to_owned() };
    let status = r#"{"jsonrpc":"2.0","id":1,"result":{"pid":7,"state_dir":"/s","more":1}}"#;
    assert_eq!(asked(status), Found::Daemon(daemon));
    let refusal = r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"go away"}}"#;
    assert_eq!(asked(refusal), Found::Unknown("it says: go away".to_owned()));
    for other in ["220 mail.example ready", "", "{}"] {
        assert!(matches!(asked(other), Found::Unknown(why) if why.contains("agentd")));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_backlog_blocks_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&socket, 1).unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = connect_to(&path) {
        waiting.push(stream);
    }
    assert!(matches!(ask(&path, SHORT), Found::Unknown(why) if why.contains("does not accept")));
}
