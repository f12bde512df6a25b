//! What a SidecarSet means where it is silent, written into it.
//!
//! The hashes cover defaulted containers, so this sets what Kruise's webhook sets and nothing more: one default too
//! many in a container, and every running pod would stop being upgradable the day its cluster moves over. Hence what
//! Kruise leaves alone stays absent here too (`startupProbe`, the `service` of a gRPC probe, and every field of our
//! own); validation takes the absent value for its default, and the API server fills it in when it sees the pod.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pillion_quantity::{Quantity, Scale};
use pillion_rules::pod::{apply_basic_container_defaults, apply_basic_volume_defaults};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    InjectRevisionPolicy, PatchPolicy, PodInjectPolicy, SharePolicy, SidecarContainer, SidecarSet, UpdateStrategyType,
    UpgradeType, hash, hash_without_image,
};
use crate::names;

/// What the mutating webhook does to a SidecarSet: defaults, then both hash annotations, whatever they were before.
pub fn prepare(set: &mut SidecarSet) {
    apply_defaults(set);
    let hashes = [(names::HASH, hash(set)), (names::HASH_WITHOUT_IMAGE, hash_without_image(set))];
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.extend(hashes.map(|(key, hash)| (key.to_owned(), hash)));
}

/// Sets a field that is absent or blank. In Go, and so in Kruise, the empty string is the absent value.
macro_rules! default_to {
    ($field:expr, $type:ident::$value:ident) => {
        match &$field {
            None => $field = Some($type::$value),
            Some($type::Unknown(text)) if text.is_empty() => $field = Some($type::$value),
            Some(_) => {}
        }
    };
}

/// Writes Kruise's defaults into a SidecarSet. Applying them twice is applying them once.
pub fn apply_defaults(set: &mut SidecarSet) {
    let spec = &mut set.spec;

    let strategy = &mut spec.update_strategy;
    default_to!(strategy.strategy, UpdateStrategyType::RollingUpdate);
    strategy.max_unavailable.get_or_insert(IntOrString::Int(1));
    strategy.partition.get_or_insert(IntOrString::Int(0));
    spec.revision_history_limit.get_or_insert(10);
    if let Some(revision) = &mut spec.injection_strategy.revision {
        default_to!(revision.policy, InjectRevisionPolicy::Always);
    }
    for patch in &mut spec.patch_pod_metadata {
        default_to!(patch.patch_policy, PatchPolicy::Retain);
    }

    for container in &mut spec.init_containers {
        default_to!(container.pod_inject_policy, PodInjectPolicy::AfterAppContainer);
        apply_container_defaults(container);
    }
    for container in &mut spec.containers {
        default_to!(container.pod_inject_policy, PodInjectPolicy::BeforeAppContainer);
        apply_container_defaults(container);
    }
    for volume in &mut spec.volumes {
        apply_basic_volume_defaults(volume);
    }
}

fn apply_container_defaults(container: &mut SidecarContainer) {
    default_to!(container.upgrade_strategy.upgrade_type, UpgradeType::ColdUpgrade);
    default_to!(container.share_volume_policy.policy, SharePolicy::Disabled);
    let sources = container.transfer_env.iter_mut().filter_map(|env| env.source_container_name_from.as_mut());
    for field_ref in sources.filter_map(|source| source.field_ref.as_mut()) {
        if field_ref.api_version.as_deref().unwrap_or_default().is_empty() {
            field_ref.api_version = Some("v1".to_owned());
        }
    }
    // Kruise's CRD has this default, so its webhook hashes it.
    if let Some(policy) = &mut container.resources_policy {
        policy.target_containers_name_regex.get_or_insert_with(|| ".*".to_owned());
    }
    let container = &mut container.container;
    apply_basic_container_defaults(container);
    if let Some(resources) = container.get_mut("resources") {
        for list in ["limits", "requests"] {
            round_up_to_milli(resources.get_mut(list));
        }
    }
}

