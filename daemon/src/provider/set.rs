//! The providers of a configuration, found by a model's name `provider/name`.
//!
//! A name is cut at its first slash, since models at some providers have slashes in their names.
//! A provider serves any model's name: what it has is its own business, and the configuration only
//! adds facts. `demo/demo` is always there and is never chosen by itself. A table that is wrong costs
//! only its own models.
//!
//! Receives a checked configuration; hands providers, facts and prices to `session`.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_protocol::daemon::{Model, ModelListResult, Price, ProbeFailure};
use agentd_protocol::session::Usage;

use super::Provider;
use super::anthropic_messages::AnthropicMessages;
use super::demo::Demo;
use super::facts;
use super::http::Transports;
use super::lessons::Lessons;
use super::openai_chat::OpenaiChat;
use super::openai_responses::OpenaiResponses;
use super::retry::RetryPolicy;
use crate::clock::Clock;
use crate::config::{Config, ModelConfig, ProviderConfig, Wire};

/// The demo's name, as a provider and as a model.
const DEMO: &str = "demo";
/// Tokens of the demo's pretended window.
const DEMO_WINDOW: u64 = 200_000;

/// Why a model cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// No provider of that name, or no name at all.
    #[error("no model {model}; models are named provider/name, known are {}", known.join(", "))]
    UnknownModel {
        /// What was asked for.
        model: String,
        /// What could be asked for.
        known: Vec<String>,
    },
    /// Its table is wrong.
    #[error("provider {provider} cannot be used: {what}")]
    Misconfigured {
        /// The provider's name.
        provider: String,
        /// The key and what is wrong with it.
        what: String,
    },
}

/// What is known about a model.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ModelFacts {
    /// Tokens it can read and write in one request.
    pub context_window: Option<u64>,
    /// The longest answer, in tokens.
    pub max_output_tokens: Option<u64>,
    /// What it costs.
    pub price: Option<Price>,
}

impl ModelFacts {
    /// These, and `others` where these say nothing.
    #[must_use]
    fn or(self, others: Self) -> Self {
        Self {
            context_window: self.context_window.or(others.context_window),
            max_output_tokens: self.max_output_tokens.or(others.max_output_tokens),
            price: self.price.or(others.price),
        }
    }

    /// The usage of one request with its cost, where the price is known.
    pub fn priced(&self, usage: Usage) -> Usage {
        let Some(price) = &self.price else { return usage };
        let plain = usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_write);
        let per_million = [
            (plain, price.input),
            (usage.cache_read, price.cached_input),
            (usage.cache_write, price.cache_write),
            (usage.output, price.output),
        ];
        #[expect(clippy::cast_precision_loss, reason = "2^53 tokens are beyond any bill")]
        let cost: f64 = per_million.iter().map(|(tokens, usd)| *tokens as f64 * usd).sum();
        Usage { cost_usd: Some(cost / 1_000_000.0), ..usage }
    }
}

impl From<&ModelConfig> for ModelFacts {
    fn from(config: &ModelConfig) -> Self {
        Self {
            context_window: config.context_window,
            max_output_tokens: config.max_output_tokens,
            price: config.price,
        }
    }
}

/// A model that can be used.
#[derive(Clone)]
pub struct Selected {
    /// `provider/name`.
    pub id: String,
    /// Its provider.
    pub provider: Arc<dyn Provider>,
    /// Its name at the provider.
    pub name: String,
    /// What is known about it.
    pub facts: ModelFacts,
    /// The window that the configuration says it has, where its server said a smaller one.
    pub believed_window: Option<u64>,
    /// How requests to it are tried again.
    pub retry: RetryPolicy,
}

impl std::fmt::Debug for Selected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Selected")
            .field("id", &self.id)
            .field("facts", &self.facts)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

/// The providers of one configuration. A reload makes another ([`Providers::renewed`]).
pub struct Providers {
    entries: BTreeMap<String, Entry>,
    default: Option<String>,
    clock: Clock,
}

struct Entry {
    provider: Result<Arc<dyn Provider>, SelectError>,
    models: BTreeMap<String, ModelFacts>,
    retry: RetryPolicy,
    lessons: Lessons,
    /// What the lessons are about: another wire or address is another server.
    server: (Wire, Option<String>),
    /// Where it is, without a port.
    host: String,
}

impl std::fmt::Debug for Providers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Providers").field(&self.known_models()).finish()
    }
}

