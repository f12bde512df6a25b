//! The objects of an installation.

mod access;
mod agent_parameters;
mod agents_writes;
mod definitions;
mod removal;
mod workload;

use pillion_api::names::MANAGED_BY;
use pillion_manager::ControllerName;
use serde_json::{Value, json};

use crate::options::Options;

pub use self::workload::own_flags;

/// The name of the Deployment, the service account and what belongs to them.
pub const MANAGER: &str = "pillion-manager";
/// The name of the Service of the webhooks.
pub const SERVICE: &str = "pillion-webhook";
/// The Secret in which the manager keeps the certificates that it makes.
pub const CERTIFICATE_SECRET: &str = "pillion-webhook-certificate";
/// The name of both webhook configurations, in which the manager registers its webhooks.
pub const CONFIGURATION: &str = "pillion";

/// The port of `/healthz`, `/readyz` and `/metrics`.
pub const HEALTH_PORT: u16 = 8080;
/// Finds the pods that serve webhooks.
pub const REPLICAS: &str = "app.kubernetes.io/name=pillion,app.kubernetes.io/component=manager";

/// The label of everything that is installed, and of its pods.
pub(crate) const NAME_LABEL: &str = "app.kubernetes.io/name";
/// The label that says what something is a part of.
pub(crate) const COMPONENT_LABEL: &str = "app.kubernetes.io/component";
/// The value of `app.kubernetes.io/managed-by` on everything that is installed.
pub(crate) const OURS: &str = "pillion";
/// Finds everything that is installed.
pub(crate) const SELECTOR: &str = "app.kubernetes.io/name=pillion,app.kubernetes.io/managed-by=pillion";

/// Finds every pod that is installed, except one that removes the others.
pub(crate) const PODS: &str = "app.kubernetes.io/name=pillion,app.kubernetes.io/component!=removal";

/// The component of the manager's namespace, of its pods and of what is around them.
pub(crate) const HOME: &str = "manager";
/// The component of the revisions' namespace, which outlives an installation.
pub(crate) const REVISIONS: &str = "revisions";
/// The label of the manager's namespace by which pods have to keep to a Pod Security Standard, and its value.
pub(crate) const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";
pub(crate) const POD_SECURITY_LEVEL: &str = "restricted";

/// The objects of an installation, in the order in which they are applied.
pub fn manifests(options: &Options) -> Vec<Value> {
    let options = options.clone().with_what_flags_need();
    let programs = programs(&options);
    let mut objects = definitions::objects(&options);
    objects.extend(access::objects(&options, &programs));
    objects.extend(workload::objects(&options, &programs));
    objects
}

/// Parts that run in one Deployment, with one account.
struct Program {
    /// The name of the Deployment, the account and what belongs to them.
    name: String,
    /// The component of its pods.
    component: &'static str,
    parts: Vec<ControllerName>,
}

/// What runs. The webhooks run in what is called the manager, so that Services and commands find it under one name.
fn programs(options: &Options) -> Vec<Program> {
    let manager = |parts| Program { name: MANAGER.to_owned(), component: "manager", parts };
    if !options.separate {
        return vec![manager(options.controllers.clone())];
    }
    let of = |part: &ControllerName| match part {
        ControllerName::Webhook => manager(vec![ControllerName::Webhook]),
        part => Program { name: format!("pillion-{part}"), component: part.name(), parts: vec![*part] },
    };
    options.controllers.iter().map(of).collect()
}

/// The objects with which a Helm release prepares its own removal: a Job that runs `pillion-manager prepare-uninstall`, and its rights.
pub fn removal(options: &Options) -> Vec<Value> {
    removal::objects(options)
}

/// The metadata of an object. Without a namespace it belongs to the whole cluster.
fn metadata(name: &str, namespace: Option<&str>, component: &str) -> Value {
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    metadata["labels"] = json!({
        NAME_LABEL: "pillion",
        COMPONENT_LABEL: component,
        MANAGED_BY: OURS,
    });
    metadata
}

