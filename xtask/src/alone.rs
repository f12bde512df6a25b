//! The tier `alone`: no crate lives off a feature that another crate switched on.
//!
//! Cargo unifies the features of a dependency over all crates of one command. A crate that compiles together with others also compiles
//! by itself if each of its direct dependencies then has the same features, because it can name no others. So crates are
//! checked in groups, as few as possible, instead of one by one with most of the dependencies compiled again for each.
//!
//! ```text
//! cargo tree ─▶ features of direct dependencies, alone and in a group ─▶ groups ─▶ cargo check --package … for each
//! ```

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde_json::Value;

use crate::command::{APART, COMPANIONS, SCENARIOS, all, cargo, cargo_beside, output, run};
use crate::metadata::{engine_packages, metadata, packages};

/// Name and version of a package ▸ the sets of features that it is compiled with: one, or another one for build scripts.
type Features = BTreeMap<String, BTreeSet<String>>;

/// A crate of the workspace.
struct Member {
    name: String,
    dependencies: BTreeSet<String>,
    /// The features of its direct dependencies when it is compiled by itself.
    alone: Features,
}

impl Member {
    fn read(package: &Value) -> anyhow::Result<Member> {
        let name = package["name"].as_str().context("a package has a name")?.to_owned();
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let dependencies = dependencies.filter(|dependency| dependency["kind"].is_null());
        let dependencies =
            dependencies.filter_map(|dependency| dependency["name"].as_str().map(str::to_owned)).collect();
        let mut member = Member { name, dependencies, alone: Features::new() };
        member.alone = member.direct(&features(&[&member.name], "normal,build")?);
        Ok(member)
    }

    /// What concerns this crate: a crate can name only its direct dependencies.
    fn direct(&self, features: &Features) -> Features {
        let is_direct = |package: &str| package.split(' ').next().is_some_and(|name| self.dependencies.contains(name));
        features
            .iter()
            .filter(|(package, _)| is_direct(package))
            .map(|(name, sets)| (name.clone(), sets.clone()))
            .collect()
    }

    fn compiles_as_alone(&self, features: &Features) -> bool {
        self.direct(features) == self.alone
    }
}

/// Checks every crate with the features that it has by itself.
pub(crate) fn check() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let members = packages(&metadata).map(Member::read).collect::<anyhow::Result<Vec<_>>>()?;
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    // The tier `lint` has compiled all of them together.
    let groups = groups(&members, &features(&names, "normal,build,dev")?, |group| features(group, "normal,build"))?;
    all(groups.iter().map(|group| {
        let mut command = cargo_beside(["check", "--quiet"]);
        command.args(group.iter().flat_map(|name| ["--package", name]));
        run(command)
    }))
}

/// Fails if what users and contributors compile has different features: cargo would compile the dependencies of each again.
pub(crate) fn check_shared_features() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let engine = engine_packages(&metadata);
    let names = packages(&metadata).filter_map(|package| package["name"].as_str());
    let names: Vec<&str> = names.filter(|name| !APART.contains(name)).collect();
    let product: Vec<&str> = names.iter().copied().filter(|name| !engine.contains(name)).collect();
    let tests = features(&names, "normal,build,dev")?;
    let others = [
        ("programs", features(&["pillion", "pillion-generate"], "normal,build")?),
        ("tests of the product", features(&product, "normal,build,dev")?),
        ("tests of the engine", features(&with_companions(&engine), "normal,build,dev")?),
        ("scenarios", features(&with_companions(&[SCENARIOS]), "normal,build,dev")?),
    ];
    let differ = others.iter().flat_map(|(what, features)| differences(what, features, &tests));
    let differ: Vec<String> = differ.collect();
    anyhow::ensure!(
        differ.is_empty(),
        "programs and tests need the same features, or their dependencies are compiled twice; add these to the table of the workspace: {}",
        differ.join("; ")
    );
    Ok(())
}

fn with_companions<'a>(packages: &[&'a str]) -> Vec<&'a str> {
    packages.iter().copied().chain(COMPANIONS).collect()
}

