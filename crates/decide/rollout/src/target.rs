//! What a SidecarSet wants of running pods, compiled once.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use pillion_api::digest::Digest;
use pillion_api::names;
use pillion_api::record::hot_upgrade;
use pillion_api::sidecarset::{SidecarContainer, SidecarSet, revision};
use pillion_selector::Selector;

use crate::view::{InjectedSet, PodView};

/// A SidecarSet, compiled for its rollout.
#[derive(Clone, Debug)]
pub struct Target {
    pub(crate) set: Arc<SidecarSet>,
    pub(crate) hash: String,
    pub(crate) hash_without_image: String,
    /// Stands for what its latest revision holds.
    pub(crate) digest: Digest,
    pub(crate) sidecars: Vec<Sidecar>,
    selector: Selects,
    update_selector: Selects,
    pub(crate) weights: Vec<(i64, Selector)>,
}

/// One container that runs beside the app.
#[derive(Clone, Debug)]
pub(crate) struct Sidecar {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) hot: Option<Hot>,
}

/// A sidecar that hands over from one container of a pair to the other.
#[derive(Clone, Debug)]
pub(crate) struct Hot {
    pub(crate) pair: [String; 2],
    pub(crate) empty_image: String,
}

#[derive(Clone, Debug)]
enum Selects {
    All,
    Matching(Selector),
    /// A selector that validation would refuse selects nothing.
    Nothing,
}

impl Selects {
    fn of(selector: &LabelSelector) -> Selects {
        Selector::from_label_selector(selector).map_or(Selects::Nothing, Selects::Matching)
    }

    fn includes(&self, pod: &PodView) -> bool {
        match self {
            Selects::All => true,
            Selects::Matching(selector) => selector.matches(|key| pod.label(key)),
            Selects::Nothing => false,
        }
    }
}

impl Target {
    /// Compiles a set. What validation would refuse selects no pods.
    pub fn new(set: Arc<SidecarSet>) -> Target {
        let selector = set.spec.selector.as_ref().map_or(Selects::Nothing, Selects::of);
        let selector = match selector {
            Selects::Matching(selector) if selector.is_empty() => Selects::Nothing,
            selector => selector,
        };
        let strategy = &set.spec.update_strategy;
        let terms = strategy.priority_strategy.iter().flat_map(|priority| &priority.weight_priority);
        let weights = terms.filter_map(|term| {
            Some((i64::from(term.weight.max(0)), Selector::from_label_selector(&term.match_selector).ok()?))
        });
        Target {
            hash: set.current_hash().into_owned(),
            hash_without_image: set.current_hash_without_image().into_owned(),
            digest: revision::digest(&set),
            sidecars: set.sidecars().map(Sidecar::of).collect(),
            selector,
            update_selector: strategy.selector.as_ref().map_or(Selects::All, Selects::of),
            weights: weights.collect(),
            set,
        }
    }

    pub fn set(&self) -> &SidecarSet {
        &self.set
    }

    pub(crate) fn name(&self) -> &str {
        self.set.name()
    }

    /// Whether the set's selector matches the pod.
    pub(crate) fn selects(&self, pod: &PodView) -> bool {
        self.selector.includes(pod)
    }

    /// Whether `updateStrategy.selector` lets the pod be updated.
    pub(crate) fn selects_for_update(&self, pod: &PodView) -> bool {
        self.update_selector.includes(pod)
    }

    /// Whether the pod has the latest revision.
    pub(crate) fn is_updated(&self, injected: &InjectedSet) -> bool {
        *injected.hash == self.hash
    }

    /// The annotation of the pod whose record the set needs and cannot read. Such a pod is left alone.
    pub(crate) fn unreadable_in(&self, pod: &PodView) -> Option<&'static str> {
        let is_needed = |key: &&'static str| match *key {
            // It is written anew where no other set can have a record in it.
            names::HASH => pod.injected.len() > 1,
            names::WORKING_HOT_UPGRADE_CONTAINER => self.sidecars.iter().any(|sidecar| sidecar.hot.is_some()),
            _ => true,
        };
        pod.unreadable.iter().copied().find(is_needed)
    }

    /// Whether the pod differs from the latest revision in nothing but images.
    pub(crate) fn is_upgradable(&self, pod: &PodView, injected: &InjectedSet) -> bool {
        *injected.hash_without_image == self.hash_without_image
            && self.sidecars.iter().all(|sidecar| sidecar.is_in(pod))
    }
}

impl Sidecar {
    fn of(container: &SidecarContainer) -> Sidecar {
        let hot = container.is_hot_upgrade().then(|| Hot {
            pair: hot_upgrade::pair(container.name()),
            empty_image: container.upgrade_strategy.hot_upgrade_empty_image.clone().unwrap_or_default(),
        });
        Sidecar { name: container.name().to_owned(), image: container.image().to_owned(), hot }
    }

    /// The names of its containers in a pod.
    pub(crate) fn containers(&self) -> impl Iterator<Item = &str> {
        let pair = self.hot.iter().flat_map(|hot| &hot.pair).map(String::as_str);
        let single = self.hot.is_none().then_some(self.name.as_str());
        pair.chain(single)
    }

    fn is_in(&self, pod: &PodView) -> bool {
        self.containers().all(|name| pod.container(name).is_some())
            && (self.hot.is_none() || pod.working.iter().any(|working| *working.sidecar == *self.name))
    }
}
