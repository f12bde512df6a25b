//! What a SidecarSet says and what has no effect while a feature gate is off. Accepting it silently would mislead its author.

use pillion_api::sidecarset::SidecarSet;
use pillion_gates::{Gate, Gates};

/// One warning for each field that has no effect. This is the only list of such fields; every other field of a SidecarSet has an effect.
pub(crate) fn warnings(set: &SidecarSet, gates: Gates) -> Vec<String> {
    if gates.is_enabled(Gate::SidecarField) {
        return Vec::new();
    }
    let lists = [("initContainers", &set.spec.init_containers), ("containers", &set.spec.containers)];
    let containers = lists.into_iter().flat_map(|(list, containers)| {
        containers.iter().enumerate().map(move |(i, container)| (format!("spec.{list}[{i}].sidecar"), container))
    });
    let marked = containers.filter(|(_, container)| container.sidecar == Some(true));
    marked.map(|(path, _)| format!("{path}: without effect while the feature gate SidecarField is off")).collect()
}

#[cfg(test)]
mod tests {
    use pillion_admission::{Snapshot, admit};
    use pillion_api::pod::Pod;
    use pillion_inject::{Accounts, Catalog};
    use pillion_note::Draw;
    use pillion_testkit::mk_set;
    use serde_json::{Value, json};

    use super::*;

    fn set(spec: Value) -> SidecarSet {
        mk_set("mesh", json!({"app": "web"}), spec)
    }

    /// A pod with the containers of a set, and what belongs to its author.
    fn admitted(spec: Value, gates: Gates) -> Value {
        let mut accounts = Accounts::default();
        accounts.insert("default", "mesh");
        let catalog = Catalog::new([set(spec)], &[]).unwrap();
        let snapshot = Snapshot { catalog, accounts, ..Snapshot::default() };
        let pod = json!({
            "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
            "spec": {"restartPolicy": "Never", "serviceAccountName": "default", "containers": [{"name": "app", "image": "app"}]},
        });
        let decision = admit(&Pod::new(pod.clone()).unwrap(), &snapshot, gates, &Draw::default(), None);
        let mut after = pod;
        json_patch::patch(&mut after, &decision.outcome.unwrap()).unwrap();
        // The hashes differ for every two sets.
        after["metadata"].as_object_mut().unwrap().remove("annotations");
        after
    }

    #[test]
    fn a_field_is_warned_about_exactly_where_it_changes_nothing() {
        let with = |field: &str, value: Value| {
            let mut spec = json!({"containers": [{"name": "proxy", "image": "proxy"}]});
            let parent = if field == "sidecar" { &mut spec["containers"][0] } else { &mut spec };
            parent[field] = value;
            spec
        };
        let fields = [
            ("sidecar", json!(true)),
            ("shareProcessNamespace", json!(true)),
            ("serviceAccount", json!({"name": "mesh"})),
            ("imagePullSecrets", json!([{"name": "registry"}])),
        ];
        for gates in [Gates::default(), Gates::default().with(&"SidecarField=true".parse().unwrap())] {
            for (field, value) in &fields {
                let spec = with(field, value.clone());
                let has_effect = admitted(spec.clone(), gates) != admitted(with(field, Value::Null), gates);
                let warnings = warnings(&set(spec), gates);
                assert_eq!(has_effect, warnings.is_empty(), "{field}: {warnings:?}");
            }
        }
    }

    #[test]
    fn a_field_without_effect_is_named_with_its_gate() {
        let own_fields = json!({
            "containers": [{"name": "a", "image": "a"}, {"name": "b", "image": "b", "sidecar": true}],
            "shareProcessNamespace": true,
            "serviceAccount": {"name": "mesh"},
            "injectionStrategy": {"failurePolicy": "Fail", "repair": {"policy": "Evict"}},
            "injectStrategy": {"revision": "mesh-1"},
        });
        let expected = ["spec.containers[1].sidecar: without effect while the feature gate SidecarField is off"];
        assert_eq!(warnings(&set(own_fields), Gates::default()), expected);
    }
}
