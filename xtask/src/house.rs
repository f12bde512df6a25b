//! Keeps the house as ARCHITECTURE.md draws it.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::command::{cargo, output, root, run};

/// The floors from the ground up. A crate may use crates of its own floor that stand before it, and of floors below.
const FLOORS: &[(&str, &[&str])] = &[
    ("model", &["quantity", "expr", "patch", "kinds", "structural", "api"]),
    ("decide", &["lifecycle", "inject", "rollout", "rightsize", "admission"]),
    ("client", &["probe"]),
    ("engine", &["clock", "store", "apiserver", "events", "workloads", "process", "node", "embedded"]),
    ("run", &["manager", "agent", "wrap", "cli"]),
];

/// Checks that imports only go down, and that the two pure floors have the same lints.
pub(crate) fn check() -> anyhow::Result<()> {
    let places = places();
    let metadata = metadata()?;
    let mut wrong = Vec::new();
    for package in packages(&metadata) {
        let Some(place) = place_of(package, &places)? else { continue };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            // A test may reach for a factory anywhere; only what ships has to go down.
            let (Some(path), true) = (dependency["path"].as_str(), dependency["kind"].is_null()) else { continue };
            match places.get(folder(path).as_str()) {
                Some(other) if *other < place => {}
                _ => wrong.push(format!("{} may not use {}", package["name"], dependency["name"])),
            }
        }
    }
    ensure!(wrong.is_empty(), "imports only go down: {}", wrong.join("; "));
    check_lints()
}

/// Folder below `crates/` of each crate that may exist, with its place in the order.
fn places() -> BTreeMap<String, usize> {
    let all = FLOORS.iter().flat_map(|(floor, crates)| crates.iter().map(move |name| format!("{floor}/{name}")));
    all.enumerate().map(|(place, folder)| (folder, place)).collect()
}

fn place_of(package: &Value, places: &BTreeMap<String, usize>) -> anyhow::Result<Option<usize>> {
    let manifest = package["manifest_path"].as_str().context("a package has a manifest")?;
    let folder = folder(manifest.trim_end_matches("/Cargo.toml"));
    if folder.starts_with("testing/") || !manifest.contains("/crates/") {
        return Ok(None);
    }
    match places.get(&folder) {
        Some(place) => Ok(Some(*place)),
        None => bail!("crates/{folder} has no place in the house; FLOORS in xtask/src/house.rs lists the places"),
    }
}

/// `model/api` of a path to that crate.
fn folder(path: &str) -> String {
    path.rsplit_once("/crates/").map_or(path, |(_, folder)| folder).to_owned()
}

fn metadata() -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&output(cargo(["metadata", "--no-deps", "--format-version", "1"]))?)?)
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

fn check_lints() -> anyhow::Result<()> {
    let rules = |floor: &str| {
        let path = root().join("crates").join(floor).join("clippy.toml");
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        anyhow::Ok(text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>())
    };
    ensure!(
        rules("model")? == rules("decide")?,
        "crates/model/clippy.toml and crates/decide/clippy.toml must have the same rules"
    );
    Ok(())
}

/// Builds each crate without the others, so that none lives off a feature that another switched on.
pub(crate) fn check_each_alone() -> anyhow::Result<()> {
    let metadata = metadata()?;
    for package in packages(&metadata) {
        let name = package["name"].as_str().context("a package has a name")?;
        run(cargo(["check", "--quiet", "--package", name]))?;
    }
    Ok(())
}
