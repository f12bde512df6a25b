//! The annotations in which a pod carries what was injected into it.
//!
//! Their text is a format of the wire: Kruise's controllers and daemon read it, so it is written as Go writes it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_api::sidecarset::SidecarContainer;
use serde::Serialize;
use serde_json::Value;

use crate::catalog::Body;
use crate::note::Denied;

/// What one SidecarSet injected, in the order of Go's fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    /// When; a template has no time yet, and the pods that are made of it get theirs at admission.
    update_timestamp: Option<String>,
    hash: &'a str,
    sidecar_set_name: &'a str,
    sidecar_list: BTreeSet<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    controller_revision: &'a str,
}

/// The records of a pod by SidecarSet. Those of other sets stay as they are, whatever they hold.
type Records = BTreeMap<String, Value>;

/// The three annotations after injecting `bodies`; `now` is `None` for a template.
pub(crate) fn annotations(
    pod: &Pod,
    bodies: &[&Body],
    now: Option<Timestamp>,
) -> Result<BTreeMap<String, String>, Denied> {
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
        let revision =
            body.set.status.as_ref().and_then(|status| status.latest_revision.as_deref()).unwrap_or_default();
        let record = |hash, controller_revision| Record {
            update_timestamp: now.map(seconds),
            hash,
            sidecar_set_name: set,
            sidecar_list: sidecars.clone(),
            controller_revision,
        };
        write(&mut with_image, &record(&body.hash, revision));
        write(&mut without_image, &record(&body.hash_without_image, ""));
    }
    Ok(BTreeMap::from([
        (names::HASH.to_owned(), text(with_image)),
        (names::HASH_WITHOUT_IMAGE.to_owned(), text(without_image)),
        (names::INJECTED_LIST.to_owned(), list.into_iter().collect::<Vec<_>>().join(",")),
    ]))
}

/// A record that says the same keeps its time, so that injecting twice is injecting once.
fn write(records: &mut Records, record: &Record<'_>) {
    let mut new = serde_json::to_value(record).unwrap_or_default();
    if let Some(old) = records.get(record.sidecar_set_name) {
        let time = &old["updateTimestamp"];
        let mut same = old.clone();
        same["updateTimestamp"] = new["updateTimestamp"].clone();
        if same == new && time.is_string() {
            new["updateTimestamp"] = time.clone();
        }
    }
    records.insert(record.sidecar_set_name.to_owned(), new);
}

fn read(pod: &Pod, key: &str) -> Result<Records, Denied> {
    let Some(text) = pod.annotation(key).filter(|text| !text.is_empty()) else { return Ok(Records::new()) };
    let refused = |reason: String| Denied::Record {
        pod: format!("{}/{}", pod.namespace(), pod.name()),
        key: key.to_owned(),
        reason,
    };
    let mut records: Records = serde_json::from_str(text).map_err(|error| refused(error.to_string()))?;
    for (set, record) in &mut records {
        match record {
            // The form that old versions wrote: the hash alone.
            Value::String(hash) => {
                let (hash, set) = (std::mem::take(hash), set.clone());
                *record = serde_json::json!({"updateTimestamp": null, "hash": hash, "sidecarSetName": set, "sidecarList": null});
            }
            Value::Object(_) => {}
            _ => return Err(refused(format!("the record of {set:?} is not an object"))),
        }
    }
    Ok(records)
}

fn text(records: Records) -> String {
    Value::Object(records.into_iter().collect()).to_string()
}

/// RFC 3339 without fractions, as `metav1.Time` writes it.
fn seconds(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
