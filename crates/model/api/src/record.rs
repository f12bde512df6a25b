//! What injection and updates in place write on a pod: which SidecarSets were injected, from which revision, with which containers.
//!
//! Their text is a wire format that Kruise's controllers and daemon read, so it is written as Go writes it.
//!
//! ```
//! use pillion_api::record::Records;
//!
//! let text = r#"{"mesh":{"updateTimestamp":"2026-01-01T00:00:00Z","hash":"h","sidecarSetName":"mesh","sidecarList":["proxy"],"controllerRevision":"mesh-1"}}"#;
//! let records = Records::parse(text)?;
//! let mesh = records.get("mesh").unwrap();
//! assert_eq!((mesh.hash(), mesh.controller_revision()), ("h", Some("mesh-1")));
//! assert_eq!(mesh.sidecars().collect::<Vec<_>>(), ["proxy"]);
//! assert_eq!(records.to_string(), text);
//! # Ok::<(), pillion_api::record::RecordsError>(())
//! ```

pub mod hot_upgrade;
pub mod in_place;
pub mod sidecars;
pub mod upgradable;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

/// The value of [`names::HASH`](crate::names::HASH) or [`names::HASH_WITHOUT_IMAGE`](crate::names::HASH_WITHOUT_IMAGE) on a pod: a
/// record for each SidecarSet that was injected. Records of other sets stay as they are, whatever they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    by_set: BTreeMap<String, Value>,
}

/// Why an annotation is not a record of injected SidecarSets.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// It is not a JSON object.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The record of one set is not an object.
    #[error("the record of {set:?} is not an object")]
    NotAnObject { set: String },
}

/// What one SidecarSet injected, in the order of Go's fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewRecord<'a> {
    /// When, as [`go_time`] writes it. `None` for a workload's template: the pods that are created from it get their own time at admission.
    pub update_timestamp: Option<&'a str>,
    /// The hash of the set.
    pub hash: &'a str,
    pub sidecar_set_name: &'a str,
    /// The containers that run beside the app, native sidecars included.
    pub sidecar_list: BTreeSet<&'a str>,
    /// The ControllerRevision; empty in the record without images.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub controller_revision: &'a str,
}

/// What one SidecarSet injected, as read from a pod. What another program wrote may lack any part of it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a>(&'a Value);

impl<'a> Record<'a> {
    /// The hash of the set, or "".
    pub fn hash(self) -> &'a str {
        self.0["hash"].as_str().unwrap_or_default()
    }

    /// The ControllerRevision that was injected.
    pub fn controller_revision(self) -> Option<&'a str> {
        self.0["controllerRevision"].as_str().filter(|name| !name.is_empty())
    }

    /// The containers that run beside the app, native sidecars included.
    pub fn sidecars(self) -> impl Iterator<Item = &'a str> {
        self.0["sidecarList"].as_array().into_iter().flatten().filter_map(Value::as_str)
    }

    /// When the set was injected, or last updated.
    pub fn updated_at(self) -> Option<Timestamp> {
        self.0["updateTimestamp"].as_str()?.parse().ok()
    }
}

impl Records {
    /// Reads the annotation. An empty text has no records. The form of old versions, which has the hash alone, is read as a
    /// record without the rest.
    ///
    /// # Errors
    /// The text is not a record of injected SidecarSets.
    pub fn parse(text: &str) -> Result<Records, RecordsError> {
        if text.is_empty() {
            return Ok(Records::default());
        }
        let mut by_set: BTreeMap<String, Value> = serde_json::from_str(text)?;
        for (set, record) in &mut by_set {
            match record {
                Value::String(hash) => {
                    let hash = std::mem::take(hash);
                    *record =
                        json!({"updateTimestamp": null, "hash": hash, "sidecarSetName": set, "sidecarList": null});
                }
                Value::Object(_) => {}
                _ => return Err(RecordsError::NotAnObject { set: set.clone() }),
            }
        }
        Ok(Records { by_set })
    }

    /// The sets that have a record, by name.
    pub fn sets(&self) -> impl Iterator<Item = &str> {
        self.by_set.keys().map(String::as_str)
    }

    pub fn get(&self, set: &str) -> Option<Record<'_>> {
        self.by_set.get(set).map(Record)
    }

    /// Writes a record. One that says the same keeps its time, so that injecting twice is injecting once.
    pub fn insert(&mut self, record: &NewRecord<'_>) {
        let mut new = serde_json::to_value(record).unwrap_or_default();
        if let Some(old) = self.by_set.get(record.sidecar_set_name) {
            let time = &old["updateTimestamp"];
            let mut same = old.clone();
            same["updateTimestamp"] = new["updateTimestamp"].clone();
            if same == new && time.is_string() {
                new["updateTimestamp"] = time.clone();
            }
        }
        self.by_set.insert(record.sidecar_set_name.to_owned(), new);
    }
}

