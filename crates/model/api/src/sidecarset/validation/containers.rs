//! The containers of a set: how they are injected.

use std::collections::BTreeMap;

use super::role::{Role, each};
use super::{refuse_unknown, resources_policy};
use crate::field::{Error, Path};
use crate::sidecarset::{SidecarContainer, SidecarSetSpec, TransferEnv};

/// A DNS label without the `-1` of a hot-upgrade pair.
const HOT_UPGRADE_NAME_LIMIT: usize = 61;

/// The names that a container takes up in a pod: its own, and those of its pair if it is upgraded hot.
pub(super) fn injected_names(container: &SidecarContainer, role: Role) -> Vec<String> {
    let name = container.name();
    let mut names = vec![name.to_owned()];
    if container.is_hot_upgrade() && role != Role::Init {
        names.extend([format!("{name}-1"), format!("{name}-2")]);
    }
    names
}

/// `old` is what is stored, if the set is updated.
pub(super) fn validate(spec: &SidecarSetSpec, old: Option<&SidecarSetSpec>, errors: &mut Vec<Error>) {
    if spec.containers.is_empty() && spec.init_containers.is_empty() {
        errors.push(Error::required(&Path::new("spec"), "no initContainer or container defined for SidecarSet"));
    }
    let mut taken = BTreeMap::new();
    for (container, role, path) in each(spec) {
        validate_policies(container, role, &path, errors);
        for (i, env) in container.transfer_env.iter().enumerate() {
            validate_transfer_env(env, &path.child("transferEnv").index(i), errors);
        }
        if let Some(policy) = &container.resources_policy {
            let same = old.into_iter().flat_map(each).find(|(it, ..)| it.name() == container.name());
            let old = same.and_then(|(it, ..)| it.resources_policy.as_ref());
            resources_policy::validate(policy, old, container, role, &path.child("resourcesPolicy"), errors);
        }
        claim_names(container, role, &mut taken, &path.child("name"), errors);
    }
}

/// An upgrade cannot turn one running container into two, nor two into one.
pub(super) fn validate_update(new: &SidecarSetSpec, old: &SidecarSetSpec, errors: &mut Vec<Error>) {
    let upgrade_type = |container: &SidecarContainer| container.upgrade_strategy.upgrade_type.clone();
    for (i, container) in new.containers.iter().enumerate() {
        let before = old.containers.iter().find(|before| before.name() == container.name());
        if before.and_then(upgrade_type).is_some_and(|before| Some(before) != upgrade_type(container)) {
            let path = Path::new("spec").child("containers").index(i).child("upgradeStrategy").child("upgradeType");
            let name = container.name();
            errors.push(Error::forbidden(&path, format!("container {name} upgradeType is immutable")));
        }
    }
}

fn validate_policies(container: &SidecarContainer, role: Role, path: &Path, errors: &mut Vec<Error>) {
    let inject = path.child("podInjectPolicy");
    match &container.pod_inject_policy {
        None => errors.push(Error::required(&inject, "")),
        policy => refuse_unknown!(errors, inject, policy, PodInjectPolicy),
    }
    let share = path.child("shareVolumePolicy").child("type");
    match &container.share_volume_policy.policy {
        None => errors.push(Error::required(&share, "")),
        policy => refuse_unknown!(errors, share, policy, SharePolicy),
    }
    if let Some(policy) = &container.share_volume_device_policy {
        let share = path.child("shareVolumeDevicePolicy").child("type");
        refuse_unknown!(errors, share, &policy.policy, SharePolicy);
    }

    let upgrade = path.child("upgradeStrategy");
    let strategy = &container.upgrade_strategy;
    let upgrade_type = &strategy.upgrade_type;
    refuse_unknown!(errors, upgrade.child("upgradeType"), upgrade_type, UpgradeType);
    if container.is_hot_upgrade() && role != Role::Init {
        if strategy.hot_upgrade_empty_image.as_deref().unwrap_or_default().is_empty() {
            let detail = "HotUpgrade needs an image for the container that waits";
            errors.push(Error::required(&upgrade.child("hotUpgradeEmptyImage"), detail));
        }
        if container.name().len() > HOT_UPGRADE_NAME_LIMIT {
            let detail =
                format!("must be no more than {HOT_UPGRADE_NAME_LIMIT} bytes, since HotUpgrade adds -1 and -2");
            errors.push(Error::invalid(&path.child("name"), container.name(), detail));
        }
    }

    let is_sidecar = container.sidecar == Some(true);
    if is_sidecar && role != Role::Sidecar {
        let detail = "may not be set for init containers: use restartPolicy: Always";
        errors.push(Error::forbidden(&path.child("sidecar"), detail));
    }
    refuse_unknown!(errors, path.child("sidecarMode"), &container.sidecar_mode, SidecarMode);
    if container.sidecar_mode.is_some() && !is_sidecar {
        errors.push(Error::forbidden(&path.child("sidecarMode"), "may only be set with `sidecar: true`"));
    }
    if container.fail_pod_on_sidecar_error.is_some() && !is_sidecar {
        errors.push(Error::forbidden(&path.child("failPodOnSidecarError"), "may only be set with `sidecar: true`"));
    }
}

