//! Parameters: one struct per method, with errors that name the field.
//!
//! Unknown parameters are errors, since a typing mistake must not pass silently; the nearest known
//! name is told with them. serde's texts are kept where they help a person and replaced where they
//! name Rust types.
//!
//! Receives parameters as they came from `dispatch`; hands checked structs to the handlers.

use agentd_protocol::error::{ErrorData, RpcError};
use agentd_protocol::method::TABLE;
use serde::de::DeserializeOwned;

/// How alike a name must be to be told as the nearest, 0 to 1.
const NEAR: f64 = 0.5;

/// Reads parameters. Absent ones are an empty object.
pub fn parse<T: DeserializeOwned>(params: Option<&str>) -> Result<T, RpcError> {
    let text = match params.map(str::trim_start) {
        None | Some("null") => "{}",
        Some(text) if text.starts_with('{') => text,
        Some(_) => {
            return Err(invalid(None, "the parameters must be an object: they are by name"));
        }
    };
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let at = error.path().to_string();
        explain(&at, &error.into_inner().to_string())
    })
}

/// An error about parameters; `field` is a path like `submission.op.content`.
pub fn invalid(field: Option<String>, message: impl Into<String>) -> RpcError {
    RpcError::new(ErrorData::InvalidParams { field }, message)
}

/// An error about a method that does not exist.
pub fn unknown_method(method: &str) -> RpcError {
    let nearest = nearest(method, TABLE.iter().map(|known| known.name));
    let shown: String = method.chars().take(100).collect();
    let message = match nearest {
        Some(nearest) => format!("there is no method `{shown}`: did you mean `{nearest}`?"),
        None => format!("there is no method `{shown}`: `rpc.discover` lists them"),
    };
    let nearest = nearest.map(str::to_owned);
    RpcError::new(ErrorData::MethodNotFound { method: shown, nearest }, message)
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (strsim::normalized_damerau_levenshtein(name, known), known))
        .filter(|(likeness, _)| *likeness > NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// Turns serde's words into a field and a sentence.
fn explain(at: &str, text: &str) -> RpcError {
    // The position is one of the parameters alone, which no client can see.
    let text = text.rsplit_once(" at line ").map_or(text, |(text, _)| text);
    // serde quotes names: the wrong or missing one first, then those it knows.
    let mut names = text.split('`').skip(1).step_by(2);
    let name = names.next().unwrap_or_default();
    let path = if at == "." { "" } else { at };
    if text.starts_with("unknown field") {
        let field = ending_in(path, name);
        let known: Vec<&str> = names.collect();
        let message = match nearest(name, known.iter().copied()) {
            Some(nearest) => format!("there is no parameter `{field}`: did you mean `{nearest}`?"),
            None if known.is_empty() => format!("there is no parameter `{field}`: none is taken"),
            None => {
                format!("there is no parameter `{field}`: known here are {}", known.join(", "))
            }
        };
        return invalid(Some(field), message);
    }
    if text.starts_with("missing field") {
        let field = ending_in(path, name);
        let message = format!("the parameter `{field}` is missing");
        return invalid(Some(field), message);
    }
    let field = (!path.is_empty()).then(|| path.to_owned());
    let subject = field.as_ref().map_or_else(
        || "the parameters are wrong".to_owned(),
        |field| format!("the parameter `{field}` is wrong"),
    );
    if text.starts_with("unknown variant") {
        let known: Vec<&str> = names.collect();
        let message = format!("{subject}: `{name}` is none of {}", known.join(", "));
        return invalid(field, message);
    }
    invalid(field, format!("{subject}: {}", without_types(text)))
}

fn ending_in(path: &str, name: &str) -> String {
    if path.is_empty() {
        return name.to_owned();
    }
    if path == name || path.ends_with(&format!(".{name}")) {
        return path.to_owned();
    }
    format!("{path}.{name}")
}

/// serde's text without the names of Rust types.
fn without_types(text: &str) -> String {
    match text.split_once(", expected ") {
        Some((what, expected)) => {
            let expected = match expected.split(' ').next() {
                Some("struct" | "enum" | "variant" | "internally" | "adjacently" | "unit") => {
                    "an object"
                }
                _ => expected,
            };
            format!("{what}, expected {expected}")
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
