//! What a SidecarSet may say and this version does not do yet. Accepting it silently would be a lie.

use pillion_api::sidecarset::SidecarSet;

/// One warning for each field that has no effect yet.
pub(crate) fn warnings(set: &SidecarSet) -> Vec<String> {
    let spec = &set.spec;
    let mut fields = Vec::new();
    for (list, containers) in [("initContainers", &spec.init_containers), ("containers", &spec.containers)] {
        for (i, container) in containers.iter().enumerate() {
            if container.sidecar == Some(true) {
                fields.push(format!("spec.{list}[{i}].sidecar"));
            }
        }
    }
    if spec.share_process_namespace.is_some() {
        fields.push("spec.shareProcessNamespace".to_owned());
    }
    if spec.service_account.is_some() {
        fields.push("spec.serviceAccount".to_owned());
    }
    fields.into_iter().map(|field| format!("{field}: stored, and without effect in this version of Pillion")).collect()
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
        insta::assert_snapshot!(warnings(&set).join("\n"), @r#"
        spec.containers[1].sidecar: stored, and without effect in this version of Pillion
        spec.shareProcessNamespace: stored, and without effect in this version of Pillion
        spec.serviceAccount: stored, and without effect in this version of Pillion
        "#);
    }

    #[test]
    fn what_works_is_not_warned_about() {
        let set = mk_set("mesh", json!({"app": "web"}), json!({"containers": [{"name": "a", "image": "a"}]}));
        assert_eq!(warnings(&set), Vec::<String>::new());
    }
}
