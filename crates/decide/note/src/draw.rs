//! Inputs of a decision that a pure function cannot obtain itself.

use std::collections::BTreeMap;

/// What the caller obtained before the decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draw {
    /// A uniformly distributed random number, for `policy: Partial`.
    pub random: u64,
    /// For each SidecarSet with `policy: Quota`, whether this pod was granted a place in its partition. A set that is not
    /// listed is decided as for its first pod: granted if its partition keeps any pod at all.
    pub quota: BTreeMap<String, bool>,
    /// The id under which places were granted. It is written on a pod that takes one, so that the watch can confirm the place.
    pub place: Option<String>,
    /// Kind and name of the workload that the pod belongs to, for autoscalers. `None` for a pod that has no controller, or if nobody looked.
    pub workload: Option<(String, String)>,
}
