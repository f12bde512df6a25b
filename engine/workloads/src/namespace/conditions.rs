//! What a namespace that goes says of its content.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NamespaceCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Counts;

/// The type of a condition, what is wrong with its reason and message, and what it says when all is well.
type Said = (&'static str, Option<(&'static str, String)>, &'static str, &'static str);

/// What was found in a namespace that goes.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) discovery_failure: Option<String>,
    pub(super) failures: Vec<String>,
    /// Pods are left, and nothing else was looked at; the conditions then do not speak of what is left.
    pub(super) only_pods: bool,
    resources: Counts,
    finalizers: Counts,
}

impl Findings {
    /// Takes note of objects that are left, each with its finalizers.
    pub(super) fn found(&mut self, plural: &str, group: &str, objects: &[Vec<String>]) {
        if objects.is_empty() {
            return;
        }
        self.resources.insert(format!("{plural}.{group}"), objects.len());
        for finalizer in objects.iter().flatten() {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }

    /// Whether objects are left.
    pub(super) fn remains(&self) -> bool {
        !self.resources.is_empty()
    }

    /// Whether all is gone, and known to be.
    pub(super) fn is_empty(&self) -> bool {
        !self.remains() && self.failures.is_empty() && self.discovery_failure.is_none()
    }

    /// The conditions: those known, as far as they still hold.
    pub(super) fn conditions(&self, known: &[NamespaceCondition], now: Timestamp) -> Vec<NamespaceCondition> {
        let mut conditions = known.to_vec();
        for (kind, found, good_reason, good_message) in self.all() {
            let (status, reason, message) = match found {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", good_reason, good_message.to_owned()),
            };
            let new = NamespaceCondition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message),
                last_transition_time: Some(Time(now)),
            };
            match conditions.iter_mut().find(|condition| condition.type_ == kind) {
                None => conditions.push(new),
                Some(old) => {
                    let since = if old.status == new.status {
                        old.last_transition_time.clone()
                    } else {
                        new.last_transition_time
                    };
                    *old = NamespaceCondition { last_transition_time: since, ..new };
                }
            }
        }
        conditions
    }

    fn all(&self) -> [Said; 5] {
        let discovery = self.discovery_failure.clone().map(|message| ("DiscoveryFailed", message));
        let failures = (!self.failures.is_empty()).then(|| {
            let mut messages = self.failures.clone();
            messages.sort();
            let count = messages.len();
            let message = format!("Failed to delete all resource types, {count} remaining: {}", messages.join(", "));
            ("ContentDeletionFailed", message)
        });
        let reported = |counts: &Counts| !self.only_pods && !counts.is_empty();
        let resources = reported(&self.resources).then(|| {
            let each = self.resources.iter().map(|(name, count)| format!("{name} has {count} resource instances"));
            ("SomeResourcesRemain", format!("Some resources are remaining: {}", join(each)))
        });
        let finalizers = reported(&self.finalizers).then(|| {
            let each = self.finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances"));
            ("SomeFinalizersRemain", format!("Some content in the namespace has finalizers remaining: {}", join(each)))
        });
        [
            (
                "NamespaceDeletionDiscoveryFailure",
                discovery,
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                None,
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            (
                "NamespaceDeletionContentFailure",
                failures,
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            ("NamespaceContentRemaining", resources, "ContentRemoved", "All content successfully removed"),
            (
                "NamespaceFinalizersRemaining",
                finalizers,
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            ),
        ]
    }
}

fn join(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let mut findings = Findings::default();
        findings.found("pods", "", &[vec!["a".to_owned()], vec![]]);
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = findings.conditions(&[], at(1));
        assert_eq!(first.len(), 5);
        assert_eq!(first[3].message.as_deref(), Some("Some resources are remaining: pods. has 2 resource instances"));
        let second = Findings::default().conditions(&first, at(2));
        assert_eq!(
            (second[3].status.as_str(), second[3].last_transition_time.as_ref().map(|time| time.0)),
            ("False", Some(at(2)))
        );
        assert_eq!(second[0], first[0]);
    }
}