/// Packages whose features are not those that all tests of the workspace have.
fn differences(what: &str, features: &Features, tests: &Features) -> Vec<String> {
    let differs = |(package, sets): (&String, &BTreeSet<String>)| {
        let wanted = tests.get(package)?;
        (sets != wanted).then(|| format!("{package} in {what}: {sets:?}, in all tests {wanted:?}"))
    };
    features.iter().filter_map(differs).collect()
}

/// The groups to check, so that each crate is compiled once with the features that it has alone. What `compiled` covers needs no group.
fn groups<'a>(
    members: &'a [Member],
    compiled: &Features,
    unify: impl Fn(&[&str]) -> anyhow::Result<Features>,
) -> anyhow::Result<Vec<Vec<&'a str>>> {
    let mut rest: Vec<&Member> = members.iter().filter(|member| !member.compiles_as_alone(compiled)).collect();
    let mut groups = Vec::new();
    while let Some(first) = rest.first() {
        let group: Vec<&str> = rest.iter().map(|member| member.name.as_str()).collect();
        let together = unify(&group)?;
        let remaining: Vec<&Member> =
            rest.iter().copied().filter(|member| !member.compiles_as_alone(&together)).collect();
        if remaining.len() < rest.len() {
            groups.push(group);
            rest = remaining;
        } else {
            groups.push(vec![first.name.as_str()]);
            rest.remove(0);
        }
    }
    Ok(groups)
}

/// The features that packages have when these crates are compiled in one command.
fn features(members: &[&str], edges: &str) -> anyhow::Result<Features> {
    let mut command = cargo(["tree", "--edges", edges, "--prefix", "none", "--format", "{f}|{p}"]);
    command.args(members.iter().flat_map(|name| ["--package", name]));
    Ok(read_features(&output(command)?))
}

/// Reads lines such as `default,std|bytes v1.12.1` and `|pillion-api v0.1.0 (/folder) (*)`.
fn read_features(tree: &str) -> Features {
    let mut features = Features::new();
    for (set, package) in tree.lines().filter_map(|line| line.split_once('|')) {
        let package: Vec<&str> = package.split(' ').take(2).collect();
        features.entry(package.join(" ")).or_default().insert(set.to_owned());
    }
    features
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, alone: &str) -> Member {
        let alone = read_features(alone);
        let dependencies = alone.keys().filter_map(|package| package.split(' ').next()).map(str::to_owned).collect();
        Member { name: name.to_owned(), dependencies, alone }
    }

    #[test]
    fn a_package_has_one_set_of_features_or_another_one_for_build_scripts() {
        let tree = "derive|serde v1.0.0\n|pillion v0.1.0 (/folder) (*)\nfull|syn v2.0.0\nparsing|syn v2.0.0 (*)";
        let features = read_features(tree);
        assert_eq!(features["pillion v0.1.0"], BTreeSet::from([String::new()]));
        assert_eq!(features["syn v2.0.0"].len(), 2);
    }

    #[test]
    fn only_crates_with_features_of_their_own_are_checked_and_as_many_as_possible_at_once() {
        let members = [
            member("same", "a|tokio v1\n|uuid v1"),
            member("less", "|tokio v1"),
            member("other", "|tokio v1\n|uuid v1"),
            member("odd", "c|bytes v1"),
        ];
        // `odd` has fewer features than anywhere else, and adds none.
        let unify = |group: &[&str]| {
            Ok(read_features(if group == ["odd"] { "c|bytes v1" } else { "|tokio v1\n|uuid v1\nc,d|bytes v1" }))
        };
        let groups = groups(&members, &read_features("a|tokio v1\n|uuid v1\nc,d|bytes v1"), unify).unwrap();
        assert_eq!(groups, [vec!["less", "other", "odd"], vec!["odd"]]);
    }

    #[test]
    fn crates_that_cannot_share_a_check_are_checked_one_by_one() {
        let members = [member("one", "a|tokio v1"), member("two", "b|tokio v1")];
        let unify = |group: &[&str]| {
            Ok(read_features(match group {
                ["two"] => "b|tokio v1",
                _ => "a,b|tokio v1",
            }))
        };
        let groups = groups(&members, &read_features("a,b|tokio v1"), unify).unwrap();
        assert_eq!(groups, [vec!["one"], vec!["two"]]);
    }
}
