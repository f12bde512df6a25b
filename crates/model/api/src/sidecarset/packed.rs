//! A SidecarSet at rest.

use std::sync::Arc;

use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict};

use super::SidecarSet;

/// What nearly every set has in it, as it is written. A compressed text refers to it instead of repeating it. Texts live no longer than
/// the process that packed them, so that this may change with every version.
const COMMON: &str = concat!(
    r#""observedGeneration":1,"matchedPods":0,"updatedPods":0,"readyPods":0,"latestRevision":","updatedReadyPods":0,"collisionCount":0,"#,
    r#"{"apiVersion":"apps.kruise.io/v1beta1","kind":"SidecarSet","metadata":{"annotations":{"kruise.io/sidecarset-hash":","#,
    r#""kruise.io/sidecarset-hash-without-image":"},"creationTimestamp":"2026-01-01T00:00:00Z","generation":1,"name":","uid":"},"#,
    r#""spec":{"selector":{"matchLabels":{"app":"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"}},"#,
    r#""initContainers":[{"restartPolicy":"Always","containers":[{"name":","image":","imagePullPolicy":"IfNotPresent","resources":{"#,
    r#""limits":{"cpu":","memory":"},"requests":{"cpu":","memory":"}},"terminationMessagePath":"/dev/termination-log","#,
    r#""terminationMessagePolicy":"File","volumeMounts":[{"name":","mountPath":"/"}],"env":[{"name":","value":"}],"ports":[{"containerPort":"#,
    r#""podInjectPolicy":"BeforeAppContainer","upgradeStrategy":{"upgradeType":"ColdUpgrade"},"shareVolumePolicy":{"type":"enabled"},"#,
    r#""shareVolumeDevicePolicy":{"type":"disabled"},"transferEnv":[{"sourceContainerName":","envNames":["resourcesPolicy":{"#,
    r#""targetContainersMode":"sum","targetContainersNameRegex":".*","resourcesExpr":{"limits":{"cpu":"max(cpu*50%, 50m)","memory":"#,
    r#""volumes":[{"name":","emptyDir":{}}],"updateStrategy":{"type":"RollingUpdate","partition":0,"maxUnavailable":1},"#,
    r#""injectionStrategy":{"paused":false},"revisionHistoryLimit":10},"status":{"#,
);

/// A text at rest: compressed, and shared by its clones. Equal texts are packed equally.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PackedText(Arc<[u8]>);

impl PackedText {
    fn new(text: &str) -> PackedText {
        PackedText(compress_prepend_size_with_dict(text.as_bytes(), COMMON.as_bytes()).into())
    }

    /// The text. What was packed can always be read.
    fn unpack(&self) -> Option<String> {
        String::from_utf8(decompress_size_prepended_with_dict(&self.0, COMMON.as_bytes()).ok()?).ok()
    }
}

/// A SidecarSet as compressed JSON, which takes a small part of the memory of the decoded one. Clones share it.
///
/// ```
/// use pillion_api::sidecarset::{Packed, SidecarSet};
/// let set = SidecarSet::default();
/// assert_eq!(Packed::new(&set).unpack(), Some(set));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed(PackedText);

impl Packed {
    /// Packs a set.
    pub fn new(set: &SidecarSet) -> Packed {
        // Every key is a string, so that there is no error.
        Packed(PackedText::new(&serde_json::to_string(set).unwrap_or_default()))
    }

    /// The set, equal to the one that was packed. What was packed can always be read.
    pub fn unpack(&self) -> Option<SidecarSet> {
        serde_json::from_str(&self.0.unpack()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sidecarset::{decode, prepare};

    #[test]
    fn any_text_comes_back_and_what_is_common_takes_little_room() {
        for text in ["", "a", COMMON, &COMMON.repeat(50), "\u{0}é✓", &"x".repeat(100_000)] {
            assert_eq!(PackedText::new(text).unpack().as_deref(), Some(text));
        }
        assert_eq!(PackedText::new("same"), PackedText::new("same"));
        assert!(PackedText::new(COMMON).0.len() < COMMON.len() / 20);
    }

    #[test]
    fn a_set_comes_back_as_it_was() {
        let mut set = decode(json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
            "metadata": {"name": "mesh", "uid": "1", "labels": {"a": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
                "namespaceSelector": {"matchLabels": {"tier": "gold"}},
                "initContainers": [{"name": "init", "restartPolicy": "Always", "x-future": [1, 2.5, 1e300, null]}],
                "containers": [{
                    "name": "proxy", "image": "proxy:\u{1}\"é", "shareVolumePolicy": {"type": "enabled"},
                    "transferEnv": [{"sourceContainerName": "app", "envNames": ["A"]}],
                    "resourcesPolicy": {"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu*50%"}}},
                    "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"},
                }],
                "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
                "updateStrategy": {"type": "RollingUpdate", "partition": "50%", "maxUnavailable": 3, "paused": true},
                "injectionStrategy": {"paused": true, "revision": {"revisionName": "mesh-1", "policy": "Odd"}},
                "injectStrategy": {"controllerRevision": "mesh-2"},
                "patchPodMetadata": [{"annotations": {"k": "v"}, "patchPolicy": "Overwrite"}],
                "imagePullSecrets": [{"name": "secret"}], "revisionHistoryLimit": 3, "customVersion": "v1",
                "shareProcessNamespace": true, "serviceAccount": {"name": "agent", "policy": "Required"},
            },
            "status": {"matchedPods": 5, "collisionCount": 1, "conditions": [{
                "type": "Blocked", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        }))
        .unwrap();
        prepare(&mut set);
        assert_eq!(Packed::new(&set).unpack(), Some(set));
    }
}
