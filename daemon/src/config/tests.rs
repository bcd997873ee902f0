//! Tables over the layers, their faults, and where values come from.
//!
//! Receives texts of files and variables; hands each to `load` from explicit [`Sources`].

use std::path::Path;
use std::time::Duration;

use agentd_protocol::permission::{Action, PermissionMode};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    Auto, Config, ConfigError, Handle, KeySource, Loaded, Sandbox, ShellRead, Sources, Synchronous,
    Wire, load,
};

/// Every key of the documents, each with a value that is not its default.
const EVERY_KEY: &str = r#"
model = "local/qwen3"
small_model = "local/qwen3-0.6b"
fallback_model = "demo/demo"

[providers.local]
wire = "openai-chat"
base_url = "http://127.0.0.1:8080/v1"
api_key = { env = "LOCAL_KEY" }
headers = { "X-Team" = "a" }
max_retries = 3
max_retry_wait = "90s"
idle_timeout = "20s"
connect_timeout = "5s"
proxy = "http://127.0.0.1:3128"
ca_file = "ca.pem"
record = "session.jsonl"
replay = "other.jsonl"
replay_pace = "recorded"
reasoning_echo = "always"
think_tags = "on"
max_tokens_field = "max_completion_tokens"
stream_usage = false
empty_parameters = "omit"
null_content = "empty"
merge_roles = true
parallel_tool_calls = false
system_role = "developer"

[providers.local.models.qwen3]
context_window = 32768
max_output_tokens = 4096
price = { input = 0.5, cached_input = 0.1, cache_write = 0.6, output = 2.0 }

[limits]
max_iterations = 20
max_tokens = 100000
max_cost_usd = 1.5
max_duration = "10m"
max_session_tokens = 1000000
max_session_cost_usd = 10.0

[permission]
mode = "auto-edit"
rules = [{ tool = "shell", match = "cargo test *", action = "allow" }]
timeout = "10m"

[tools]
max_parallel = 4
duplicates = "turn"
env = { keep = ["GITHUB_TOKEN"], set = { CI = "1" } }
[tools.shell]
timeout = "60s"
kill_grace = "1s"
sandbox = "read-only"
network = true
writable = ["/var/cache/x"]
read = "all"

[[hooks]]
event = "pre_tool_use"
matcher = "shell"
command = ["./check.sh"]
timeout = "5s"

[mcp.files]
command = ["npx", "-y", "files", "."]
env = { A = "b" }
timeout = "30s"
[mcp.far]
url = "https://mcp.example.org/sse"
headers = { Authorization = "Bearer x" }

[server]
max_connections = 8
max_message_bytes = 1048576

[daemon]
lease_ttl = "5s"
recovery = "resume"
idle_exit = "10m"
drain_timeout = "3s"
retention = "90d"
notify = ["notify-send", "agentd"]

[store]
synchronous = "normal"
shared = true

[log]
max_bytes = 1000000
"#;

/// A user's file with `text` in a directory of its own.
struct Fixture {
    dir: TempDir,
    sources: Sources,
}

impl Fixture {
    fn new(text: &str) -> Self {
        Self::with(text, &[])
    }

    fn with(text: &str, environment: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("user.toml");
        std::fs::write(&path, text).unwrap();
        let environment =
            environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let sources = Sources { config_file: Some(path), environment, ..Sources::default() };
        Self { dir, sources }
    }

    fn load(&self) -> Result<Loaded, ConfigError> {
        load(&self.sources)
    }

    /// What is said about it, with the directory left out.
    fn refusal(&self) -> String {
        let error = self.load().expect_err("this configuration is wrong");
        error.to_string().replace(&format!("{}/", self.dir.path().display()), "")
    }
}

fn value_of(loaded: &Loaded, key: &str) -> (Value, String) {
    let view = loaded.view();
    let value = view.values.into_iter().find(|value| value.key == key);
    let value = value.unwrap_or_else(|| panic!("no value {key}"));
    (value.value, value.origin)
}

