//! What a step makes of the view of a pod, as [`Target::change`] and the kubelet would make it of the pod.

use jiff::Timestamp;

use crate::health::Health;
use crate::images::{self, ImageChange, PairChange};
use crate::progress;
use crate::target::Target;
use crate::text::Texts;
use crate::view::{BeforeView, ContainerView, InPlaceView, InjectedSet, Phase, PodView};
use crate::waiting;

/// The pod gets the latest revision.
pub(super) fn update(target: &Target, pod: &mut PodView, revision: &str, texts: &mut Texts, now: Timestamp) {
    let Some(injected) = pod.injected(target.name()) else { return };
    let in_place = injected.in_place.as_deref();
    let (images, pairs) = images::update(target, pod, in_place);
    let is_excused = in_place.is_some_and(|update| update.is_excused(progress::deadline(target.set()), now));
    let was_ready = Health::of(target, pod, injected).is_ready || is_excused;
    let mut before = still_waited_for(pod, in_place);
    record(&mut before, pod, in_place, &images, texts);
    if let Some(injected) = injected_mut(pod, target.name()) {
        injected.hash = texts.get(&target.hash);
        injected.revision = Some(texts.get(revision));
        injected.is_upgradable = Some(true);
        let revision = injected.hash.clone();
        injected.in_place =
            Some(Box::new(InPlaceView { revision, updated_at: Some(now), was_ready, before: before.into() }));
    }
    change(pod, &images, &pairs, texts);
}

/// The hot upgrade is finished.
pub(super) fn reset(target: &Target, pod: &mut PodView, texts: &mut Texts) {
    let Some(injected) = pod.injected(target.name()) else { return };
    let in_place = injected.in_place.as_deref();
    let (images, pairs) = images::reset(target, pod, in_place);
    let mut before: Vec<BeforeView> = in_place.map(|update| update.before.to_vec()).unwrap_or_default();
    record(&mut before, pod, in_place, &images, texts);
    if let Some(in_place) = injected_mut(pod, target.name()).and_then(|injected| injected.in_place.as_mut()) {
        in_place.before = before.into();
    }
    change(pod, &images, &pairs, texts);
}

pub(super) fn set_upgradable(target: &Target, pod: &mut PodView, is_upgradable: bool) {
    if let Some(injected) = injected_mut(pod, target.name()) {
        injected.is_upgradable = Some(is_upgradable);
    }
}

/// The kubelet has done what the spec says, and the containers that have changed are ready.
pub(super) fn get_ready(target: &Target, pod: &mut PodView) {
    let in_place = pod.injected(target.name()).and_then(|injected| injected.in_place.clone());
    let changed = |container: &ContainerView| !waiting::is_done(container, pod, in_place.as_deref());
    let changed: Vec<bool> = pod.containers.iter().map(changed).collect();
    pod.is_observed = true;
    for (container, _) in pod.containers.iter_mut().zip(changed).filter(|(_, changed)| *changed) {
        container.reported_image = Some(container.image.clone());
        // Also what is asked for by its digest is found in this.
        container.image_id = Some(container.image.clone());
        container.restarts = container.restarts.saturating_add(1);
        container.is_ready = true;
        container.trouble = None;
    }
    // A pod without a node does not start because of an update.
    if pod.is_assigned {
        pod.is_reported = true;
        pod.phase = Phase::Running;
    }
    pod.is_ready = pod.is_assigned && pod.containers.iter().all(|container| container.is_ready);
}

fn injected_mut<'p>(pod: &'p mut PodView, set: &str) -> Option<&'p mut InjectedSet> {
    pod.injected.iter_mut().find(|injected| &*injected.name == set)
}

fn still_waited_for(pod: &PodView, in_place: Option<&InPlaceView>) -> Vec<BeforeView> {
    let is_waited_for = |before: &&BeforeView| {
        pod.container(&before.container).is_some_and(|container| !waiting::is_done(container, pod, in_place))
    };
    in_place.into_iter().flat_map(|update| &update.before).filter(is_waited_for).cloned().collect()
}

/// Records what containers have before they are changed.
fn record(
    before: &mut Vec<BeforeView>,
    pod: &PodView,
    in_place: Option<&InPlaceView>,
    images: &[ImageChange],
    texts: &mut Texts,
) {
    for image in images {
        let Some(container) = pod.container(&image.container) else { continue };
        let is_done = waiting::is_done(container, pod, in_place);
        before.retain(|known| known.container != container.name);
        before.push(BeforeView {
            container: container.name.clone(),
            image_id: container.image_id.clone().unwrap_or_else(|| texts.get("")),
            superseded: (!is_done && pod.is_assigned).then(|| container.image.clone()),
            restarts: Some(container.restarts),
        });
    }
}

fn change(pod: &mut PodView, images: &[ImageChange], pairs: &[PairChange], texts: &mut Texts) {
    for image in images {
        let container = pod.containers.iter_mut().find(|container| *container.name == *image.container);
        if let Some(container) = container {
            container.image = texts.get(&image.to);
            pod.is_observed = false;
        }
    }
    for pair in pairs {
        match pair {
            PairChange::Upgrade { sidecar, working, .. } => {
                if let Some(view) = pod.working.iter_mut().find(|view| *view.sidecar == **sidecar) {
                    (view.container, view.is_other_empty) = (texts.get(working), false);
                }
            }
            PairChange::Reset { working, .. } => {
                if let Some(view) = pod.working.iter_mut().find(|view| *view.container == **working) {
                    view.is_other_empty = true;
                }
            }
        }
    }
}
