//! What discovery says of each resource, as kube-apiserver lists it.
//!
//! Requests that are passed on to what runs in a pod (`pods/proxy`, `services/proxy`) are not served, and so not listed: what
//! discovery lists is what is served.

use super::{Resource, Rules, Service, Storage, Subresource};
use crate::admissionregistration::{policy, policy_binding, webhook_configuration};
use crate::apps::{controller_revision, daemon_set, deployment, replica_set, stateful_set};
use crate::batch::{cron_job, job};
use crate::core::{
    config_map, event, limit_range, namespace, node, persistent_volume_claim, secret, service, service_account,
};
use crate::{
    access_review, autoscaling, custom_resource_definition, lease, pod, pod_disruption_budget, priority_class, rules,
    stored_only,
};

const OBJECT: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const PART: &[&str] = &["get", "patch", "update"];
const CREATE: &[&str] = &["create"];
const CONNECT: &[&str] = &["create", "get"];

macro_rules! resource {
    ($group:literal, $version:literal, $package:literal, $plural:literal, $singular:literal, $kind:literal) => {
        Resource {
            group: $group,
            version: $version,
            plural: $plural,
            singular: $singular,
            kind: $kind,
            short_names: &[],
            categories: &[],
            namespaced: true,
            verbs: OBJECT,
            subresources: &[],
            schema: concat!($package, ".", $version, ".", $kind),
            service: Service::Full,
            rules: rules::STORED,
            deprecation: None,
            storage: None,
        }
    };
}

macro_rules! group {
    ($name:ident, $group:literal, $version:literal, $package:literal) => {
        macro_rules! $name {
            ($plural:literal, $singular:literal, $kind:literal) => {
                resource!($group, $version, $package, $plural, $singular, $kind)
            };
        }
    };
}

group!(core, "", "v1", "io.k8s.api.core");
group!(admissionregistration, "admissionregistration.k8s.io", "v1", "io.k8s.api.admissionregistration");
group!(apiextensions, "apiextensions.k8s.io", "v1", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions");
group!(apps, "apps", "v1", "io.k8s.api.apps");
group!(authentication, "authentication.k8s.io", "v1", "io.k8s.api.authentication");
group!(authorization, "authorization.k8s.io", "v1", "io.k8s.api.authorization");
group!(autoscaling_v1, "autoscaling", "v1", "io.k8s.api.autoscaling");
group!(autoscaling_v2, "autoscaling", "v2", "io.k8s.api.autoscaling");
group!(batch, "batch", "v1", "io.k8s.api.batch");
group!(coordination, "coordination.k8s.io", "v1", "io.k8s.api.coordination");
group!(discovery, "discovery.k8s.io", "v1", "io.k8s.api.discovery");
group!(events, "events.k8s.io", "v1", "io.k8s.api.events");
group!(metrics, "metrics.k8s.io", "v1beta1", "io.k8s.metrics.pkg.apis.metrics");
group!(networking, "networking.k8s.io", "v1", "io.k8s.api.networking");
group!(policy, "policy", "v1", "io.k8s.api.policy");
group!(rbac, "rbac.authorization.k8s.io", "v1", "io.k8s.api.rbac");
group!(scheduling, "scheduling.k8s.io", "v1", "io.k8s.api.scheduling");
group!(storage, "storage.k8s.io", "v1", "io.k8s.api.storage");

impl Resource {
    const fn cluster(self) -> Resource {
        Resource { namespaced: false, ..self }
    }

    const fn short(self, short_names: &'static [&'static str]) -> Resource {
        Resource { short_names, ..self }
    }

    const fn category(self, categories: &'static [&'static str]) -> Resource {
        Resource { categories, ..self }
    }

    const fn verbs(self, verbs: &'static [&'static str]) -> Resource {
        Resource { verbs, ..self }
    }

    const fn with(self, subresources: &'static [Subresource]) -> Resource {
        Resource { subresources, ..self }
    }

    const fn stored_only(self) -> Resource {
        Resource { service: Service::StoredOnly, ..self }
    }

    const fn answered(self, verbs: &'static [&'static str]) -> Resource {
        Resource { service: Service::Answered, ..self.verbs(verbs) }
    }

    const fn deprecated(self, warning: &'static str) -> Resource {
        Resource { deprecation: Some(warning), ..self }
    }

    const fn rules(self, rules: Rules) -> Resource {
        Resource { rules, ..self }
    }

    const fn kept_as(self, storage: Storage) -> Resource {
        Resource { storage: Some(storage), ..self }
    }
}