impl Providers {
    /// Makes the providers. Does no I/O: keys, certificates and connections come with the first
    /// request.
    pub fn new(config: &Config, clock: &Clock) -> Self {
        Self::with(config, clock, |_, _| Lessons::default())
    }

    /// The providers of a configuration that was read again. What refusals taught is kept, where
    /// the provider is at the same address.
    #[must_use]
    pub fn renewed(&self, config: &Config) -> Self {
        Self::with(config, &self.clock, |name, config| match self.entries.get(name) {
            Some(known) if known.server == server(config) => known.lessons.clone(),
            Some(_) | None => Lessons::default(),
        })
    }

    fn with(
        config: &Config,
        clock: &Clock,
        lessons: impl Fn(&str, &ProviderConfig) -> Lessons,
    ) -> Self {
        let mut transports = Transports::default();
        let mut entry = |name: &String, config: &ProviderConfig| {
            let lessons = lessons(name, config);
            let provider = provider(name, config, &mut transports, lessons.clone(), clock);
            (name.clone(), Entry::new(provider, config, lessons))
        };
        let mut entries: BTreeMap<String, Entry> =
            config.providers.iter().map(|(name, config)| entry(name, config)).collect();
        let demo = entries.entry(DEMO.to_owned()).or_insert_with(|| {
            let config = ProviderConfig { wire: Wire::Demo, ..ProviderConfig::default() };
            entry(&DEMO.to_owned(), &config).1
        });
        demo.models.entry(DEMO.to_owned()).or_insert(ModelFacts {
            context_window: Some(DEMO_WINDOW),
            max_output_tokens: None,
            price: Some(Price::default()),
        });
        Self { entries, default: config.model.clone(), clock: clock.clone() }
    }

    /// The model of new sessions, if one is configured.
    pub fn default_model(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// The model named `provider/name`.
    pub fn get(&self, model: &str) -> Result<Selected, SelectError> {
        let unknown =
            || SelectError::UnknownModel { model: model.to_owned(), known: self.known_models() };
        let (provider, name) = model.split_once('/').ok_or_else(unknown)?;
        let entry = self.entries.get(provider).ok_or_else(unknown)?;
        if name.trim().is_empty() || (provider == DEMO && !entry.models.contains_key(name)) {
            return Err(unknown());
        }
        let facts = entry.facts(name);
        let believed = entry.configured(name).context_window;
        Ok(Selected {
            id: model.to_owned(),
            provider: entry.provider.clone()?,
            name: name.to_owned(),
            facts,
            believed_window: believed.filter(|_| believed > facts.context_window),
            retry: entry.retry,
        })
    }

    /// The models that are configured, by name; the default one also where nothing more is said of
    /// it.
    pub fn list(&self) -> ModelListResult {
        let configured = self.entries.iter().flat_map(|(provider, entry)| {
            entry.models.keys().map(move |name| entry.model(provider, name))
        });
        let mut models: Vec<Model> = configured.collect();
        if let Some(default) = &self.default
            && let Some((provider, name)) = default.split_once('/')
            && let Err(place) = models.binary_search_by(|model| {
                (model.provider.as_str(), model.name.as_str()).cmp(&(provider, name))
            })
        {
            let model = match self.entries.get(provider) {
                Some(entry) => entry.model(provider, name),
                None => model(provider, name, ModelFacts::default()),
            };
            models.insert(place, model);
        }
        ModelListResult { models, failures: Vec::new(), default: self.default.clone() }
    }

    /// The same with what the providers say they have, all asked at once.
    pub async fn probe(&self) -> ModelListResult {
        let mut list = self.list();
        let asked = self.entries.iter().map(|(name, entry)| async move {
            let models = match &entry.provider {
                Ok(provider) => provider.models().await.map_err(|error| error.message),
                Err(error) => Err(error.to_string()),
            };
            (name, models)
        });
        for (provider, models) in futures_util::future::join_all(asked).await {
            match models {
                Ok(names) => {
                    for name in names.unwrap_or_default() {
                        let id = format!("{provider}/{name}");
                        if list.models.iter().all(|model| model.id != id) {
                            list.models.push(self.entries[provider].model(provider, &name));
                        }
                    }
                }
                Err(message) => {
                    list.failures.push(ProbeFailure { provider: provider.clone(), message });
                }
            }
        }
        let key = |model: &Model| (model.provider.clone(), model.name.clone());
        list.models.sort_by_cached_key(key);
        list
    }

    /// The names of the configured models.
    pub fn known_models(&self) -> Vec<String> {
        self.list().models.into_iter().map(|model| model.id).collect()
    }
}

impl Entry {
    fn new(
        provider: Result<Arc<dyn Provider>, SelectError>,
        config: &ProviderConfig,
        lessons: Lessons,
    ) -> Self {
        let facts = |(name, model): (&String, &ModelConfig)| (name.clone(), model.into());
        Self {
            provider,
            models: config.models.iter().map(facts).collect(),
            retry: RetryPolicy { max_retries: config.max_retries, max_wait: config.max_retry_wait },
            lessons,
            server: server(config),
            host: host(config).unwrap_or_default(),
        }
    }

