//! What runs, and what is around it: Services, a network policy, a PodDisruptionBudget, the Deployment.

use pillion_manager::{ControllerName, conversion_service};
use serde_json::{Value, json};

use super::{HEALTH_PORT, Program, SERVICE, metadata, pod_labels};
use crate::options::{Certificates, Options, SHUTDOWN_GRACE};

const WEBHOOK_PORT: u16 = 9443;
const CERTIFICATES_FOLDER: &str = "/etc/pillion/certificates";

pub(super) fn objects(options: &Options, programs: &[Program]) -> Vec<Value> {
    let mut conversion = service(&conversion_service(SERVICE), options);
    // A replica that is not ready can convert SidecarSets, and may have to before it can list them.
    conversion["spec"]["publishNotReadyAddresses"] = json!(true);
    let mut objects = vec![service(SERVICE, options), conversion];
    for program in programs {
        objects.extend([
            network_policy(program, options),
            disruption_budget(program, options),
            deployment(program, options),
        ]);
    }
    objects
}

fn service(name: &str, options: &Options) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, Some(&options.namespace), "manager"),
        "spec": {
            "selector": pod_labels("manager"),
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": "webhook"}],
        },
    })
}

/// The API server and the kubelet are outside the pod network, and no selector describes them: the ports are open, and all others closed.
/// Where the API server is reached differs between clusters, so that what the manager may connect to is not limited.
fn network_policy(program: &Program, options: &Options) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(&program.name, Some(&options.namespace), program.component),
        "spec": {
            "podSelector": {"matchLabels": pod_labels(program.component)},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [
                {"port": "webhook", "protocol": "TCP"},
                {"port": "health", "protocol": "TCP"},
            ]}],
        },
    })
}

/// A pod that is not ready protects nobody, and may always be evicted.
fn disruption_budget(program: &Program, options: &Options) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(&program.name, Some(&options.namespace), program.component),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": pod_labels(program.component)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    })
}

fn deployment(program: &Program, options: &Options) -> Value {
    let mut metadata = metadata(&program.name, Some(&options.namespace), program.component);
    metadata["labels"]["app.kubernetes.io/version"] = json!(env!("CARGO_PKG_VERSION"));
    let mut pod = json!({
        "serviceAccountName": program.name,
        "securityContext": pod_security_context(),
        "terminationGracePeriodSeconds": options.shutdown_delay().saturating_add(SHUTDOWN_GRACE),
        "topologySpreadConstraints": spread(program),
        "containers": [container(program, options)],
    });
    if let Certificates::Secret(name) = &options.certificates {
        pod["volumes"] = json!([{"name": "certificates", "secret": {"secretName": name}}]);
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": options.replicas,
            "selector": {"matchLabels": pod_labels(program.component)},
            // A replica ends only after its successor is ready: there is always one that answers.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": pod_labels(program.component)}, "spec": pod},
        },
    })
}

/// The flags of the manager that an installation sets itself.
pub fn own_flags() -> Vec<&'static str> {
    flags(&[], &Options::default()).into_iter().map(|(flag, _)| flag).collect()
}

/// Those flags with their values. One whose value is empty is left out.
fn flags(parts: &[ControllerName], options: &Options) -> [(&'static str, String); 11] {
    let controllers: Vec<&str> = parts.iter().copied().map(ControllerName::name).collect();
    let certificates = match options.certificates {
        Certificates::SelfMade => "self",
        Certificates::Secret(_) => CERTIFICATES_FOLDER,
    };
    [
        ("--namespace", options.namespace.clone()),
        ("--controllers", controllers.join(",")),
        ("--revisions-namespace", options.revisions_namespace.clone()),
        ("--service-name", SERVICE.to_owned()),
        // Every address of the pod: that of a cluster without IPv4 is one of IPv6.
        ("--bind-address", format!("[::]:{WEBHOOK_PORT}")),
        ("--health-address", format!("[::]:{HEALTH_PORT}")),
        ("--certificates", certificates.to_owned()),
        ("--log-format", options.log_format.clone()),
        ("--feature-gates", options.feature_gates.clone()),
        ("--take-over", options.take_over.clone()),
        ("--wrap-image", options.wrap_image.clone()),
    ]
}

fn container(program: &Program, options: &Options) -> Value {
    let given = flags(&program.parts, options).into_iter().filter(|(_, value)| !value.is_empty());
    let mut args: Vec<String> = given.map(|(flag, value)| format!("{flag}={value}")).collect();
    args.extend_from_slice(&options.manager_args);
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "health"}});
    let mut container = json!({
        "name": "manager",
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        "args": args,
        "ports": [
            {"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"},
            {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
        ],
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        // Memory grows with SidecarSets and pods; 50,000 of the former and 100,000 of the latter fit.
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": container_security_context(),
    });
    for (probe, period, failures) in [("livenessProbe", 10, 6), ("readinessProbe", 2, 3)] {
        container[probe]["periodSeconds"] = json!(period);
        container[probe]["timeoutSeconds"] = json!(5);
        container[probe]["failureThreshold"] = json!(failures);
    }
    if let Certificates::Secret(_) = options.certificates {
        container["volumeMounts"] =
            json!([{"name": "certificates", "mountPath": CERTIFICATES_FOLDER, "readOnly": true}]);
    }
    container
}

/// On different nodes and in different zones where there are any.
fn spread(program: &Program) -> Vec<Value> {
    let over = |topology: &str| {
        json!({
            "maxSkew": 1,
            "topologyKey": topology,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": pod_labels(program.component)},
            "matchLabelKeys": ["pod-template-hash"],
        })
    };
    ["kubernetes.io/hostname", "topology.kubernetes.io/zone"].map(over).to_vec()
}

pub(super) fn pod_security_context() -> Value {
    json!({"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}})
}

pub(super) fn container_security_context() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
    })
}
