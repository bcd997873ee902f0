//! What tests of this crate need, inside it and beside it.
//!
//! Receives the name of a test; hands it a process of its own.

use std::process::Command;

/// Set for a test that has its process to itself.
const ALONE: &str = "AGENTD_TEST_ALONE";

/// Whether the test `name` of the module `module` (its `module_path!()`) has its process to
/// itself. If not, it is run once more in one that is its own, and this returns false when that
/// has passed: for tests that change what belongs to a process, a limit or a mask, while others
/// run beside them.
///
/// # Panics
/// When the test failed in its own process.
pub fn alone(module: &str, name: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let in_crate = module.split_once("::").map_or("", |(_, rest)| rest);
    let name = format!("{in_crate}::{name}");
    let program = std::env::current_exe().expect("a test knows its own path");
    let output = Command::new(program)
        .args(["--exact", &name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .expect("a test program can be run again");
    let said = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && said.contains("1 passed");
    assert!(passed, "{name} failed:\n{said}{}", String::from_utf8_lossy(&output.stderr));
    false
}
