//! What was answered, normalised, and its form on disk.

use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::expectation::Unmet;

/// Everything that a server answered in a conversation, normalised.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    /// The conversation's name.
    pub conversation: String,
    /// The steps in the order in which they ended.
    pub exchanges: Vec<Exchange>,
}

/// One step: what was asked, as the corpus has it, and what was answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// The step's name.
    pub step: String,
    /// `METHOD /path?query`, with variables.
    pub request: String,
    /// The body that was sent, with variables.
    #[serde(skip)]
    pub sent: Option<String>,
    /// What was answered.
    #[serde(flatten)]
    pub answer: Answer,
    /// An expectation of the corpus that the answer does not meet.
    #[serde(skip)]
    pub unmet: Option<Unmet>,
}

/// A normalised answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    #[serde(default = "json", skip_serializing_if = "is_json")]
    pub content_type: String,
    /// The texts of the Warning headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Whether there is a Retry-After header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<String>,
    /// The body: JSON, or text as a string.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub body: Value,
    /// The events of a watch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Value>,
    /// How a watch ended, if not as it should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The webhooks that were called, by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviews: Vec<Value>,
}

fn json() -> String {
    "application/json".to_owned()
}

fn is_json(content_type: &str) -> bool {
    content_type == "application/json"
}

impl Transcript {
    /// Reads a recorded transcript.
    pub fn read(conversation: &str, file: &Path) -> anyhow::Result<Self> {
        let about = || format!("the record {} cannot be read", file.display());
        let text = std::fs::read_to_string(file).with_context(about)?;
        let options = serde_saphyr::options! { strict_booleans: true };
        let exchanges = serde_saphyr::from_str_with_options(&text, options).with_context(about)?;
        Ok(Self { conversation: conversation.to_owned(), exchanges })
    }

    /// Writes down what a server of this version answered.
    pub fn write(&self, file: &Path, version: &str) -> anyhow::Result<()> {
        let header = format!("# What kube-apiserver {version} answers. Written by `pillion-differential record`.\n");
        std::fs::write(file, header + &yaml(&self.exchanges)?)
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Expectations of the corpus that were not met: step and reason.
    pub fn unmet(&self) -> impl Iterator<Item = (&str, &Unmet)> {
        self.exchanges.iter().filter_map(|exchange| Some((exchange.step.as_str(), exchange.unmet.as_ref()?)))
    }
}

/// YAML with every text on its line, which is what a line by line difference wants.
pub(crate) fn yaml(value: &impl Serialize) -> anyhow::Result<String> {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    Ok(serde_saphyr::to_string_with_options(value, options)?)
}
