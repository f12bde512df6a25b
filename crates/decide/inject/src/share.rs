//! What a sidecar gets from the app's containers: mounts, devices and environment variables.

use std::collections::BTreeSet;

use pillion_api::pod::{Container, Object, name_of};
use pillion_api::sidecarset::{FieldRef, MetadataKey, ShareVolumePolicy, SidecarContainer, TransferEnv};
use pillion_note::{Draft, Note, Reason, Subject};
use serde_json::Value;

/// The app's own containers: neither injected before nor about to be replaced by a sidecar of the same name.
pub(crate) struct App<'a> {
    pub(crate) containers: Vec<Container<'a>>,
}

/// What the app's containers share with one sidecar.
#[derive(Default)]
pub(crate) struct Shared<'a> {
    pub(crate) mounts: Vec<&'a Object>,
    pub(crate) devices: Vec<&'a Object>,
    /// In order of precedence: the first of a name counts.
    pub(crate) env: Vec<&'a Object>,
}

impl<'a> App<'a> {
    pub(crate) fn shared_with(&self, sidecar: &SidecarContainer, set: &str, draft: &mut Draft<'a>) -> Shared<'a> {
        let mut shared = Shared::default();
        for transfer in &sidecar.transfer_env {
            self.transfer(transfer, (set, sidecar.name()), &mut shared.env, draft);
        }
        for &container in &self.containers {
            if sidecar.share_volume_policy.is_enabled() {
                for mount in container.volume_mounts() {
                    shared.mounts.push(mount);
                    let expression = mount.get("subPathExpr").and_then(Value::as_str).unwrap_or_default();
                    shared
                        .env
                        .extend(references(expression).into_iter().filter_map(|name| last_env_var(container, name)));
                }
            }
            if sidecar.share_volume_device_policy.as_ref().is_some_and(ShareVolumePolicy::is_enabled) {
                shared.devices.extend(container.volume_devices());
            }
        }
        shared
    }

    fn transfer(
        &self,
        transfer: &TransferEnv,
        sidecar: (&str, &str),
        env: &mut Vec<&'a Object>,
        draft: &mut Draft<'a>,
    ) {
        let field_ref = transfer.source_container_name_from.as_ref().and_then(|from| from.field_ref.as_ref());
        let source = match field_ref {
            Some(field) => value_of_field(draft, field),
            None => transfer.source_container_name.as_deref(),
        };
        let source = source.unwrap_or_default().to_owned();
        let container = self.containers.iter().find(|container| container.name() == source);
        let names: BTreeSet<&str> = transfer.names().collect();
        for name in names {
            if let Some(variable) = container.and_then(|&container| last_env_var(container, name)) {
                env.push(variable);
            } else {
                let (set, sidecar) = sidecar;
                let message =
                    format!("transferEnv finds no environment variable {name:?} in container {source:?} of the pod");
                draft.note(Note::info(Subject::sidecar_set(set), Reason::EnvNotFound, message).about(sidecar));
            }
        }
    }
}

/// A name that is there twice means the last one, as it does to the kubelet.
fn last_env_var<'a>(container: Container<'a>, name: &str) -> Option<&'a Object> {
    container.env().filter(|variable| name_of(variable) == name).last()
}

/// The label or annotation that a `fieldRef` names.
fn value_of_field<'d>(draft: &'d Draft<'_>, field: &FieldRef) -> Option<&'d str> {
    match field.metadata_key().ok()? {
        MetadataKey::Label(key) => draft.pod().label(key),
        MetadataKey::Annotation(key) => draft.annotation(key),
    }
}

/// The names in `$(NAME)` references.
fn references(expression: &str) -> Vec<&str> {
    let is_start = |c: char| c.is_ascii_alphabetic() || matches!(c, '-' | '.' | '_');
    let is_name = |name: &str| name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit());
    expression
        .split("$(")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(')')?.0))
        .filter(|name| is_name(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_names_in_dollar_parentheses() {
        assert_eq!(references("foo/$(POD_NAME)/$(OD_NAME)/conf"), ["POD_NAME", "OD_NAME"]);
        assert!(references("foo/bar").is_empty());
        assert!(references("").is_empty());
        assert!(references("$(1X)/$()/$(A B)/$(OPEN").is_empty());
    }
}