#[test]
fn every_documented_key_is_accepted_and_kept() {
    let fixture = Fixture::new(EVERY_KEY);
    let loaded = fixture.load().unwrap();
    let config = &loaded.config;
    assert!(
        loaded.warnings.iter().all(|warning| warning.ends_with("has no effect in this version")),
        "{:?}",
        loaded.warnings
    );
    assert_eq!(config.model.as_deref(), Some("local/qwen3"));
    let provider = &config.providers["local"];
    assert_eq!(provider.wire, Wire::OpenaiChat);
    assert_eq!(provider.api_key, Some(KeySource::Env("LOCAL_KEY".into())));
    assert_eq!(provider.max_retry_wait, Duration::from_secs(90));
    assert_eq!(provider.ca_file, Some(fixture.dir.path().join("ca.pem")));
    assert_eq!(provider.merge_roles, Auto::On);
    assert_eq!(config.limits.max_duration_ms, Some(600_000));
    assert_eq!(config.permission.mode, PermissionMode::AutoEdit);
    assert_eq!(config.permission.timeout, Some(Duration::from_mins(10)));
    assert_eq!(config.tools.shell.sandbox, Sandbox::ReadOnly);
    assert_eq!(config.tools.shell.read, ShellRead::All);
    assert_eq!(config.tools.env.keep, ["GITHUB_TOKEN"]);
    assert_eq!(config.hooks.len(), 1);
    assert_eq!(config.mcp.len(), 2);
    assert_eq!(config.daemon.retention, Some(Duration::from_hours(90 * 24)));
    assert_eq!(config.store.synchronous, Synchronous::Normal);
    // No key kept its default, so none was lost on the way. What stays absent is not listed.
    for value in loaded.view().values {
        let set_here = value.origin.starts_with(&fixture.dir.path().display().to_string());
        let elsewhere = ["providers.demo.", "mcp.far.", "mcp.files.headers"];
        assert!(
            set_here || elsewhere.iter().any(|table| value.key.starts_with(table)),
            "{} was lost: {}",
            value.key,
            value.origin
        );
    }
}

#[test]
fn without_any_file_the_defaults_hold() {
    let loaded =
        load(&Sources { home: Some("/nonexistent".into()), ..Sources::default() }).unwrap();
    let demo = loaded.config.providers.clone();
    assert_eq!(demo.keys().collect::<Vec<_>>(), ["demo"]);
    assert_eq!(*loaded.config, Config { providers: demo, ..Config::default() });
    assert_eq!(loaded.config.model, None, "demo is never chosen by itself");
    assert_eq!(loaded.config.limits.max_iterations, Some(50));
    assert_eq!(loaded.files, Vec::<std::path::PathBuf>::new());
    assert_eq!(value_of(&loaded, "tools.shell.timeout"), (json!("2m"), "built-in".to_owned()));
    assert_eq!(value_of(&loaded, "daemon.idle_exit").0, json!("off"));
}

