//! Prints the files that follow from the product as one JSON object: the path of each file below the root of the workspace, and its text.
//! `cargo xtask gen` writes them.

mod chart;
mod pages;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pillion::render;
use pillion_api::sidecarset::crd;
use pillion_api::{probe_marker, vpa};
use pillion_lifecycle::timeline::TIMELINES;
use serde_json::json;

/// The text of each file, by its path below the root of the workspace.
type Files = BTreeMap<String, String>;

fn main() -> anyhow::Result<()> {
    let mut files = chart::files()?;
    let definitions = [
        ("apps.kruise.io_sidecarsets.yaml", crd::sidecarset()),
        ("autoscaling.k8s.io_verticalpodautoscalers.yaml", vpa::crd::vertical_pod_autoscaler()),
        ("autoscaling.k8s.io_verticalpodautoscalercheckpoints.yaml", vpa::crd::checkpoint()),
        ("apps.kruise.io_podprobemarkers.yaml", probe_marker::crd()),
    ];
    for (name, definition) in definitions {
        files.insert(format!("deploy/crds/{name}"), render::yaml(&definition)?);
    }
    for timeline in TIMELINES {
        files.insert(format!("docs/images/{}", timeline.file), timeline.svg());
    }
    files.insert("docs/cli.md".to_owned(), pillion::cli_reference_markdown());
    files.extend(pages::files(&root())?);
    println!("{}", json!(files));
    Ok(())
}

/// The root of the workspace.
fn root() -> PathBuf {
    // Cargo sets the variable for `cargo run`: a target folder that several clones share may hold a program that another of them compiled.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).join("../../..")
}
