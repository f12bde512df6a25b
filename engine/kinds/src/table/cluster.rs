//! Nodes, namespaces, and the small things that live in them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::format::{age, condition, count, int, items, name, text, text_or};
use super::{AGE, NAME, Table, boolean, integer, string, wide};

pub(super) const TABLES: &[Table] = &[
    Table {
        group: "",
        kind: "Node",
        columns: &[
            NAME,
            string("Status", "Whether the node is ready and takes pods."),
            string("Roles", "Roles that its labels give it."),
            AGE,
            string("Version", "Version of its kubelet."),
            wide("Internal-IP", "Its address inside the cluster."),
            wide("External-IP", "Its address from outside."),
            wide("OS-Image", "Its operating system."),
            wide("Kernel-Version", "Version of its kernel."),
            wide("Container-Runtime", "What runs its containers."),
        ],
        cells: node,
    },
    Table {
        group: "",
        kind: "Namespace",
        columns: &[NAME, string("Status", "Whether the namespace is in use or ending."), AGE],
        cells: |object, now| vec![name(object), text(&object["status"]["phase"]).into(), age(object, now)],
    },
    Table {
        group: "",
        kind: "ConfigMap",
        columns: &[NAME, string("Data", "How many entries."), AGE],
        cells: |object, now| {
            let entries = count(&object["data"]).saturating_add(count(&object["binaryData"]));
            vec![name(object), entries.into(), age(object, now)]
        },
    },
    Table {
        group: "",
        kind: "Secret",
        columns: &[NAME, string("Type", "What the secret is for."), string("Data", "How many entries."), AGE],
        cells: |object, now| {
            vec![name(object), text(&object["type"]).into(), count(&object["data"]).into(), age(object, now)]
        },
    },
    Table {
        group: "",
        kind: "ServiceAccount",
        columns: &[NAME, AGE],
        cells: |object, now| vec![name(object), age(object, now)],
    },
    Table {
        group: "coordination.k8s.io",
        kind: "Lease",
        columns: &[NAME, string("Holder", "Who holds the lease."), AGE],
        cells: |object, now| vec![name(object), text(&object["spec"]["holderIdentity"]).into(), age(object, now)],
    },
    Table {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        columns: &[
            NAME,
            integer("Value", "Priority of pods of the class; more is sooner."),
            boolean("Global-Default", "Whether pods without a class have this one."),
            AGE,
            string("PreemptionPolicy", "Whether its pods may displace others."),
        ],
        cells: |object, now| {
            vec![
                name(object),
                int(&object["value"]).into(),
                (object["globalDefault"] == true).into(),
                age(object, now),
                text(&object["preemptionPolicy"]).into(),
            ]
        },
    },
];

fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let (status, info) = (&object["status"], &object["status"]["nodeInfo"]);
    vec![
        name(object),
        node_status(object).into(),
        roles(&object["metadata"]["labels"]).into(),
        age(object, now),
        text(&info["kubeletVersion"]).into(),
        address(status, "InternalIP").into(),
        address(status, "ExternalIP").into(),
        text_or(&info["osImage"], "<unknown>").into(),
        text_or(&info["kernelVersion"], "<unknown>").into(),
        text_or(&info["containerRuntimeVersion"], "<unknown>").into(),
    ]
}

fn node_status(object: &Value) -> String {
    let ready = match condition(&object["status"]["conditions"], "Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    format!("{ready}{}", if object["spec"]["unschedulable"] == true { ",SchedulingDisabled" } else { "" })
}

fn roles(labels: &Value) -> String {
    let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => Some(text(value).to_owned()),
        None => None,
    };
    let roles: BTreeSet<String> =
        labels.as_object().into_iter().flatten().filter_map(role).filter(|role| !role.is_empty()).collect();
    if roles.is_empty() { "<none>".to_owned() } else { Vec::from_iter(roles).join(",") }
}

fn address<'a>(status: &'a Value, kind: &str) -> &'a str {
    let address = items(&status["addresses"]).iter().find(|address| address["type"] == kind);
    address.map_or("<none>", |address| text(&address["address"]))
}
