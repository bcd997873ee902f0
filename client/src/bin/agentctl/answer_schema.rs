//! A JSON Schema that a run's last answer has to fit.
//!
//! The model is told with the prompt and reminded with the reason when its answer does not fit.
//! Models like to wrap JSON: an answer is taken for its last code block where it is not JSON as a
//! whole.
//!
//! Receives a schema's file and answers; hands back the value that fits, or why there is none.

use std::path::Path;

use anyhow::{Context, Result};
use jsonschema::Validator;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use serde_json::Value;

use crate::failure::Misuse;

/// What is told of an answer's faults.
const MAX_FAULTS: usize = 3;

/// A schema.
#[derive(Debug)]
pub(crate) struct AnswerSchema {
    text: String,
    validator: Validator,
}

impl AnswerSchema {
    /// Reads the schema in a file.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read the schema {}", file.display()))?;
        Self::new(&text).map_err(|fault| {
            Misuse(format!("{} is no JSON Schema: {fault}", file.display())).into()
        })
    }

    fn new(text: &str) -> Result<Self, String> {
        let schema: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let validator = jsonschema::validator_for(&schema).map_err(|error| error.to_string())?;
        Ok(Self { text: schema.to_string(), validator })
    }

    /// What the model is asked beside the prompt.
    pub(crate) fn request(&self) -> String {
        format!(
            "When you are done, answer with one JSON value and nothing else: no explanation, no \
             code fence. It has to fit this JSON Schema:\n{}",
            self.text
        )
    }

    /// What the model is told when its answer does not fit.
    pub(crate) fn reminder(&self, complaint: &str) -> String {
        format!("Your last answer does not fit: {complaint}.\n{}", self.request())
    }

    /// The value in an answer; `Err` says why there is none that fits.
    pub(crate) fn fitted(&self, answer: &str) -> Result<Value, String> {
        let whole = serde_json::from_str(answer.trim());
        let value: Value = match (whole, last_code_block(answer)) {
            (Ok(value), _) => value,
            (Err(_), Some(code)) => serde_json::from_str(code.trim())
                .map_err(|error| format!("its code block is no JSON ({error})"))?,
            (Err(error), None) => return Err(format!("it is no JSON ({error})")),
        };
        let faults = self.validator.iter_errors(&value).take(MAX_FAULTS);
        let faults: Vec<String> = faults
            .map(|fault| match fault.instance_path().as_str() {
                "" => fault.to_string(),
                path => format!("at {path}: {fault}"),
            })
            .collect();
        if faults.is_empty() { Ok(value) } else { Err(faults.join("; ")) }
    }
}

fn last_code_block(markdown: &str) -> Option<String> {
    let mut last = None;
    let mut inside = None;
    for event in Parser::new(markdown) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => inside = Some(String::new()),
            Event::End(TagEnd::CodeBlock) => last = inside.take(),
            Event::Text(text) => {
                if let Some(code) = &mut inside {
                    code.push_str(&text);
                }
            }
            _ => {}
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_fit_and_that_do_not() {
        let schema = r#"{"type": "object", "required": ["n"],
            "properties": {"n": {"type": "integer"}}}"#;
        let schema = AnswerSchema::new(schema).unwrap();
        for (answer, fits) in [
            (r#" {"n": 1} "#, Ok(())),
            ("Here it is:\n```json\n{\"n\": 1}\n```\nDone.", Ok(())),
            ("Done.", Err("no JSON")),
            ("```\nlet n = 1;\n```", Err("code block is no JSON")),
            (r#"{"n": "1"}"#, Err("at /n")),
            ("{}", Err("\"n\"")),
            ("", Err("no JSON")),
        ] {
            match (schema.fitted(answer), fits) {
                (Ok(value), Ok(())) => assert_eq!(value["n"], 1),
                (Err(complaint), Err(reason)) => {
                    assert!(complaint.contains(reason), "{answer}: {complaint}");
                }
                (outcome, _) => panic!("{answer}: {outcome:?}"),
            }
        }
        assert!(AnswerSchema::new(r#"{"type": "strange"}"#).is_err());
    }
}
