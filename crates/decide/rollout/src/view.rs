//! What a rollout reads of a pod.

mod container;
mod lenient;
mod parts;

use jiff::{SignedDuration, Timestamp};
use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_api::record::hot_upgrade::{Working, pair, version_annotation};
use pillion_api::record::in_place::{InPlaceUpdate, InPlaceUpdates};
use pillion_api::record::upgradable::Upgradable;
use pillion_api::record::{Record, Records, injected_sets};
use serde::Deserialize as _;
use serde_json::Value;

pub use container::{ContainerView, Ended, Trouble};
pub use parts::PodParts;

use lenient::Scalar;
use parts::Status;

use crate::text::{Text, Texts};

/// `status.phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not all containers have started.
    Pending,
    /// The node does not answer.
    Unknown,
    /// All containers have started.
    Running,
    /// All containers have ended, and none failed.
    Succeeded,
    /// All containers have ended.
    Failed,
}

/// The controller that owns a pod directly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its kind, such as ReplicaSet.
    pub kind: Text,
    pub name: Text,
}

/// What a rollout reads of a pod, in less than a kilobyte: texts that pods have in common are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct PodView {
    pub namespace: Text,
    pub name: Box<str>,
    pub uid: Box<str>,
    /// Which of two views of the pod is newer.
    pub resource_version: u64,
    /// Its labels, sorted.
    pub labels: Box<[(Text, Text)]>,
    /// Its controller.
    pub owner: Option<Owner>,
    pub created: Option<Timestamp>,
    /// Since when its condition Ready is as it is.
    pub ready_since: Option<Timestamp>,
    /// How far it is.
    pub phase: Phase,
    /// Whether its condition Ready is true.
    pub is_ready: bool,
    /// Whether it has a node.
    pub is_assigned: bool,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Whether its annotation keeps every SidecarSet out.
    pub is_opted_out: bool,
    /// Whether the kubelet has reported on every container.
    pub is_reported: bool,
    /// Whether what the kubelet has reported is about the pod as it is. Kubelets before 1.33 do not say, and are believed.
    pub is_observed: bool,
    /// Annotations with records that cannot be read. What they hold is not known, so nothing is written over it.
    pub unreadable: Box<[&'static str]>,
    /// Its containers and native sidecars.
    pub containers: Box<[ContainerView]>,
    /// The SidecarSets that were injected, by name.
    pub injected: Box<[InjectedSet]>,
    /// For each hot-upgrade sidecar the container of its pair that works.
    pub working: Box<[WorkingView]>,
    /// The place of a partition that it was granted.
    pub quota_place: Option<Box<str>>,
}

/// What a pod records of a hot-upgrade sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkingView {
    pub sidecar: Text,
    /// The container of its pair that works.
    pub container: Text,
    /// Whether the other one has the empty image, whichever that was when it got it.
    pub is_other_empty: bool,
}

/// What a pod records of one SidecarSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectedSet {
    /// The set.
    pub name: Text,
    /// The hash of the set that the pod has; empty if it records none.
    pub hash: Text,
    /// The same without images.
    pub hash_without_image: Text,
    /// The ControllerRevision that the pod has.
    pub revision: Option<Text>,
    /// Whether the pod has the containers that it records. An annotation alone is no sidecar.
    pub is_there: bool,
    /// What the pod's condition says: whether the set can be updated in place.
    pub is_upgradable: Option<bool>,
    /// The last update in place.
    pub in_place: Option<Box<InPlaceView>>,
}

/// The last update in place of a pod by one SidecarSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPlaceView {
    /// The hash that the pod was updated to.
    pub revision: Text,
    /// When.
    pub updated_at: Option<Timestamp>,
    /// Whether the pod was ready then, or an earlier update was the reason why it was not.
    pub was_ready: bool,
    /// What the containers had before.
    pub before: Box<[BeforeView]>,
}

/// What a container had before it was updated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeforeView {
    pub container: Text,
    /// The image ID that the kubelet reported.
    pub image_id: Text,
    /// An image that was replaced before its container had started.
    pub superseded: Option<Text>,
    /// How often the container had been restarted, if that is recorded.
    pub restarts: Option<u32>,
}

