//! What cargo says of the packages of the workspace.

use serde_json::Value;

use crate::command::{cargo, output};

pub(crate) fn metadata() -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&output(cargo(["metadata", "--no-deps", "--format-version", "1"]))?)?)
}

pub(crate) fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}
