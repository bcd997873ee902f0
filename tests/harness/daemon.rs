//! The real daemon as a process, in a world of its own.
//!
//! The world is one temporary directory with the socket, the state, the configuration, a home and
//! a workspace. The environment holds nothing of the test's but `PATH`. It outlives the process,
//! so that a test can kill the daemon and start the next one over the same state; siblings share
//! it, each with a socket of its own.
//!
//! Receives a configuration; hands out a socket that answers, and the process behind it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::client::{Client, Framing};
use crate::wait;

/// Lines of the daemon's log that a failed test shows.
const LOG_TAIL: usize = 60;

/// A daemon and its world.
#[derive(Debug)]
pub struct Daemon {
    world: Arc<World>,
    name: String,
    environment: Vec<(String, String)>,
    child: Option<Child>,
}

/// A program that was built with this package.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    // target/debug/deps/e2e-0123 -> target/debug
    let built = test.ancestors().nth(2).expect("cargo puts tests two folders deep");
    let program = built.join(format!("{name}-under-test"));
    assert!(program.exists(), "{} was not built", program.display());
    program
}

impl Daemon {
    /// Starts a daemon with this configuration and waits until it answers.
    pub async fn start(config: &str) -> Self {
        let mut daemon = Self::world(config);
        daemon.spawn();
        daemon.ready().await;
        daemon
    }

    /// A world without a running daemon.
    pub fn world(config: &str) -> Self {
        let world = tempfile::Builder::new()
            .prefix("agentd-")
            .tempdir()
            .expect("the temporary directory can be written");
        for folder in ["home", "run", "state", "work"] {
            fs::create_dir(world.path().join(folder)).expect("it was just made");
        }
        let world = Arc::new(World(world));
        let daemon =
            Self { world, name: "agentd".to_owned(), environment: Vec::new(), child: None };
        private(&daemon.path("run"));
        daemon.configure(config);
        daemon
    }

