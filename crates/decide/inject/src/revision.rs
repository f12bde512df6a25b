//! Which revision of a set a new pod gets.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_api::sidecarset::validation::Revision;
use pillion_api::sidecarset::{InjectRevision, InjectRevisionPolicy, SidecarSet, revision};
use pillion_patch::selector::Selector;
use serde_json::Value;

use crate::catalog::{Body, Entry, chain};
use crate::note::{Denied, Note};

/// What the shell had to obtain before the decision, because deciding is pure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draw {
    /// A number drawn evenly from all of `u64`, for `policy: Partial`.
    pub random: u64,
    /// For each set with `policy: Quota` whether a place of its partition was granted to this pod. A set that is not
    /// listed is asked about its first pod: granted if its partition keeps any pod at all.
    pub quota: BTreeMap<String, bool>,
}

/// The revision that a set pins for new pods.
#[derive(Debug)]
pub(crate) struct Pin {
    policy: InjectRevisionPolicy,
    wanted: String,
    update_selector: Option<Selector>,
    body: Result<Arc<Body>, PinError>,
}

/// Why a pinned revision cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PinError {
    pub(crate) reason: String,
}

impl Pin {
    /// What `set` pins, if anything.
    pub(crate) fn of(set: &SidecarSet, update_selector: Option<Selector>, revisions: &[Value]) -> Option<Pin> {
        let pinned = set.spec.pinned_revision()?;
        let wanted = match (&pinned.revision_name, &pinned.custom_version) {
            (Some(name), _) => name.clone(),
            (None, Some(version)) => format!("with customVersion {version:?}"),
            (None, None) => return None,
        };
        let body = restore(set, &pinned, revisions).map(Arc::new);
        Some(Pin { policy: pinned.policy.unwrap_or(InjectRevisionPolicy::Always), wanted, update_selector, body })
    }
}

fn restore(set: &SidecarSet, pinned: &InjectRevision, revisions: &[Value]) -> Result<Body, PinError> {
    let found = find(set, pinned, revisions)?;
    let restored = revision::restore(set, found)
        .map_err(|error| PinError { reason: format!("the pinned revision cannot be used: {}", chain(&error)) })?;
    Ok(Body::compile(restored)?)
}

fn find<'a>(set: &SidecarSet, pinned: &InjectRevision, revisions: &'a [Value]) -> Result<&'a Value, PinError> {
    let own = |known: &dyn Fn(Revision<'a>) -> bool| {
        let is_meant = |stored: &&'a Value| revision::pinnable(set.name(), stored).is_some_and(known);
        revisions.iter().filter(is_meant).max_by_key(|stored| stored["revision"].as_i64())
    };
    let not_found = |what: String| PinError {
        reason: format!("{what} is pinned for new pods and is not there; pin one that is, or remove the pin"),
    };
    if let Some(name) = &pinned.revision_name {
        return own(&|known| known.name == name).ok_or_else(|| {
            match revisions.iter().find(|stored| name_of(stored) == name) {
                Some(other) => {
                    let owner = other["metadata"]["labels"].get(names::REVISION_OWNER).and_then(Value::as_str);
                    let owner = owner.unwrap_or_default();
                    PinError { reason: format!("ControllerRevision {name:?} belongs to SidecarSet {owner:?}") }
                }
                None => not_found(format!("ControllerRevision {name:?}")),
            }
        });
    }
    let version = pinned.custom_version.as_deref().unwrap_or_default();
    own(&|known| known.custom_version == Some(version))
        .ok_or_else(|| not_found(format!("a ControllerRevision with customVersion {version:?}")))
}

fn name_of(revision: &Value) -> &str {
    revision["metadata"]["name"].as_str().unwrap_or_default()
}

/// What of `entry` the pod gets.
pub(crate) fn choose<'a>(entry: &'a Entry, pod: &Pod, draw: &Draw, notes: &mut Vec<Note>) -> Result<&'a Body, Denied> {
    let Some(pin) = &entry.pin else { return Ok(&entry.latest) };
    let set = &entry.latest.set;
    let pinned = match &pin.body {
        Ok(body) => body,
        Err(error) => return Err(Denied::Revision { set: set.name().to_owned(), reason: error.reason.clone() }),
    };
    let (takes_pinned, why) = decide(pin, set, pod, draw);
    let which =
        if takes_pinned { format!("the pinned revision {}", pin.wanted) } else { "the latest revision".to_owned() };
    notes.push(Note::info(set.name(), "Revision", format!("gets {which}: {why}")));
    Ok(if takes_pinned { pinned } else { &entry.latest })
}

