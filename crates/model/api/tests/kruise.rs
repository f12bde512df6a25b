//! The hashes and revision names that OpenKruise itself gives to generated SidecarSets.
//!
//! Made by running Kruise's own functions (`SidecarSetHashV1beta1`, `SidecarSetHashWithoutImageV1beta1` and
//! `NewRevision`, commit 07169cfac7b9, Kubernetes libraries 1.32.10) over random objects. The lines are the smallest
//! choice in which every field of containers and volumes has a value, and in which every odd string, number and
//! quantity of the generator occurs.

use pillion_api::sidecarset::{self, revision};
use serde_json::Value;

#[test]
fn hashes_and_revision_names_are_those_of_kruise() {
    let lines = include_str!("kruise/sidecarsets.jsonl");
    for (number, line) in lines.lines().enumerate() {
        let case: Value = serde_json::from_str(line).unwrap();
        let set = sidecarset::decode(case["set"].clone()).unwrap();
        let data = revision::data(&set);
        assert_eq!(sidecarset::hash(&set), case["hash"], "line {number}");
        assert_eq!(sidecarset::hash_without_image(&set), case["hashWithoutImage"], "line {number}");
        assert_eq!(revision::name(&set, &data, 0), case["revision"], "line {number}: {data}");
    }
    assert!(lines.lines().count() > 30, "the file was not read");
}
