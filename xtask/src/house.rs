//! Keeps the house as ARCHITECTURE.md draws it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::command::{cargo, output, root};
use crate::metadata::{metadata, packages};
use crate::{alone, circles, real};

/// The floors from the ground up. A crate may use crates of its own floor that stand before it, and of floors below.
const FLOORS: &[(&str, &[&str])] = &[
    (
        "crates/model",
        &["quantity", "expr", "gates", "regexp", "yaml", "jsonpath", "selector", "partial", "rules", "api"],
    ),
    (
        "crates/decide",
        &["note", "lifecycle", "inject", "rollout", "repair", "rightsize", "admission", "preview", "assist"],
    ),
    ("crates/client", &["informer", "events", "lease", "probe", "serve"]),
    (
        ENGINE,
        &["kinds", "patch", "clock", "store", "structural", "apiserver", "workloads", "process", "node", "embedded"],
    ),
    ("crates/run", &["pods", "rightsizer", "manager", "install", "manager-program", "check", "agent", "wrap", "cli"]),
];

/// The folder of the embedded Kubernetes.
const ENGINE: &str = "engine";

/// The one crate of the engine that programs of the product use.
const DOOR: &str = "engine/embedded";

/// Crates of which nothing is shipped: tests, benchmarks and load. They may use any crate.
const TESTS: &[&str] =
    &["crates/testing/", "engine/differential", "engine/fuzzing", "engine/kubectl", "engine/load", "xtask"];

/// Checks that imports only go down, that files do not use each other in a circle, and that the folders with lints of their own have
/// those of the workspace too.
pub(crate) fn check() -> anyhow::Result<()> {
    let places = places();
    let metadata = metadata()?;
    let mut wrong = Vec::new();
    for package in packages(&metadata) {
        let Some(place) = place_of(package, &places)? else { continue };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            // A test may reach for a factory anywhere; only what ships has to go down.
            let (Some(path), true) = (dependency["path"].as_str(), dependency["kind"].is_null()) else { continue };
            let (user, used) = (folder_of(package)?, folder(path));
            let goes_down = places.get(&used).is_some_and(|other| *other < place);
            let through_the_door = user.starts_with(ENGINE) || !used.starts_with(ENGINE) || used == DOOR;
            if !goes_down || !through_the_door {
                wrong.push(format!("{} may not use {}", package["name"], dependency["name"]));
            }
        }
    }
    ensure!(wrong.is_empty(), "imports only go down, and into the engine only through {DOOR}: {}", wrong.join("; "));
    check_manager()?;
    check_circles(&metadata)?;
    check_named_tests(&metadata)?;
    check_lints()?;
    alone::check_shared_features()
}

/// The program of the privileged manager has no embedded Kubernetes in it.
fn check_manager() -> anyhow::Result<()> {
    let arguments = ["tree", "--package", "pillion-manager-program", "--edges", "normal,build", "--prefix", "none"];
    let tree = output(cargo(arguments))?;
    let engine: BTreeSet<String> = FLOORS
        .iter()
        .filter(|(floor, _)| *floor == ENGINE)
        .flat_map(|(_, crates)| crates.iter().map(|name| format!("pillion-{name}")))
        .collect();
    let reached: BTreeSet<&str> =
        tree.lines().filter_map(|line| line.split(' ').next()).filter(|name| engine.contains(*name)).collect();
    ensure!(reached.is_empty(), "pillion-manager may use nothing of the engine, and it uses {reached:?}");
    Ok(())
}

/// Files of one folder may use each other in one direction only.
fn check_circles(metadata: &Value) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for package in packages(metadata) {
        let manifest = Path::new(package["manifest_path"].as_str().context("a package has a manifest")?);
        let src = manifest.with_file_name("src");
        if !src.is_dir() {
            continue;
        }
        wrong.extend(circles::find(&src)?.into_iter().map(|circle| format!("\n  {}: {circle}", package["name"])));
    }
    ensure!(wrong.is_empty(), "files of one folder use each other in a circle:{}", wrong.concat());
    Ok(())
}

/// Tests that `cargo test` leaves out run in no tier and are seen by no lint unless they are listed.
fn check_named_tests(metadata: &Value) -> anyhow::Result<()> {
    let targets = packages(metadata).flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let left_out: BTreeSet<&str> = targets
        .filter(|target| target["kind"][0] == "test" && target["test"] == false)
        .filter_map(|target| target["name"].as_str())
        .collect();
    let named = BTreeSet::from(real::TESTS);
    ensure!(
        left_out == named,
        "tests with `test = false` are {left_out:?}; TESTS in xtask/src/real.rs lists {named:?}"
    );
    Ok(())
}

/// The folder of each crate that may exist, with its place in the order.
fn places() -> BTreeMap<String, usize> {
    let all = FLOORS.iter().flat_map(|(floor, crates)| crates.iter().map(move |name| format!("{floor}/{name}")));
    all.enumerate().map(|(place, folder)| (folder, place)).collect()
}

fn place_of(package: &Value, places: &BTreeMap<String, usize>) -> anyhow::Result<Option<usize>> {
    let folder = folder_of(package)?;
    if TESTS.iter().any(|tests| folder.starts_with(tests)) {
        return Ok(None);
    }
    match places.get(&folder) {
        Some(place) => Ok(Some(*place)),
        None => bail!("{folder} has no place in the house; FLOORS in xtask/src/house.rs lists the places"),
    }
}

fn folder_of(package: &Value) -> anyhow::Result<String> {
    let manifest = package["manifest_path"].as_str().context("a package has a manifest")?;
    Ok(folder(manifest.trim_end_matches("/Cargo.toml")))
}

/// The path of a crate from the root of the repository: `crates/model/api`.
fn folder(path: &str) -> String {
    Path::new(path).strip_prefix(root()).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

/// Clippy reads only the nearest `clippy.toml`, so that each of them repeats the one of the workspace.
fn check_lints() -> anyhow::Result<()> {
    let rules = |folder: &str| {
        let path = root().join(folder).join("clippy.toml");
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        anyhow::Ok(text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>())
    };
    let shared = rules("")?;
    for floor in ["crates/model", "crates/decide", "crates/client", "engine/kinds", "engine/patch"] {
        let own = rules(floor)?;
        let missing: Vec<&String> = shared.iter().filter(|rule| !own.contains(rule)).collect();
        ensure!(missing.is_empty(), "{floor}/clippy.toml lacks rules of clippy.toml: {missing:?}");
    }
    for pure in ["crates/decide", "engine/kinds", "engine/patch"] {
        ensure!(
            rules("crates/model")? == rules(pure)?,
            "crates/model/clippy.toml and {pure}/clippy.toml must have the same rules"
        );
    }
    Ok(())
}
