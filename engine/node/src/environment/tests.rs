use serde_json::{Value, json};

use super::*;

fn place() -> Place {
    Place {
        host_ip: "192.168.0.1".into(),
        pod_ip: "10.0.0.7".into(),
        capacity: Capacity {
            cpu: "4".parse().unwrap(),
            memory: "8Gi".parse().unwrap(),
            ephemeral_storage: "64Gi".parse().unwrap(),
            pods: 110,
        },
    }
}

fn pod(container: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-1",
            "labels": {"app": "web", "b": "say \"hi\"\n"}, "annotations": {"note": "x"}},
        "spec": {"nodeName": "one", "serviceAccountName": "robot", "containers": [container]}
    }))
    .unwrap()
}

fn sources() -> Sources {
    let mut sources = Sources::default();
    sources.put_config_map(
        serde_json::from_value(json!({"metadata": {"name": "settings"}, "data": {"COLOR": "blue", "SIZE": "3"}}))
            .unwrap(),
    );
    sources.put_secret(
        serde_json::from_value(json!({"metadata": {"name": "keys"}, "data": {"TOKEN": "aHVzaA=="}})).unwrap(),
    );
    sources
}

fn made(container: Value) -> Result<Vec<(String, String)>, EnvironmentError> {
    let pod = pod(container);
    let kubernetes = serde_json::from_value(json!({
        "metadata": {"name": "kubernetes", "namespace": "default"},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "protocol": "TCP"}]}
    }))
    .unwrap();
    let container = &pod.spec.as_ref().unwrap().containers[0];
    environment(&pod, container, &place(), &[kubernetes], &sources())
}

fn shown(variables: &[(String, String)]) -> String {
    let lines: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    lines.join("\n")
}

#[test]
fn every_source_of_a_variable_is_resolved_in_order() {
    let variables = made(json!({
        "name": "main",
        "resources": {"requests": {"cpu": "250m"}, "limits": {"memory": "64Mi"}},
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}],
        "env": [
            {"name": "PLAIN", "value": "x-$(P_COLOR)-$(NOBODY)-$$(PLAIN)"},
            {"name": "TOKEN", "value": "mine"},
            {"name": "EMPTY"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "LABELS", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu"}}},
            {"name": "CPU_MILLIS", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}},
            {"name": "CPU_LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            {"name": "SIZE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "SIZE"}}},
            {"name": "ABSENT", "valueFrom": {"secretKeyRef": {"name": "nothing", "key": "x", "optional": true}}},
            {"name": "API", "value": "$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)"}
        ]
    }))
    .unwrap();
    insta::assert_snapshot!(shown(&variables), @r#"
    P_COLOR=blue
    P_SIZE=3
    TOKEN=mine
    PLAIN=x-blue-$(NOBODY)-$(PLAIN)
    EMPTY=
    NODE=one
    IP=10.0.0.7
    LABEL=web
    LABELS=app="web"
    b="say \"hi\"\n"
    CPU=1
    CPU_MILLIS=250
    CPU_LIMIT=4
    MEMORY=64
    SIZE=3
    API=10.96.0.1:443
    KUBERNETES_PORT=tcp://10.96.0.1:443
    KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443
    KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1
    KUBERNETES_PORT_443_TCP_PORT=443
    KUBERNETES_PORT_443_TCP_PROTO=tcp
    KUBERNETES_SERVICE_HOST=10.96.0.1
    KUBERNETES_SERVICE_PORT=443
    KUBERNETES_SERVICE_PORT_HTTPS=443
    "#);
}

#[test]
fn what_is_absent_is_reported_as_by_the_kubelet() {
    let table = [
        (json!({"envFrom": [{"configMapRef": {"name": "nope"}}]}), "configmap \"nope\" not found"),
        (json!({"envFrom": [{"secretRef": {"name": "nope"}}]}), "secret \"nope\" not found"),
        (
            json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "k"}}}]}),
            "couldn't find key k in ConfigMap shop/settings",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}}]}),
            "couldn't find key k in Secret shop/keys",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.hostname"}}}]}),
            "unsupported fieldPath: spec.hostname",
        ),
    ];
    for (mut container, expected) in table {
        container["name"] = json!("main");
        assert_eq!(made(container).unwrap_err().to_string(), expected);
    }
}
