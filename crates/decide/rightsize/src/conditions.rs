//! The conditions of an autoscaler.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pillion_api::vpa::{Condition, ConditionType, ContainerResourcePolicy, VerticalPodAutoscaler};

use crate::decaying_histogram::whole_seconds;

const NO_PODS_MATCHED: (&str, &str) = ("NoPodsMatched", "No pods match this VPA object");

/// What conditions are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed<'a> {
    /// Whether any pod matches.
    pub has_pods: bool,
    /// Whether anything is recommended.
    pub has_recommendation: bool,
    /// Why the configuration cannot be served.
    pub unsupported: Option<&'a str>,
    /// Which bounds of the resource policy are ignored, and why.
    pub ignored: Option<&'a str>,
}

/// Updates conditions, sorted by type. Those of other types stay, and a time changes only with its status.
///
/// A condition that no longer holds becomes False and stays, so that a program can wait for it.
pub fn update_conditions(before: &[Condition], observed: Observed<'_>, now: Timestamp) -> Vec<Condition> {
    let mut conditions = Conditions { list: before.to_vec(), now: whole_seconds(now.into()) };
    // Nothing is deprecated any more; upstream takes the condition out as well.
    conditions.list.retain(|condition| condition.condition_type != ConditionType::ConfigDeprecated);
    let (reason, message) = if observed.has_pods { ("", "") } else { NO_PODS_MATCHED };
    conditions.hold(ConditionType::NoPodsMatched, !observed.has_pods, NO_PODS_MATCHED);
    let provided = if observed.has_recommendation { ("", "") } else { (reason, message) };
    conditions.set(ConditionType::RecommendationProvided, observed.has_recommendation, provided);
    conditions.hold(
        ConditionType::ConfigUnsupported,
        observed.unsupported.is_some(),
        ("", observed.unsupported.unwrap_or_default()),
    );
    conditions.hold(
        ConditionType::PolicyIgnored,
        observed.ignored.is_some(),
        ("InvalidBounds", observed.ignored.unwrap_or_default()),
    );
    conditions.sorted()
}

/// The conditions with one that is absent until it first holds, and becomes False when it no longer does.
pub(crate) fn hold(
    before: &[Condition],
    condition_type: ConditionType,
    holds: bool,
    words: (&str, &str),
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = Conditions { list: before.to_vec(), now: whole_seconds(now.into()) };
    conditions.hold(condition_type, holds, words);
    conditions.sorted()
}

/// Which bounds of an autoscaler's policies are ignored, and why. Validation refuses them, but may not have been there when they were stored.
pub fn ignored_bounds(autoscaler: &VerticalPodAutoscaler) -> Option<String> {
    let policies = autoscaler.spec.resource_policy.iter().flat_map(|policy| &policy.container_policies);
    let unusable: Vec<String> = policies.flat_map(ContainerResourcePolicy::unusable_bounds).collect();
    (!unusable.is_empty())
        .then(|| format!("{}: ignored, as if absent; correct spec.resourcePolicy", unusable.join("; ")))
}

struct Conditions {
    list: Vec<Condition>,
    now: Option<Time>,
}

impl Conditions {
    fn sorted(mut self) -> Vec<Condition> {
        self.list.sort_by(|a, b| name(&a.condition_type).cmp(name(&b.condition_type)));
        self.list
    }

    /// A condition that is absent until it first holds.
    fn hold(&mut self, condition_type: ConditionType, holds: bool, words: (&str, &str)) {
        if holds {
            self.set(condition_type, true, words);
        } else if self.list.iter().any(|condition| condition.condition_type == condition_type) {
            self.set(condition_type, false, ("", ""));
        }
    }