#[test]
fn faults_name_file_line_column_and_the_nearest_key() {
    let cases = [
        (
            "modle = \"a/b\"",
            "user.toml:1:1: unknown key `modle`; did you mean `model`? known here: ",
        ),
        (
            "[tools.shell]\ntimeuot = \"1s\"",
            "user.toml:2:1: unknown key `timeuot`; did you mean `timeout`? known here: ",
        ),
        (
            "[permission]\n  mode = \"aks\"",
            "user.toml:2:10: unknown value `aks`; did you mean `ask`? known here: `plan`, `ask`, ",
        ),
        (
            "[daemon]\nlease_ttl = 15",
            "user.toml:2:13: invalid type: integer `15`, expected a duration such as \"90s\", ",
        ),
        (
            "[limits]\nmax_iterations = \"many\"",
            "user.toml:2:18: invalid type: string \"many\", expected a whole number",
        ),
        (
            "[daemon]\nlease_ttl = \"soon\"",
            "user.toml:2:13: invalid value: string \"soon\", expected a duration such as \"90s\", ",
        ),
        ("[daemon]\nlease_ttl = \"-5s\"", "user.toml:2:13: invalid value: string \"-5s\", "),
        ("[daemon]\nretention = \"3 months\"", "user.toml:2:13: invalid value: "),
        (
            "[daemon]\nidle_exit = \"never\"",
            "user.toml:2:13: invalid value: string \"never\", expected a duration such as \"90s\", \"10m\" or \"7d\", or \"off\"",
        ),
        ("model = \n", "user.toml:1:9: "),
        (
            "providers.x = { wire = \"demo\" }\nproviders.x.max_retries = 1",
            "user.toml:2:11: this table was written in braces before: put the key into the braces",
        ),
        ("[server\n", "user.toml:1:8: "),
        ("[server]\nmax_connections = -1", "user.toml:2:19: invalid value: integer `-1`, "),
        ("[server]\nmax_connections = 0", "user.toml:2:1: 0 is too small; the least is 1"),
        ("[limits]\nmax_cost_usd = nan", "user.toml:2:1: NaN is not an amount of USD"),
        ("model = \"qwen3\"", "user.toml:1:1: `qwen3` is not of the form `provider/name`"),
        (
            "model = \"dmo/demo\"",
            "user.toml:1:1: no provider `dmo`; did you mean `demo`? known here: demo",
        ),
        ("[providers.x]\nbase_url = \"http://h\"", "user.toml:1:1: `wire` is missing"),
        ("[providers.x]\nwire = \"openai-chat\"", "user.toml:1:1: `base_url` is missing"),
        (
            "[providers.x]\nwire = \"openai-chat\"\nbase_url = \"h:1\"",
            "user.toml:3:1: this is not an address",
        ),
        (
            "[providers.demo]\nwire = \"openai-chat\"",
            "user.toml:2:1: the provider `demo` is built in",
        ),
        ("[[hooks]]\nevent = \"stop\"\ncommand = []", "user.toml:1:1: a hook's `command` is empty"),
        ("[[hooks]]\ncommand = [\"a\"]", "user.toml:1:1: missing field `event`"),
        ("[mcp.a]\n", "user.toml:1:1: `command` or `url` is missing"),
        ("permission.rules = [{ tool = \"shell\" }]", "user.toml:1:21: missing field `action`"),
        ("ä = 1", "user.toml:1:1: "),
        ("model = \"ä\" x", "user.toml:1:13: "),
    ];
    for (text, expected) in cases {
        let refusal = Fixture::new(text).refusal();
        assert!(refusal.starts_with(expected), "{text:?}\n  said: {refusal}\n  not:  {expected}");
    }
}

#[test]
fn a_fault_says_its_place_to_programs_too() {
    let fixture = Fixture::new("[tools.shell]\ntimeout = 5\n");
    let error = fixture.load().unwrap_err();
    assert_eq!(error.file(), fixture.sources.config_file.as_deref());
    assert_eq!((error.line(), error.key()), (Some(2), Some("tools.shell.timeout")));
}

#[test]
fn no_fault_quotes_a_key_that_stands_where_its_source_belongs() {
    let table = "[providers.x]\nwire = \"openai-chat\"\nbase_url = \"http://h\"\n";
    for line in ["api_key = \"sk-12345\"", "api_key = { env = \"sk-12345\" }"] {
        let refusal = Fixture::new(&format!("{table}{line}")).refusal();
        assert!(refusal.starts_with("user.toml:4:"), "{refusal}");
        assert!(!refusal.contains("sk-12345"), "{refusal}");
    }
}

