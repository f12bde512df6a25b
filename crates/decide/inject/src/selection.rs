//! Which sets a pod gets.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_api::sidecarset::SidecarSet;
use serde::Serialize;

use crate::catalog::{Catalog, Entry, Matching, Summary};
use crate::compiled::Compiled;
use crate::namespace::Namespace;
use crate::selectors::Selectors;

/// Whether one SidecarSet is injected into a pod, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    pub sidecar_set: String,
    /// Whether it is injected.
    pub matched: bool,
    /// Why, in one word for programs.
    pub reason: MatchReason,
    /// A sentence.
    pub message: String,
}

/// Why a SidecarSet is or is not injected into a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum MatchReason {
    /// It is injected.
    Matched,
    /// Its selector is empty, which matches nothing.
    NoSelector,
    /// Its `namespaceSelector` does not match the namespace.
    NamespaceSelector,
    /// Its `selector` does not match the pod.
    Selector,
    /// The API server does not call the webhook for pods of this namespace.
    NamespaceExcluded,
    /// The pod's annotation keeps every SidecarSet out.
    OptedOut,
    /// The pod has ended or is being deleted.
    Inactive,
    /// Its injection is paused.
    Paused,
    /// Its canary is injected in its place.
    Canary,
}

impl fmt::Display for MatchReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Says of every set whether the pod gets it, and why. Looks at all of them; admission does not.
pub fn explain(pod: &Pod, namespace: &Namespace, catalog: &Catalog) -> Vec<Verdict> {
    let chosen = summaries(pod, namespace, catalog);
    // The sets that a canary stands in for, with that canary.
    let replaced: BTreeMap<&str, &str> =
        chosen.iter().filter_map(|set| Some((set.canary_base.as_deref()?, &*set.name))).collect();
    catalog.entries().map(|entry| verdict(pod, namespace, entry, &replaced)).collect()
}

/// The sets that a new pod gets, in order of their names.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub(crate) sets: Vec<Arc<Compiled>>,
}

impl Selection {
    /// Finds them.
    pub fn of(pod: &Pod, namespace: &Namespace, catalog: &Catalog) -> Selection {
        let labels: Vec<(&str, &str)> = pod.labels().collect();
        Selection::among(catalog.matching(namespace, &labels), pod, catalog)
    }

    /// Chooses them among those whose selectors match the pod.
    pub fn among(matching: Matching<'_>, pod: &Pod, catalog: &Catalog) -> Selection {
        if matching.is_empty() || is_opted_out(pod) || pod.is_inactive() {
            return Selection::default();
        }
        Selection { sets: catalog.compile(matching.injected()) }
    }

    pub fn sets(&self) -> impl Iterator<Item = &Arc<SidecarSet>> {
        self.sets.iter().map(|set| &set.latest.set)
    }
}

/// What is known of them without compiling them.
fn summaries<'c>(pod: &Pod, namespace: &Namespace, catalog: &'c Catalog) -> Vec<&'c Summary> {
    if is_opted_out(pod) || pod.is_inactive() {
        return Vec::new();
    }
    let labels: Vec<(&str, &str)> = pod.labels().collect();
    catalog.matching(namespace, &labels).injected().summaries()
}

fn is_opted_out(pod: &Pod) -> bool {
    pod.annotation(names::INJECT) == Some("false")
}

fn verdict(pod: &Pod, namespace: &Namespace, entry: &Entry, replaced: &BTreeMap<&str, &str>) -> Verdict {
    let (reason, message) = reason(pod, namespace, entry, replaced);
    let matched = reason == MatchReason::Matched;
    Verdict { sidecar_set: entry.name().to_owned(), matched, reason, message }
}

fn reason(pod: &Pod, namespace: &Namespace, entry: &Entry, replaced: &BTreeMap<&str, &str>) -> (MatchReason, String) {
    let found =
        |value: Option<&str>| value.map_or("it has no such label".to_owned(), |value| format!("it has {value:?}"));
    let Some(Selectors { namespaces, pods: Some(selector) }) = entry.selectors() else {
        return (MatchReason::NoSelector, "its selector is empty, which matches nothing".to_owned());
    };
    if let Some(wanted) = namespaces.as_ref().and_then(|s| s.first_unsatisfied(|key| namespace.label(key))) {
        let message =
            format!("namespaceSelector wants {wanted} of the namespace; {}", found(namespace.label(&wanted.key)));
        return (MatchReason::NamespaceSelector, message);
    }
    if let Some(wanted) = selector.first_unsatisfied(|key| pod.label(key)) {
        return (
            MatchReason::Selector,
            format!("selector wants {wanted} of the pod; {}", found(pod.label(&wanted.key))),
        );
    }
    if is_opted_out(pod) {
        return (
            MatchReason::OptedOut,
            format!("the pod's annotation {}: \"false\" keeps every SidecarSet out", names::INJECT),
        );
    }
    if pod.is_inactive() {
        return (MatchReason::Inactive, "the pod has ended or is being deleted".to_owned());
    }
    if entry.summary().is_paused {
        return (MatchReason::Paused, "injectionStrategy.paused is true".to_owned());
    }
    if let Some(canary) = replaced.get(entry.name()) {
        return (MatchReason::Canary, format!("its canary {canary:?} is injected in its place"));
    }
    (MatchReason::Matched, format!("selector {selector} matches"))
}
