//! Kinds that are stored so that manifests apply, and that nothing acts on. Of their objects only the metadata is checked. The defaults are
//! those that kubectl prints or needs, and those of workloads.

use pillion_rules::field::{Error, Path};
use pillion_rules::metadata::{self, NameRule, path_segment_name, subdomain_name};
use pillion_rules::value::{
    copy_fields, fill, fill_text, int, is_empty, items_mut, object_mut, pointer_mut, set, text,
};
use serde_json::{Value, json};

use crate::rules::{Rules, STORED, WITH_STATUS};
use crate::workload::{self, count_spec_changes, first_generation};

/// Rules of a kind in namespaces that has no status.
const NAMESPACED: Rules =
    Rules { validate: |object| validate(object, true, subdomain_name), validate_update, ..STORED };

/// Rules of a kind outside namespaces that has no status.
const CLUSTER: Rules = Rules { validate: |object| validate(object, false, subdomain_name), ..NAMESPACED };

/// Rules of a kind in namespaces with a status that only `/status` writes.
pub(crate) const NAMESPACED_WITH_STATUS: Rules = Rules {
    validate: |object| validate(object, true, subdomain_name),
    validate_update,
    validate_status: validate_update,
    ..WITH_STATUS
};

/// Rules of `Endpoints`.
pub(crate) const ENDPOINTS: Rules = Rules { create_on_update: true, ..NAMESPACED };

/// Rules of `EndpointSlices`. `kubectl describe` reads the protocol of every port.
pub(crate) const ENDPOINT_SLICE: Rules = Rules {
    default: |slice| {
        for port in items_mut(slice, "ports") {
            fill(port, "name", "");
            fill(port, "protocol", "TCP");
        }
    },
    ..NAMESPACED
};

/// Rules of `PersistentVolumes`.
pub(crate) const PERSISTENT_VOLUME: Rules = Rules {
    prepare_create: |volume| set(volume, "status", json!({"phase": "Pending"})),
    validate: |volume| validate(volume, false, subdomain_name),
    ..NAMESPACED_WITH_STATUS
};

/// Rules of `StorageClasses`.
pub(crate) const STORAGE_CLASS: Rules = Rules {
    default: |class| {
        fill(class, "reclaimPolicy", "Delete");
        fill(class, "volumeBindingMode", "Immediate");
    },
    ..CLUSTER
};

/// Rules of `PodTemplates`.
pub(crate) const POD_TEMPLATE: Rules = Rules { default: workload::default_template, ..NAMESPACED };

/// Rules of `ReplicationControllers`.
pub(crate) const REPLICATION_CONTROLLER: Rules = Rules {
    default: default_replication_controller,
    prepare_create: workload::prepare_create_replicas,
    prepare_update: workload::prepare_update,
    selectable: |controller, field| {
        (field == "status.replicas").then(|| int(&controller["status"], "replicas").to_string())
    },
    orphan_by_default: true,
    ..NAMESPACED_WITH_STATUS
};

/// Rules of `Ingresses`.
pub(crate) const INGRESS: Rules = Rules {
    prepare_create: |ingress| {
        set(ingress, "status", json!({"loadBalancer": {}}));
        first_generation(ingress);
    },
    prepare_update: |new, old| {
        copy_fields(new, old, &["status"]);
        count_spec_changes(new, old);
    },
    ..NAMESPACED_WITH_STATUS
};

/// Rules of `IngressClasses`.
pub(crate) const INGRESS_CLASS: Rules =
    Rules { prepare_create: first_generation, prepare_update: count_spec_changes, ..CLUSTER };

/// Rules of `NetworkPolicies`. `kubectl describe` prints the types.
pub(crate) const NETWORK_POLICY: Rules = Rules {
    default: |policy| {
        let spec = object_mut(policy, "spec");
        if is_empty(spec, "policyTypes") {
            let both = !is_empty(spec, "egress");
            set(spec, "policyTypes", if both { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
        }
    },
    prepare_create: first_generation,
    prepare_update: count_spec_changes,
    ..NAMESPACED
};

/// Rules of `Roles`.
pub(crate) const ROLE: Rules =
    Rules { validate: |role| validate(role, true, path_segment_name), create_on_update: true, ..NAMESPACED };

/// Rules of `ClusterRoles`.
pub(crate) const CLUSTER_ROLE: Rules = Rules { validate: |role| validate(role, false, path_segment_name), ..ROLE };

/// Rules of `RoleBindings`.
pub(crate) const ROLE_BINDING: Rules = Rules { default: default_binding, ..ROLE };

/// Rules of `ClusterRoleBindings`.
pub(crate) const CLUSTER_ROLE_BINDING: Rules = Rules { default: default_binding, ..CLUSTER_ROLE };

fn default_replication_controller(controller: &mut Value) {
    let spec = object_mut(controller, "spec");
    fill(spec, "replicas", 1);
    if pointer_mut(spec, "template").is_some() {
        workload::default_template(spec);
    }
    let labels = spec["template"]["metadata"]["labels"].clone();
    if !labels.is_object() {
        return;
    }
    if is_empty(spec, "selector") {
        set(spec, "selector", labels.clone());
    }
    let meta = object_mut(controller, "metadata");
    if is_empty(meta, "labels") {
        set(meta, "labels", labels);
    }
}

fn default_binding(binding: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    fill_text(object_mut(binding, "roleRef"), "apiGroup", GROUP);
    for subject in items_mut(binding, "subjects") {
        if ["User", "Group"].contains(&text(subject, "kind")) {
            fill(subject, "apiGroup", GROUP);
        }
    }
}

fn validate(object: &Value, namespaced: bool, name_rule: NameRule) -> Vec<Error> {
    metadata::validate_strict(&object["metadata"], &Path::new("metadata"), namespaced, name_rule)
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"))
}