#[test]
fn a_stronger_layer_wins_and_pools_grow() {
    let fixture = Fixture::with(
        "[tools.shell]\nnetwork = true\n\
         [providers.x]\nwire = \"openai-chat\"\nbase_url = \"http://user\"\napi_key = { file = \"k\" }\n\
         [[permission.rules]]\ntool = \"shell\"\naction = \"allow\"\n",
        &[("AGENTD_TOOLS__SHELL__TIMEOUT", "60s"), ("AGENTD_MODEL", "x/1")],
    );
    let system = fixture.dir.path().join("system.toml");
    std::fs::write(
        &system,
        "[tools.shell]\nnetwork = false\ntimeout = \"5s\"\nkill_grace = \"9s\"\n\
         [providers.x]\nbase_url = \"http://system\"\napi_key = { env = \"K\" }\nmax_retries = 1\n\
         [[permission.rules]]\ntool = \"shell\"\naction = \"deny\"\n",
    )
    .unwrap();
    let sources = Sources { system_file: Some(system.clone()), ..fixture.sources.clone() };
    let loaded = load(&sources).unwrap();
    let config = &loaded.config;
    assert!(config.tools.shell.network);
    assert_eq!(config.tools.shell.timeout, Duration::from_mins(1));
    assert_eq!(config.tools.shell.kill_grace, Duration::from_secs(9));
    assert_eq!(config.model.as_deref(), Some("x/1"));
    assert_eq!(config.providers["x"].base_url.as_deref(), Some("http://user"));
    assert_eq!(config.providers["x"].api_key, Some(KeySource::File(fixture.dir.path().join("k"))));
    assert_eq!(config.providers["x"].max_retries, 1);
    let actions: Vec<_> = config.permission.rules.iter().map(|rule| rule.action).collect();
    assert_eq!(actions, [Action::Deny, Action::Allow]);
    assert_eq!(value_of(&loaded, "tools.shell.kill_grace").1, format!("{}:4:1", system.display()));
    assert_eq!(value_of(&loaded, "tools.shell.timeout").1, "AGENTD_TOOLS__SHELL__TIMEOUT");
    assert_eq!(loaded.files, [system, fixture.sources.config_file.unwrap()]);
}

#[test]
fn variables_take_the_type_of_their_key() {
    let loaded = Fixture::with(
        "",
        &[
            ("AGENTD_TOOLS__MAX_PARALLEL", "3"),
            ("AGENTD_STORE__SHARED", "true"),
            ("AGENTD_DAEMON__NOTIFY", "[\"true\"]"),
            ("AGENTD_PROVIDERS__LOCAL__WIRE", "openai-chat"),
            ("AGENTD_PROVIDERS__LOCAL__BASE_URL", "http://h/v1"),
            ("AGENTD_PROVIDERS__LOCAL__MERGE_ROLES", "false"),
            ("AGENTD_PROVIDERS__LOCAL__API_KEY", "{ env = \"K\" }"),
            ("AGENTD_LIMITS__MAX_COST_USD", "0.5"),
            ("AGENTD_SOCKET", "/somewhere"),
        ],
    )
    .load()
    .unwrap();
    assert_eq!(
        loaded.warnings,
        ["AGENTD_DAEMON__NOTIFY: `daemon.notify` has no effect in this version"]
    );
    assert_eq!(loaded.config.tools.max_parallel, 3);
    assert!(loaded.config.store.shared);
    assert_eq!(loaded.config.daemon.notify, ["true"]);
    assert_eq!(loaded.config.providers["local"].merge_roles, Auto::Off);
    assert_eq!(loaded.config.providers["local"].api_key, Some(KeySource::Env("K".into())));
    assert_eq!(loaded.config.limits.max_cost_usd, Some(0.5));
    assert_eq!(loaded.config.limits.max_iterations, Some(50));
}

