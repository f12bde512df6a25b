//! The columns and rows of `kubectl get`: what the API server answers when a client asks for a `meta.k8s.io/v1` Table.
//!
//! A row always has the cells of `-o wide`; kubectl leaves out the columns whose priority is above 0.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Value, json};

mod access;
mod admission;
mod autoscaling;
mod batch;
mod cluster;
mod custom;
mod duration;
mod event;
mod format;
mod network;
mod pod;
mod storage;
mod workload;

pub use custom::CustomTable;
pub use duration::human;

use format::{name, text};

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading; kubectl shows it in capitals.
    pub name: Cow<'static, str>,
    /// Type of the cells: `string`, `integer`, `number`, `boolean`, `date`.
    pub kind: Cow<'static, str>,
    /// Format of the cells; `name` marks the column that identifies the row.
    pub format: Cow<'static, str>,
    /// What the column says.
    pub description: Cow<'static, str>,
    /// 0 is always shown; more only in wide output.
    pub priority: i64,
}

/// How one kind is shown.
struct Table {
    group: &'static str,
    kind: &'static str,
    columns: &'static [Column],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

const NAME: Column = name_column(0);
const AGE: Column = string("Age", "Time since the object was created.");

/// For kinds that have no columns of their own.
const DEFAULT: Table = Table {
    group: "",
    kind: "",
    columns: &[NAME, column("Created At", "date", 0, "When the object was created.")],
    cells: |object, _| vec![name(object), text(&object["metadata"]["creationTimestamp"]).into()],
};

const fn column(name: &'static str, kind: &'static str, priority: i64, description: &'static str) -> Column {
    Column {
        name: Cow::Borrowed(name),
        kind: Cow::Borrowed(kind),
        format: Cow::Borrowed(""),
        description: Cow::Borrowed(description),
        priority,
    }
}

const fn name_column(priority: i64) -> Column {
    Column {
        name: Cow::Borrowed("Name"),
        kind: Cow::Borrowed("string"),
        format: Cow::Borrowed("name"),
        description: Cow::Borrowed("Name of the object, unique in its namespace."),
        priority,
    }
}

const fn string(name: &'static str, description: &'static str) -> Column {
    column(name, "string", 0, description)
}

const fn wide(name: &'static str, description: &'static str) -> Column {
    column(name, "string", 1, description)
}

const fn integer(name: &'static str, description: &'static str) -> Column {
    column(name, "integer", 0, description)
}

const fn boolean(name: &'static str, description: &'static str) -> Column {
    column(name, "boolean", 0, description)
}

fn table(group: &str, kind: &str) -> &'static Table {
    let all = [
        access::TABLES,
        admission::TABLES,
        autoscaling::TABLES,
        batch::TABLES,
        cluster::TABLES,
        event::TABLES,
        network::TABLES,
        pod::TABLES,
        storage::TABLES,
        workload::TABLES,
    ];
    all.into_iter().flatten().find(|table| table.group == group && table.kind == kind).unwrap_or(&DEFAULT)
}

/// The columns of a kind of Kubernetes' own.
///
/// ```
/// let columns = pillion_kinds::table::columns("apps", "StatefulSet");
/// let narrow: Vec<&str> = columns.iter().filter(|column| column.priority == 0).map(|column| &*column.name).collect();
/// assert_eq!(narrow, ["Name", "Ready", "Age"]);
/// ```
pub fn columns(group: &str, kind: &str) -> Vec<Column> {
    table(group, kind).columns.to_vec()
}

/// The cells of an object of a kind of Kubernetes' own.
///
/// ```
/// use serde_json::json;
/// let now = "2026-01-01T00:05:00Z".parse()?;
/// let object = json!({"metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Active"}});
/// assert_eq!(pillion_kinds::table::row("", "Namespace", &object, now), [json!("web"), json!("Active"), json!("5m")]);
/// # Ok::<(), jiff::Error>(())
/// ```
pub fn row(group: &str, kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    (table(group, kind).cells)(object, now)
}

/// The conditions of an object's row: a pod that has ended says so.
pub fn row_conditions(group: &str, kind: &str, object: &Value) -> Vec<Value> {
    let message = match (group, kind, text(&object["status"]["phase"])) {
        ("", "Pod", "Succeeded") => "The pod has completed successfully.",
        ("", "Pod", "Failed") => "The pod failed.",
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": object["status"]["phase"], "message": message})]
}

impl Column {
    /// The column as an entry of a Table's `columnDefinitions`.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

#[cfg(test)]
mod tests;
