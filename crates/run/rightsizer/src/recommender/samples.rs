//! One measurement of a container.

use std::borrow::Cow;

use jiff::Timestamp;

/// One measurement of a container. The names are those of the answer it was read from: nothing is copied for a pod that nobody sizes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample<'a> {
    pub(crate) namespace: Cow<'a, str>,
    pub(crate) pod: Cow<'a, str>,
    pub(crate) container: Cow<'a, str>,
    /// CPU, in thousandths of a core.
    pub(crate) millicores: Option<i64>,
    /// Memory, in bytes.
    pub(crate) bytes: Option<i64>,
    pub(crate) at: Timestamp,
}

/// The key of a pod in the history.
pub(crate) fn pod_key(namespace: &str, pod: &str) -> String {
    format!("{namespace}/{pod}")
}
