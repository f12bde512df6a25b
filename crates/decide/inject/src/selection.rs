//! Which sets a pod gets.

use std::collections::BTreeMap;

use pillion_api::names;
use pillion_api::pod::Pod;
use serde::Serialize;

use crate::catalog::{Catalog, Entry};

/// A namespace: its labels, among them always the one with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    labels: BTreeMap<String, String>,
}

impl Namespace {
    /// A namespace with no labels but its name.
    pub fn named(name: &str) -> Namespace {
        Namespace::new(name, BTreeMap::new())
    }

    /// A namespace with labels.
    pub fn new(name: &str, mut labels: BTreeMap<String, String>) -> Namespace {
        // The API server sets this label on every Namespace and lets nobody change it.
        labels.insert(names::NAMESPACE_NAME.to_owned(), name.to_owned());
        Namespace { labels }
    }

    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }
}

/// Whether one SidecarSet is injected into a pod, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The set.
    pub sidecar_set: String,
    /// Whether it is injected.
    pub matched: bool,
    /// One word: `Matched`, `Selector`, `NamespaceSelector`, `Paused`, `Canary`, `OptedOut`, `NoSelector`.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// Says of every set whether the pod gets it, and why. Looks at all of them; admission does not.
pub fn explain(pod: &Pod, namespace: &Namespace, catalog: &Catalog) -> Vec<Verdict> {
    let chosen: Vec<&str> = select(pod, namespace, catalog).iter().map(|entry| entry.name()).collect();
    catalog.entries().map(|entry| verdict(pod, namespace, catalog, entry, &chosen)).collect()
}

/// The sets that the pod gets, in order of their names.
pub(crate) fn select<'a>(pod: &Pod, namespace: &Namespace, catalog: &'a Catalog) -> Vec<&'a Entry> {
    if is_opted_out(pod) || pod.is_inactive() {
        return Vec::new();
    }
    let labels: Vec<(&str, &str)> = pod.labels().collect();
    let matching: Vec<&Entry> = catalog
        .candidates(namespace, &labels)
        .filter(|entry| !entry.latest.set.spec.injection_strategy.paused && matches(pod, namespace, entry))
        .collect();
    let replaced: Vec<&str> = matching.iter().filter_map(|entry| entry.latest.set.canary_base()).collect();
    matching.into_iter().filter(|entry| !replaced.contains(&entry.name())).collect()
}

fn matches(pod: &Pod, namespace: &Namespace, entry: &Entry) -> bool {
    entry.namespace_selector.as_ref().is_none_or(|selector| selector.matches(|key| namespace.label(key)))
        && entry.selector.as_ref().is_some_and(|selector| selector.matches(|key| pod.label(key)))
}

fn is_opted_out(pod: &Pod) -> bool {
    pod.annotation(names::INJECT) == Some("false")
}

fn verdict(pod: &Pod, namespace: &Namespace, catalog: &Catalog, entry: &Entry, chosen: &[&str]) -> Verdict {
    let (matched, reason, message) = reasons(pod, namespace, catalog, entry, chosen);
    Verdict { sidecar_set: entry.name().to_owned(), matched, reason, message }
}

fn reasons(
    pod: &Pod,
    namespace: &Namespace,
    catalog: &Catalog,
    entry: &Entry,
    chosen: &[&str],
) -> (bool, &'static str, String) {
    let found =
        |value: Option<&str>| value.map_or("it has no such label".to_owned(), |value| format!("it has {value:?}"));
    let Some(selector) = &entry.selector else {
        return (false, "NoSelector", "its selector is empty, which matches nothing".to_owned());
    };
    if let Some(wanted) =
        entry.namespace_selector.as_ref().and_then(|s| s.first_unsatisfied(|key| namespace.label(key)))
    {
        let message =
            format!("namespaceSelector wants {wanted} of the namespace; {}", found(namespace.label(&wanted.key)));
        return (false, "NamespaceSelector", message);
    }
    if let Some(wanted) = selector.first_unsatisfied(|key| pod.label(key)) {
        return (false, "Selector", format!("selector wants {wanted} of the pod; {}", found(pod.label(&wanted.key))));
    }
    if is_opted_out(pod) {
        return (
            false,
            "OptedOut",
            format!("the pod's annotation {}: \"false\" keeps every SidecarSet out", names::INJECT),
        );
    }
    if pod.is_inactive() {
        return (false, "Inactive", "the pod has ended or is being deleted".to_owned());
    }
    if entry.latest.set.spec.injection_strategy.paused {
        return (false, "Paused", "injectionStrategy.paused is true".to_owned());
    }
    if !chosen.contains(&entry.name()) {
        let canary = catalog
            .entries()
            .find(|canary| canary.latest.set.canary_base() == Some(entry.name()) && chosen.contains(&canary.name()));
        let canary = canary.map_or("another set", Entry::name);
        return (false, "Canary", format!("its canary {canary:?} is injected in its place"));
    }
    (true, "Matched", format!("selector {selector} matches"))
}
