//! A container as the API server judges it when the pod is created.
//!
//! Limits of Kubernetes 1.33 and later. A field that the API server has a default for may be absent.

mod env;
mod handlers;
mod mounts;
mod ports;
mod resources;
mod security_context;

use k8s_openapi::api::core::v1::{Container, ContainerResizePolicy};
use pillion_patch::name::dns_label;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use super::check;
use super::containers::Role;
use super::volumes::Volumes;
use crate::field::{Error, Path};

pub(super) use env::{validate_field_ref, validate_resource_field_ref};
pub(super) use mounts::{validate_no_backsteps, validate_projected_path};
pub(super) use ports::HostPorts;

pub(super) fn validate(
    container: &Map<String, Value>,
    role: Role,
    volumes: &Volumes,
    host_ports: &mut HostPorts,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let Some(container) = read::<Container>(container, path, errors) else { return };
    validate_identity(&container, path, errors);
    let ports = container.ports.as_deref().unwrap_or_default();
    ports::validate(ports, role, host_ports, &path.child("ports"), errors);
    env::validate(container.env.as_deref().unwrap_or_default(), &path.child("env"), errors);
    env::validate_from(container.env_from.as_deref().unwrap_or_default(), &path.child("envFrom"), errors);
    mounts::validate(&container, volumes, path, errors);
    if let Some(resources) = &container.resources {
        resources::validate(resources, &path.child("resources"), errors);
    }
    let resize_policy = container.resize_policy.as_deref().unwrap_or_default();
    validate_resize_policy(resize_policy, &path.child("resizePolicy"), errors);
    if let Some(context) = &container.security_context {
        security_context::validate(context, &path.child("securityContext"), errors);
    }
    handlers::validate(&container, role, path, errors);
}

fn validate_identity(container: &Container, path: &Path, errors: &mut Vec<Error>) {
    let name = path.child("name");
    if container.name.is_empty() {
        errors.push(Error::required(&name, ""));
    } else {
        check(dns_label(&container.name), &container.name, &name, errors);
    }
    match container.image.as_deref().unwrap_or_default() {
        "" => errors.push(Error::required(&path.child("image"), "")),
        image if image.trim() != image => {
            errors.push(Error::invalid(&path.child("image"), image, "must not have leading or trailing whitespace"));
        }
        _ => {}
    }
    let pull_policies = ["Always", "IfNotPresent", "Never"];
    one_of(container.image_pull_policy.as_deref(), &pull_policies, &path.child("imagePullPolicy"), errors);
    let message_policies = ["File", "FallbackToLogsOnError"];
    let message_policy = container.termination_message_policy.as_deref();
    one_of(message_policy, &message_policies, &path.child("terminationMessagePolicy"), errors);
}

fn validate_resize_policy(policies: &[ContainerResizePolicy], path: &Path, errors: &mut Vec<Error>) {
    for (i, policy) in policies.iter().enumerate() {
        let path = path.index(i);
        if policies.iter().take(i).any(|earlier| earlier.resource_name == policy.resource_name) {
            errors.push(Error::duplicate(&path, policy.resource_name.as_str()));
        }
        one_of(Some(&policy.resource_name), &["cpu", "memory"], &path.child("resourceName"), errors);
        let restart_policies = ["NotRequired", "RestartContainer"];
        one_of(Some(&policy.restart_policy), &restart_policies, &path.child("restartPolicy"), errors);
    }
}

/// Refuses a value that is neither absent nor one of those listed.
pub(super) fn one_of(value: Option<&str>, supported: &[&str], path: &Path, errors: &mut Vec<Error>) {
    if let Some(value) = value.filter(|value| !supported.contains(value)) {
        errors.push(Error::not_supported(path, value, supported));
    }
}

/// Refuses an absent or empty text.
pub(super) fn require(value: Option<&str>, path: &Path, errors: &mut Vec<Error>) {
    if value.unwrap_or_default().is_empty() {
        errors.push(Error::required(path, ""));
    }
}

