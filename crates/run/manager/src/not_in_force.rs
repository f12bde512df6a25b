//! What a SidecarSet may say and this version does not do yet. Accepting it silently would be a lie.

use pillion_api::sidecarset::SidecarSet;
use pillion_gates::{Gate, Gates};

/// One warning for each field that has no effect yet.
pub(crate) fn warnings(set: &SidecarSet, gates: Gates) -> Vec<String> {
    let spec = &set.spec;
    let (mut marks, mut fields) = (Vec::new(), Vec::new());
    for (list, containers) in [("initContainers", &spec.init_containers), ("containers", &spec.containers)] {
        for (i, container) in containers.iter().enumerate() {
            if container.sidecar == Some(true) && !gates.is_enabled(Gate::SidecarField) {
                marks.push(format!(
                    "spec.{list}[{i}].sidecar: without effect while the feature gate SidecarField is off"
                ));
            }
        }
    }
    if spec.service_account.is_some() {
        fields.push("spec.serviceAccount".to_owned());
    }
    marks.extend(fields.iter().map(|field| format!("{field}: stored, and without effect in this version of Pillion")));
    marks
}

#[cfg(test)]
mod tests {
    use pillion_testkit::mk_set;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_without_effect_is_named() {
        let set = mk_set(
            "mesh",
            json!({"app": "web"}),
            json!({
                "containers": [{"name": "a", "image": "a"}, {"name": "b", "image": "b", "sidecar": true}],
                "shareProcessNamespace": true,
                "serviceAccount": {"name": "mesh"},
                "injectionStrategy": {"failurePolicy": "Fail", "repair": {"policy": "Evict"}},
                "injectStrategy": {"revision": "mesh-1"},
            }),
        );
        insta::assert_snapshot!(warnings(&set, Gates::default()).join("\n"), @r#"
        spec.containers[1].sidecar: without effect while the feature gate SidecarField is off
        spec.serviceAccount: stored, and without effect in this version of Pillion
        "#);
    }

    #[test]
    fn what_works_is_not_warned_about() {
        let set = mk_set("mesh", json!({"app": "web"}), json!({"containers": [{"name": "a", "image": "a"}]}));
        assert_eq!(warnings(&set, Gates::default()), Vec::<String>::new());
    }
}