/// The text of the annotation.
impl fmt::Display for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.by_set).map_err(|_| fmt::Error)?)
    }
}

/// The text of the annotation of a pod that had none, by name: what [`Records::insert`] makes of an empty one, in less time.
pub fn first_records(records: &[NewRecord<'_>]) -> String {
    let by_set: BTreeMap<&str, &NewRecord<'_>> =
        records.iter().map(|record| (record.sidecar_set_name, record)).collect();
    serde_json::to_string(&by_set).unwrap_or_default()
}

/// RFC 3339 without fractions, as `metav1.Time` writes it.
pub fn go_time(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// The SidecarSets named in [`names::INJECTED_LIST`](crate::names::INJECTED_LIST).
pub fn injected_sets(list: &str) -> BTreeSet<&str> {
    list.split(',').filter(|name| !name.is_empty()).collect()
}

/// The value of [`names::INJECTED_LIST`](crate::names::INJECTED_LIST).
pub fn injected_list(sets: &BTreeSet<&str>) -> String {
    sets.iter().copied().collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time: &str) -> NewRecord<'_> {
        NewRecord {
            update_timestamp: Some(time),
            hash: "h",
            sidecar_set_name: "mesh",
            sidecar_list: ["b", "a"].into(),
            controller_revision: "mesh-1",
        }
    }

    #[test]
    fn a_record_is_written_as_go_writes_it() {
        let mut records = Records::default();
        records.insert(&record("2026-01-02T03:04:05Z"));
        insta::assert_snapshot!(records, @r#"{"mesh":{"updateTimestamp":"2026-01-02T03:04:05Z","hash":"h","sidecarSetName":"mesh","sidecarList":["a","b"],"controllerRevision":"mesh-1"}}"#);
        assert_eq!(go_time("2026-01-02T03:04:05.678Z".parse().unwrap()), "2026-01-02T03:04:05Z");
        let read = records.get("mesh").unwrap();
        assert_eq!(read.sidecars().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(read.updated_at(), "2026-01-02T03:04:05Z".parse().ok());
        records.insert(&NewRecord { update_timestamp: None, controller_revision: "", ..record("") });
        insta::assert_snapshot!(records, @r#"{"mesh":{"updateTimestamp":null,"hash":"h","sidecarSetName":"mesh","sidecarList":["a","b"]}}"#);
    }

    #[test]
    fn a_record_that_says_the_same_keeps_its_time() {
        let mut records = Records::default();
        records.insert(&record("2026-01-01T00:00:00Z"));
        let first = records.to_string();
        records.insert(&record("2026-02-02T00:00:00Z"));
        assert_eq!(records.to_string(), first);
        records.insert(&NewRecord { hash: "other", ..record("2026-02-02T00:00:00Z") });
        assert_eq!(records.get("mesh").unwrap().updated_at(), "2026-02-02T00:00:00Z".parse().ok());
    }

    #[test]
    fn other_records_stay_as_they_are_and_old_forms_are_read() {
        let mut records = Records::parse(r#"{"other":{"future":[1.50],"hash":"x"},"old":"h0"}"#).unwrap();
        assert_eq!(records.get("old").unwrap().hash(), "h0");
        assert_eq!(records.get("old").unwrap().sidecars().count(), 0);
        assert!(records.get("none").is_none());
        records.insert(&record("2026-01-01T00:00:00Z"));
        assert!(records.to_string().contains(r#""other":{"future":[1.5],"hash":"x"}"#), "{records}");
    }

    #[test]
    fn the_first_records_are_what_inserting_them_makes() {
        let of = |sidecar_set_name| NewRecord { sidecar_set_name, ..record("2026-01-02T03:04:05Z") };
        let new = [of("b"), NewRecord { update_timestamp: None, ..of("a") }, of("\"quoted\"")];
        let mut records = Records::default();
        for record in &new {
            records.insert(record);
        }
        assert_eq!(first_records(&new), records.to_string());
        assert_eq!(first_records(&[]), Records::default().to_string());
    }

    #[test]
    fn what_is_not_a_record_is_refused() {
        assert_eq!(Records::parse("").unwrap(), Records::default());
        assert!(matches!(Records::parse("nonsense"), Err(RecordsError::Json(_))));
        assert_eq!(Records::parse(r#"{"a":5}"#).unwrap_err().to_string(), r#"the record of "a" is not an object"#);
    }

    #[test]
    fn the_list_of_sets_is_sorted() {
        assert_eq!(injected_sets(""), BTreeSet::new());
        assert_eq!(injected_list(&injected_sets("b,,a")), "a,b");
    }
}