/// The labels by which the pods of a component are found.
fn pod_labels(component: &str) -> Value {
    json!({NAME_LABEL: "pillion", COMPONENT_LABEL: component})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Certificates, KUBELETS};

    fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> Vec<&'a Value> {
        objects.iter().filter(|object| object["kind"] == kind && object["metadata"]["name"] == name).collect()
    }

    #[test]
    fn every_object_can_be_found_again_by_its_labels() {
        for object in manifests(&Options::default()) {
            let labels = &object["metadata"]["labels"];
            for label in SELECTOR.split(',') {
                let (key, value) = label.split_once('=').unwrap();
                assert_eq!(labels[key], value, "{object}");
            }
        }
    }

    #[test]
    fn there_is_no_wildcard_and_no_right_to_secrets_of_the_whole_cluster() {
        for object in manifests(&Options::default()).into_iter().chain(removal(&Options::default())) {
            for rule in object["rules"].as_array().into_iter().flatten() {
                assert!(!rule.to_string().contains('*'), "{object}");
                let names_secrets = rule["resources"].as_array().unwrap().contains(&json!("secrets"));
                assert!(!names_secrets || object["kind"] == "Role", "{object}");
            }
        }
    }

    #[test]
    fn a_controller_that_does_not_run_has_no_rights() {
        let options = Options { controllers: vec![ControllerName::Webhook], ..Options::default() };
        let objects = manifests(&options);
        assert!(find(&objects, "ClusterRole", "pillion-repair").is_empty());
        assert!(find(&objects, "ClusterRoleBinding", "pillion-repair").is_empty());
        assert_eq!(find(&objects, "ClusterRole", "pillion-webhook").len(), 1);
    }

    #[test]
    fn the_phase_of_pods_can_be_written_only_where_the_gate_is_on() {
        let of = |feature_gates: &str| {
            let feature_gates = feature_gates.to_owned();
            manifests(&Options { feature_gates, ..Options::default() })
        };
        // Rollouts write a condition of pods, whatever the gate is.
        let writes = |objects: &[Value]| {
            let others = objects.iter().filter(|object| object["metadata"]["name"] != "pillion-rollout");
            others.into_iter().any(|object| object["rules"].to_string().contains("pods/status"))
        };
        let (off, on) = (of(""), of("SidecarField=true"));
        assert_eq!((writes(&off), writes(&on)), (false, true));
        let rows = [("AllAlpha=true", true), ("AllAlpha=true,SidecarField=false", false), ("AllBeta=true", false)];
        for (gates, expected) in rows {
            assert_eq!(writes(&of(gates)), expected, "{gates}");
        }
        let args = |objects: &[Value]| {
            find(objects, "Deployment", MANAGER)[0]["spec"]["template"]["spec"]["containers"][0]["args"].clone()
        };
        assert!(!args(&off).to_string().contains("--wrap-image"));
        assert!(args(&on).as_array().unwrap().contains(&json!(format!("--wrap-image={}", Options::default().image))));
    }

    #[test]
    fn what_kubelets_measure_can_be_read_only_where_usage_comes_from_them() {
        let of = |separate: bool, flags: &[&str]| {
            let manager_args = flags.iter().map(|flag| (*flag).to_owned()).collect();
            let objects = manifests(&Options { manager_args, separate, ..Options::default() });
            let reads = |object: &&Value| object["rules"].to_string().contains("\"nodes");
            objects.iter().filter(reads).map(|role| role["metadata"]["name"].clone()).collect::<Vec<_>>()
        };
        for separate in [false, true] {
            assert!(of(separate, &[]).is_empty());
            assert!(of(separate, &["--usage-source=metrics-api"]).is_empty());
            assert_eq!(of(separate, &["--log-level=debug", KUBELETS]), ["pillion-recommender-kubelets"]);
        }
        let options = Options {
            controllers: vec![ControllerName::Webhook],
            manager_args: vec![KUBELETS.to_owned()],
            ..Options::default()
        };
        assert!(find(&manifests(&options), "ClusterRole", "pillion-recommender-kubelets").is_empty());
    }

    #[test]
    fn a_replica_has_the_time_to_end_that_its_flags_say() {
        let grace = |flags: &[&str]| {
            let manager_args = flags.iter().map(|flag| (*flag).to_owned()).collect();
            let objects = manifests(&Options { manager_args, ..Options::default() });
            let pod = &find(&objects, "Deployment", MANAGER)[0]["spec"]["template"]["spec"];
            pod["terminationGracePeriodSeconds"].clone()
        };
        assert_eq!(grace(&[]), 30);
        assert_eq!(grace(&["--log-level=debug", "--shutdown-delay=60"]), 85);
        assert_eq!(grace(&["--shutdown-delay=0"]), 25);
    }

    #[test]
    fn whoever_removes_a_release_may_empty_our_configurations_and_no_others() {
        let objects = removal(&Options::default());
        let rules = find(&objects, "ClusterRole", "pillion-removal")[0]["rules"].as_array().unwrap();
        let rule = rules.iter().find(|rule| rule["apiGroups"] == json!(["admissionregistration.k8s.io"])).unwrap();
        assert_eq!(rule["resourceNames"], json!([CONFIGURATION]));
        assert_eq!(rule["verbs"], json!(["get", "patch"]));
    }

    #[test]
    fn more_flags_follow_those_of_the_installation_in_every_deployment() {
        let manager_args = vec!["--usage-source=kubelets".to_owned(), "--log-level=debug".to_owned()];
        for separate in [false, true] {
            let options = Options { separate, manager_args: manager_args.clone(), ..Options::default() };
            for deployment in manifests(&options).iter().filter(|object| object["kind"] == "Deployment") {
                let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
                let (own, more) = args.split_at(args.len() - manager_args.len());
                assert_eq!(more, manager_args);
                let own = own.iter().skip(1).map(|arg| arg.as_str().unwrap().split_once('=').unwrap().0);
                assert!(own.into_iter().all(|flag| own_flags().contains(&flag)), "{args:?}");
            }
        }
    }

    #[test]
    fn parts_that_run_apart_have_accounts_with_their_own_rights() {
        let options = Options { separate: true, controllers: ControllerName::ALL.to_vec(), ..Options::default() };
        let objects = manifests(&options);
        let of_kind = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
        let account = |part: ControllerName| {
            if part == ControllerName::Webhook { MANAGER.to_owned() } else { format!("pillion-{part}") }
        };
        for part in ControllerName::ALL {
            let deployment = find(&objects, "Deployment", &account(part))[0];
            let pod = &deployment["spec"]["template"]["spec"];
            assert_eq!(pod["serviceAccountName"], account(part));
            let arguments = pod["containers"][0]["args"].as_array().unwrap();
            assert!(arguments.contains(&json!(format!("--controllers={part}"))));
            assert_eq!(find(&objects, "ServiceAccount", &account(part)).len(), 1);
            assert_ne!(deployment["spec"]["selector"], Value::Null);
        }
        assert_eq!(of_kind("Deployment").len(), ControllerName::ALL.len());
        // What every part reads is granted to all, and everything else to one.
        for binding in of_kind("ClusterRoleBinding").into_iter().chain(of_kind("RoleBinding")) {
            let (name, subjects) = (binding["metadata"]["name"].as_str().unwrap(), &binding["subjects"]);
            let shared = ["pillion-manager", "pillion-revisions"].contains(&name);
            let expected = if shared { ControllerName::ALL.len() } else { 1 };
            assert_eq!(subjects.as_array().unwrap().len(), expected, "{name}");
        }
        let leader = &find(&objects, "RoleBinding", "pillion-updater-leader")[0]["subjects"];
        assert_eq!(leader[0]["name"], "pillion-updater");
        let service = find(&objects, "Service", SERVICE)[0];
        assert_eq!(service["spec"]["selector"]["app.kubernetes.io/component"], "manager");
    }

    #[test]
    fn with_certificates_of_somebody_else_no_secret_can_be_read() {
        let options = Options { certificates: Certificates::Secret("mine".to_owned()), ..Options::default() };
        let objects = manifests(&options);
        assert!(!objects.iter().any(|object| object["rules"].to_string().contains("secrets")));
        let pod = &find(&objects, "Deployment", MANAGER)[0]["spec"]["template"]["spec"];
        assert_eq!(pod["volumes"][0]["secret"]["secretName"], "mine");
        let manager = &pod["containers"][0];
        let folder = manager["volumeMounts"][0]["mountPath"].as_str().unwrap();
        assert!(manager["args"].as_array().unwrap().contains(&json!(format!("--certificates={folder}"))));
    }

    #[test]
    fn one_namespace_can_hold_the_manager_and_the_revisions() {
        let options = Options { revisions_namespace: "pillion-system".to_owned(), ..Options::default() };
        let objects = manifests(&options);
        assert_eq!(objects.iter().filter(|object| object["kind"] == "Namespace").count(), 1);
        let mut names: Vec<String> = objects
            .iter()
            .map(|object| {
                format!("{} {} {}", object["kind"], object["metadata"]["namespace"], object["metadata"]["name"])
            })
            .collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn what_the_manager_writes_is_left_to_it() {
        let objects = manifests(&Options::default());
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            assert!(find(&objects, kind, CONFIGURATION)[0].get("webhooks").is_none());
        }
        let definition = find(&objects, "CustomResourceDefinition", "sidecarsets.apps.kruise.io")[0];
        assert!(definition["spec"].get("conversion").is_none());
    }
}
