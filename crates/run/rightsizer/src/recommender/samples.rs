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
    let mut key = String::new();
    write_pod_key(&mut key, namespace, pod);
    key
}

/// Writes [`pod_key`] in the place of what is in `key`: a pass over a large cluster needs one for each pod.
pub(crate) fn write_pod_key(key: &mut String, namespace: &str, pod: &str) {
    key.clear();
    key.extend([namespace, "/", pod]);
}
