//! Why a reconciliation fails.

/// Why a reconciliation failed; it is tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The API server refused.
    #[error("the API server refused")]
    Api(#[from] kube::Error),
    /// An object cannot be understood; it was written by something that does not check.
    #[error("{0}")]
    Object(String),
}

impl Error {
    /// The words of the API server, where they are the reason.
    pub(crate) fn message(&self) -> String {
        match self {
            Error::Api(kube::Error::Api(status)) => status.message.clone(),
            Error::Api(error) => error.to_string(),
            Error::Object(message) => message.clone(),
        }
    }

    /// Whether the object is gone.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Error::Api(kube::Error::Api(status)) if status.is_not_found())
    }
}
