//! Volumes, claims and classes of storage.

use jiff::Timestamp;
use serde_json::Value;

use super::format::{age, items, name, pointer_or, quantity, text};
use super::{AGE, NAME, Table, string, wide};

pub(super) const TABLES: &[Table] = &[
    Table {
        group: "",
        kind: "PersistentVolume",
        columns: &[
            NAME,
            string("Capacity", "Size of the volume."),
            string("Access Modes", "Ways in which it can be mounted."),
            string("Status", "Whether it is free, bound, released or failed."),
            string("Claim", "The claim that has it."),
            string("StorageClass", "Class that it is of."),
            AGE,
        ],
        cells: volume,
    },
    Table {
        group: "",
        kind: "PersistentVolumeClaim",
        columns: &[
            NAME,
            string("Status", "Whether the claim has a volume."),
            string("Volume", "The volume that it has."),
            string("Capacity", "Size of the volume."),
            string("Access Modes", "Ways in which the volume can be mounted."),
            string("StorageClass", "Class that it asks for."),
            string("VolumeAttributesClass", "Class of attributes that it asks for."),
            AGE,
            wide("VolumeMode", "Whether it wants a file system or a raw volume."),
        ],
        cells: claim,
    },
    Table {
        group: "storage.k8s.io",
        kind: "StorageClass",
        columns: &[NAME, string("Provisioner", "What makes volumes of the class."), AGE],
        cells: |object, now| vec![name(object), text(&object["provisioner"]).into(), age(object, now)],
    },
];

fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let claim = match &spec["claimRef"] {
        Value::Null => String::new(),
        claim => format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])),
    };
    vec![
        name(object),
        quantity(&spec["capacity"]["storage"]).into(),
        access_modes(&spec["accessModes"]).into(),
        phase(object).into(),
        claim.into(),
        class_name(object).into(),
        age(object, now),
    ]
}

fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let volume = text(&spec["volumeName"]);
    let (capacity, modes) = if volume.is_empty() {
        ("", String::new())
    } else {
        (quantity(&status["capacity"]["storage"]), access_modes(&status["accessModes"]))
    };
    vec![
        name(object),
        phase(object).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class_name(object).into(),
        pointer_or(&spec["volumeAttributesClassName"], "<unset>").into(),
        age(object, now),
        pointer_or(&spec["volumeMode"], "<unset>").into(),
    ]
}

fn phase(object: &Value) -> &str {
    if object["metadata"]["deletionTimestamp"].is_null() { text(&object["status"]["phase"]) } else { "Terminating" }
}

fn access_modes(modes: &Value) -> String {
    let short =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let given = |&&(mode, _): &&(&str, &str)| items(modes).iter().any(|given| given == mode);
    short.iter().filter(given).map(|&(_, short)| short).collect::<Vec<_>>().join(",")
}

/// The class, which an annotation may name as it did before there was a field.
fn class_name(object: &Value) -> &str {
    let annotation = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    pointer_or(annotation, text(&object["spec"]["storageClassName"]))
}
