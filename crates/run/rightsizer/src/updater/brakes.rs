//! The brakes of all autoscalers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pillion_api::vpa::VerticalPodAutoscaler;
use pillion_informer::NamespacedName;
use pillion_rightsize::update::{Brake, StopCause};

use crate::cluster::Targets;
use crate::references::name_of;

/// By autoscaler, and the namespace of the pods.
#[derive(Default)]
pub(super) struct Brakes {
    all: HashMap<(NamespacedName, Arc<str>), Brake>,
}

impl Brakes {
    pub(super) fn of(&mut self, autoscaler: &VerticalPodAutoscaler, namespace: &Arc<str>) -> &mut Brake {
        let key = (name_of(autoscaler), Arc::clone(namespace));
        self.all.entry(key).or_insert_with(|| Brake::of(autoscaler))
    }

    /// Forgets autoscalers that are gone, or do not update pods any more.
    pub(super) fn retain(&mut self, targets: &Targets) {
        let known: HashSet<NamespacedName> = targets.values().flatten().map(|it| name_of(it)).collect();
        self.all.retain(|(autoscaler, _), _| known.contains(autoscaler));
    }

    /// Whether pods of an autoscaler were looked at.
    pub(super) fn has(&self, autoscaler: &NamespacedName) -> bool {
        self.all.keys().any(|(of, _)| of == autoscaler)
    }

    /// Why evictions for an autoscaler are stopped.
    pub(super) fn cause(&self, autoscaler: &NamespacedName) -> Option<StopCause> {
        self.all.iter().filter(|((of, _), _)| of == autoscaler).find_map(|(_, brake)| brake.cause())
    }

    /// For how many autoscalers and namespaces evictions are stopped.
    pub(super) fn stopped(&self) -> usize {
        self.all.values().filter(|brake| brake.cause().is_some()).count()
    }

    /// The autoscalers, and the namespaces, whose evicted pods are not back yet.
    pub(super) fn awaiting(&self) -> impl Iterator<Item = (&NamespacedName, &Arc<str>)> {
        let awaiting = self.all.iter().filter(|(_, brake)| brake.awaited().next().is_some());
        awaiting.map(|((autoscaler, namespace), _)| (autoscaler, namespace))
    }
}