impl InPlaceView {
    /// Until when the kubelet has time for the update.
    pub(crate) fn due_at(&self, deadline: SignedDuration) -> Option<Timestamp> {
        Some(self.updated_at?.checked_add(deadline).unwrap_or(Timestamp::MAX))
    }

    /// Until when the update counts as the reason why a pod that was ready before it is not.
    pub(crate) fn excused_until(&self, deadline: SignedDuration) -> Option<Timestamp> {
        self.due_at(deadline).filter(|_| self.was_ready)
    }

    pub(crate) fn is_excused(&self, deadline: SignedDuration, now: Timestamp) -> bool {
        self.excused_until(deadline).is_some_and(|until| until > now)
    }
}

impl PodView {
    /// Reads a pod.
    pub fn new(pod: &Pod, texts: &mut Texts) -> PodView {
        // Whatever is in it, it can be read.
        PodParts::deserialize(pod.as_value()).unwrap_or_default().view(texts)
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let found = self.labels.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
        Some(&self.labels.get(found)?.1)
    }

    /// What the pod records of a set, if the set was injected.
    pub fn injected(&self, set: &str) -> Option<&InjectedSet> {
        self.injected.iter().find(|injected| &*injected.name == set)
    }

    /// A container or native sidecar.
    pub fn container(&self, name: &str) -> Option<&ContainerView> {
        self.containers.iter().find(|container| &*container.name == name)
    }

    /// Whether the pod neither has ended nor is being deleted.
    pub fn is_active(&self) -> bool {
        !self.is_deleting && !matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether the pod runs and is ready.
    pub fn is_running_and_ready(&self) -> bool {
        self.phase == Phase::Running && self.is_ready && !self.is_deleting
    }
}

impl PodParts<'_> {
    /// What a rollout reads of the pod.
    pub fn view(&self, texts: &mut Texts) -> PodView {
        let (metadata, status) = (&self.metadata, &self.status);
        let ready = status.condition("Ready");
        let mut labels: Box<[_]> =
            metadata.labels.iter().map(|(key, value)| (texts.get(key), texts.get(value))).collect();
        labels.sort_unstable();
        let in_place = InPlaceUpdates::parse(self.annotation(names::IN_PLACE_UPDATE_STATE).unwrap_or_default());
        let unreadable = unreadable(self, in_place.is_err());
        let (containers, is_reported) = container::read(self, texts);
        PodView {
            namespace: texts.get(self.namespace()),
            name: self.name().into(),
            uid: self.uid().into(),
            resource_version: self.resource_version().parse().unwrap_or_default(),
            labels,
            owner: self
                .controller()
                .map(|owner| Owner { kind: texts.get(owner.kind.text()), name: texts.get(owner.name.text()) }),
            created: time(&metadata.creation_timestamp),
            ready_since: ready.and_then(|ready| time(&ready.last_transition_time)),
            phase: phase(status),
            is_ready: ready.is_some_and(|ready| ready.status.text() == "True"),
            is_assigned: !self.spec.node_name.text().is_empty(),
            is_deleting: !metadata.deletion_timestamp.is_null(),
            is_opted_out: self.annotation(names::INJECT) == Some("false"),
            is_reported,
            is_observed: is_observed(self),
            unreadable,
            containers,
            injected: injected(self, &in_place.unwrap_or_default(), texts),
            working: working(self, texts),
            quota_place: self.annotation(names::QUOTA_PLACE).map(Into::into),
        }
    }
}

/// The annotations with records that cannot be read.
fn unreadable(pod: &PodParts<'_>, is_in_place_unreadable: bool) -> Box<[&'static str]> {
    let has_no_records = |key| pod.annotation(key).is_some_and(|text| Records::parse(text).is_err());
    let has_no_map = |key| pod.annotation(key).is_some_and(|text| !text.is_empty() && !Working::is_readable(text));
    [
        (names::HASH, has_no_records(names::HASH)),
        (names::HASH_WITHOUT_IMAGE, has_no_records(names::HASH_WITHOUT_IMAGE)),
        (names::IN_PLACE_UPDATE_STATE, is_in_place_unreadable),
        (names::WORKING_HOT_UPGRADE_CONTAINER, has_no_map(names::WORKING_HOT_UPGRADE_CONTAINER)),
    ]
    .into_iter()
    .filter_map(|(key, is_unreadable)| is_unreadable.then_some(key))
    .collect()
}

