//! Finds the layers, reads and merges them, checks the whole.
//!
//! Everything it depends on is in [`Sources`], so that a test needs no process environment.
//!
//! Receives [`Sources`]; hands a [`Loaded`] configuration to `handle`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use toml::{Table, Value};

use crate::config::Config;
use crate::config::check::check;
use crate::config::error::ConfigError;
use crate::config::file::{Unreadable, read_regular};
use crate::config::later;
use crate::config::layer::{Layer, merge_table};
use crate::config::place::{Origin, dotted};
use crate::config::preset;
use crate::config::provider::KeySource;

/// The longest configuration file.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The machine's own configuration.
const SYSTEM_FILE: &str = "/etc/agentd/config.toml";

/// Where a configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sources {
    /// The machine's file; it need not exist. `None`: there is none.
    pub system_file: Option<PathBuf>,
    /// `--config`: takes the place of the user's file and of `AGENTD_CONFIG`, and must exist.
    pub config_file: Option<PathBuf>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
}

impl Sources {
    /// Those of this process, with `--config` as it was given.
    pub fn of_process(config_file: Option<PathBuf>) -> Self {
        Self {
            system_file: Some(PathBuf::from(SYSTEM_FILE)),
            config_file,
            // A name or value that is no UTF-8 cannot be one of ours.
            environment: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect(),
            home: directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned()),
        }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The file that must exist, if one was named.
    fn named_file(&self) -> Option<PathBuf> {
        self.config_file.clone().or_else(|| self.variable("AGENTD_CONFIG").map(PathBuf::from))
    }

    /// The keys that `agentctl login` stored, by their provider: the files `NAME.key` in the folder
    /// `credentials` of the user's configuration.
    fn stored_keys(&self) -> BTreeMap<String, PathBuf> {
        let folder = self.user_folder().map(|folder| folder.join("credentials"));
        let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok());
        let keys = entries.into_iter().flatten().flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((name.strip_suffix(".key")?.to_owned(), entry.path()))
        });
        keys.collect()
    }

    /// The file that the user may have.
    fn user_file(&self) -> Option<PathBuf> {
        Some(self.user_folder()?.join("config.toml"))
    }

    /// Where the user's configuration is.
    fn user_folder(&self) -> Option<PathBuf> {
        let directory = match self.variable("XDG_CONFIG_HOME").map(PathBuf::from) {
            // The standard says that a relative one is to be ignored.
            Some(directory) if directory.is_absolute() => directory,
            _ => self.home.as_ref()?.join(".config"),
        };
        Some(directory.join("agentd"))
    }
}

/// A configuration that is right, and where it comes from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Arc<Config>,
    /// Where each key that was set stands, dotted; all others are built in.
    pub origins: BTreeMap<String, Origin>,
    /// The files that were read, weakest first.
    pub files: Vec<PathBuf>,
    /// What is odd but not wrong.
    pub warnings: Vec<String>,
}

/// Reads all layers. Blocks on files.
pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    let mut files = Vec::new();
    let mut layers = Vec::new();
    let mut warnings = Vec::new();
    let mut read = |path: &Path, must_exist: bool| -> Result<(), ConfigError> {
        if let Some(text) = read_text(path, must_exist)? {
            layers.push(Layer::from_file(path, &text)?);
            files.push(path.to_owned());
        }
        Ok(())
    };
    if let Some(path) = &sources.system_file {
        read(path, false)?;
    }
    match (sources.named_file(), sources.user_file()) {
        (Some(path), _) => read(&path, true)?,
        (None, Some(path)) => read(&path, false)?,
        (None, None) => warnings.push(
            "there is no home directory, so no configuration of the user was read; \
             --config or XDG_CONFIG_HOME can name one"
                .to_owned(),
        ),
    }
    let (environment, more) = Layer::from_environment(&sources.environment)?;
    layers.push(environment);
    warnings.extend(more);
    layers.insert(0, preset::providers(&sources.environment, &sources.stored_keys(), &layers));
    let (config, origins) = merge(layers, sources)?;
    warnings.extend(later::warnings(&origins));
    Ok(Loaded { config: Arc::new(config), origins, files, warnings })
}

fn merge(
    layers: Vec<Layer>,
    sources: &Sources,
) -> Result<(Config, BTreeMap<String, Origin>), ConfigError> {
    let mut table = Table::new();
    let mut origins = BTreeMap::new();
    for layer in layers {
        merge_table(&mut table, layer.table, "");
        origins.extend(layer.origins);
    }
    let mut config = Config::deserialize(Value::Table(table)).map_err(|error| {
        // Each layer was right by itself, so this is not about one place.
        ConfigError::Invalid { at: Origin::BuiltIn, key: None, message: error.message().to_owned() }
    })?;
    check(&config, &origins)?;
    for (name, provider) in &mut config.providers {
        let table = dotted("providers", name);
        let settle = |field: &str, path: &mut PathBuf| {
            let origin = origins.get(&format!("{table}.{field}"));
            *path = settled(path, origin, sources.home.as_deref());
        };
        if let Some(path) = &mut provider.ca_file {
            settle("ca_file", path);
        }
        if let Some(path) = &mut provider.record {
            settle("record", path);
        }
        if let Some(path) = &mut provider.replay {
            settle("replay", path);
        }
        if let Some(KeySource::File(path)) = &mut provider.api_key {
            settle("api_key", path);
        }
    }
    Ok((config, origins))
}

/// `~/` is the home directory; what is relative starts from the file that says it.
fn settled(path: &Path, origin: Option<&Origin>, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home, origin) {
        (Ok(rest), Some(home), _) => home.join(rest),
        (_, _, Some(Origin::File { path: file, .. })) => {
            file.parent().map_or_else(|| path.to_owned(), |directory| directory.join(path))
        }
        _ => path.to_owned(),
    }
}

fn read_text(path: &Path, must_exist: bool) -> Result<Option<String>, ConfigError> {
    let content = match read_regular(path, MAX_FILE_BYTES) {
        Ok(content) => content,
        Err(Unreadable::Io(error)) if !must_exist && is_absent(&error) => return Ok(None),
        Err(Unreadable::Io(source)) => {
            return Err(ConfigError::Read { path: path.to_owned(), source });
        }
        Err(Unreadable::NotAFile(found)) => {
            return Err(ConfigError::NotAFile { path: path.to_owned(), found });
        }
        Err(Unreadable::TooLong) => {
            return Err(ConfigError::TooLong {
                path: path.to_owned(),
                limit_bytes: MAX_FILE_BYTES,
            });
        }
    };
    String::from_utf8(content).map(Some).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(error.as_bytes());
        ConfigError::Invalid {
            at: Origin::in_file(path, &text, good),
            key: None,
            message: "this is not UTF-8".to_owned(),
        }
    })
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
