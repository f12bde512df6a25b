use pillion_admission::Snapshot;
use pillion_inject::Catalog;
use pillion_testkit::{mk_container, mk_pod, mk_set};
use serde_json::json;

use super::*;

fn offline(sets: impl IntoIterator<Item = SidecarSet>) -> Offline {
    Offline {
        snapshot: Snapshot { catalog: Catalog::new(sets, &[]).unwrap(), ..Snapshot::default() },
        ..Offline::default()
    }
}

fn injected(name: &str, offline: &Offline) -> Value {
    let pod = mk_pod(name, json!({"app": "web"}), [mk_container("app")]);
    let mut value = pod.as_value().clone();
    let patch = offline.decide(&pod, Some("2026-01-01T00:00:00Z".parse().unwrap())).outcome.unwrap();
    json_patch::patch(&mut value, &patch).unwrap();
    value
}

fn sidecars(image: &str, mode: &str) -> SidecarSet {
    let container = json!({"name": "proxy", "image": image, "env": [{"name": "MODE", "value": mode}]});
    let native = json!({"name": "native", "image": image, "restartPolicy": "Always"});
    mk_set("mesh", json!({"app": "web"}), json!({"containers": [container], "initContainers": [native]}))
}

fn of(pod: Value, then: SidecarSet) -> (u64, Vec<String>, Vec<String>) {
    let pods: Vec<RunningPod> = RunningPod::of(&pod).into_iter().collect();
    let updates = updates(&pods, &offline([then]), &["mesh".to_owned()].into());
    let reasons = |pods: Vec<PodUpdate>| pods.into_iter().flat_map(|pod| pod.reasons).collect();
    (updates.up_to_date, reasons(updates.in_place), reasons(updates.recreate))
}

#[test]
fn only_images_can_change_in_place_those_of_native_sidecars_too() {
    let pod = injected("web-0", &offline([sidecars("envoy:1", "a")]));
    assert_eq!(of(pod.clone(), sidecars("envoy:1", "a")), (1, vec![], vec![]));
    assert_eq!(of(pod.clone(), sidecars("envoy:2", "a")), (0, vec!["only images of mesh change".to_owned()], vec![]));
    assert_eq!(
        of(pod.clone(), sidecars("envoy:2", "b")),
        (0, vec![], vec!["more than images of mesh changes".to_owned()])
    );
    let mut not_updated = sidecars("envoy:2", "a");
    not_updated.spec.update_strategy.strategy = Some(UpdateStrategyType::NotUpdate);
    assert_eq!(of(pod, not_updated), (0, vec![], vec!["updateStrategy.type of mesh is NotUpdate".to_owned()]));
}

#[test]
fn what_is_not_there_yet_and_what_no_longer_matches_needs_a_new_pod() {
    let without = injected("web-0", &offline([]));
    let missing = vec!["mesh has not been injected into it".to_owned()];
    assert_eq!(of(without.clone(), sidecars("envoy:1", "a")), (0, vec![], missing));
    let other = mk_set("mesh", json!({"app": "other"}), json!({"containers": [mk_container("proxy")]}));
    assert_eq!(of(without.clone(), other.clone()), (0, vec![], vec![]));
    let with = injected("web-0", &offline([sidecars("envoy:1", "a")]));
    assert_eq!(
        of(with, other),
        (0, vec![], vec!["mesh no longer matches it: its sidecars stay until then".to_owned()])
    );
    let mut paused = sidecars("envoy:1", "a");
    paused.spec.injection_strategy.paused = true;
    assert_eq!(of(without.clone(), paused), (0, vec![], vec![]));
    let mut opted_out = without;
    opted_out["metadata"]["annotations"] = json!({names::INJECT: "false"});
    assert_eq!(of(opted_out, sidecars("envoy:1", "a")), (0, vec![], vec![]));
}

#[test]
fn no_update_reaches_a_pod_that_ends() {
    let mut pod = injected("web-0", &offline([sidecars("envoy:1", "a")]));
    pod["status"] = json!({"phase": "Failed"});
    assert!(RunningPod::of(&pod).is_none());
    pod["status"] = json!({"phase": "Running"});
    assert!(RunningPod::of(&pod).is_some());
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(RunningPod::of(&pod).is_none());
}
