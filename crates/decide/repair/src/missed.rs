//! Which sidecars a pod lacks.

use pillion_api::names;
use pillion_inject::{Catalog, Namespace, Summary};
use pillion_rollout::PodView;

/// The kind of owner that a static pod's mirror has: the kubelet runs it, whatever the API server says.
const NODE: &str = "Node";

/// The sets whose sidecars the pod should have and does not have, by name.
pub fn missed_by<'c>(pod: &PodView, namespace: &Namespace, catalog: &'c Catalog) -> Vec<&'c Summary> {
    let is_static = pod.owner.as_ref().is_some_and(|owner| &*owner.kind == NODE);
    if pod.is_opted_out || !pod.is_active() || is_static {
        return Vec::new();
    }
    let labels: Vec<(&str, &str)> = pod.labels.iter().map(|(key, value)| (&**key, &**value)).collect();
    let mut sets = catalog.matching(namespace, &labels).injected().summaries();
    sets.retain(|set| set.has_containers && counts(pod, set) && lacks(pod, set));
    sets
}

/// Whether the pod has not been given the sidecars. What a record says that cannot be read is unknown.
fn lacks(pod: &PodView, set: &Summary) -> bool {
    let is_unknown = pod.unreadable.contains(&names::HASH);
    !pod.injected(&set.name).is_some_and(|injected| injected.is_there || is_unknown)
}

/// Whether the pod is young enough. A pod of the same second may be older or younger: a time has whole seconds.
fn counts(pod: &PodView, set: &Summary) -> bool {
    set.includes_older || pod.created >= set.created
}

#[cfg(test)]
mod tests {
    use pillion_api::pod::Pod;
    use pillion_rollout::Texts;
    use pillion_testkit::{mk_container, mk_set};
    use serde_json::{Value, json};

    use super::*;

    fn catalog(strategy: Value) -> Catalog {
        let spec = json!({"containers": [mk_container("proxy")], "injectionStrategy": strategy});
        let mut set = mk_set("mesh", json!({"app": "web"}), spec);
        set.metadata.creation_timestamp = serde_json::from_value(json!("2026-01-01T00:00:10Z")).unwrap();
        Catalog::new([set], &[]).unwrap()
    }

    fn is_missed(catalog: &Catalog, change: Value) -> bool {
        let mut pod = json!({
            "metadata": {"name": "web-0", "labels": {"app": "web"}, "creationTimestamp": "2026-01-01T00:00:10Z"},
            "spec": {"containers": [{"name": "app"}]}, "status": {"phase": "Running"}
        });
        json_merge(&mut pod, &change);
        let pod = PodView::new(&Pod::new(pod).unwrap(), &mut Texts::default());
        !missed_by(&pod, &Namespace::named("default"), catalog).is_empty()
    }

    fn json_merge(into: &mut Value, from: &Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    json_merge(into.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from.clone(),
        }
    }

    #[test]
    fn a_pod_without_its_sidecar_is_missed_unless_there_is_a_reason() {
        let catalog = catalog(json!({}));
        let record = json!({"mesh": {"hash": "h", "sidecarSetName": "mesh", "sidecarList": ["proxy"]}}).to_string();
        let claims = json!({"metadata": {"annotations": {names::HASH: record, names::INJECTED_LIST: "mesh"}}});
        let mut has = claims.clone();
        has["spec"] = json!({"containers": [{"name": "app"}, {"name": "proxy"}]});
        let mut pair = claims.clone();
        pair["spec"] = json!({"containers": [{"name": "app"}, {"name": "proxy-1"}, {"name": "proxy-2"}]});
        let broken =
            |sets: &str| json!({"metadata": {"annotations": {names::HASH: "{\"mesh\":", names::INJECTED_LIST: sets}}});
        let rows = [
            ("as it is", json!({}), true),
            ("older than the set", json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:09Z"}}), false),
            ("younger than the set", json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:11Z"}}), true),
            ("of another app", json!({"metadata": {"labels": {"app": "db"}}}), false),
            ("opted out", json!({"metadata": {"annotations": {names::INJECT: "false"}}}), false),
            ("being deleted", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:01:00Z"}}), false),
            ("ended", json!({"status": {"phase": "Succeeded"}}), false),
            (
                "the mirror of a static pod",
                json!({"metadata": {"ownerReferences": [{"kind": "Node", "name": "n", "controller": true}]}}),
                false,
            ),
            ("an annotation alone", claims, true),
            ("a record that cannot be read", broken("mesh"), false),
            ("a record of other sets that cannot be read", broken("logs"), true),
            ("injected", has, false),
            ("injected as a pair", pair, false),
        ];
        for (what, change, expected) in rows {
            assert_eq!(is_missed(&catalog, change), expected, "{what}");
        }
    }

    #[test]
    fn the_set_says_whether_older_pods_count_and_a_paused_one_misses_nothing() {
        let older = json!({"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}});
        assert!(is_missed(&catalog(json!({"repair": {"includeOlder": true}})), older));
        assert!(!is_missed(&catalog(json!({"paused": true})), json!({})));
    }
}
