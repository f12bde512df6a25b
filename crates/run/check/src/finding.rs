//! What a check has found.

use std::fmt;

use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It is as it should be.
    Ok,
    /// It works, and the user should know.
    Warning,
    /// It needs action.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Ok => "ok",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked, such as `kubernetes` or `certificate`.
    pub check: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What was found.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The objects or fields that it is about, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

impl Finding {
    fn new(check: &'static str, severity: Severity, message: impl Into<String>) -> Finding {
        Finding { check, severity, message: message.into(), remedy: None, details: Vec::new() }
    }

    pub(crate) fn ok(check: &'static str, message: impl Into<String>) -> Finding {
        Finding::new(check, Severity::Ok, message)
    }

    pub(crate) fn warning(check: &'static str, message: impl Into<String>) -> Finding {
        Finding::new(check, Severity::Warning, message)
    }

    pub(crate) fn error(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding::new(check, Severity::Error, message).with_remedy(remedy)
    }

    /// Something could not be read.
    pub(crate) fn unread(check: &'static str, why: &str) -> Finding {
        Finding::warning(check, format!("not checked: {why}"))
    }

    pub(crate) fn with_remedy(mut self, remedy: impl Into<String>) -> Finding {
        self.remedy = Some(remedy.into());
        self
    }

    pub(crate) fn with_details(mut self, details: impl IntoIterator<Item = String>) -> Finding {
        self.details = details.into_iter().collect();
        self
    }
}

/// One line: severity, message, details, remedy.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8} {}", self.severity, self.message)?;
        if !self.details.is_empty() {
            write!(f, ": {}", self.details.join(", "))?;
        }
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}
