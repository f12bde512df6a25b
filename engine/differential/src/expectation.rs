//! What an answer is expected to be: a status, and values at JSON pointers.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// What an answer is expected to be. In the corpus a number, or a map from `status` and JSON pointers to values; the
/// value null stands for "not there".
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expectation {
    status: Option<u16>,
    values: IndexMap<String, Value>,
}

impl Expectation {
    /// A status and nothing else.
    pub(crate) fn of_status(status: u16) -> Self {
        Self { status: Some(status), values: IndexMap::new() }
    }

    /// The status, if that is said.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// What is not as expected, when `filled` has put values for variables.
    pub(crate) fn unmet(&self, status: u16, body: &Value, filled: impl Fn(&Value) -> Value) -> Option<Unmet> {
        if let Some(wanted) = self.status.filter(|wanted| *wanted != status) {
            return Some(Unmet { at: "status".to_owned(), wanted: wanted.into(), found: status.into() });
        }
        self.values.iter().find_map(|(pointer, wanted)| {
            let (wanted, found) = (filled(wanted), body.pointer(pointer).cloned().unwrap_or_default());
            (found != wanted).then(|| Unmet { at: pointer.clone(), wanted, found })
        })
    }
}

/// One expectation that an answer does not meet.
#[derive(Debug, Clone, PartialEq)]
pub struct Unmet {
    at: String,
    wanted: Value,
    found: Value,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, expected {}", self.at, self.found, self.wanted)
    }
}

impl<'de> Deserialize<'de> for Expectation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Status(u16),
            Values(IndexMap<String, Value>),
        }
        Ok(match Form::deserialize(deserializer)? {
            Form::Status(status) => Self::of_status(status),
            Form::Values(mut values) => {
                let status = values.shift_remove("status").and_then(|status| status.as_u64());
                Self { status: status.and_then(|status| u16::try_from(status).ok()), values }
            }
        })
    }
}
