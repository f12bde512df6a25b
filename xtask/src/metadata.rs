//! What cargo says of the packages of the workspace.

use std::path::Path;

use serde_json::Value;

use crate::command::{cargo, output, root};

pub(crate) fn metadata() -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&output(cargo(["metadata", "--no-deps", "--format-version", "1"]))?)?)
}

pub(crate) fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

/// The names of the packages of the embedded Kubernetes: those in `engine/`.
pub(crate) fn engine_packages(metadata: &Value) -> Vec<&str> {
    let engine = root().join("engine");
    let is_engine =
        |package: &&Value| package["manifest_path"].as_str().is_some_and(|path| Path::new(path).starts_with(&engine));
    packages(metadata).filter(is_engine).filter_map(|package| package["name"].as_str()).collect()
}
