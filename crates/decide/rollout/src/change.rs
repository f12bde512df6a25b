//! The exact change of a pod, made from the pod as it is when it is written.

use std::collections::BTreeSet;

use jiff::Timestamp;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation};
use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_api::record::hot_upgrade::{Working, other_version_annotation, version_annotation};
use pillion_api::record::in_place::{Before, InPlaceUpdates};
use pillion_api::record::upgradable::Upgradable;
use pillion_api::record::{NewRecord, Records, go_time};
use pillion_api::sidecarset::SidecarContainer;
use pillion_inject::patch_pod_metadata;
use pillion_note::{ContainerList, Draft, Note, Reason, Subject};
use serde_json::Value;

use crate::health::Health;
use crate::images::{self, ImageChange, PairChange};
use crate::plan::{PodUpdate, Step};
use crate::progress;
use crate::target::Target;
use crate::text::Texts;
use crate::view::{InjectedSet, PodView, condition};
use crate::waiting;

/// What is written for one step of one pod. The patch comes first.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// For the pod: images and annotations, under the condition that the pod is still as it was read. Empty if nothing is written.
    pub patch: Patch,
    /// For `status.conditions` of the pod.
    pub condition: Option<Value>,
    /// What went wrong on the way.
    pub notes: Vec<Note>,
}

impl Change {
    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.patch.0.is_empty() && self.condition.is_none()
    }
}

impl Target {
    /// The change that a step means for the pod as it is now. It is empty when the pod has it already, or when the step is no longer
    /// right: the next plan sees the pod. It is also empty if a record of the pod cannot be read: writing it anew would drop what other
    /// SidecarSets have recorded.
    pub fn change(&self, update: &PodUpdate, pod: &Pod, now: Timestamp) -> Change {
        let view = PodView::new(pod, &mut Texts::default());
        let Some(injected) = view.injected(self.name()).filter(|_| *view.uid == *update.uid && view.is_active()) else {
            return Change::default();
        };
        if self.unreadable_in(&view).is_some() {
            return Change::default();
        }
        match &update.step {
            Step::Update { revision, .. } => self.update(revision, pod, &view, injected, now),
            Step::Reset { .. } => self.reset(pod, &view, injected),
            Step::SetUpgradable(is_upgradable) => {
                let is_right = *is_upgradable == (self.is_updated(injected) || self.is_upgradable(&view, injected));
                let condition = if is_right { self.condition(*is_upgradable, pod, now) } else { None };
                Change { condition, ..Change::default() }
            }
        }
    }

    fn update(&self, revision: &str, pod: &Pod, view: &PodView, injected: &InjectedSet, now: Timestamp) -> Change {
        let health = Health::of(self, view, injected);
        if self.is_updated(injected) || !self.is_upgradable(view, injected) || health.is_in_flight {
            return Change::default();
        }
        let mut draft = Draft::new(pod);
        let mut notes = Vec::new();
        // The records come after it, so that they win.
        if let Err(denied) = patch_pod_metadata(&self.set, &mut draft) {
            notes.push(Note::warning(Subject::Pod, Reason::MetadataNotPatched, denied.to_string()));
        }
        let in_place = injected.in_place.as_deref();
        let (images, pairs) = images::update(self, view, in_place);
        let mut records = Records::parse(pod.annotation(names::HASH).unwrap_or_default()).unwrap_or_default();
        records.insert(&NewRecord {
            update_timestamp: Some(&go_time(now)),
            hash: &self.hash,
            sidecar_set_name: self.name(),
            sidecar_list: self.set.sidecars().map(SidecarContainer::name).collect::<BTreeSet<_>>(),
            controller_revision: revision,
        });
        draft.set_annotation(names::HASH, records.to_string());
        let mut updates = in_place_updates(pod);
        let is_waited_for =
            |name: &str| view.container(name).is_some_and(|container| !waiting::is_done(container, view, in_place));
        let was_ready =
            health.is_ready || in_place.is_some_and(|update| update.is_excused(progress::deadline(&self.set), now));
        updates.start(self.name(), &self.hash, was_ready, now, is_waited_for);
        self.record_images(&mut updates, view, injected, &images);
        draft.set_annotation(names::IN_PLACE_UPDATE_STATE, updates.to_string());
        self.write_pairs(&mut draft, &pairs);
        set_images(&mut draft, &images);
        Change { patch: guarded(&draft, pod), condition: self.condition(true, pod, now), notes }
    }