    /// Another daemon of the same world, with a socket of its own; not started.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        Self {
            world: self.world.clone(),
            name: name.to_owned(),
            environment: self.environment.clone(),
            child: None,
        }
    }

    /// Writes the configuration anew; a running daemon has to be told.
    pub fn configure(&self, config: &str) {
        fs::write(self.path("config.toml"), config).expect("the world can be written");
    }

    /// Sets a variable for daemons that are started from now on.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// A path in the world.
    pub fn path(&self, name: &str) -> PathBuf {
        self.world.0.path().join(name)
    }

    /// Where sessions work.
    pub fn work_dir(&self) -> PathBuf {
        self.path("work")
    }

    /// Writes a file of the workspace.
    pub fn write_file(&self, name: &str, text: &str) {
        fs::write(self.work_dir().join(name), text).expect("the workspace can be written");
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.path("run").join(format!("{}.sock", self.name))
    }

    /// The command that starts this world's daemon, for tests that start it themselves.
    pub fn command(&self) -> Command {
        let mut command = self.command_without_socket();
        command.arg("--socket").arg(self.socket());
        command
    }

    /// The same, for tests about where the socket is.
    pub fn command_without_socket(&self) -> Command {
        let mut command = Command::new(program("agentd"));
        command
            .arg("--config")
            .arg(self.path("config.toml"))
            .arg("--state-dir")
            .arg(self.path("state"))
            .env_clear()
            .stdout(Stdio::null());
        self.surround(&mut command);
        command
    }

    fn surround(&self, command: &mut Command) {
        command
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.world.0.path())
            .env("LANG", "C.UTF-8")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.work_dir())
            .stdin(Stdio::null());
    }

    /// A command of `agentctl` in this world; it starts the daemon if none answers.
    pub fn agentctl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("bin/agentctl"));
        command
            .args(arguments)
            .env_clear()
            .env("AGENTD_SOCKET", self.socket())
            .env("AGENTD_STATE_DIR", self.path("state"))
            .env("AGENTD_CONFIG", self.path("config.toml"));
        self.surround(&mut command);
        if !self.path("bin").exists() {
            self.install();
        }
        command
    }

    /// `agentctl` in this world and in front of a terminal of this size.
    pub fn agentctl_at_a_terminal(
        &self,
        arguments: &[&str],
        columns: u16,
        rows: u16,
    ) -> crate::Terminal {
        let mut command = self.agentctl(arguments);
        command.env("TERM", "xterm-256color");
        crate::Terminal::start(&command, columns, rows)
    }

    /// Lays both programs under their own names beside each other, as a package does.
    fn install(&self) {
        fs::create_dir(self.path("bin")).expect("the world can be written");
        for name in ["agentd", "agentctl"] {
            let (built, installed) = (program(name), self.path("bin").join(name));
            // A link where that is possible: the programs are large. Else another process copies: a
            // file that this one writes is for a moment open in what other tests fork, and busy.
            let laid = fs::hard_link(&built, &installed).is_ok()
                || Command::new("cp")
                    .args([&built, &installed])
                    .status()
                    .is_ok_and(|status| status.success());
            assert!(laid, "the world can be written");
        }
    }

    /// Starts a process without waiting for it.
    pub fn spawn(&mut self) {
        assert!(self.child.is_none(), "one daemon at a time in this world");
        let log = OpenOptions::new().append(true).create(true).open(self.log_path());
        let log: File = log.expect("the world can be written");
        self.child = Some(self.command().stderr(log).spawn().expect("the daemon can be started"));
    }

    /// Waits until this process answers at the socket. That somebody accepts is not enough: a tool
    /// that a killed daemon was about to start holds its listener for a moment longer.
    pub async fn ready(&mut self) {
        let socket = self.socket();
        wait::until("the daemon's socket", async || {
            if let Some(status) = self.try_exit() {
                panic!("the daemon ended with {status}; its log:\n{}", self.log_tail());
            }
            let pid = self.pid().as_raw_nonzero().get();
            match Client::ask(&socket, "daemon/status").await? {
                status if status["result"]["pid"] == pid => Ok(()),
                other => Err(format!("{other} answers, not process {pid}")),
            }
        })
        .await;
    }

    /// A new connection, line framing.
    pub async fn client(&self) -> Client {
        Client::connect(&self.socket(), Framing::Lines).await
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        let child = self.child.as_ref().expect("a daemon is running");
        Pid::from_child(child)
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the process is ours and was not waited for");
    }

    /// Kills the process as a crash would.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("a daemon is running");
        child.kill().expect("the process is ours");
        child.wait().expect("the process is ours");
    }

    /// Starts the next daemon over the same state and waits until it answers.
    pub async fn restart(&mut self) {
        if self.child.is_some() {
            self.stop().await;
        }
        self.spawn();
        self.ready().await;
    }

    /// Stops the process in order and says how it ended.
    pub async fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.exit().await
    }

    /// Waits for the process to end.
    pub async fn exit(&mut self) -> ExitStatus {
        let status =
            wait::until("the daemon to end", async || self.try_exit().ok_or("it runs")).await;
        self.child = None;
        status
    }

    fn try_exit(&mut self) -> Option<ExitStatus> {
        let child = self.child.as_mut().expect("a daemon was started");
        child.try_wait().expect("the process is ours")
    }

    /// What all daemons of this world logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.path(&format!("{}.log", self.name))
    }

    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n")
    }
}

/// The directory, and whatever still runs in it.
#[derive(Debug)]
struct World(TempDir);

impl Drop for World {
    /// Kills what was started in this world and is left, by whomever: its environment names the
    /// directory.
    fn drop(&mut self) {
        let name = self.0.path().as_os_str().as_encoded_bytes();
        let is_ours = |environment: &[u8]| environment.windows(name.len()).any(|w| w == name);
        // Where there is no such directory there is nothing to go by.
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            let pid = process.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(pid) = pid.and_then(Pid::from_raw)
                && is_ours(&environment)
            {
                // It may have ended by now.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both can only fail for a process that is gone.
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let shown = format!("the daemon's log:\n{}\n", self.log_tail());
            let _ = io::Write::write_all(&mut io::stderr(), shown.as_bytes());
        }
    }
}

fn private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).expect("it was just made");
}
