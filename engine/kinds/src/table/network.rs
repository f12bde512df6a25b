//! Services, and who may reach them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::format::{age, int, items, join_texts, labels, name, pointer_or, selector_cell, text, text_or};
use super::{AGE, NAME, Table, string, wide};

pub(super) const TABLES: &[Table] = &[
    Table {
        group: "",
        kind: "Service",
        columns: &[
            NAME,
            string("Type", "How the service is reached."),
            string("Cluster-IP", "Its address inside the cluster."),
            string("External-IP", "Its addresses from outside."),
            string("Port(s)", "Its ports, those on the nodes, and their protocols."),
            AGE,
            wide("Selector", "Labels of the pods behind it."),
        ],
        cells: service,
    },
    Table {
        group: "networking.k8s.io",
        kind: "Ingress",
        columns: &[
            NAME,
            string("Class", "IngressClass that serves it."),
            string("Hosts", "Hosts that its rules are for."),
            string("Address", "Where the load balancer listens."),
            string("Ports", "Ports that are open."),
            AGE,
        ],
        cells: ingress,
    },
    Table {
        group: "networking.k8s.io",
        kind: "IngressClass",
        columns: &[NAME, string("Controller", "Controller that serves the class."), AGE],
        cells: |object, now| vec![name(object), text(&object["spec"]["controller"]).into(), age(object, now)],
    },
    Table {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        columns: &[NAME, string("Pod-Selector", "Labels of the pods that it is for."), AGE],
        cells: |object, now| vec![name(object), selector_cell(&object["spec"]["podSelector"]), age(object, now)],
    },
];

fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    vec![
        name(object),
        text(&spec["type"]).into(),
        pointer_or(&spec["clusterIPs"][0], "<none>").into(),
        external_ip(object).into(),
        service_ports(spec).into(),
        age(object, now),
        labels(&spec["selector"]).into(),
    ]
}

fn external_ip(object: &Value) -> String {
    let spec = &object["spec"];
    let mut external = join_texts(&spec["externalIPs"]);
    match text(&spec["type"]) {
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external,
        "LoadBalancer" => {
            let balancer = load_balancer(object);
            if !balancer.is_empty() && !external.is_empty() {
                external = format!("{balancer},{external}");
            } else if external.is_empty() {
                external = balancer;
            }
            if external.is_empty() { "<pending>".to_owned() } else { external }
        }
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn load_balancer(object: &Value) -> String {
    let ingress = items(&object["status"]["loadBalancer"]["ingress"]).iter();
    let addresses: BTreeSet<&str> = ingress.map(|point| text_or(&point["ip"], text(&point["hostname"]))).collect();
    addresses.into_iter().filter(|address| !address.is_empty()).collect::<Vec<_>>().join(",")
}

fn service_ports(spec: &Value) -> String {
    let port = |port: &Value| match (int(&port["port"]), int(&port["nodePort"]), text(&port["protocol"])) {
        (port, node_port, protocol) if node_port > 0 => format!("{port}:{node_port}/{protocol}"),
        (port, _, protocol) => format!("{port}/{protocol}"),
    };
    let ports: Vec<String> = items(&spec["ports"]).iter().map(port).collect();
    if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") }
}

fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    vec![
        name(object),
        pointer_or(&spec["ingressClassName"], "<none>").into(),
        hosts(items(&spec["rules"])).into(),
        load_balancer(object).into(),
        if items(&spec["tls"]).is_empty() { "80" } else { "80, 443" }.into(),
        age(object, now),
    ]
}

/// The first three hosts. What is left is counted in rules, whether or not they name a host.
fn hosts(rules: &[Value]) -> String {
    let mut shown = Vec::new();
    for rule in rules {
        if shown.len() == 3 {
            return format!("{} + {} more...", shown.join(","), rules.len() - 3);
        }
        let host = text(&rule["host"]);
        if !host.is_empty() {
            shown.push(host);
        }
    }
    if shown.is_empty() { "*".to_owned() } else { shown.join(",") }
}