#[test]
fn faults_in_variables_name_the_variable() {
    let cases = [
        ("AGENTD_TOOLS__SHELL__TIMEOUT", "x", "AGENTD_TOOLS__SHELL__TIMEOUT: invalid value: "),
        ("AGENTD_TOOLS__MAX_PARALLEL", "many", "AGENTD_TOOLS__MAX_PARALLEL: invalid type: "),
        (
            "AGENTD_TOOLS__SHEL__TIMEOUT",
            "1s",
            "AGENTD_TOOLS__SHEL__TIMEOUT: unknown key `shel`; did you mean `shell`? ",
        ),
        ("AGENTD_MODEL", "x", "AGENTD_MODEL: `x` is not of the form"),
    ];
    for (name, value, expected) in cases {
        let refusal = Fixture::with("", &[(name, value)]).refusal();
        assert!(refusal.starts_with(expected), "{refusal}");
    }
    let loaded = Fixture::with("", &[("AGENTD_MODLE", "x")]).load().unwrap();
    assert_eq!(loaded.warnings.len(), 1);
    assert!(loaded.warnings[0].contains("AGENTD_MODLE is ignored"), "{:?}", loaded.warnings);
    assert!(loaded.warnings[0].contains("`model`"), "{:?}", loaded.warnings);
}

#[test]
fn known_providers_exist_where_their_key_is_set() {
    let loaded = Fixture::with(
        "[providers.openrouter]\nheaders = { X-Title = \"t\" }\n",
        &[("OPENAI_API_KEY", "sk-1"), ("ANTHROPIC_API_KEY", " ")],
    )
    .load()
    .unwrap();
    let providers = &loaded.config.providers;
    assert_eq!(providers.keys().collect::<Vec<_>>(), ["demo", "openai", "openrouter"]);
    assert_eq!(providers["openai"].api_key, Some(KeySource::Env("OPENAI_API_KEY".into())));
    assert_eq!(value_of(&loaded, "providers.openai.base_url").1, "OPENAI_API_KEY");
    assert_eq!(providers["openrouter"].base_url.as_deref(), Some("https://openrouter.ai/api/v1"));
    assert_eq!(providers["openrouter"].api_key, Some(KeySource::Env("OPENROUTER_API_KEY".into())));
    assert_eq!(loaded.config.model, None);
}

#[test]
fn a_chosen_model_of_a_known_provider_needs_no_key_to_start_with() {
    let loaded = Fixture::new("model = \"openai/gpt\"\nsmall_model = \"openrouter/a/b\"").load();
    let loaded = loaded.unwrap();
    let providers = &loaded.config.providers;
    assert_eq!(providers.keys().collect::<Vec<_>>(), ["demo", "openai", "openrouter"]);
    assert_eq!(providers["openai"].api_key, Some(KeySource::Env("OPENAI_API_KEY".into())));
    let elsewhere = "[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"";
    let loaded = Fixture::new(elsewhere).load().unwrap();
    assert_eq!(loaded.config.providers["openai"].api_key, None);
}

#[test]
fn who_sets_what_has_no_effect_yet_is_told() {
    let fixture = Fixture::new("[tools.shell]\ntimeout = \"1s\"\nsandbox = \"read-only\"\n");
    let loaded = fixture.load().unwrap();
    let expected = ":3:1: `tools.shell.sandbox` has no effect in this version";
    assert!(matches!(&loaded.warnings[..], [one] if one.ends_with(expected)), "{loaded:?}");
}

#[test]
fn the_view_masks_what_may_be_secret() {
    let loaded = Fixture::with(
        "[providers.x]\nwire = \"openai-chat\"\nbase_url = \"https://u:p@h/v1?k=secret\"\n\
         headers = { Authorization = \"Bearer secret\" }\nproxy = \"http://me:secret@proxy:1\"\n\
         [mcp.y]\ncommand = [\"y\"]\nenv = { TOKEN = \"secret\" }\n\
         [tools.env.set]\nA = \"secret\"\n",
        &[],
    )
    .load()
    .unwrap();
    let shown = serde_json::to_string(&loaded.view()).unwrap();
    assert!(!shown.contains("secret") && !shown.contains("u:p"), "{shown}");
    assert_eq!(value_of(&loaded, "providers.x.base_url").0, json!("https://***@h/v1?***"));
    assert_eq!(value_of(&loaded, "providers.x.wire").0, json!("openai-chat"));
}

