//! A running pod as it was before SidecarSets were injected into it.

use std::collections::BTreeSet;

use pillion_api::names;
use pillion_api::pod::{Container, Object, name_of};
use pillion_rules::pod::apply_service_account;
use serde_json::{Map, Value, json};

/// The prefix of the volume in which the API server gives a pod the token of its service account.
const TOKEN_VOLUME_PREFIX: &str = "kube-api-access-";

/// The pod as it came to the webhook, as far as the pod still shows it: without injected containers, the volumes that only they mount, the records of
/// injection, and whatever came after admission. What the API server had added by then (service account, tolerations, defaults) stays.
///
/// A container that a sidecar of the same name has replaced, and annotations that `patchPodMetadata` has overwritten, cannot be brought back.
pub fn before_injection(pod: &Value) -> Value {
    let mut original = pod.clone();
    let Some(object) = original.as_object_mut() else { return original };
    // A pod that has ended or is being deleted is explained like the one that would replace it.
    object.shift_remove("status");
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"] {
            metadata.shift_remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|key, _| !is_record(key));
        }
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        remove_volumes(spec);
        for list in ["initContainers", "containers"] {
            if let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) {
                containers.retain(|container| !container.as_object().is_some_and(|own| Container(own).is_injected()));
            }
        }
    }
    original
}

/// Mounts the token of a stored pod's service account in every container, as the API server does with those that the webhook has added. A pod
/// without such a volume, as in a template, stays as it is.
pub(crate) fn mount_token(pod: &mut Value) {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten().filter_map(Value::as_object);
    if volumes.into_iter().any(|volume| name_of(volume).starts_with(TOKEN_VOLUME_PREFIX)) {
        // The volume is there already: only mounts are added.
        apply_service_account(pod, &json!({}), "");
    }
}

/// Whether an annotation is one in which injection or an update in place keeps its records.
pub(crate) fn is_record(key: &str) -> bool {
    let prefixes = [names::HOT_UPGRADE_VERSION_PREFIX, names::HOT_UPGRADE_VERSION_ALT_PREFIX];
    key == names::HASH
        || key == names::HASH_WITHOUT_IMAGE
        || key == names::INJECTED_LIST
        || key == names::WORKING_HOT_UPGRADE_CONTAINER
        || key == names::IN_PLACE_STATE
        || key == names::SIDECAR_RECORD
        || key == names::WORK_DONE
        || prefixes.iter().any(|prefix| key.starts_with(prefix))
}

/// Removes the volumes that injected containers mount and no other container does.
fn remove_volumes(spec: &mut Map<String, Value>) {
    let (mut of_sidecars, mut own) = (BTreeSet::new(), BTreeSet::new());
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.get(list).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object) {
            let container = Container(container);
            let used =
                container.volume_mounts().chain(container.volume_devices()).map(|mount| name_of(mount).to_owned());
            if container.is_injected() { of_sidecars.extend(used) } else { own.extend(used) }
        }
    }
    let is_injected = |volume: &Object| {
        let name = name_of(volume);
        of_sidecars.contains(name) && !own.contains(name) && !name.starts_with(TOKEN_VOLUME_PREFIX)
    };
    if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
        volumes.retain(|volume| !volume.as_object().is_some_and(is_injected));
    }
}

#[cfg(test)]
mod tests {
    use pillion_admission::{Snapshot, admit};
    use pillion_api::pod::Pod;
    use pillion_gates::Gates;
    use pillion_inject::Catalog;
    use pillion_note::Draw;
    use pillion_testkit::{mk_container, mk_set};

    use super::*;

    fn injected(pod: &Value) -> Value {
        let spec = json!({
            "containers": [
                {"name": "proxy", "image": "envoy:1", "volumeMounts": [{"name": "certs", "mountPath": "/certs"}, {"name": "data", "mountPath": "/data"}]},
                {"name": "hot", "image": "hot:1", "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}},
            ],
            "initContainers": [mk_container("setup"), {"name": "native", "image": "native:1", "restartPolicy": "Always"}],
            "volumes": [{"name": "certs", "emptyDir": {}}, {"name": "data", "emptyDir": {}}],
        });
        let set = mk_set("mesh", json!({"app": "web"}), spec);
        let snapshot = Snapshot { catalog: Catalog::new([set], &[]).unwrap(), ..Snapshot::default() };
        let now = Some("2026-01-01T00:00:00Z".parse().unwrap());
        let patch = admit(&Pod::new(pod.clone()).unwrap(), &snapshot, Gates::default(), &Draw::default(), now);
        let mut injected = pod.clone();
        json_patch::patch(&mut injected, &patch.outcome.unwrap()).unwrap();
        assert_ne!(&injected, pod);
        injected
    }

    #[test]
    fn what_was_injected_is_taken_out_again() {
        let token = json!({"name": "kube-api-access-x", "mountPath": "/token"});
        let app =
            json!({"name": "app", "image": "app:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}, token]});
        let pod = json!({
            "metadata": {"name": "web-0", "namespace": "shop", "labels": {"app": "web"}, "annotations": {"mine": "1"}},
            "spec": {
                "containers": [app], "initContainers": [], "nodeName": "n",
                "volumes": [{"name": "data", "emptyDir": {}}, {"name": "kube-api-access-x", "projected": {}}, {"name": "spare", "emptyDir": {}}],
            },
        });
        let mut running = injected(&pod);
        running["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        for record in [names::IN_PLACE_STATE, names::SIDECAR_RECORD, names::WORK_DONE] {
            running["metadata"]["annotations"][record] = json!("{}");
        }
        running["status"] = json!({"phase": "Failed"});
        assert_eq!(before_injection(&running), pod);
        assert_eq!(before_injection(&pod), pod, "a pod without sidecars stays as it is");
    }

    #[test]
    fn what_is_no_pod_stays_as_it_is() {
        for value in [json!(null), json!([]), json!({"spec": 5}), json!({"spec": {"containers": [5], "volumes": {}}})] {
            assert_eq!(before_injection(&value), value);
        }
    }

    #[test]
    fn a_token_is_mounted_in_every_container_of_a_pod_that_has_one() {
        let containers = json!([{"name": "app"}, {"name": "proxy"}]);
        let mut stored = json!({"spec": {
            "containers": containers, "volumes": [{"name": "kube-api-access-x", "projected": {}}],
        }});
        mount_token(&mut stored);
        for container in stored["spec"]["containers"].as_array().unwrap() {
            assert_eq!(container["volumeMounts"][0]["name"], "kube-api-access-x");
        }
        let template = json!({"spec": {"containers": containers}});
        let mut same = template.clone();
        mount_token(&mut same);
        assert_eq!(same, template);
    }
}
