//! Whether a SidecarSet can be accepted, and what is wrong with it if not.
//!
//! The rules are those of Kruise's webhook and, for containers and volumes, those of the API server (`pillion-rules`), so that what
//! is accepted here is not refused when a pod is created. They are meant for a set whose defaults have been applied. A
//! field that Kruise leaves undefaulted counts as its default.
//!
//! ```
//! use pillion_api::sidecarset::{self, validation::Context};
//!
//! let mut set = sidecarset::decode(serde_json::json!({
//!     "apiVersion": "apps.kruise.io/v1beta1",
//!     "kind": "SidecarSet",
//!     "metadata": {"name": "mesh"},
//!     "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "proxy"}]}
//! }))?;
//! sidecarset::prepare(&mut set);
//! let errors = sidecarset::validate(&set, &Context::default());
//! assert_eq!(errors[0].to_string(), "spec.containers[0].image: Required value");
//! # Ok::<(), sidecarset::DecodeError>(())
//! ```

mod conflicts;
mod containers;
mod core;
mod metadata;
mod numbers;
mod patch_pod_metadata;
mod resources_policy;
mod role;
mod selectors;
mod strategies;

use super::{SidecarSet, SidecarSetSpec};
use crate::field::{Error, Path};

pub use conflicts::Neighbours;
pub use patch_pod_metadata::{Whitelist, WhitelistError};

/// What is known beside the SidecarSet itself. The default knows nothing, and what needs knowledge is not checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The other SidecarSets, all of them or those that [`Neighbours`] finds; the one in question may be among them.
    pub sets: Option<&'a [&'a SidecarSet]>,
    /// The revisions that the set has, and the one that it names if that belongs to another set.
    pub revisions: Option<&'a [Revision<'a>]>,
    /// Which annotations `patchPodMetadata` may write.
    pub whitelist: Option<&'a Whitelist>,
}

/// A ControllerRevision of a SidecarSet, by its names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revision<'a> {
    /// The ControllerRevision's name.
    pub name: &'a str,
    /// The user's own name for it.
    pub custom_version: Option<&'a str>,
    /// The other SidecarSet that it belongs to, if it does. Then it cannot be pinned.
    pub other_owner: Option<&'a str>,
}

/// What is wrong with a new SidecarSet.
pub fn validate(set: &SidecarSet, context: &Context<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    metadata::validate(&set.metadata, &mut errors);
    metadata::validate_canary(set, None, context, &mut errors);
    validate_spec(set, None, context, &mut errors);
    errors
}

/// What is wrong with a SidecarSet that replaces another.
///
/// A set whose spec stays as it is passes, even one that was accepted before a rule was made: else its labels could
/// not be changed any more, nor its finalizers removed. Numbers that are too small and implausible constants of `resourcesPolicy` pass as long
/// as they stay as they are, whatever else changes.
pub fn validate_update(new: &SidecarSet, old: &SidecarSet, context: &Context<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    metadata::validate(&new.metadata, &mut errors);
    let same_canary = new.canary_base() == old.canary_base();
    if same_canary && new.spec == old.spec {
        return errors;
    }
    metadata::validate_canary(new, Some(old), context, &mut errors);
    validate_spec(new, Some(&old.spec), context, &mut errors);
    containers::validate_update(&new.spec, &old.spec, &mut errors);
    errors
}

fn validate_spec(set: &SidecarSet, old: Option<&SidecarSetSpec>, context: &Context<'_>, errors: &mut Vec<Error>) {
    let (spec, path) = (&set.spec, Path::new("spec"));
    match &spec.selector {
        None => errors.push(Error::required(&path.child("selector"), "no selector defined for SidecarSet")),
        Some(selector) => selectors::validate(selector, &path.child("selector"), errors),
    }
    if let Some(selector) = &spec.namespace_selector {
        selectors::validate(selector, &path.child("namespaceSelector"), errors);
    }
    strategies::validate(spec, old, context, &path, errors);
    numbers::validate(spec, old, &path, errors);
    containers::validate(spec, old, errors);
    core::validate(spec, errors);
    patch_pod_metadata::validate(set, context.whitelist, &path.child("patchPodMetadata"), errors);
    if let Some(sets) = context.sets {
        conflicts::validate(set, sets, &path, errors);
    }
}