    fn reset(&self, pod: &Pod, view: &PodView, injected: &InjectedSet) -> Change {
        let (images, pairs) = images::reset(self, view, injected.in_place.as_deref());
        if images.is_empty() {
            return Change::default();
        }
        let mut draft = Draft::new(pod);
        let mut updates = in_place_updates(pod);
        self.record_images(&mut updates, view, injected, &images);
        draft.set_annotation(names::IN_PLACE_UPDATE_STATE, updates.to_string());
        self.write_pairs(&mut draft, &pairs);
        set_images(&mut draft, &images);
        Change { patch: guarded(&draft, pod), ..Change::default() }
    }

    /// Records what the containers have before they are changed.
    fn record_images(
        &self,
        updates: &mut InPlaceUpdates,
        view: &PodView,
        injected: &InjectedSet,
        images: &[ImageChange],
    ) {
        for change in images {
            let Some(container) = view.container(&change.container) else { continue };
            let is_done = waiting::is_done(container, view, injected.in_place.as_deref());
            let before = Before {
                image_id: container.image_id.as_deref().unwrap_or_default(),
                // A pod without a node starts with the new image.
                superseded: (!is_done && view.is_assigned).then_some(change.from.as_str()),
                restarts: Some(container.restarts),
            };
            updates.change(self.name(), &change.container, before);
        }
    }

    fn write_pairs(&self, draft: &mut Draft<'_>, pairs: &[PairChange]) {
        let version = self.set.metadata.resource_version.as_deref().unwrap_or("1");
        for pair in pairs {
            match pair {
                PairChange::Upgrade { sidecar, working, other, sets_image } => {
                    let annotation = draft.annotation(names::WORKING_HOT_UPGRADE_CONTAINER).unwrap_or_default();
                    let mut map = Working::parse(annotation);
                    map.set(sidecar, working.clone());
                    draft.set_annotation(names::WORKING_HOT_UPGRADE_CONTAINER, map.to_string());
                    if *sets_image {
                        let of_other = draft.annotation(&version_annotation(other)).unwrap_or("0").to_owned();
                        draft.set_annotation(version_annotation(working), version);
                        draft.set_annotation(other_version_annotation(working), of_other);
                        draft.set_annotation(other_version_annotation(other), version);
                    }
                }
                PairChange::Reset { working, idle } => {
                    draft.set_annotation(version_annotation(idle), "0");
                    draft.set_annotation(other_version_annotation(working), "0");
                }
            }
        }
    }

    /// The condition, unless the pod has it.
    fn condition(&self, is_upgradable: bool, pod: &Pod, now: Timestamp) -> Option<Value> {
        let before = condition(&pod.as_value()["status"], names::UPGRADABLE_CONDITION);
        let message = before.and_then(|before| before["message"].as_str()).unwrap_or_default();
        let mut upgradable = Upgradable::parse(message);
        if upgradable.get(self.name()) == Some(is_upgradable) {
            return None;
        }
        upgradable.set(self.name(), is_upgradable);
        Some(upgradable.condition(before, now))
    }
}

fn in_place_updates(pod: &Pod) -> InPlaceUpdates {
    InPlaceUpdates::parse(pod.annotation(names::IN_PLACE_UPDATE_STATE).unwrap_or_default()).unwrap_or_default()
}

fn set_images(draft: &mut Draft<'_>, images: &[ImageChange]) {
    for change in images {
        for list in [ContainerList::InitContainers, ContainerList::Containers] {
            let key = draft.original(list, &change.container);
            if let Some(container) = key.and_then(|key| draft.container_mut(key)) {
                container.insert("image".to_owned(), Value::String(change.to.clone()));
            }
        }
    }
}

/// The patch, with the version that the pod was read at: the API server answers 409 if the pod has changed since.
fn guarded(draft: &Draft<'_>, pod: &Pod) -> Patch {
    let mut patch = draft.patch();
    let version = &pod.as_value()["metadata"]["resourceVersion"];
    if !patch.0.is_empty() && version.is_string() {
        let path = PointerBuf::from_tokens(["metadata", "resourceVersion"]);
        patch.0.insert(0, PatchOperation::Add(AddOperation { path, value: version.clone() }));
    }
    patch
}
