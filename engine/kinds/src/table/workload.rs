//! Workloads that keep pods running, their revisions, and their scale.

use jiff::Timestamp;
use serde_json::Value;

use super::format::{age, containers, int, items, labels, name, selector, selector_cell, text, with};
use super::{AGE, Column, NAME, Table, integer, string, wide};

const CONTAINERS: Column = wide("Containers", "Names of the template's containers.");
const IMAGES: Column = wide("Images", "Images of the template's containers.");
const SELECTOR: Column = wide("Selector", "Labels of the pods that belong to it.");
const DESIRED: Column = integer("Desired", "Pods that there should be.");
const CURRENT: Column = integer("Current", "Pods that there are.");
const READY: Column = integer("Ready", "Pods that are ready.");

pub(super) const TABLES: &[Table] = &[
    Table {
        group: "apps",
        kind: "Deployment",
        columns: &[
            NAME,
            string("Ready", "Pods that are ready, of those that there should be."),
            string("Up-to-date", "Pods of the newest template."),
            string("Available", "Pods that have been ready for long enough."),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: deployment,
    },
    Table {
        group: "apps",
        kind: "ReplicaSet",
        columns: &[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR],
        cells: |object, now| with(replicas(object, now), [selector_cell(&object["spec"]["selector"])]),
    },
    Table {
        group: "",
        kind: "ReplicationController",
        columns: &[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR],
        cells: |object, now| with(replicas(object, now), [labels(&object["spec"]["selector"]).into()]),
    },
    Table {
        group: "apps",
        kind: "StatefulSet",
        columns: &[
            NAME,
            string("Ready", "Pods that are ready, of those that there should be."),
            AGE,
            CONTAINERS,
            IMAGES,
        ],
        cells: |object, now| {
            with(vec![name(object), ready(object), age(object, now)], containers(&object["spec"]["template"]))
        },
    },
    Table {
        group: "apps",
        kind: "DaemonSet",
        columns: &[
            NAME,
            integer("Desired", "Nodes that should run its pod."),
            integer("Current", "Nodes that should and do."),
            integer("Ready", "Nodes whose pod is ready."),
            integer("Up-to-date", "Nodes whose pod has the newest template."),
            integer("Available", "Nodes whose pod has been ready for long enough."),
            string("Node Selector", "Labels of the nodes that it is for."),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: daemon_set,
    },
    Table {
        group: "apps",
        kind: "ControllerRevision",
        columns: &[
            NAME,
            string("Controller", "What it is a revision of."),
            string("Revision", "Its number; newer ones are larger."),
            AGE,
        ],
        cells: |object, now| {
            vec![name(object), controller(object).into(), int(&object["revision"]).into(), age(object, now)]
        },
    },
    Table {
        group: "autoscaling",
        kind: "Scale",
        columns: &[
            string("Name", "Name of the object that is scaled."),
            integer("Desired", "Pods that there should be."),
            integer("Available", "Pods that there are."),
            AGE,
        ],
        cells: |object, now| {
            let (spec, status) = (&object["spec"], &object["status"]);
            vec![name(object), int(&spec["replicas"]).into(), int(&status["replicas"]).into(), age(object, now)]
        },
    },
];

fn ready(object: &Value) -> Value {
    format!("{}/{}", int(&object["status"]["readyReplicas"]), int(&object["spec"]["replicas"])).into()
}

fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let cells = vec![
        name(object),
        ready(object),
        int(&status["updatedReplicas"]).into(),
        int(&status["availableReplicas"]).into(),
        age(object, now),
    ];
    let selector = selector(&spec["selector"]).unwrap_or_else(|| "<invalid>".to_owned());
    with(with(cells, containers(&spec["template"])), [selector.into()])
}

/// What a ReplicaSet and a replication controller have in common: all but the selector.
fn replicas(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let cells = vec![
        name(object),
        int(&spec["replicas"]).into(),
        int(&status["replicas"]).into(),
        int(&status["readyReplicas"]).into(),
        age(object, now),
    ];
    with(cells, containers(&spec["template"]))
}

fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let cells = vec![
        name(object),
        int(&status["desiredNumberScheduled"]).into(),
        int(&status["currentNumberScheduled"]).into(),
        int(&status["numberReady"]).into(),
        int(&status["updatedNumberScheduled"]).into(),
        int(&status["numberAvailable"]).into(),
        labels(&spec["template"]["spec"]["nodeSelector"]).into(),
        age(object, now),
    ];
    with(with(cells, containers(&spec["template"])), [selector_cell(&spec["selector"])])
}

/// The owner that controls the object: `statefulset.apps/web`.
fn controller(object: &Value) -> String {
    let owners = items(&object["metadata"]["ownerReferences"]);
    let Some(owner) = owners.iter().find(|owner| owner["controller"] == true) else {
        return "<none>".to_owned();
    };
    let group = text(&owner["apiVersion"]).split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
    format!("{}/{}", format!("{}{group}", text(&owner["kind"])).to_lowercase(), text(&owner["name"]))
}