    fn model(&self, provider: &str, name: &str) -> Model {
        model(provider, name, self.facts(name))
    }

    /// What the configuration says of a model, or else the table.
    fn configured(&self, model: &str) -> ModelFacts {
        let facts = self.models.get(model).copied().unwrap_or_default();
        facts.or(facts::built_in(&self.host, model))
    }

    /// What is known of a model: what is configured, else what is built in. The window is the one
    /// that its server said, if that is smaller.
    fn facts(&self, model: &str) -> ModelFacts {
        let facts = self.configured(model);
        let windows = [facts.context_window, self.lessons.window(model)];
        ModelFacts { context_window: windows.into_iter().flatten().min(), ..facts }
    }
}

fn model(provider: &str, name: &str, facts: ModelFacts) -> Model {
    Model {
        id: format!("{provider}/{name}"),
        provider: provider.to_owned(),
        name: name.to_owned(),
        context_window: facts.context_window,
        price: facts.price,
    }
}

fn host(config: &ProviderConfig) -> Option<String> {
    let url = reqwest::Url::parse(config.base_url.as_deref()?).ok()?;
    url.host_str().map(str::to_owned)
}

fn server(config: &ProviderConfig) -> (Wire, Option<String>) {
    (config.wire, config.base_url.clone())
}

fn provider(
    name: &str,
    config: &ProviderConfig,
    transports: &mut Transports,
    lessons: Lessons,
    clock: &Clock,
) -> Result<Arc<dyn Provider>, SelectError> {
    fn made<P: Provider>(made: Result<P, String>) -> Result<Arc<dyn Provider>, String> {
        made.map(|provider| Arc::new(provider) as Arc<dyn Provider>)
    }
    let clock = clock.clone();
    let made = match config.wire {
        Wire::OpenaiChat => made(OpenaiChat::new(name, config, transports, lessons, clock)),
        Wire::OpenaiResponses => {
            made(OpenaiResponses::new(name, config, transports, lessons, clock))
        }
        Wire::AnthropicMessages => {
            made(AnthropicMessages::new(name, config, transports, lessons, clock))
        }
        Wire::Demo => made(Ok(Demo::new(clock))),
    };
    made.map_err(|what| SelectError::Misconfigured { provider: name.to_owned(), what })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(base_url: &str) -> ProviderConfig {
        ProviderConfig { base_url: Some(base_url.to_owned()), ..ProviderConfig::default() }
    }

    fn providers() -> Providers {
        let mut local = at("http://127.0.0.1:8080/v1");
        local.max_retries = 2;
        local.models.insert(
            "org/qwen".to_owned(),
            ModelConfig { context_window: Some(32_768), ..ModelConfig::default() },
        );
        let mut anthropic = at("http://127.0.0.1");
        anthropic.wire = Wire::AnthropicMessages;
        let config = Config {
            model: Some("local/org/qwen".to_owned()),
            providers: BTreeMap::from([
                ("local".to_owned(), local),
                ("anthropic".to_owned(), anthropic),
                ("broken".to_owned(), at("nowhere")),
            ]),
            ..Config::default()
        };
        Providers::new(&config, &Clock::manual())
    }

    #[test]
    fn a_name_is_cut_at_its_first_slash() {
        let selected = providers().get("local/org/qwen").expect("it is configured");
        assert_eq!((selected.id.as_str(), selected.name.as_str()), ("local/org/qwen", "org/qwen"));
        assert_eq!(selected.facts.context_window, Some(32_768));
        assert_eq!(selected.retry.max_retries, 2);
    }

    #[test]
    fn a_model_without_a_table_has_no_facts() {
        let selected = providers().get("local/other").expect("the provider is configured");
        assert_eq!(selected.facts, ModelFacts::default());
    }

    #[test]
    fn the_demo_is_always_there() {
        let providers = providers();
        assert!(providers.get("demo/demo").is_ok());
        assert_eq!(providers.default_model(), Some("local/org/qwen"));
        let bare = Providers::new(&Config::default(), &Clock::manual());
        assert!(bare.get("demo/demo").is_ok());
        assert_eq!(bare.default_model(), None);
    }

    #[test]
    fn unknown_models_name_the_known_ones() {
        let known = vec!["demo/demo".to_owned(), "local/org/qwen".to_owned()];
        for model in ["", "qwen", "other/qwen", "local/", "demo/other", "/qwen"] {
            let error = providers().get(model).expect_err("nobody has it");
            let expected =
                SelectError::UnknownModel { model: model.to_owned(), known: known.clone() };
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn what_cannot_be_used_says_why_and_costs_nothing_else() {
        assert!(providers().get("anthropic/claude").is_ok());
        let error = providers().get("broken/x").expect_err("no address");
        assert!(error.to_string().contains("`base_url`"), "{error}");
    }

    #[test]
    fn what_is_built_in_fills_what_is_not_configured() {
        let mut openai = at("https://api.openai.com/v1");
        let price = Price { input: 7.0, ..Price::default() };
        let own = ModelConfig { price: Some(price), ..ModelConfig::default() };
        openai.models.insert("gpt-5".to_owned(), own);
        let config = Config {
            model: Some("openai/gpt-5-mini".to_owned()),
            providers: BTreeMap::from([("openai".to_owned(), openai)]),
            ..Config::default()
        };
        let providers = Providers::new(&config, &Clock::manual());
        let facts = |model| providers.get(model).expect("it is configured").facts;
        assert_eq!(facts("openai/gpt-5").context_window, Some(400_000));
        assert_eq!(facts("openai/gpt-5").price, Some(price));
        assert!(facts("openai/gpt-5-mini").price.is_some());
        assert_eq!(facts("openai/other"), ModelFacts::default());
        let listed = providers.list().models;
        assert!(listed.iter().any(|m| m.name == "gpt-5-mini" && m.price.is_some()), "{listed:?}");
    }

    #[test]
    fn models_are_listed_with_the_default() {
        let list = providers().list();
        let ids: Vec<_> = list.models.iter().map(|model| model.id.as_str()).collect();
        assert_eq!(ids, ["demo/demo", "local/org/qwen"]);
        assert_eq!(list.default.as_deref(), Some("local/org/qwen"));
        let mut bare = providers();
        bare.default = Some("local/another".to_owned());
        assert_eq!(bare.known_models(), ["demo/demo", "local/another", "local/org/qwen"]);
    }

    #[test]
    fn lessons_outlive_a_reload_at_the_same_address() {
        let config = |url: &str| Config {
            providers: BTreeMap::from([("local".to_owned(), at(url))]),
            ..Config::default()
        };
        let here = config("http://127.0.0.1:1/v1");
        let first = Providers::new(&here, &Clock::manual());
        first.entries["local"].lessons.learn_window("m", 8_192);
        let window = |providers: &Providers| {
            providers.get("local/m").expect("it is configured").facts.context_window
        };
        let mut known = here.clone();
        let table = ModelConfig { context_window: Some(65_536), ..ModelConfig::default() };
        let local = known.providers.get_mut("local").expect("it is configured");
        local.models.insert("m".to_owned(), table);
        let selected = first.renewed(&known).get("local/m").expect("it is configured");
        let windows = (selected.facts.context_window, selected.believed_window);
        assert_eq!(windows, (Some(8_192), Some(65_536)));
        let reloaded = first.renewed(&here);
        assert_eq!(window(&reloaded), Some(8_192));
        assert_eq!(window(&reloaded.renewed(&config("http://127.0.0.1:2/v1"))), None);
    }

    #[test]
    fn usage_is_priced_by_kind_of_token() {
        let price = Price { input: 2.0, cached_input: 0.5, cache_write: 3.0, output: 10.0 };
        let facts = ModelFacts { price: Some(price), ..ModelFacts::default() };
        let usage = Usage {
            input: 1_000_000,
            output: 100_000,
            cache_read: 400_000,
            cache_write: 100_000,
            ..Usage::default()
        };
        let cost = facts.priced(usage).cost_usd.expect("the price is known");
        assert!((cost - (1.0 + 0.2 + 0.3 + 1.0)).abs() < 1e-9, "{cost}");
        assert_eq!(ModelFacts::default().priced(usage), usage);
    }
}