    fn set(&mut self, condition_type: ConditionType, holds: bool, (reason, message): (&str, &str)) {
        let status = if holds { "True" } else { "False" };
        let found = self.list.iter_mut().find(|condition| condition.condition_type == condition_type);
        if let Some(condition) = found {
            if condition.status != status {
                condition.last_transition_time.clone_from(&self.now);
            }
            status.clone_into(&mut condition.status);
            reason.clone_into(&mut condition.reason);
            message.clone_into(&mut condition.message);
            return;
        }
        self.list.push(Condition {
            condition_type,
            status: status.to_owned(),
            last_transition_time: self.now.clone(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: None,
        });
    }
}

fn name(condition_type: &ConditionType) -> &str {
    match condition_type {
        ConditionType::ConfigDeprecated => "ConfigDeprecated",
        ConditionType::ConfigUnsupported => "ConfigUnsupported",
        ConditionType::EvictionsStopped => "EvictionsStopped",
        ConditionType::FetchingHistory => "FetchingHistory",
        ConditionType::LowConfidence => "LowConfidence",
        ConditionType::NoPodsMatched => "NoPodsMatched",
        ConditionType::PolicyIgnored => "PolicyIgnored",
        ConditionType::RecommendationProvided => "RecommendationProvided",
        ConditionType::Unknown(name) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn shown(conditions: &[Condition]) -> Vec<String> {
        let show =
            |it: &Condition| format!("{} {} {}", name(&it.condition_type), it.status, it.reason).trim_end().to_owned();
        conditions.iter().map(show).collect()
    }

    fn observed(has_pods: bool, has_recommendation: bool) -> Observed<'static> {
        Observed { has_pods, has_recommendation, unsupported: None, ignored: None }
    }

    #[test]
    fn what_was_deprecated_once_is_not_any_more() {
        let deprecated = Condition {
            condition_type: ConditionType::ConfigDeprecated,
            status: "True".to_owned(),
            last_transition_time: None,
            reason: String::new(),
            message: "Deprecated".to_owned(),
            observed_generation: None,
        };
        let other = Condition { condition_type: ConditionType::LowConfidence, ..deprecated.clone() };
        let after = update_conditions(&[deprecated, other], observed(true, true), at(1));
        assert_eq!(shown(&after), ["LowConfidence True", "RecommendationProvided True"]);
    }

    /// `TestUpdateConditions` in upstream's `pkg/recommender/model/vpa_test.go`.
    #[test]
    fn pods_and_recommendation_decide() {
        let of = |has_pods, has_recommendation| {
            shown(&update_conditions(&[], observed(has_pods, has_recommendation), at(1)))
        };
        assert_eq!(of(true, true), ["RecommendationProvided True"]);
        assert_eq!(of(false, true), ["NoPodsMatched True NoPodsMatched", "RecommendationProvided True"]);
        assert_eq!(of(true, false), ["RecommendationProvided False"]);
        assert_eq!(
            of(false, false),
            ["NoPodsMatched True NoPodsMatched", "RecommendationProvided False NoPodsMatched"]
        );
    }

    #[test]
    fn a_condition_that_no_longer_holds_becomes_false_and_stays() {
        let before = update_conditions(&[], observed(false, false), at(1));
        let after = update_conditions(&before, observed(true, true), at(2));
        assert_eq!(shown(&after), ["NoPodsMatched False", "RecommendationProvided True"]);
        let unsupported = Observed { unsupported: Some("Cannot read targetRef"), ..observed(true, true) };
        let after = update_conditions(&after, unsupported, at(3));
        assert_eq!(after[0].message, "Cannot read targetRef");
        assert_eq!(shown(&after)[0], "ConfigUnsupported True");
    }

    #[test]
    fn bounds_that_are_ignored_are_a_condition_until_the_policy_is_corrected() {
        let of = |max: &str| {
            let policy = serde_json::json!({"containerName": "app", "maxAllowed": {"cpu": max}});
            let spec = serde_json::json!({"resourcePolicy": {"containerPolicies": [policy]}});
            let object = serde_json::json!({"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "spec": spec});
            ignored_bounds(&pillion_api::vpa::decode(object).unwrap())
        };
        assert_eq!(of("1"), None);
        let text = of("-1").unwrap();
        assert_eq!(
            text,
            "maxAllowed of cpu for \"app\" is -1, which is negative: ignored, as if absent; correct spec.resourcePolicy"
        );
        let ignoring = Observed { ignored: Some(&text), ..observed(true, true) };
        let after = update_conditions(&[], ignoring, at(1));
        assert_eq!(shown(&after), ["PolicyIgnored True InvalidBounds", "RecommendationProvided True"]);
        assert_eq!(shown(&update_conditions(&after, observed(true, true), at(2)))[0], "PolicyIgnored False");
    }

    #[test]
    fn the_time_changes_only_with_the_status() {
        let before = update_conditions(&[], observed(true, true), at(1));
        let same = update_conditions(&before, observed(true, true), at(2));
        assert_eq!(same, before);
        let changed = update_conditions(&before, observed(true, false), at(3));
        assert_eq!(changed[0].last_transition_time.as_ref().unwrap().0, at(3));
    }
}