/// Reads JSON as a type of the Kubernetes API, or says which field has the wrong type.
pub(super) fn read<T: DeserializeOwned>(json: &Map<String, Value>, path: &Path, errors: &mut Vec<Error>) -> Option<T> {
    let mut json = Value::Object(json.clone());
    write_quantities_as_text(&mut json);
    let error = match serde_path_to_error::deserialize(&json) {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    let (mut path, mut value) = (path.clone(), Some(&json));
    for segment in error.path() {
        match segment {
            Segment::Map { key } => (path, value) = (path.child(key), value.and_then(|value| value.get(key))),
            Segment::Seq { index } => (path, value) = (path.index(*index), value.and_then(|value| value.get(index))),
            Segment::Enum { .. } | Segment::Unknown => break,
        }
    }
    errors.push(Error::type_invalid(&path, value.cloned().unwrap_or_default(), error.inner().to_string()));
    None
}

/// A quantity may be a JSON number, but its Rust type wants text.
fn write_quantities_as_text(json: &mut Value) {
    fn as_text(value: &mut Value) {
        if let Value::Number(number) = value {
            *value = Value::String(number.to_string());
        }
    }
    match json {
        Value::Object(map) => {
            for (key, value) in map {
                match key.as_str() {
                    "sizeLimit" | "divisor" => as_text(value),
                    "limits" | "requests" => {
                        value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(as_text);
                    }
                    _ => write_quantities_as_text(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(write_quantities_as_text),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{container, container_errors, errors};

    #[test]
    fn a_container_has_a_name_and_an_image() {
        insta::assert_snapshot!(container_errors(json!({"name": "", "image": null})), @"
        spec.containers[0].name: Required value
        spec.containers[0].image: Required value
        ");
        insta::assert_snapshot!(
            container_errors(json!({
                "name": "a_b",
                "image": " envoy",
                "imagePullPolicy": "Sometimes",
                "terminationMessagePolicy": "Log",
            })),
            @r#"
        spec.containers[0].name: Invalid value: "a_b": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character
        spec.containers[0].image: Invalid value: " envoy": must not have leading or trailing whitespace
        spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"
        spec.containers[0].terminationMessagePolicy: Unsupported value: "Log": supported values: "File", "FallbackToLogsOnError"
        "#
        );
    }

    #[test]
    fn ports_are_numbers_with_names_of_their_own() {
        insta::assert_snapshot!(
            container_errors(json!({"ports": [
                {"name": "http", "containerPort": 80, "hostPort": 8080},
                {"name": "http", "containerPort": 0, "hostPort": 8080},
                {"name": "HTTP", "containerPort": 65536, "hostPort": -1},
                {"name": "a--b", "containerPort": 1, "protocol": "QUIC"},
                {"name": "-a", "containerPort": 1, "hostPort": 8080, "protocol": "UDP"},
                {"name": "123", "containerPort": 1},
                {"name": "longer-than-fifteen", "containerPort": 1},
            ]})),
            @r#"
        spec.containers[0].ports[1].name: Duplicate value: "http"
        spec.containers[0].ports[1].containerPort: Required value
        spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//8080"
        spec.containers[0].ports[2].name: Invalid value: "HTTP": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)
        spec.containers[0].ports[2].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive
        spec.containers[0].ports[2].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive
        spec.containers[0].ports[3].name: Invalid value: "a--b": must not contain consecutive hyphens
        spec.containers[0].ports[3].protocol: Unsupported value: "QUIC": supported values: "SCTP", "TCP", "UDP"
        spec.containers[0].ports[4].name: Invalid value: "-a": must not begin or end with a hyphen
        spec.containers[0].ports[5].name: Invalid value: "123": must contain at least one letter (a-z)
        spec.containers[0].ports[6].name: Invalid value: "longer-than-fifteen": must be no more than 15 characters
        "#
        );
    }

    #[test]
    fn containers_share_the_ports_of_a_node_and_init_containers_do_not() {
        let named = |name: &str| container(json!({"name": name, "ports": [{"containerPort": 1, "hostPort": 80}]}));
        insta::assert_snapshot!(errors(json!({"containers": [named("a"), named("b")]})), @r#"spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//80""#);
        assert_eq!(errors(json!({"containers": [named("a")], "initContainers": [named("b"), named("c")]})), "");
    }

    #[test]
    fn variables_have_a_name_and_one_value() {
        let from = |name: &str, source: Value| json!({"name": name, "valueFrom": source});
        insta::assert_snapshot!(
            container_errors(json!({"env": [
                {"name": "a.b-c d"},
                {"name": "", "value": "a"},
                {"name": "a=b", "value": "a"},
                from("NONE", json!({})),
                from("TWO", json!({"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "a", "key": "b"}})),
                {"name": "VALUE", "value": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                from("FIELD", json!({"fieldRef": {"fieldPath": "spec.host"}})),
                from("VERSION", json!({"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}})),
                from("SUBSCRIPT", json!({"fieldRef": {"fieldPath": "spec.nodeName['a']"}})),
                from("LABEL", json!({"fieldRef": {"fieldPath": "metadata.labels['a b']"}})),
                from("EMPTY", json!({"fieldRef": {}})),
                from("RESOURCE", json!({"resourceFieldRef": {"resource": "limits.gpu"}})),
                from("DIVISOR", json!({"resourceFieldRef": {"resource": "requests.memory", "divisor": "1m"}})),
                from("HUGE", json!({"resourceFieldRef": {"resource": "limits.hugepages-2Mi", "divisor": "1Mi"}})),
                from("KEY", json!({"configMapKeyRef": {"name": "A", "key": "a/b"}})),
                from("DOTS", json!({"secretKeyRef": {"name": "a", "key": ".."}})),
            ]})),
            @r#"
        spec.containers[0].env[1].name: Required value
        spec.containers[0].env[2].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='
        spec.containers[0].env[3].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`
        spec.containers[0].env[4].valueFrom: Invalid value: "": may not have more than one field specified at a time
        spec.containers[0].env[5].valueFrom: Invalid value: "": may not be specified when `value` is not empty
        spec.containers[0].env[6].valueFrom.fieldRef.fieldPath: Unsupported value: "spec.host": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"
        spec.containers[0].env[7].valueFrom.fieldRef.apiVersion: Invalid value: "v2": unsupported pod version
        spec.containers[0].env[8].valueFrom.fieldRef.fieldPath: Invalid value: "spec.nodeName['a']": does not support subscript
        spec.containers[0].env[9].valueFrom.fieldRef.fieldPath: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character
        spec.containers[0].env[10].valueFrom.fieldRef.fieldPath: Required value
        spec.containers[0].env[11].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.gpu": supported values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"
        spec.containers[0].env[12].valueFrom.resourceFieldRef.divisor: Invalid value: "1m": only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with memory and storage resources
        spec.containers[0].env[14].valueFrom.configMapKeyRef.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character
        spec.containers[0].env[14].valueFrom.configMapKeyRef.key: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.'
        spec.containers[0].env[15].valueFrom.secretKeyRef.key: Invalid value: "..": must not be '.' and must not start with '..'
        "#
        );
        insta::assert_snapshot!(
            container_errors(json!({"envFrom": [
                {"prefix": "a=", "configMapRef": {"name": "a"}},
                {},
                {"configMapRef": {"name": ""}, "secretRef": {"name": "A"}},
            ]})),
            @r#"
        spec.containers[0].envFrom[0].prefix: Invalid value: "a=": a valid environment variable name must consist only of printable ASCII characters other than '='
        spec.containers[0].envFrom[1]: Invalid value: "": must specify one of: `configMapRef` or `secretRef`
        spec.containers[0].envFrom[2].configMapRef.name: Required value
        spec.containers[0].envFrom[2].secretRef.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character
        spec.containers[0].envFrom[2]: Invalid value: "": may not have more than one field specified at a time
        "#
        );
    }

    #[test]
    fn mounts_and_devices_are_volumes_of_the_set_at_paths_of_their_own() {
        let spec = json!({
            "volumes": [
                {"name": "claim", "persistentVolumeClaim": {"claimName": "a"}},
                {"name": "dir", "emptyDir": {}},
                {"name": "image", "image": {"reference": "a"}},
            ],
            "containers": [container(json!({
                "volumeMounts": [
                    {"name": "dir", "mountPath": "/a", "subPath": "b", "subPathExpr": "$(C)"},
                    {"name": "dir", "mountPath": "/a", "subPath": "/b"},
                    {"name": "nobody", "mountPath": "/c", "subPath": "d/../e"},
                    {"name": "", "mountPath": ""},
                    {"name": "claim", "mountPath": "/d", "mountPropagation": "Bidirectional"},
                    {"name": "image", "mountPath": "/e", "subPath": "f", "recursiveReadOnly": "Enabled", "mountPropagation": "Up"},
                ],
                "volumeDevices": [
                    {"name": "claim", "devicePath": "/dev/a"},
                    {"name": "claim", "devicePath": "/dev/a"},
                    {"name": "dir", "devicePath": "/dev/../b"},
                    {"name": "nobody2", "devicePath": ""},
                ],
            }))],
        });
        insta::assert_snapshot!(errors(spec), @r#"
        spec.containers[0].volumeMounts[0].name: Invalid value: "dir": must not already exist in volumeDevices
        spec.containers[0].volumeMounts[0].subPathExpr: Invalid value: "$(C)": subPathExpr and subPath are mutually exclusive
        spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique
        spec.containers[0].volumeMounts[1].name: Invalid value: "dir": must not already exist in volumeDevices
        spec.containers[0].volumeMounts[1].subPath: Invalid value: "/b": must be a relative path
        spec.containers[0].volumeMounts[2].name: Not found: "nobody"
        spec.containers[0].volumeMounts[2].subPath: Invalid value: "d/../e": must not contain '..'
        spec.containers[0].volumeMounts[3].name: Required value
        spec.containers[0].volumeMounts[3].mountPath: Required value
        spec.containers[0].volumeMounts[4].name: Invalid value: "claim": must not already exist in volumeDevices
        spec.containers[0].volumeMounts[4].mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers
        spec.containers[0].volumeMounts[5].subPath: Invalid value: "f": not allowed in image volume sources
        spec.containers[0].volumeMounts[5].mountPropagation: Unsupported value: "Up": supported values: "Bidirectional", "HostToContainer", "None"
        spec.containers[0].volumeMounts[5].recursiveReadOnly: Forbidden: may only be specified when readOnly is true
        spec.containers[0].volumeMounts[5].recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not specified
        spec.containers[0].volumeDevices[0].name: Invalid value: "claim": must not already exist in volumeMounts
        spec.containers[0].volumeDevices[1].name: Invalid value: "claim": must be unique
        spec.containers[0].volumeDevices[1].devicePath: Invalid value: "/dev/a": must be unique
        spec.containers[0].volumeDevices[1].name: Invalid value: "claim": must not already exist in volumeMounts
        spec.containers[0].volumeDevices[2].name: Invalid value: "dir": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode
        spec.containers[0].volumeDevices[2].devicePath: Invalid value: "/dev/../b": must not contain '..'
        spec.containers[0].volumeDevices[2].name: Invalid value: "dir": must not already exist in volumeMounts
        spec.containers[0].volumeDevices[3].name: Not found: "nobody2"
        spec.containers[0].volumeDevices[3].devicePath: Required value
        "#);
    }

    #[test]
    fn resources_are_quantities_and_a_request_is_within_its_limit() {
        insta::assert_snapshot!(
            container_errors(json!({"resources": {
                "limits": {
                    "cpu": "1", "memory": "-1", "gpu": "1", "example.com/a": "1.5", "example.com/b": "1", "a b": "1",
                    "ephemeral-storage": "lots",
                },
                "requests": {"cpu": "1001m", "example.com/b": "2", "example.com/c": "1"},
                "claims": [{"name": "gpu"}],
            }})),
            @r#"
        spec.containers[0].resources.limits[a b]: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character
        spec.containers[0].resources.limits[a b]: Invalid value: "a b": must be a standard resource for containers
        spec.containers[0].resources.limits[ephemeral-storage]: Invalid value: "lots": expected a digit at byte 0: a quantity starts with a number, such as 500m, 2 or 1Gi
        spec.containers[0].resources.limits[example.com/a]: Invalid value: "1.5": must be an integer
        spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers
        spec.containers[0].resources.limits[memory]: Invalid value: "-1": must be greater than or equal to 0
        spec.containers[0].resources.requests[cpu]: Invalid value: "1001m": must be less than or equal to cpu limit of 1
        spec.containers[0].resources.requests[example.com/b]: Invalid value: "2": must be equal to example.com/b limit of 1
        spec.containers[0].resources.limits[example.com/c]: Required value: Limit must be set for non overcommitable resources
        spec.containers[0].resources.claims[0]: Not found: "gpu"
        "#
        );
        insta::assert_snapshot!(container_errors(json!({"resources": {"limits": {"hugepages-2Mi": "2Mi"}}})), @"spec.containers[0].resources: Forbidden: HugePages require cpu or memory");
        insta::assert_snapshot!(
            container_errors(json!({"resizePolicy": [
                {"resourceName": "cpu", "restartPolicy": "NotRequired"},
                {"resourceName": "cpu", "restartPolicy": "Always"},
                {"resourceName": "gpu"},
            ]})),
            @r#"
        spec.containers[0].resizePolicy[1]: Duplicate value: "cpu"
        spec.containers[0].resizePolicy[1].restartPolicy: Unsupported value: "Always": supported values: "NotRequired", "RestartContainer"
        spec.containers[0].resizePolicy[2].resourceName: Unsupported value: "gpu": supported values: "cpu", "memory"
        spec.containers[0].resizePolicy[2].restartPolicy: Unsupported value: "": supported values: "NotRequired", "RestartContainer"
        "#
        );
    }

    #[test]
    fn probes_do_one_thing_with_good_numbers() {
        insta::assert_snapshot!(
            container_errors(json!({
                "livenessProbe": {"successThreshold": 2, "periodSeconds": -1, "terminationGracePeriodSeconds": 0, "exec": {}},
                "readinessProbe": {
                    "successThreshold": 2, "terminationGracePeriodSeconds": 1, "tcpSocket": {"port": 0}, "grpc": {"port": 70000}
                },
                "startupProbe": {"successThreshold": 2, "httpGet": {
                    "port": "no port", "scheme": "FTP", "httpHeaders": [{"name": "a b", "value": ""}]
                }},
                "lifecycle": {"postStart": {}, "preStop": {"sleep": {"seconds": -1}}},
            })),
            @r#"
        spec.containers[0].livenessProbe.exec.command: Required value
        spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0
        spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1
        spec.containers[0].livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0
        spec.containers[0].readinessProbe.grpc: Forbidden: may not specify more than 1 handler type
        spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive
        spec.containers[0].readinessProbe.grpc.port: Invalid value: 70000: must be between 1 and 65535, inclusive
        spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes
        spec.containers[0].startupProbe.httpGet.port: Invalid value: "no port": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)
        spec.containers[0].startupProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"
        spec.containers[0].startupProbe.httpGet.httpHeaders[0].name: Invalid value: "a b": a valid HTTP header must consist of alphanumeric characters or '-'
        spec.containers[0].startupProbe.successThreshold: Invalid value: 2: must be 1
        spec.containers[0].lifecycle.postStart: Required value: must specify a handler type
        spec.containers[0].lifecycle.preStop.sleep.seconds: Invalid value: -1: must be non-negative
        "#
        );
    }

    #[test]
    fn a_startup_probe_need_not_say_what_the_api_server_adds() {
        assert_eq!(container_errors(json!({"startupProbe": {"httpGet": {"port": 80}}})), "");
        assert_eq!(container_errors(json!({"startupProbe": {"grpc": {"port": 80}, "successThreshold": 0}})), "");
    }

    #[test]
    fn only_what_keeps_running_has_probes_and_hooks() {
        let probes = |restart_policy: Value| {
            let probe = json!({"exec": {"command": ["true"]}});
            container(json!({
                "name": "init", "restartPolicy": restart_policy, "lifecycle": {"preStop": probe},
                "livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe
            }))
        };
        assert_eq!(errors(json!({"initContainers": [probes(json!("Always"))]})), "");
        insta::assert_snapshot!(errors(json!({"initContainers": [probes(json!("OnFailure"))]})), @r#"
        spec.initContainers[0].restartPolicy: Unsupported value: "OnFailure": supported values: "Always"
        spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always
        spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always
        spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always
        spec.initContainers[0].startupProbe: Forbidden: may not be set for init containers without restartPolicy=Always
        "#);
        insta::assert_snapshot!(errors(json!({"containers": [probes(json!("Always"))]})), @"spec.containers[0].restartPolicy: Forbidden: may not be set for non-init containers");
    }

    #[test]
    fn a_security_context_does_not_contradict_itself() {
        insta::assert_snapshot!(
            container_errors(json!({"securityContext": {
                "runAsUser": -1,
                "runAsGroup": 2_147_483_648_i64,
                "procMount": "Open",
                "privileged": true,
                "allowPrivilegeEscalation": false,
                "capabilities": {"add": ["CAP_SYS_ADMIN"]},
                "seccompProfile": {"type": "Localhost", "localhostProfile": "/a"},
                "appArmorProfile": {"type": "Localhost", "localhostProfile": ""},
            }})),
            @r#"
        spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive
        spec.containers[0].securityContext.runAsGroup: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive
        spec.containers[0].securityContext.procMount: Unsupported value: "Open": supported values: "Default", "Unmasked"
        spec.containers[0].securityContext.allowPrivilegeEscalation: Invalid value: false: cannot set `allowPrivilegeEscalation` to false and `privileged` to true
        spec.containers[0].securityContext.allowPrivilegeEscalation: Invalid value: false: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN
        spec.containers[0].securityContext.seccompProfile.localhostProfile: Invalid value: "/a": must be a relative path
        spec.containers[0].securityContext.appArmorProfile.localhostProfile: Required value: must be set when type is Localhost
        "#
        );
        insta::assert_snapshot!(
            container_errors(json!({"securityContext": {
                "seccompProfile": {"type": "Docker"}, "appArmorProfile": {"type": "Unconfined", "localhostProfile": "a"}
            }})),
            @r#"
        spec.containers[0].securityContext.seccompProfile.type: Unsupported value: "Docker": supported values: "Localhost", "RuntimeDefault", "Unconfined"
        spec.containers[0].securityContext.appArmorProfile.localhostProfile: Invalid value: "a": can only be set when type is Localhost
        "#
        );
    }
}
