//! Bindings of roles. Roles themselves have no columns of their own.

use jiff::Timestamp;
use serde_json::Value;

use super::format::{age, items, name, text};
use super::{AGE, Column, NAME, Table, string, wide};

const COLUMNS: &[Column] = &[
    NAME,
    string("Role", "The role that is given."),
    AGE,
    wide("Users", "Users who have it."),
    wide("Groups", "Groups that have it."),
    wide("ServiceAccounts", "Service accounts that have it."),
];

pub(super) const TABLES: &[Table] = &[
    Table { group: "rbac.authorization.k8s.io", kind: "RoleBinding", columns: COLUMNS, cells: binding },
    Table { group: "rbac.authorization.k8s.io", kind: "ClusterRoleBinding", columns: COLUMNS, cells: binding },
];

fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = &object["roleRef"];
    let subjects = |kind: &str| {
        let subjects = items(&object["subjects"]).iter().filter(|subject| subject["kind"] == kind);
        let shown = subjects.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(&subject["namespace"]), text(&subject["name"])),
            _ => text(&subject["name"]).to_owned(),
        });
        Value::from(shown.collect::<Vec<_>>().join(", "))
    };
    vec![
        name(object),
        format!("{}/{}", text(&role["kind"]), text(&role["name"])).into(),
        age(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