/// Kubernetes keeps no quantity finer than a thousandth. Any other text stays as it was written.
fn round_up_to_milli(resources: Option<&mut Value>) {
    for value in resources.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        let Ok(quantity) = Quantity::deserialize(&*value) else { continue };
        let rounded = quantity.round_up(Scale::Milli);
        if rounded != quantity {
            *value = Value::String(rounded.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sidecarset::decode;

    fn set(spec: &Value) -> SidecarSet {
        decode(json!({"apiVersion": names::V1BETA1, "kind": "SidecarSet", "metadata": {"name": "test"}, "spec": spec}))
            .unwrap()
    }

    fn defaulted(spec: &Value) -> Value {
        let mut set = set(spec);
        apply_defaults(&mut set);
        let mut again = set.clone();
        apply_defaults(&mut again);
        assert_eq!(set, again, "defaults are the same the second time");
        serde_json::to_value(set.spec).unwrap()
    }

    /// The row of Kruise's `sidecarset_mutating_test.go`.
    #[test]
    fn a_prepared_set_has_the_hashes_of_kruise() {
        let mut set = set(&json!({
            "containers": [{"name": "dns-f", "image": "dns:1.0"}],
            "patchPodMetadata": [{"annotations": {"key1": "value1"}}],
            "injectionStrategy": {"revision": {"customVersion": "1"}},
        }));
        set.metadata.annotations = Some([(names::HASH.to_owned(), "what the user says".to_owned())].into());
        prepare(&mut set);
        assert_eq!(
            set.annotation(names::HASH),
            Some("6wbd76bd7984x24fb4f44fv9222cw9v9bcf85x766744wddd4zwx927zzz2zb684")
        );
        assert_eq!(
            set.annotation(names::HASH_WITHOUT_IMAGE),
            Some("82684vwf9d4cb4wz4vffx4ddfbb47ww4z4wwxdbwb8w2zbb7zvf4524cdd49bv94")
        );
        assert_eq!(set.spec.patch_pod_metadata[0].patch_policy, Some(PatchPolicy::Retain));
        let revision = set.spec.injection_strategy.revision.unwrap();
        assert_eq!(revision.policy, Some(InjectRevisionPolicy::Always));
    }

    /// What Kruise's own webhook answered for this set.
    #[test]
    fn every_default_that_is_hashed_is_the_one_of_kruise() {
        let mut set = set(&json!({
            "containers": [{
                "name": "proxy",
                "image": "envoy",
                "args": ["--a=<b>&c"],
                "ports": [{"containerPort": 15001, "hostPort": 0}],
                "env": [
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                ],
                "resources": {"limits": {"cpu": "1000m", "memory": "0.5Gi"}, "requests": {"cpu": "0.0001"}},
                "livenessProbe": {"httpGet": {"port": 15021}},
                "readinessProbe": {"grpc": {"port": 9000}, "periodSeconds": 0},
                "startupProbe": {"httpGet": {"port": 15021}},
                "lifecycle": {"preStop": {"httpGet": {"port": "admin"}}},
                "transferEnv": [{
                    "sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.labels['main']"}},
                    "envName": "ZONE",
                }],
            }, {
                "name": "agent",
                "image": "agent:1.0",
                "imagePullPolicy": "",
                "resourcesPolicy":
                    {"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "max(cpu*50%, 50m)"}}},
            }],
            "initContainers": [{
                "name": "native",
                "image": format!("native@sha256:{}", "a".repeat(64)),
                "restartPolicy": "Always",
                "podInjectPolicy": "",
            }],
        }));
        prepare(&mut set);
        assert_eq!(
            set.annotation(names::HASH),
            Some("w7248c9cx62f6c7wwf99xvfz72bd49dc29xvd4fxdf6ww6x2469d576ddz459d44")
        );
        assert_eq!(
            set.annotation(names::HASH_WITHOUT_IMAGE),
            Some("8wfwx52zz489w955bc2bvz9vzf44f8bzc2dz655db4c6zxzzc87bbx75c28ww5c8")
        );
    }

    #[test]
    fn an_empty_set_gets_its_strategy() {
        assert_eq!(
            defaulted(&json!({})),
            json!({
                "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": 1, "partition": 0},
            })
        );
    }

    #[test]
    fn what_is_blank_is_absent_and_what_is_wrong_stays() {
        let spec = defaulted(&json!({
            "updateStrategy": {"type": ""},
            "containers": [{"podInjectPolicy": "", "shareVolumePolicy": {"type": ""}, "upgradeStrategy": {"upgradeType": "Warm"}}],
            "initContainers": [{}],
        }));
        assert_eq!(spec["updateStrategy"]["type"], "RollingUpdate");
        assert_eq!(spec["containers"][0]["podInjectPolicy"], "BeforeAppContainer");
        assert_eq!(spec["containers"][0]["shareVolumePolicy"]["type"], "disabled");
        assert_eq!(spec["containers"][0]["upgradeStrategy"]["upgradeType"], "Warm");
        assert_eq!(spec["initContainers"][0]["podInjectPolicy"], "AfterAppContainer");
    }

    #[test]
    fn what_kruise_leaves_undefaulted_stays_so() {
        let container = json!({
            "startupProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"grpc": {"port": 80}},
            "transferEnv": [{"sourceContainerNameFrom": {}}],
            "sidecar": true,
        });
        let spec = defaulted(&json!({"containers": [container]}));
        let container = &spec["containers"][0];
        assert_eq!(container["startupProbe"], json!({"httpGet": {"port": 80}}));
        assert_eq!(container["readinessProbe"]["grpc"], json!({"port": 80}));
        assert_eq!(container["transferEnv"], json!([{"sourceContainerNameFrom": {}}]));
        assert_eq!(container.get("sidecarMode"), None);
    }

    #[test]
    fn only_a_quantity_finer_than_a_thousandth_is_rewritten() {
        let limits = json!({"cpu": "0.1005", "memory": "1024Mi", "example.com/a": 1.5, "example.com/b": "0.1m", "example.com/c": "x"});
        let container = json!({"resources": {"limits": limits}}).as_object().unwrap().clone();
        let mut container = SidecarContainer { container, ..SidecarContainer::default() };
        apply_container_defaults(&mut container);
        assert_eq!(
            container.container["resources"]["limits"],
            json!({"cpu": "101m", "memory": "1024Mi", "example.com/a": 1.5, "example.com/b": "1m", "example.com/c": "x"})
        );
    }

    #[test]
    fn volumes_get_their_modes_and_the_one_without_a_source_is_an_empty_dir() {
        let file = json!({"path": "a", "fieldRef": {"fieldPath": "metadata.name"}});
        let spec = defaulted(&json!({"volumes": [
            {"name": "nothing"},
            {"name": "host", "hostPath": {"path": "/a"}},
            {"name": "secret", "secret": {"secretName": "a"}},
            {"name": "config", "configMap": {"name": "a", "defaultMode": 0}},
            {"name": "downward", "downwardAPI": {"items": [file]}},
            {"name": "projected", "projected": {"sources": [
                {"downwardAPI": {"items": [file]}}, {"serviceAccountToken": {"path": "token"}}
            ]}},
            {"name": "newer", "cloud": {}},
        ]}));
        let file = json!({"path": "a", "fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}});
        assert_eq!(
            spec["volumes"],
            json!([
                {"name": "nothing", "emptyDir": {}},
                {"name": "host", "hostPath": {"path": "/a", "type": ""}},
                {"name": "secret", "secret": {"secretName": "a", "defaultMode": 420}},
                {"name": "config", "configMap": {"name": "a", "defaultMode": 0}},
                {"name": "downward", "downwardAPI": {"items": [file], "defaultMode": 420}},
                {"name": "projected", "projected": {"defaultMode": 420, "sources": [
                    {"downwardAPI": {"items": [file]}}, {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
                ]}},
                {"name": "newer", "cloud": {}},
            ])
        );
    }
}