/// Refuses a value that an enumeration of ours does not know.
macro_rules! refuse_unknown {
    ($errors:expr, $path:expr, $value:expr, $type:ident) => {
        if let Some($crate::sidecarset::$type::Unknown(text)) = $value {
            let names = $crate::sidecarset::$type::NAMES;
            $errors.push($crate::field::Error::not_supported(&$path, text.as_str(), names));
        }
    };
}
use refuse_unknown;

/// Turns what a rule says about a value into an error.
fn check(rule: Result<(), String>, value: &str, path: &Path, errors: &mut Vec<Error>) {
    if let Err(reason) = rule {
        errors.push(Error::invalid(path, value, reason));
    }
}

#[cfg(test)]
mod testing {
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::sidecarset::apply_defaults;

    /// A container that passes, and that says all that defaults would say.
    pub(super) fn container(extra: Value) -> Value {
        let good = json!({
            "name": "test-sidecar",
            "image": "test-image",
            "imagePullPolicy": "IfNotPresent",
            "terminationMessagePolicy": "File",
            "podInjectPolicy": "BeforeAppContainer",
            "shareVolumePolicy": {"type": "disabled"},
            "upgradeStrategy": {"upgradeType": "ColdUpgrade"},
        });
        overlay(good, extra)
    }

    /// A set that passes, where `spec` does not say otherwise. Defaults are not applied.
    pub(super) fn set(name: &str, spec: Value) -> SidecarSet {
        let good = json!({"selector": {"matchLabels": {"app": "web"}}, "containers": [container(json!({}))]});
        serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "SidecarSet",
            "metadata": {"name": name},
            "spec": overlay(good, spec),
        }))
        .unwrap()
    }

    /// `null` takes a field away.
    fn overlay(below: Value, above: Value) -> Value {
        let [below, above]: [Map<String, Value>; 2] = [below, above].map(|json| serde_json::from_value(json).unwrap());
        let mut fields: Map<String, Value> = below.into_iter().chain(above).collect();
        fields.retain(|_, value| !value.is_null());
        Value::Object(fields)
    }

    pub(super) fn lines(errors: &[Error]) -> String {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    /// What is wrong with a set of this spec, after defaults.
    pub(super) fn errors(spec: Value) -> String {
        let mut set = set("test", spec);
        apply_defaults(&mut set);
        lines(&validate(&set, &Context::default()))
    }

    /// What is wrong with a set of this one container, after defaults.
    pub(super) fn container_errors(extra: Value) -> String {
        errors(json!({"containers": [container(extra)]}))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::testing::{container, container_errors, errors, lines, set};
    use super::*;
    use crate::sidecarset::{SidecarContainer, prepare};

    /// The rows of Kruise's `sidecarset_validating_test.go`, which applies no defaults. Where the number differs from
    /// Kruise's, the reason is behind it.
    #[test]
    fn sets_have_as_many_errors_as_kruise_says() {
        let not_update = json!({"type": "NotUpdate"});
        let bad_selector = json!({
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "app-name", "operator": "NotIn", "values": ["app-group", "app-risk-"]}],
        });
        let policy = json!({
            "targetContainersMode": "sum", "targetContainersNameRegex": ".*", "resourcesExpr": {"limits": {"cpu": "cpu*50%"}}
        });
        let device = json!([{"name": "disk0", "devicePath": "/home/admin/log"}]);
        let claim = json!({"name": "disk0", "persistentVolumeClaim": {"claimName": "pvc-0"}});
        let token = json!({"audience": "istio-ca", "expirationSeconds": 43200, "path": "istio-token"});
        let rows: [(&str, Value, usize); 20] = [
            ("missing selector", json!({"selector": null}), 1),
            (
                "duplicate scatter term",
                json!({"updateStrategy": {"type": "RollingUpdate", "scatterStrategy":
                    [{"key": "key-1", "value": "value-1"}, {"key": "key-1", "value": "value-1"}]}}),
                1,
            ),
            // Kruise reads a selector twice, and says twice what is wrong with it.
            ("bad selector value", json!({"selector": bad_selector}), 1),
            ("bad namespaceSelector value", json!({"namespaceSelector": bad_selector}), 1),
            ("good namespaceSelector", json!({"namespaceSelector": {"matchLabels": {"a": "b"}}}), 0),
            // Kruise does not look at podInjectPolicy and shareVolumePolicy of init containers.
            (
                "init container without image",
                json!({"containers": null, "initContainers": [{"name": "test-sidecar"}]}),
                3,
            ),
            ("no containers", json!({"containers": null}), 1),
            ("no shareVolumePolicy", json!({"containers": [container(json!({"shareVolumePolicy": null}))]}), 1),
            // One less than Kruise: without a source it is an empty directory, which Kruise's own defaults make of it, too.
            (
                "volume without source",
                json!({"volumes": [{"name": "test-volume"}, {"name": "istio-token", "projected":
                    {"defaultMode": 420, "sources": [{"serviceAccountToken": token}]}}]}),
                0,
            ),
            (
                "volume of a device is not declared",
                json!({"containers": [container(json!({"volumeDevices": device}))]}),
                1,
            ),
            (
                "volume of a device is declared",
                json!({"containers": [container(json!({"volumeDevices": device}))], "volumes": [claim]}),
                0,
            ),
            (
                "device and mount have the same path",
                json!({
                    "containers": [container(json!({
                        "volumeDevices": device, "volumeMounts": [{"name": "log", "mountPath": "/home/admin/log"}]
                    }))],
                    "volumes": [claim, {"name": "log", "emptyDir": {}}],
                }),
                2,
            ),
            (
                "the same annotation in two patches",
                json!({"patchPodMetadata": [
                    {"annotations": {"key1": "value1"}, "patchPolicy": "MergePatchJson"},
                    {"annotations": {"key1": "value1"}, "patchPolicy": "Overwrite"},
                ]}),
                // One more than Kruise: what is merged as JSON has to be JSON.
                2,
            ),
            (
                "customVersion not found",
                json!({"injectionStrategy": {"revision": {"customVersion": "normal-sidecarset-01234"}}}),
                1,
            ),
            (
                "revisionName not found",
                json!({"injectionStrategy": {"revision": {"revisionName": "test-sidecarset-678235", "policy": "Always"}}}),
                1,
            ),
            // Native sidecars are updated in place here.
            (
                "native sidecar and RollingUpdate",
                json!({"containers": null, "initContainers": [container(json!({"restartPolicy": "Always"}))]}),
                0,
            ),
            (
                "resources and resourcesPolicy",
                json!({"containers": [container(json!({
                    "resources": {"limits": {"cpu": "100m", "memory": "100Mi"}}, "resourcesPolicy": policy
                }))]}),
                1,
            ),
            (
                "unknown mode",
                json!({"containers": [container(json!({"resourcesPolicy":
                    {"targetContainersMode": "invalid", "resourcesExpr": {"limits": {"cpu": "cpu*50%"}}}}))]}),
                1,
            ),
            (
                "plain init container with a policy",
                json!({"containers": null, "initContainers": [container(json!({"resourcesPolicy": policy}))]}),
                1,
            ),
            (
                "native sidecar with a policy",
                json!({
                    "containers": null,
                    "initContainers": [container(json!({"restartPolicy": "Always", "resourcesPolicy": policy}))],
                    "updateStrategy": not_update,
                }),
                0,
            ),
        ];
        let revisions =
            ["test-sidecarset-01234", "test-sidecarset-56789"].map(|name| Revision { name, ..Revision::default() });
        let context = Context { revisions: Some(&revisions), ..Context::default() };
        for (name, spec, expected) in rows {
            let errors = validate(&set("test-sidecarset", spec), &context);
            assert_eq!(errors.len(), expected, "{name}: {}", lines(&errors));
        }
    }

    #[test]
    fn a_set_whose_spec_stays_can_always_be_updated() {
        let mut old = set("test", json!({"updateStrategy": {"type": "NotUpdate", "partition": "x"}}));
        let mut new = old.clone();
        new.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        assert_eq!(validate_update(&new, &old, &Context::default()), []);
        new.spec.custom_version = Some("v1".to_owned());
        assert_eq!(validate_update(&new, &old, &Context::default()).len(), 1);

        new.metadata.labels = Some([("a b".to_owned(), "b".to_owned())].into());
        old.spec = new.spec.clone();
        assert_eq!(validate_update(&new, &old, &Context::default()).len(), 1, "metadata counts in any case");
    }

    #[test]
    fn adding_and_removing_containers_is_an_update() {
        let names = |names: &[&str]| {
            let containers: Vec<Value> = names.iter().map(|name| container(json!({"name": name}))).collect();
            set("test", json!({"containers": containers}))
        };
        assert_eq!(validate_update(&names(&["a", "b"]), &names(&["b", "c"]), &Context::default()), []);
    }

    #[test]
    fn a_value_of_the_wrong_type_is_an_error_and_not_ignored() {
        insta::assert_snapshot!(container_errors(json!({"ports": {}})), @"spec.containers[0].ports: Invalid value: {}: must be a list");
        insta::assert_snapshot!(container_errors(json!({"env": [{"name": "A"}, {"name": 5}]})), @"spec.containers[0].env[1].name: Invalid value: 5: must be a string");
        insta::assert_snapshot!(container_errors(json!({"resources": {"limits": {"cpu": [1]}}})), @r#"spec.containers[0].resources.limits[cpu]: Invalid value: [1]: must be a quantity, such as "500m" or "1Gi""#);
        insta::assert_snapshot!(errors(json!({"volumes": [{"name": "a", "emptyDir": {"medium": 1}}]})), @"spec.volumes[0].emptyDir.medium: Invalid value: 1: must be a string");
    }

    #[test]
    fn a_quantity_may_be_a_number() {
        let container = container(json!({
            "resources": {"limits": {"cpu": 1, "memory": 1.5}},
            "env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": 1}}}],
        }));
        let volumes = json!([{"name": "a", "emptyDir": {"sizeLimit": 1000}}]);
        assert_eq!(errors(json!({"containers": [container], "volumes": volumes})), "");
    }

    /// JSON with the field names of containers and volumes, and any value in any place.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (0..=3).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            word_of(TEXTS).prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                any_object(inner).prop_map(Value::Object),
            ]
        })
    }

    fn any_object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
        let key = prop_oneof![9 => word_of(FIELDS).prop_map(str::to_owned), 1 => ".{0,6}"];
        prop::collection::vec((key, value), 0..8).prop_map(|fields| fields.into_iter().collect())
    }

    const TEXTS: &str =
        "a .. / Always cpu*50% 100m 1Gi -1 metadata.labels['a'] '] a/b @ : [ a:latest@sha256:x limits.cpu é";

    const FIELDS: &str = "name image imagePullPolicy ports containerPort hostPort protocol env valueFrom fieldRef \
        fieldPath apiVersion resourceFieldRef resource divisor configMapKeyRef key envFrom prefix secretRef resources \
        limits requests claims cpu memory restartPolicy resizePolicy volumeMounts mountPath subPath subPathExpr \
        volumeDevices devicePath livenessProbe startupProbe httpGet port exec command grpc lifecycle preStop sleep \
        seconds securityContext seccompProfile type localhostProfile emptyDir sizeLimit hostPath path secret items \
        projected sources serviceAccountToken expirationSeconds downwardAPI csi driver persistentVolumeClaim \
        ephemeral nfs";

    fn word_of(text: &'static str) -> impl Strategy<Value = &'static str> {
        prop::sample::select(text.split_whitespace().collect::<Vec<_>>())
    }

    proptest! {
        #[test]
        fn no_container_and_no_volume_makes_anything_panic(
            containers in prop::collection::vec(any_object(any_json()), 0..3),
            init_containers in prop::collection::vec(any_object(any_json()), 0..2),
            volumes in prop::collection::vec(any_object(any_json()), 0..3),
        ) {
            let wrap = |list: Vec<Map<String, Value>>| {
                list.into_iter().map(|container| SidecarContainer { container, ..Default::default() }).collect()
            };
            let mut set = set("test", json!({}));
            set.spec.containers = wrap(containers);
            set.spec.init_containers = wrap(init_containers);
            set.spec.volumes = volumes;
            let other = SidecarSet { metadata: ObjectMeta::default(), ..set.clone() };
            validate(&set, &Context { sets: Some(&[&other]), ..Context::default() });
            prepare(&mut set);
            validate_update(&set, &other, &Context { sets: Some(&[&other]), ..Context::default() });
        }
    }
}
