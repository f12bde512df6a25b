//! Containers and volumes as the API server judges them when a pod is created.
//!
//! As Kruise does, this validates a pod that has nothing but the set's containers and volumes, with the rules of `pillion-rules`. The fields
//! of such a pod and those of the set have the same paths. What Kruise leaves to the API server to fill in may be absent, and what depends
//! on the rest of the pod is taken as the pod that fits best.

use pillion_rules::pod;
use serde_json::{Value, json};

use super::role::each;
use crate::field::{Error, Path};
use crate::sidecarset::SidecarSetSpec;
use crate::sidecarset::shape::{CONTAINER, VOLUME};

pub(super) fn validate(spec: &SidecarSetSpec, errors: &mut Vec<Error>) {
    let before = errors.len();
    for (i, volume) in spec.volumes.iter().enumerate() {
        VOLUME.check_fields(volume, &Path::new("spec").child("volumes").index(i), errors);
    }
    for (container, _, path) in each(spec) {
        CONTAINER.check_fields(&container.container, &path, errors);
    }
    if errors.len() > before {
        return;
    }
    let mut pod = pod_of(spec);
    pod::apply_template_defaults(&mut pod);
    // A set may consist of init containers, and a pod may not.
    let containers = Path::new("spec").child("containers");
    errors.extend(pod::validate(&pod).into_iter().filter(|error| error.path != containers));
}

fn pod_of(spec: &SidecarSetSpec) -> Value {
    let containers: Vec<_> = spec.containers.iter().map(|container| &container.container).collect();
    let init_containers: Vec<_> = spec.init_containers.iter().map(|container| &container.container).collect();
    let all = || each(spec).map(|(container, ..)| &container.container);
    // The pod may have a longer grace period than the default of 30 s, and `hostUsers: false`, which `procMount: Unmasked` needs.
    let sleep = |container| ["postStart", "preStop"].map(|hook| seconds_of_sleep(container, hook));
    let longest_sleep = all().flat_map(sleep).fold(30, i64::max);
    let unmasked = all()
        .any(|container| container.get("securityContext").is_some_and(|context| context["procMount"] == "Unmasked"));
    json!({
        "metadata": {"name": "sidecarset", "namespace": "default"},
        "spec": {
            "containers": containers,
            "initContainers": init_containers,
            "volumes": spec.volumes,
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": longest_sleep,
            "hostUsers": !unmasked,
        },
    })
}

fn seconds_of_sleep(container: &serde_json::Map<String, Value>, hook: &str) -> i64 {
    container.get("lifecycle").and_then(|lifecycle| lifecycle[hook]["sleep"]["seconds"].as_i64()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{container, container_errors, errors};

    #[test]
    fn containers_init_containers_and_volumes_are_judged_as_the_api_server_judges_them() {
        insta::assert_snapshot!(
            errors(json!({
                "volumes": [{"name": "a", "hostPath": {"path": "/a/../b"}}, {"name": "a", "emptyDir": {}}],
                "containers": [container(json!({
                    "name": "a_b",
                    "image": " envoy",
                    "ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 0, "hostPort": 80}],
                    "resources": {"limits": {"cpu": "1", "gpu": "1"}, "requests": {"cpu": "1001m"}},
                    "volumeMounts": [{"name": "nobody", "mountPath": "/c"}],
                }))],
                "initContainers": [container(json!({"name": "init", "livenessProbe": {"exec": {"command": ["true"]}}}))],
            })),
            @r#"
        spec.volumes[0].hostPath.path: Invalid value: "/a/../b": must not contain '..'
        spec.containers[0].name: Invalid value: "a_b": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
        spec.containers[0].ports[1].containerPort: Required value
        spec.containers[0].volumeMounts[0].name: Not found: "nobody"
        spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified
        spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers
        spec.containers[0].resources.requests: Invalid value: "1001m": must be less than or equal to cpu limit of 1
        spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"
        spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always
        spec.containers[0].image: Invalid value: " envoy": must not have leading or trailing whitespace
        "#
        );
    }

    #[test]
    fn a_variable_from_a_file_names_a_key_and_an_empty_directory() {
        let from = |file: Value| {
            errors(json!({
                "volumes": [{"name": "dir", "emptyDir": {}}, {"name": "host", "hostPath": {"path": "/a"}}],
                "containers": [container(json!({"env": [{"name": "A", "valueFrom": {"fileKeyRef": file}}]}))],
            }))
        };
        assert_eq!(from(json!({"volumeName": "dir", "path": "a.env", "key": "A"})), "");
        insta::assert_snapshot!(from(json!({"volumeName": "dir", "path": "../a"})), @r#"
        spec.containers[0].env[0].valueFrom.fileKeyRef.key: Required value
        spec.containers[0].env[0].valueFrom.fileKeyRef.path: Invalid value: "../a": must not contain '..'
        "#);
        insta::assert_snapshot!(from(json!({"volumeName": "host", "path": "a", "key": "A"})), @r#"spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Invalid value: "host": referenced volume must be of type emptyDir"#);
    }

    #[test]
    fn a_source_of_a_newer_kubernetes_is_one() {
        let mounts = json!({"volumeMounts": [{"name": "a", "mountPath": "/a"}]});
        assert_eq!(errors(json!({"volumes": [{"name": "a", "cloud": {}}], "containers": [container(mounts)]})), "");
    }

    #[test]
    fn what_the_api_server_fills_in_may_be_absent() {
        assert_eq!(container_errors(json!({"startupProbe": {"httpGet": {"port": 80}}})), "");
        assert_eq!(container_errors(json!({"startupProbe": {"grpc": {"port": 80}, "successThreshold": 0}})), "");
        assert_eq!(errors(json!({"volumes": [{"name": "a", "image": {"reference": "a"}}]})), "");
    }

    #[test]
    fn what_depends_on_the_pod_is_left_to_it() {
        let hook = |seconds: i64| json!({"lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}});
        assert_eq!(container_errors(hook(3600)), "", "the pod may have a longer grace period");
        insta::assert_snapshot!(container_errors(hook(-1)), @"spec.containers[0].lifecycle.preStop.sleep: Invalid value: -1: must be non-negative and less than terminationGracePeriodSeconds (30)");
        assert_eq!(
            container_errors(json!({"securityContext": {"procMount": "Unmasked"}})),
            "",
            "it may have hostUsers: false"
        );
        let token = json!({"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "a"}}]}});
        assert_eq!(errors(json!({"volumes": [token]})), "", "it has a service account");
        assert_eq!(
            errors(json!({"containers": null, "initContainers": [container(json!({}))]})),
            "",
            "it has containers"
        );
    }

    #[test]
    fn containers_share_the_ports_of_a_node_and_init_containers_do_not() {
        let named = |name: &str| container(json!({"name": name, "ports": [{"containerPort": 1, "hostPort": 80}]}));
        insta::assert_snapshot!(errors(json!({"containers": [named("a"), named("b")]})), @r#"spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//80""#);
        assert_eq!(errors(json!({"containers": [named("a")], "initContainers": [named("b"), named("c")]})), "");
    }
}
