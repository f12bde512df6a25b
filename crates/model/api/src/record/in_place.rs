//! What a pod carries of its last update in place: the revision, since when, and the images that its containers had before.
//!
//! An update is done when the kubelet reports another image ID than the recorded one, or has restarted the container with the same. Kruise's controllers read the same
//! annotation; fields that they do not know are of our own, and they ignore them.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::go_time;

/// The value of [`names::IN_PLACE_UPDATE_STATE`](crate::names::IN_PLACE_UPDATE_STATE): the last update of each SidecarSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InPlaceUpdates {
    by_set: BTreeMap<String, Value>,
}

/// The last update in place by one SidecarSet, as read from a pod. What another program wrote may lack any part of it.
#[derive(Clone, Copy, Debug)]
pub struct InPlaceUpdate<'a>(&'a Value);

/// What a container had before it was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before<'a> {
    /// The image ID that the kubelet reported, or "" if it reported none.
    pub image_id: &'a str,
    /// An image that was replaced before its container had started. A container that still starts with it is not the one that is
    /// waited for. A field of Pillion's own.
    pub superseded: Option<&'a str>,
    /// How often the container had been restarted; Kruise does not record it. A field of Pillion's own.
    pub restarts: Option<u32>,
}

impl<'a> InPlaceUpdate<'a> {
    /// The hash of the set that the pod was updated to.
    pub fn revision(self) -> &'a str {
        self.0["revision"].as_str().unwrap_or_default()
    }

    /// When.
    pub fn updated_at(self) -> Option<Timestamp> {
        self.0["updateTimestamp"].as_str()?.parse().ok()
    }

    /// Whether the pod was ready when it was updated, or was unready because of an earlier update. A field of Pillion's own.
    pub fn was_ready(self) -> bool {
        self.0["wasReady"] == true
    }

    /// What the containers had before.
    pub fn before(self) -> impl Iterator<Item = (&'a str, Before<'a>)> {
        let containers = self.0["lastContainerStatuses"].as_object().into_iter().flatten();
        containers.map(|(name, status)| {
            let image_id = status["imageID"].as_str().unwrap_or_default();
            let restarts = status["restartCount"].as_u64().and_then(|restarts| restarts.try_into().ok());
            (name.as_str(), Before { image_id, superseded: status["superseded"].as_str(), restarts })
        })
    }
}

impl InPlaceUpdates {
    /// Reads the annotation. An empty text has no updates.
    ///
    /// # Errors
    /// The text is not a JSON object.
    pub fn parse(text: &str) -> Result<InPlaceUpdates, serde_json::Error> {
        let by_set = if text.is_empty() { BTreeMap::new() } else { serde_json::from_str(text)? };
        Ok(InPlaceUpdates { by_set })
    }

    /// The last update by a set.
    pub fn get(&self, set: &str) -> Option<InPlaceUpdate<'_>> {
        self.by_set.get(set).map(InPlaceUpdate)
    }

    /// How often a container had been restarted when its image was last changed.
    pub fn restarts_before(&self, container: &str) -> Option<u32> {
        let before = self.by_set.values().flat_map(|update| InPlaceUpdate(update).before());
        before.filter(|(name, _)| *name == container).filter_map(|(_, before)| before.restarts).max()
    }

    /// Records that a pod is updated by a set. Of what the containers had before, only the entries that `keep` wants stay:
    /// those of containers whose earlier update is not done.
    pub fn start(
        &mut self,
        set: &str,
        revision: &str,
        was_ready: bool,
        now: Timestamp,
        mut keep: impl FnMut(&str) -> bool,
    ) {
        let entry = self.entry(set);
        entry["revision"] = json!(revision);
        entry["updateTimestamp"] = json!(go_time(now));
        entry["wasReady"] = json!(was_ready);
        if let Some(before) = entry["lastContainerStatuses"].as_object_mut() {
            before.retain(|container, _| keep(container));
        }
    }

    /// Records what a container has before it is changed.
    pub fn change(&mut self, set: &str, container: &str, before: Before<'_>) {
        let mut status = json!({"imageID": before.image_id});
        if let Some(restarts) = before.restarts {
            status["restartCount"] = json!(restarts);
        }
        if let Some(superseded) = before.superseded {
            status["superseded"] = json!(superseded);
        }
        self.entry(set)["lastContainerStatuses"][container] = status;
    }

    fn entry(&mut self, set: &str) -> &mut Value {
        let entry = self.by_set.entry(set.to_owned()).or_insert(Value::Null);
        if !entry.is_object() {
            *entry = json!({"revision": "", "updateTimestamp": null, "lastContainerStatuses": {}});
        }
        if !entry["lastContainerStatuses"].is_object() {
            entry["lastContainerStatuses"] = json!({});
        }
        entry
    }
}

/// The text of the annotation.
impl fmt::Display for InPlaceUpdates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.by_set).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KRUISE: &str = r#"{"mesh":{"revision":"h1","updateTimestamp":"2026-01-01T00:00:00Z","lastContainerStatuses":{"proxy":{"imageID":"a@sha256:1"}}}}"#;

    #[test]
    fn what_kruise_wrote_is_read_and_written_back() {
        let updates = InPlaceUpdates::parse(KRUISE).unwrap();
        let mesh = updates.get("mesh").unwrap();
        assert_eq!((mesh.revision(), mesh.was_ready()), ("h1", false));
        assert_eq!(mesh.updated_at(), "2026-01-01T00:00:00Z".parse().ok());
        let before = Before { image_id: "a@sha256:1", superseded: None, restarts: None };
        assert_eq!(mesh.before().collect::<Vec<_>>(), [("proxy", before)]);
        assert_eq!(updates.to_string(), KRUISE);
        assert!(InPlaceUpdates::parse("nonsense").is_err());
        assert!(InPlaceUpdates::parse("").unwrap().get("mesh").is_none());
    }

    #[test]
    fn an_update_names_its_revision_and_forgets_what_is_done() {
        let mut updates = InPlaceUpdates::parse(KRUISE).unwrap();
        let now = "2026-02-02T00:00:00.5Z".parse().unwrap();
        updates.start("mesh", "h2", true, now, |_| false);
        updates.change("mesh", "logs", Before { image_id: "", superseded: Some("logs:2"), restarts: Some(3) });
        insta::assert_snapshot!(updates, @r#"{"mesh":{"revision":"h2","updateTimestamp":"2026-02-02T00:00:00Z","lastContainerStatuses":{"logs":{"imageID":"","restartCount":3,"superseded":"logs:2"}},"wasReady":true}}"#);
        let mut first = InPlaceUpdates::default();
        first.change("mesh", "logs", Before { image_id: "x", superseded: None, restarts: None });
        insta::assert_snapshot!(first, @r#"{"mesh":{"revision":"","updateTimestamp":null,"lastContainerStatuses":{"logs":{"imageID":"x"}}}}"#);
    }
}
