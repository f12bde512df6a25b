//! `pillion why`: of every SidecarSet whether it is injected, and where each value comes from.

mod running;
mod text;

use jiff::Timestamp;
use pillion_admission::Why;
use pillion_preview::Drift;
use serde::Serialize;

use crate::inject::refusal;
use crate::offline::Inputs;

pub(crate) use running::explain_running;
pub use text::text;

/// The explanation of one object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `Kind/name`.
    pub object: String,
    /// Its namespace, if it is an object of a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What else is to be known of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The explanation.
    #[serde(flatten)]
    pub why: Why,
    /// For a running pod, what it has beside what it would get today.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// For a workload of a cluster, the same of each of its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<Vec<PodDrift>>,
}

/// One pod of a workload.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDrift {
    /// The pod.
    pub pod: String,
    /// What it has beside what it would get today.
    #[serde(flatten)]
    pub drift: Drift,
}

impl Explanation {
    /// That of a manifest.
    fn of_manifest(object: String, why: Why) -> Explanation {
        Explanation { object, namespace: None, remarks: Vec::new(), why, drift: None, pods: None }
    }
}

/// Explains every object that has a pod in it.
///
/// # Errors
/// Every pod that is malformed, with its place in its file.
pub fn explain(inputs: &Inputs, now: Timestamp) -> Result<Vec<Explanation>, Vec<String>> {
    let mut explanations = Vec::new();
    let mut errors = Vec::new();
    for document in &inputs.objects {
        match inputs.offline.why(&document.value, now) {
            Ok(None) => {}
            Ok(Some(why)) => explanations.push(Explanation::of_manifest(document.title(), why)),
            Err(error) => errors.push(refusal(document, &error)),
        }
    }
    if errors.is_empty() { Ok(explanations) } else { Err(errors) }
}
