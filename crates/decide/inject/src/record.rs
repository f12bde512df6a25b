//! The annotations in which a pod carries what was injected into it.
//!
//! Their text is a format of the wire: Kruise's controllers and daemon read it, so it is written as Go writes it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_api::sidecarset::SidecarContainer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::Body;
use crate::note::Denied;

/// What one SidecarSet injected, in the order of Go's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    /// Kept as text: a record of somebody else's is never rewritten in another form.
    #[serde(deserialize_with = "null_as_default")]
    update_timestamp: Option<String>,
    hash: String,
    sidecar_set_name: String,
    #[serde(deserialize_with = "null_as_default")]
    sidecar_list: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    controller_revision: String,
}

fn null_as_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A record as it is, or in the form that old versions wrote: the hash alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum AnyRecord {
    Hash(String),
    Record(Record),
}

/// The three annotations after injecting `bodies`.
pub(crate) fn annotations(pod: &Pod, bodies: &[&Body], now: Timestamp) -> Result<BTreeMap<String, String>, Denied> {
    let mut with_image = read(pod, names::HASH)?;
    let mut without_image = read(pod, names::HASH_WITHOUT_IMAGE)?;
    let mut list: BTreeSet<&str> =
        pod.annotation(names::INJECTED_LIST).unwrap_or_default().split(',').filter(|name| !name.is_empty()).collect();
    for body in bodies {
        let set = body.set.name();
        list.insert(set);
        let spec = &body.set.spec;
        if spec.init_containers.is_empty() && spec.containers.is_empty() {
            continue;
        }
        let native = spec.init_containers.iter().filter(|container| container.is_native_sidecar());
        let sidecars: BTreeSet<&str> = native.chain(&spec.containers).map(SidecarContainer::name).collect();
        let revision = body.set.status.as_ref().and_then(|status| status.latest_revision.clone()).unwrap_or_default();
        let record = |hash: &str, controller_revision: String| Record {
            update_timestamp: Some(seconds(now)),
            hash: hash.to_owned(),
            sidecar_set_name: set.to_owned(),
            sidecar_list: sidecars.iter().map(|name| (*name).to_owned()).collect(),
            controller_revision,
        };
        write(&mut with_image, record(&body.hash, revision));
        write(&mut without_image, record(&body.hash_without_image, String::new()));
    }
    Ok(BTreeMap::from([
        (names::HASH.to_owned(), text(&with_image)),
        (names::HASH_WITHOUT_IMAGE.to_owned(), text(&without_image)),
        (names::INJECTED_LIST.to_owned(), list.into_iter().collect::<Vec<_>>().join(",")),
    ]))
}

/// A record that says the same keeps its time, so that injecting twice is injecting once.
fn write(records: &mut BTreeMap<String, Record>, record: Record) {
    let same = records.get(&record.sidecar_set_name).is_some_and(|old| {
        old.update_timestamp.is_some()
            && Record { update_timestamp: record.update_timestamp.clone(), ..old.clone() } == record
    });
    if !same {
        records.insert(record.sidecar_set_name.clone(), record);
    }
}

fn read(pod: &Pod, key: &str) -> Result<BTreeMap<String, Record>, Denied> {
    let Some(text) = pod.annotation(key).filter(|text| !text.is_empty()) else { return Ok(BTreeMap::new()) };
    let records: BTreeMap<String, AnyRecord> = serde_json::from_str(text).map_err(|error| Denied::Record {
        pod: format!("{}/{}", pod.namespace(), pod.name()),
        key: key.to_owned(),
        reason: error.to_string(),
    })?;
    let upgraded = |(set, record): (String, AnyRecord)| match record {
        AnyRecord::Hash(hash) => (set.clone(), Record { hash, sidecar_set_name: set, ..Record::default() }),
        AnyRecord::Record(record) => (set, record),
    };
    Ok(records.into_iter().map(upgraded).collect())
}

fn text(records: &BTreeMap<String, Record>) -> String {
    serde_json::to_value(records).unwrap_or(Value::Null).to_string()
}

/// RFC 3339 without fractions, as `metav1.Time` writes it.
fn seconds(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