#[test]
fn files_are_found_where_the_user_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    let at_home = write("home/.config/agentd/config.toml", "[tools]\nmax_parallel = 2\n");
    let in_xdg = write("xdg/agentd/config.toml", "[tools]\nmax_parallel = 3\n");
    let named = write("named.toml", "[tools]\nmax_parallel = 4\n");
    let given = write("given.toml", "[tools]\nmax_parallel = 5\n");
    let mut sources = Sources { home: Some(dir.path().join("home")), ..Sources::default() };
    assert_eq!(load(&sources).unwrap().files, [at_home]);
    let xdg = dir.path().join("xdg").display().to_string();
    sources.environment.insert("XDG_CONFIG_HOME".to_owned(), xdg);
    assert_eq!(load(&sources).unwrap().files, [in_xdg]);
    sources.environment.insert("AGENTD_CONFIG".to_owned(), named.display().to_string());
    assert_eq!(load(&sources).unwrap().files, [named]);
    sources.config_file = Some(given.clone());
    assert_eq!(load(&sources).unwrap().files, [given]);
}

#[test]
fn a_stored_key_is_found_by_its_provider() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("home/.config/agentd");
    std::fs::create_dir_all(folder.join("credentials")).unwrap();
    for name in ["openai", "mine", "other", "nobody"] {
        std::fs::write(folder.join(format!("credentials/{name}.key")), "sk-1\n").unwrap();
    }
    let config = "[providers.mine]\nwire = \"openai-chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
                  [providers.other]\nwire = \"openai-chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
                  api_key = { env = \"OTHER\" }\n";
    std::fs::write(folder.join("config.toml"), config).unwrap();
    let mut sources = Sources { home: Some(dir.path().join("home")), ..Sources::default() };
    sources.environment.insert("OPENAI_API_KEY".to_owned(), "sk-2".to_owned());
    let loaded = load(&sources).unwrap();
    let providers = &loaded.config.providers;
    let file = |name: &str| Some(KeySource::File(folder.join(format!("credentials/{name}.key"))));
    assert_eq!(providers["openai"].api_key, file("openai"), "stored on purpose, so it wins");
    assert!(providers["openai"].base_url.is_some());
    assert_eq!(providers["mine"].api_key, file("mine"));
    assert_eq!(providers["other"].api_key, Some(KeySource::Env("OTHER".into())));
    assert!(!providers.contains_key("nobody"));
}

#[test]
fn no_home_is_a_warning_and_a_named_file_must_exist() {
    let loaded = load(&Sources::default()).unwrap();
    assert!(loaded.warnings[0].contains("home"), "{:?}", loaded.warnings);
    let sources =
        Sources { config_file: Some("/nonexistent/agentd.toml".into()), ..Sources::default() };
    let error = load(&sources).unwrap_err();
    assert_eq!(error.to_string(), "cannot read the configuration file /nonexistent/agentd.toml");
}

#[test]
fn c31_what_is_no_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let refusal = |path: &Path| {
        let sources = Sources { config_file: Some(path.to_owned()), ..Sources::default() };
        load(&sources).unwrap_err().to_string()
    };
    assert!(refusal(&fifo).ends_with("is a named pipe, not a configuration file"));
    assert!(refusal(dir.path()).ends_with("is a directory, not a configuration file"));
    assert!(refusal(Path::new("/dev/zero")).ends_with("is a device, not a configuration file"));
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_line() {
    let fixture = Fixture::new("");
    let path = fixture.sources.config_file.as_ref().unwrap();
    std::fs::write(path, b"# fine\nmodel = \"\xff\"\n").unwrap();
    assert_eq!(fixture.refusal(), "user.toml:2:10: this is not UTF-8");
    std::fs::write(path, vec![b'#'; 2 << 20]).unwrap();
    assert!(fixture.refusal().contains("is longer than"), "{}", fixture.refusal());
}

