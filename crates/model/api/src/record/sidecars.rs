//! What admission made of a pod's marked sidecars: the annotation [`names::SIDECAR_RECORD`](crate::names::SIDECAR_RECORD).
//!
//! ```
//! use pillion_api::record::sidecars::{Method, SidecarRecord};
//!
//! let record = SidecarRecord { method: Method::Native, sidecars: vec!["proxy".into()], fail_pod: vec!["proxy".into()], ignore_errors: vec![] };
//! let text = record.to_string();
//! assert_eq!(text, r#"{"method":"Native","sidecars":["proxy"],"failPod":["proxy"]}"#);
//! assert_eq!(text.parse::<SidecarRecord>()?, record);
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the marked sidecars of a pod end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    /// They are native sidecars.
    Native,
    /// Their commands are wrapped by `pillion-wrap`.
    Wrap,
    /// The manager writes the pod's terminal phase.
    Phase,
}

/// What admission made of a pod's marked sidecars.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SidecarRecord {
    /// How they end.
    pub method: Method,
    /// Their names.
    pub sidecars: Vec<String>,
    /// Those whose error before the end of the work fails the pod, though the method alone would not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fail_pod: Vec<String>,
    /// Those whose errors never count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_errors: Vec<String>,
}

impl fmt::Display for SidecarRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for SidecarRecord {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<SidecarRecord, serde_json::Error> {
        serde_json::from_str(text)
    }
}