const fn below(name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Subresource {
    Subresource { name, kind, group: "", version: "", verbs }
}

const fn status(kind: &'static str) -> Subresource {
    below("status", kind, PART)
}

const fn foreign(
    name: &'static str,
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
) -> Subresource {
    Subresource { name, kind, group, version, verbs }
}

const SCALE: Subresource = foreign("scale", "autoscaling", "v1", "Scale", PART);

const POD: &[Subresource] = &[
    below("attach", "PodAttachOptions", CONNECT),
    below("binding", "Binding", CREATE),
    below("ephemeralcontainers", "Pod", PART),
    foreign("eviction", "policy", "v1", "Eviction", CREATE),
    below("exec", "PodExecOptions", CONNECT),
    below("log", "Pod", &["get"]),
    below("portforward", "PodPortForwardOptions", CONNECT),
    below("resize", "Pod", PART),
    status("Pod"),
];

const POD_RULES: Rules = Rules {
    default: pod::apply_defaults,
    prepare_create: pod::prepare_create,
    validate: pod::validate,
    prepare_update: pod::prepare_update,
    validate_update: pod::validate_update,
    prepare_status: pod::prepare_status,
    validate_status: pod::validate_status,
    warnings: pod::warnings,
    selectable: pod::selectable,
    ..rules::WITH_STATUS
};

/// Groups as `/apis` lists them, resources by name.
pub(super) static ALL: &[Resource] = &[
    core!("bindings", "binding", "Binding").answered(CREATE),
    core!("configmaps", "configmap", "ConfigMap").rules(config_map::RULES).short(&["cm"]),
    core!("endpoints", "endpoints", "Endpoints")
        .rules(stored_only::ENDPOINTS)
        .deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        .short(&["ep"])
        .stored_only(),
    core!("events", "event", "Event").rules(event::RULES).short(&["ev"]),
    core!("limitranges", "limitrange", "LimitRange").rules(limit_range::RULES).short(&["limits"]),
    core!("namespaces", "namespace", "Namespace")
        .rules(namespace::RULES)
        .short(&["ns"])
        .cluster()
        .verbs(&["create", "delete", "get", "list", "patch", "update", "watch"])
        .with(&[below("finalize", "Namespace", &["update"]), status("Namespace")]),
    core!("nodes", "node", "Node")
        .rules(node::RULES)
        .short(&["no"])
        .cluster()
        .with(&[below("proxy", "NodeProxyOptions", &["create", "delete", "get", "patch", "update"]), status("Node")]),
    core!("persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim")
        .rules(persistent_volume_claim::RULES)
        .short(&["pvc"])
        .with(&[status("PersistentVolumeClaim")])
        .stored_only(),
    core!("persistentvolumes", "persistentvolume", "PersistentVolume")
        .rules(stored_only::PERSISTENT_VOLUME)
        .short(&["pv"])
        .cluster()
        .with(&[status("PersistentVolume")])
        .stored_only(),
    core!("pods", "pod", "Pod").rules(POD_RULES).short(&["po"]).category(&["all"]).with(POD),
    core!("podtemplates", "podtemplate", "PodTemplate").rules(stored_only::POD_TEMPLATE).stored_only(),
    core!("replicationcontrollers", "replicationcontroller", "ReplicationController")
        .rules(stored_only::REPLICATION_CONTROLLER)
        .short(&["rc"])
        .category(&["all"])
        .with(&[SCALE, status("ReplicationController")])
        .stored_only(),
    core!("resourcequotas", "resourcequota", "ResourceQuota")
        .rules(stored_only::NAMESPACED_WITH_STATUS)
        .short(&["quota"])
        .with(&[status("ResourceQuota")])
        .stored_only(),
    core!("secrets", "secret", "Secret").rules(secret::RULES),
    core!("serviceaccounts", "serviceaccount", "ServiceAccount")
        .rules(service_account::RULES)
        .short(&["sa"])
        .with(&[foreign("token", "authentication.k8s.io", "v1", "TokenRequest", CREATE)]),
    core!("services", "service", "Service")
        .rules(service::RULES)
        .short(&["svc"])
        .category(&["all"])
        .with(&[status("Service")]),
    apps!("controllerrevisions", "controllerrevision", "ControllerRevision").rules(controller_revision::RULES),
    apps!("daemonsets", "daemonset", "DaemonSet")
        .rules(daemon_set::RULES)
        .short(&["ds"])
        .category(&["all"])
        .with(&[status("DaemonSet")]),
    apps!("deployments", "deployment", "Deployment")
        .rules(deployment::RULES)
        .short(&["deploy"])
        .category(&["all"])
        .with(&[SCALE, status("Deployment")]),
    apps!("replicasets", "replicaset", "ReplicaSet")
        .rules(replica_set::RULES)
        .short(&["rs"])
        .category(&["all"])
        .with(&[SCALE, status("ReplicaSet")]),
    apps!("statefulsets", "statefulset", "StatefulSet")
        .rules(stateful_set::RULES)
        .short(&["sts"])
        .category(&["all"])
        .with(&[SCALE, status("StatefulSet")]),
    events!("events", "event", "Event").rules(event::NEW_RULES).kept_as(event::STORAGE).short(&["ev"]),
    authentication!("selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview").cluster().answered(CREATE),
    authentication!("tokenreviews", "tokenreview", "TokenReview").cluster().answered(CREATE),
    authorization!("localsubjectaccessreviews", "localsubjectaccessreview", "LocalSubjectAccessReview")
        .rules(access_review::LOCAL)
        .answered(CREATE),
    authorization!("selfsubjectaccessreviews", "selfsubjectaccessreview", "SelfSubjectAccessReview")
        .rules(access_review::SELF)
        .cluster()
        .answered(CREATE),
    authorization!("selfsubjectrulesreviews", "selfsubjectrulesreview", "SelfSubjectRulesReview")
        .cluster()
        .answered(CREATE),
    authorization!("subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview")
        .rules(access_review::SUBJECT)
        .cluster()
        .answered(CREATE),
    autoscaling_v2!("horizontalpodautoscalers", "horizontalpodautoscaler", "HorizontalPodAutoscaler")
        .rules(autoscaling::RULES)
        .short(&["hpa"])
        .category(&["all"])
        .with(&[status("HorizontalPodAutoscaler")])
        .stored_only(),
    autoscaling_v1!("horizontalpodautoscalers", "horizontalpodautoscaler", "HorizontalPodAutoscaler")
        .rules(autoscaling::RULES)
        .kept_as(autoscaling::STORAGE)
        .short(&["hpa"])
        .category(&["all"])
        .with(&[status("HorizontalPodAutoscaler")])
        .stored_only(),
    batch!("cronjobs", "cronjob", "CronJob")
        .rules(cron_job::RULES)
        .short(&["cj"])
        .category(&["all"])
        .with(&[status("CronJob")]),
    batch!("jobs", "job", "Job").rules(job::RULES).category(&["all"]).with(&[status("Job")]),
    networking!("ingressclasses", "ingressclass", "IngressClass")
        .rules(stored_only::INGRESS_CLASS)
        .cluster()
        .stored_only(),
    networking!("ingresses", "ingress", "Ingress")
        .rules(stored_only::INGRESS)
        .short(&["ing"])
        .with(&[status("Ingress")])
        .stored_only(),
    networking!("networkpolicies", "networkpolicy", "NetworkPolicy")
        .rules(stored_only::NETWORK_POLICY)
        .short(&["netpol"])
        .stored_only(),
    policy!("poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget")
        .rules(pod_disruption_budget::RULES)
        .short(&["pdb"])
        .with(&[status("PodDisruptionBudget")]),
    rbac!("clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding")
        .rules(stored_only::CLUSTER_ROLE_BINDING)
        .cluster()
        .stored_only(),
    rbac!("clusterroles", "clusterrole", "ClusterRole").rules(stored_only::CLUSTER_ROLE).cluster().stored_only(),
    rbac!("rolebindings", "rolebinding", "RoleBinding").rules(stored_only::ROLE_BINDING).stored_only(),
    rbac!("roles", "role", "Role").rules(stored_only::ROLE).stored_only(),
    storage!("storageclasses", "storageclass", "StorageClass")
        .rules(stored_only::STORAGE_CLASS)
        .short(&["sc"])
        .cluster()
        .stored_only(),
    admissionregistration!(
        "mutatingwebhookconfigurations",
        "mutatingwebhookconfiguration",
        "MutatingWebhookConfiguration"
    )
    .rules(webhook_configuration::MUTATING)
    .category(&["api-extensions"])
    .cluster(),
    admissionregistration!("validatingadmissionpolicies", "validatingadmissionpolicy", "ValidatingAdmissionPolicy")
        .rules(policy::RULES)
        .category(&["api-extensions"])
        .cluster()
        .with(&[status("ValidatingAdmissionPolicy")]),
    admissionregistration!(
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicybinding",
        "ValidatingAdmissionPolicyBinding"
    )
    .rules(policy_binding::RULES)
    .category(&["api-extensions"])
    .cluster(),
    admissionregistration!(
        "validatingwebhookconfigurations",
        "validatingwebhookconfiguration",
        "ValidatingWebhookConfiguration"
    )
    .rules(webhook_configuration::VALIDATING)
    .category(&["api-extensions"])
    .cluster(),
    apiextensions!("customresourcedefinitions", "customresourcedefinition", "CustomResourceDefinition")
        .rules(custom_resource_definition::RULES)
        .short(&["crd", "crds"])
        .category(&["api-extensions"])
        .cluster()
        .with(&[status("CustomResourceDefinition")]),
    scheduling!("priorityclasses", "priorityclass", "PriorityClass")
        .rules(priority_class::RULES)
        .short(&["pc"])
        .cluster(),
    coordination!("leases", "lease", "Lease").rules(lease::RULES),
    discovery!("endpointslices", "endpointslice", "EndpointSlice").rules(stored_only::ENDPOINT_SLICE).stored_only(),
    metrics!("nodes", "", "NodeMetrics").cluster().answered(&["get", "list"]),
    metrics!("pods", "", "PodMetrics").answered(&["get", "list"]),
];
