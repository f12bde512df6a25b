//! What goes wrong in an evaluation.

/// Why an evaluation gives no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// In cel-go's words.
    Error(String),
    /// It cost more than it may.
    CostLimit,
}

impl Fault {
    pub(crate) fn error(message: impl Into<String>) -> Fault {
        Fault::Error(message.into())
    }

    pub(crate) fn no_such_overload() -> Fault {
        Fault::error("no such overload")
    }

    pub(crate) fn message(&self) -> &str {
        match self {
            Fault::Error(message) => message,
            Fault::CostLimit => "operation cancelled: actual cost limit exceeded",
        }
    }
}
