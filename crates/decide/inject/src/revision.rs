//! Which revision of a set a new pod gets.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_api::sidecarset::{InjectRevisionPolicy, SidecarSet};
use pillion_note::{Denied, Draft, Draw, Note, Reason, Subject};

use crate::body::Body;
use crate::compiled::Compiled;
use crate::pin::Pin;
use crate::selection::Selection;

/// The revision of `entry` that the pod gets.
pub(crate) fn choose<'c>(entry: &'c Compiled, draft: &mut Draft<'_>, draw: &Draw) -> Result<&'c Body, Denied> {
    let Some(pin) = &entry.pin else { return Ok(&entry.latest) };
    let set = &entry.latest.set;
    let pinned = match &pin.body {
        Ok(body) => body,
        Err(error) if pin.is_optional && error.is_missing => {
            let message = format!("gets the latest revision: {}", error.reason);
            draft.note(Note::warning(Subject::sidecar_set(set.name()), Reason::Revision, message));
            return Ok(&entry.latest);
        }
        Err(error) => return Err(Denied::Revision { set: set.name().to_owned(), reason: error.reason.clone() }),
    };
    let (takes_pinned, why) = decide(pin, set, draft.pod(), draw);
    let which =
        if takes_pinned { format!("the pinned revision {}", pin.wanted) } else { "the latest revision".to_owned() };
    let message = format!("gets {which}: {why}");
    draft.note(Note::info(Subject::sidecar_set(set.name()), Reason::Revision, message));
    // By the id it is seen that the pod came, whether it was granted a place or counts among the pods that a percentage is of.
    if let Some(place) = draw.place.as_ref().filter(|_| draw.quota.contains_key(set.name())) {
        draft.set_annotation(names::QUOTA_PLACE, place.as_str());
    }
    Ok(if takes_pinned { pinned } else { &entry.latest })
}

/// A set whose partition counts its places: a new pod asks for one, and gets the pinned revision if one is free.
#[derive(Clone, Debug)]
pub struct Quota {
    pub set: Arc<SidecarSet>,
    /// The revision that the places are of.
    pub revision: String,
}

impl Selection {
    /// The sets in which the new pod asks for a place. `Draw` carries the answers.
    pub fn quotas(&self, pod: &Pod) -> Vec<Quota> {
        let asking = self.sets.iter().filter_map(|entry| {
            let (pin, set) = (entry.pin.as_ref()?, &entry.latest.set);
            let is_asked = pin.policy == InjectRevisionPolicy::Quota && pinned_anyway(pin, set, pod).is_none();
            let revision = pin.body.as_ref().ok()?.revision();
            is_asked.then(|| Quota { set: Arc::clone(set), revision: revision.to_owned() })
        });
        asking.collect()
    }
}

/// Why a pod gets the pinned revision, whatever the partition says.
fn pinned_anyway(pin: &Pin, set: &SidecarSet, pod: &Pod) -> Option<&'static str> {
    if set.spec.update_strategy.paused {
        Some("updateStrategy.paused is true")
    } else if !matches!(pin.policy, InjectRevisionPolicy::Partial | InjectRevisionPolicy::Quota) {
        Some("its policy is Always")
    } else if pin.update_selector.as_ref().is_some_and(|selector| !selector.matches(|key| pod.label(key))) {
        Some("updateStrategy.selector does not match the pod")
    } else {
        None
    }
}

fn decide(pin: &Pin, set: &SidecarSet, pod: &Pod, draw: &Draw) -> (bool, String) {
    if let Some(why) = pinned_anyway(pin, set, pod) {
        return (true, why.to_owned());
    }
    let update = &set.spec.update_strategy;
    let matched_pods = set.status.as_ref().map_or(0, |status| status.matched_pods);
    let share = Share::of(update.partition.as_ref(), matched_pods);
    if pin.policy == InjectRevisionPolicy::Quota {
        return match draw.quota.get(set.name()) {
            Some(true) => (true, "a place of the partition was free".to_owned()),
            Some(false) => (false, "every place of the partition is taken".to_owned()),
            None if !update.updates_running_pods() => (false, "updateStrategy.type is NotUpdate".to_owned()),
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

    /// A number from 0 to 1, with three decimals at least and nine at most.
    fn shown(random: u64) -> String {
        let billionths = (u128::from(random) * 1_000_000_000) >> 64;
        let digits = format!("{billionths:09}");
        let (first, rest) = digits.split_at(3);
        format!("0.{first}{}", rest.trim_end_matches('0'))
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
    fn a_draw_is_shown_as_it_was_given() {
        let draw = |billionths: u128| u64::try_from((billionths << 64).div_ceil(1_000_000_000)).unwrap();
        let shown = [0, 310_000_000, 310_500_000, 123_456_789].map(|number| Share::shown(draw(number)));
        assert_eq!(shown, ["0.000", "0.310", "0.3105", "0.123456789"]);
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
