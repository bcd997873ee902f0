//! The tools there are, and the way from a model's words to one of them.
//!
//! Arguments are checked against the tool's schema before anything else sees them. A mistake is
//! answered in words that let the model put it right: the nearest tool, the parameters there are.
//!
//! Receives names and arguments from `session`; hands it tools and what their calls would be.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

use super::background::Background;
use super::builtin;
use super::process::Launchers;
use super::{Prepared, Tool, ToolContext, ToolSpec};

/// Below this a name is not like another.
const LIKE: f64 = 0.7;

/// The tools of a daemon. Cheap to clone.
#[derive(Clone)]
pub struct Tools {
    registered: Arc<[Registered]>,
    background: Background,
}

struct Registered {
    tool: Arc<dyn Tool>,
    arguments: Validator,
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.specs().map(|spec| &spec.name)).finish()
    }
}

impl Tools {
    /// The built-in tools. `launcher` is the program that starts processes for them when it is
    /// called with `--launcher`: agentd itself, [`crate::launcher::this_program`]. They bear the
    /// mark of the daemon of that id.
    pub fn builtin(launcher: PathBuf, daemon: &str) -> Self {
        let background = Background::new(Launchers::new(launcher, daemon));
        Self::with(builtin::all(&background), background)
    }

    /// These tools.
    #[cfg(test)]
    pub(crate) fn of(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self::with(tools, Background::new(Launchers::new(PathBuf::new(), "dmn_none")))
    }

    fn with(tools: Vec<Arc<dyn Tool>>, background: Background) -> Self {
        Self { registered: tools.into_iter().map(Registered::new).collect(), background }
    }

    /// The commands that outlive their calls.
    pub fn background(&self) -> &Background {
        &self.background
    }

    /// What models are told about the tools, in a fixed order.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.registered.iter().map(|registered| registered.tool.spec())
    }

    /// The tool of this name.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.registered(name).map(|registered| &registered.tool)
    }

    /// Finds the tool, checks the arguments and says what the call would be. `Err` is a text for
    /// the model.
    pub fn prepare(
        &self,
        name: &str,
        arguments: &Value,
        context: &ToolContext,
    ) -> Result<(Arc<dyn Tool>, Prepared), String> {
        let registered = self.registered(name).ok_or_else(|| self.unknown(name))?;
        registered.check(arguments)?;
        let prepared = registered.tool.prepare(arguments, context)?;
        Ok((Arc::clone(&registered.tool), prepared))
    }

    fn registered(&self, name: &str) -> Option<&Registered> {
        self.registered.iter().find(|registered| registered.tool.spec().name == name)
    }

    fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.specs().map(|spec| spec.name.as_str()).collect();
        let meant = nearest(name, &names).map(|near| format!(" Did you mean {near}?"));
        let meant = meant.unwrap_or_default();
        format!("there is no tool {name:?}.{meant} The tools are: {}.", names.join(", "))
    }
}

impl Registered {
    fn new(tool: Arc<dyn Tool>) -> Self {
        let arguments = jsonschema::validator_for(&tool.spec().input_schema)
            .expect("the built-in tools' schemas are schemas");
        Self { tool, arguments }
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        let Value::Object(given) = arguments else {
            return Err(self.not_an_object(arguments));
        };
        let given = Value::Object(self.without_absent(given));
        let mistakes: Vec<String> = self
            .arguments
            .iter_errors(&given)
            .map(|error| match error.kind() {
                ValidationErrorKind::AdditionalProperties { unexpected } => {
                    self.unexpected(unexpected)
                }
                _ => match error.instance_path().as_str() {
                    "" => error.to_string(),
                    path => format!("{}: {error}", path.trim_start_matches('/')),
                },
            })
            .collect();
        if mistakes.is_empty() {
            return Ok(());
        }
        Err(format!("{}. {}", mistakes.join("; "), self.parameters()))
    }

    /// A `null` for a parameter that may be absent means that it is.
    fn without_absent(&self, given: &Map<String, Value>) -> Map<String, Value> {
        let required = self.tool.spec().input_schema["required"].as_array();
        let needed = |name: &str| required.is_some_and(|names| names.iter().any(|n| n == name));
        let kept = given.iter().filter(|(name, value)| !value.is_null() || needed(name));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn not_an_object(&self, arguments: &Value) -> String {
        let why = match arguments {
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                Err(error) => format!("the arguments are no JSON: {error}"),
                Ok(_) => "the arguments are no JSON object".to_owned(),
            },
            _ => "the arguments are no JSON object".to_owned(),
        };
        format!("{why}. {}", self.parameters())
    }

    fn unexpected(&self, names: &[String]) -> String {
        let known: Vec<&str> = self.properties().map(|(name, _)| name).collect();
        let mistakes: Vec<String> = names
            .iter()
            .map(|name| match nearest(name, &known) {
                Some(near) => format!("there is no parameter {name:?} (did you mean {near}?)"),
                None => format!("there is no parameter {name:?}"),
            })
            .collect();
        mistakes.join("; ")
    }

    /// `The parameters of read are: path (string, required), limit (integer), …`
    fn parameters(&self) -> String {
        let spec = self.tool.spec();
        let required = spec.input_schema["required"].as_array();
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|n| n == name));
        let mut properties: Vec<(&str, &Value)> = self.properties().collect();
        properties.sort_by_key(|(name, _)| !is_required(name));
        let parameters = properties.into_iter().map(|(name, schema)| {
            let kind = schema["type"].as_str().unwrap_or("any");
            format!("{name} ({kind}{})", if is_required(name) { ", required" } else { "" })
        });
        let parameters: Vec<String> = parameters.collect();
        format!("The parameters of {} are: {}.", spec.name, parameters.join(", "))
    }

    fn properties(&self) -> impl Iterator<Item = (&str, &Value)> {
        let properties = self.tool.spec().input_schema["properties"].as_object();
        properties.into_iter().flatten().map(|(name, schema)| (name.as_str(), schema))
    }
}

fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let name = name.to_lowercase();
    known
        .iter()
        .map(|other| (*other, strsim::jaro_winkler(&name, other)))
        .filter(|(_, likeness)| *likeness >= LIKE)
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(other, _)| other)
}