fn validate_transfer_env(env: &TransferEnv, path: &Path, errors: &mut Vec<Error>) {
    let Some(source) = &env.source_container_name_from else { return };
    let path = path.child("sourceContainerNameFrom").child("fieldRef");
    match &source.field_ref {
        None => errors.push(Error::required(&path, "")),
        Some(field_ref) if field_ref.field_path.is_empty() => {
            errors.push(Error::required(&path.child("fieldPath"), ""));
        }
        Some(field_ref) => {
            if let Err(error) = field_ref.metadata_key() {
                let detail = format!("error converting fieldPath: {error}");
                errors.push(Error::invalid(&path.child("fieldPath"), field_ref.field_path.as_str(), detail));
            }
        }
    }
}

/// Refuses a container that takes up a name in the pod which another one of the set has taken with a name of its own. Kubernetes'
/// validation refuses the same name twice.
fn claim_names(
    container: &SidecarContainer,
    role: Role,
    taken: &mut BTreeMap<String, String>,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let name = container.name();
    if name.is_empty() {
        return;
    }
    let names = injected_names(container, role);
    match names.iter().find_map(|wanted| Some((wanted, taken.get(wanted)?))) {
        None => taken.extend(names.into_iter().map(|wanted| (wanted, name.to_owned()))),
        Some((_, owner)) if owner == name => {}
        Some((wanted, owner)) => {
            let detail =
                format!("the name {wanted} is taken by container {owner}: HotUpgrade adds -1 and -2 to a name");
            errors.push(Error::invalid(path, name, detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{container, container_errors, errors, lines, set};

    #[test]
    fn policies_of_all_containers_are_known_ones() {
        let wrong = json!({
            "podInjectPolicy": "Between",
            "shareVolumePolicy": {"type": "Enabled"},
            "shareVolumeDevicePolicy": {"type": "yes"},
            "upgradeStrategy": {"upgradeType": "Warm"},
        });
        insta::assert_snapshot!(container_errors(wrong.clone()), @r#"
        spec.containers[0].podInjectPolicy: Unsupported value: "Between": supported values: "BeforeAppContainer", "AfterAppContainer"
        spec.containers[0].shareVolumePolicy.type: Unsupported value: "Enabled": supported values: "enabled", "disabled"
        spec.containers[0].shareVolumeDevicePolicy.type: Unsupported value: "yes": supported values: "enabled", "disabled"
        spec.containers[0].upgradeStrategy.upgradeType: Unsupported value: "Warm": supported values: "ColdUpgrade", "HotUpgrade"
        "#);
        let in_container = container_errors(wrong.clone());
        let in_init = errors(json!({"containers": null, "initContainers": [container(wrong)]}));
        assert_eq!(in_init, in_container.replace("spec.containers", "spec.initContainers"));
    }

    #[test]
    fn a_hot_upgrade_needs_an_image_that_waits() {
        let hot = json!({"upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": ""}});
        insta::assert_snapshot!(container_errors(hot.clone()), @"spec.containers[0].upgradeStrategy.hotUpgradeEmptyImage: Required value: HotUpgrade needs an image for the container that waits");
        insta::assert_snapshot!(
            container_errors(json!({"name": "a".repeat(62), "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "a"}})),
            @r#"spec.containers[0].name: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": must be no more than 61 bytes, since HotUpgrade adds -1 and -2"#
        );
        assert_eq!(
            errors(json!({"containers": null, "initContainers": [container(hot)]})),
            "",
            "a plain init container is never hot"
        );
    }

    #[test]
    fn sidecar_is_for_containers_and_its_fields_are_for_sidecars() {
        assert_eq!(
            container_errors(json!({"sidecar": true, "sidecarMode": "Strict", "failPodOnSidecarError": true})),
            ""
        );
        insta::assert_snapshot!(container_errors(json!({"sidecarMode": "Strict", "failPodOnSidecarError": false})), @"
        spec.containers[0].sidecarMode: Forbidden: may only be set with `sidecar: true`
        spec.containers[0].failPodOnSidecarError: Forbidden: may only be set with `sidecar: true`
        ");
        insta::assert_snapshot!(container_errors(json!({"sidecar": true, "sidecarMode": "Odd"})), @r#"spec.containers[0].sidecarMode: Unsupported value: "Odd": supported values: "Native", "Strict""#);
        insta::assert_snapshot!(errors(json!({"initContainers": [container(json!({"name": "init", "sidecar": true}))]})), @"spec.initContainers[0].sidecar: Forbidden: may not be set for init containers: use restartPolicy: Always");
    }

    #[test]
    fn a_variable_is_copied_from_a_container_that_a_label_or_an_annotation_names() {
        let from = |field_ref: Value| {
            container_errors(
                json!({"transferEnv": [{"envName": "A", "sourceContainerNameFrom": {"fieldRef": field_ref}}]}),
            )
        };
        assert_eq!(from(json!({"fieldPath": "metadata.labels['a']"})), "");
        insta::assert_snapshot!(from(Value::Null), @"spec.containers[0].transferEnv[0].sourceContainerNameFrom.fieldRef: Required value");
        insta::assert_snapshot!(from(json!({"fieldPath": ""})), @"spec.containers[0].transferEnv[0].sourceContainerNameFrom.fieldRef.fieldPath: Required value");
        insta::assert_snapshot!(from(json!({"fieldPath": "metadata.name"})), @r#"spec.containers[0].transferEnv[0].sourceContainerNameFrom.fieldRef.fieldPath: Invalid value: "metadata.name": error converting fieldPath: field label not supported: metadata.name: use metadata.labels['key'] or metadata.annotations['key']"#);
        insta::assert_snapshot!(from(json!({"fieldPath": "metadata.labels['a']", "apiVersion": "v2"})), @r#"spec.containers[0].transferEnv[0].sourceContainerNameFrom.fieldRef.fieldPath: Invalid value: "metadata.labels['a']": error converting fieldPath: unsupported pod version: v2"#);
    }

    #[test]
    fn every_name_in_the_pod_is_taken_once() {
        let named = |name: &str| container(json!({"name": name}));
        let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
        insta::assert_snapshot!(errors(json!({"containers": [named("a"), named("a")], "initContainers": [named("a")]})), @r#"
        spec.containers[1].name: Duplicate value: "a"
        spec.initContainers[0].name: Duplicate value: "a"
        "#);
        insta::assert_snapshot!(
            errors(json!({"containers": [named("mesh-1"), container(json!({"name": "mesh", "upgradeStrategy": hot}))]})),
            @r#"spec.containers[1].name: Invalid value: "mesh": the name mesh-1 is taken by container mesh-1: HotUpgrade adds -1 and -2 to a name"#
        );
    }

    #[test]
    fn the_type_of_an_upgrade_stays() {
        let with =
            |upgrade: Value| set("test", json!({"containers": [container(json!({"upgradeStrategy": upgrade}))]}));
        let hot = with(json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}));
        let cold = with(json!({"upgradeType": "ColdUpgrade"}));
        let update = |new, old| lines(&super::super::validate_update(new, old, &super::super::Context::default()));
        insta::assert_snapshot!(update(&hot, &cold), @"spec.containers[0].upgradeStrategy.upgradeType: Forbidden: container test-sidecar upgradeType is immutable");
        assert_eq!(update(&cold, &with(json!({}))), "", "a set from before the field existed");
    }
}