#[tokio::test]
async fn a_reload_says_what_changed_and_a_wrong_file_changes_nothing() {
    let fixture = Fixture::new("[tools]\nmax_parallel = 2\n");
    let path = fixture.sources.config_file.clone().unwrap();
    let handle = Handle::load(fixture.sources.clone()).unwrap();
    let first = handle.current();
    std::fs::write(&path, "[tools]\nmax_parallel = 3\n[log]\nmax_bytes = 99999\n").unwrap();
    assert_eq!(handle.reload().await.unwrap(), ["log.max_bytes", "tools.max_parallel"]);
    assert_eq!((first.tools.max_parallel, handle.current().tools.max_parallel), (2, 3));
    std::fs::write(&path, "[tools]\nmax_parallel = \"all\"\n").unwrap();
    assert!(handle.reload().await.is_err());
    assert_eq!(handle.current().tools.max_parallel, 3);
}

#[tokio::test]
async fn keys_are_read_from_every_source() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key");
    std::fs::write(&file, "  sk-file\n").unwrap();
    std::fs::write(dir.path().join("empty"), "\n").unwrap();
    std::fs::write(dir.path().join("two"), "a\nb\n").unwrap();
    let credentials = dir.path().display().to_string();
    let variable = |name: &str| match name {
        "K" => Some("sk-env".to_owned()),
        "CREDENTIALS_DIRECTORY" => Some(credentials.clone()),
        _ => None,
    };
    let read = async |source: KeySource| {
        source
            .read_with(variable)
            .await
            .map(|key| key.expose().to_owned())
            .map_err(|error| error.to_string().replace(&credentials, "DIR"))
    };
    let command = |words: &[&str]| KeySource::Command(words.iter().map(|w| (*w).into()).collect());
    assert_eq!(read(KeySource::Env("K".into())).await.as_deref(), Ok("sk-env"));
    assert_eq!(read(KeySource::File(file)).await.as_deref(), Ok("sk-file"));
    assert_eq!(read(KeySource::Credential("key".into())).await.as_deref(), Ok("sk-file"));
    assert_eq!(read(command(&["echo", "sk-command"])).await.as_deref(), Ok("sk-command"));
    let cases = [
        (KeySource::Env("L".into()), "no key from the variable L: it is not set; "),
        (KeySource::File(dir.path().into()), "no key from the file DIR: it is a directory"),
        (KeySource::File(dir.path().join("empty")), "no key from the file DIR/empty: it is empty"),
        (KeySource::File(dir.path().join("two")), "no key from the file DIR/two: it holds more"),
        (KeySource::File(dir.path().join("no")), "no key from the file DIR/no: it cannot be read"),
        (command(&["false", "s3"]), "no key from the command false: it ended with exit status: 1"),
        (command(&["/nonexistent"]), "no key from the command /nonexistent: it cannot be started"),
    ];
    for (source, expected) in cases {
        let fault = read(source).await.unwrap_err();
        assert!(fault.starts_with(expected), "{fault}");
    }
    let key = KeySource::Env("K".into()).read_with(variable).await.unwrap();
    assert_eq!(format!("{key:?}"), "Key(***)");
}

/// The schema that editors use is checked in; `AGENTD_BLESS=1` writes it anew.
#[test]
fn the_schema_that_is_checked_in_is_the_one_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/config.schema.json");
    let schema = schemars::schema_for!(Config);
    let mut now = serde_json::to_string_pretty(&schema).unwrap();
    now.push('\n');
    if std::env::var_os("AGENTD_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == now, "packaging/config.schema.json is old: run this test with AGENTD_BLESS=1");
    let validator = jsonschema::validator_for(&schema.to_value()).unwrap();
    let every_key: Value = toml::from_str(EVERY_KEY).unwrap();
    let errors: Vec<_> = validator.iter_errors(&every_key).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(!validator.is_valid(&json!({ "modle": "a/b" })));
}