fn decide(pin: &Pin, set: &SidecarSet, pod: &Pod, draw: &Draw) -> (bool, String) {
    let update = &set.spec.update_strategy;
    if update.paused {
        return (true, "updateStrategy.paused is true".to_owned());
    }
    if !matches!(pin.policy, InjectRevisionPolicy::Partial | InjectRevisionPolicy::Quota) {
        return (true, "its policy is Always".to_owned());
    }
    if pin.update_selector.as_ref().is_some_and(|selector| !selector.matches(|key| pod.label(key))) {
        return (true, "updateStrategy.selector does not match the pod".to_owned());
    }
    let matched_pods = set.status.as_ref().map_or(0, |status| status.matched_pods);
    let share = Share::of(update.partition.as_ref(), matched_pods);
    if pin.policy == InjectRevisionPolicy::Quota {
        return match draw.quota.get(set.name()) {
            Some(true) => (true, "a place of the partition was free".to_owned()),
            Some(false) => (false, "every place of the partition is taken".to_owned()),
            None => (share.numerator > 0, format!("the partition keeps {share} on it")),
        };
    }
    let drawn = share.includes(draw.random);
    (drawn, format!("the partition keeps {share} on it, and the draw was {}", Share::shown(draw.random)))
}

/// The part of the pods that a partition keeps on the old revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    numerator: u64,
    denominator: u64,
}

impl Share {
    /// An integer is a share of the pods there are. While there are none yet, any integer above 0 is all of them.
    fn of(partition: Option<&IntOrString>, matched_pods: i32) -> Share {
        match partition {
            None => Share { numerator: 0, denominator: 1 },
            Some(IntOrString::Int(pods)) => {
                let pods = u64::try_from(*pods).unwrap_or_default();
                let matched = u64::try_from(matched_pods).unwrap_or_default();
                if matched == 0 {
                    Share { numerator: u64::from(pods > 0), denominator: 1 }
                } else {
                    Share { numerator: pods, denominator: matched }
                }
            }
            Some(IntOrString::String(text)) => {
                // Validation accepts only digits and a percent sign; anything else keeps nothing back.
                let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<u32>().ok()).unwrap_or_default();
                Share { numerator: u64::from(percent), denominator: 100 }
            }
        }
    }

    /// Whether `random / 2^64` is below the share.
    fn includes(self, random: u64) -> bool {
        u128::from(random) * u128::from(self.denominator) < (u128::from(self.numerator) << 64)
    }

    fn shown(random: u64) -> String {
        let thousandths = (u128::from(random) * 1000) >> 64;
        format!("0.{thousandths:03}")
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.numerator, self.denominator) {
            (0, _) => write!(f, "no pods"),
            (numerator, denominator) if numerator >= denominator => write!(f, "all pods"),
            (numerator, 100) => write!(f, "{numerator}% of the pods"),
            (numerator, denominator) => write!(f, "{numerator} of {denominator} pods"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_nothing_never_includes_and_a_share_of_all_always_does() {
        let percent = |text: &str| Share::of(Some(&IntOrString::String(text.into())), 7);
        for random in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(!percent("0%").includes(random));
            assert!(percent("100%").includes(random));
        }
        assert!(percent("50%").includes(u64::MAX / 2 - 1));
        assert!(!percent("50%").includes(u64::MAX / 2 + 1));
    }

    #[test]
    fn an_integer_is_a_share_of_the_matched_pods() {
        let pods = |partition: i32, matched: i32| Share::of(Some(&IntOrString::Int(partition)), matched);
        assert_eq!(pods(3, 12), Share { numerator: 3, denominator: 12 });
        assert!(pods(1, 0).includes(u64::MAX), "no pods yet: an integer above 0 gives the pinned revision");
        assert!(!pods(0, 0).includes(0));
        assert!(pods(20, 12).includes(u64::MAX), "a partition above the number of pods keeps all of them");
    }
}