fn injected(pod: &PodParts<'_>, in_place: &InPlaceUpdates, texts: &mut Texts) -> Box<[InjectedSet]> {
    let records = |key| Records::parse(pod.annotation(key).unwrap_or_default()).unwrap_or_default();
    let (with_image, without_image) = (records(names::HASH), records(names::HASH_WITHOUT_IMAGE));
    let upgradable = pod.status.condition(names::UPGRADABLE_CONDITION);
    let upgradable = upgradable.map(|condition| Upgradable::parse(condition.message.text())).unwrap_or_default();
    let sets = injected_sets(pod.annotation(names::INJECTED_LIST).unwrap_or_default());
    let read = |name: &str| {
        let (record, without_image) = (with_image.get(name), without_image.get(name));
        InjectedSet {
            name: texts.get(name),
            hash: texts.get(record.map(Record::hash).unwrap_or_default()),
            hash_without_image: texts.get(without_image.map(Record::hash).unwrap_or_default()),
            revision: record.and_then(Record::controller_revision).map(|name| texts.get(name)),
            is_there: record.is_some_and(|record| record.sidecars().all(|sidecar| has_sidecar(pod, sidecar))),
            is_upgradable: upgradable.get(name),
            in_place: in_place.get(name).map(|update| Box::new(in_place_view(update, texts))),
        }
    };
    sets.into_iter().map(read).collect()
}

/// Whether the pod has a sidecar, or the pair of a hot-upgrade one.
fn has_sidecar(pod: &PodParts<'_>, sidecar: &str) -> bool {
    let [first, second] = pair(sidecar);
    let mut all = pod.spec.containers.iter().chain(pod.spec.init_containers.iter());
    all.any(|container| [sidecar, &first, &second].contains(&container.name.text()))
}

fn in_place_view(update: InPlaceUpdate<'_>, texts: &mut Texts) -> InPlaceView {
    let before = update.before().map(|(container, before)| BeforeView {
        container: texts.get(container),
        image_id: texts.get(before.image_id),
        superseded: before.superseded.map(|image| texts.get(image)),
        restarts: before.restarts,
    });
    let before = before.collect();
    InPlaceView {
        revision: texts.get(update.revision()),
        updated_at: update.updated_at(),
        was_ready: update.was_ready(),
        before,
    }
}

fn working(pod: &PodParts<'_>, texts: &mut Texts) -> Box<[WorkingView]> {
    let working = Working::parse(pod.annotation(names::WORKING_HOT_UPGRADE_CONTAINER).unwrap_or_default());
    let view = |(sidecar, container): (&str, &str)| {
        let other = pair(sidecar).into_iter().find(|other| other != container);
        let version = other.and_then(|other| pod.annotation(&version_annotation(&other)));
        let is_other_empty = version == Some("0");
        WorkingView { sidecar: texts.get(sidecar), container: texts.get(container), is_other_empty }
    };
    working.iter().map(view).collect()
}

fn is_observed(pod: &PodParts<'_>) -> bool {
    let generation = pod.metadata.generation.integer().unwrap_or_default();
    pod.status.observed_generation.integer().is_none_or(|observed| observed >= generation)
}

fn phase(status: &Status<'_>) -> Phase {
    match status.phase.text() {
        "Unknown" => Phase::Unknown,
        "Running" => Phase::Running,
        "Succeeded" => Phase::Succeeded,
        "Failed" => Phase::Failed,
        _ => Phase::Pending,
    }
}

fn time(time: &Scalar<'_>) -> Option<Timestamp> {
    time.text().parse().ok()
}

/// A condition of a pod's status.
pub(crate) fn condition<'a>(status: &'a Value, condition_type: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == condition_type)
}
