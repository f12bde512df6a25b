//! The least values of numbers. A stored set may keep a smaller one, which counts as the default, as long as it does not change.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::field::{Error, Path};
use crate::sidecarset::SidecarSetSpec;

/// A number of a set: its path below `spec`, the least value, and where it is read.
type Number = (&'static [&'static str], i32, fn(&SidecarSetSpec) -> Option<i32>);

const NUMBERS: [Number; 5] = [
    (&["injectionStrategy", "repair", "maxPerMinute"], 1, |spec| {
        spec.injection_strategy.repair.as_ref()?.max_per_minute
    }),
    (&["revisionHistoryLimit"], 0, |spec| spec.revision_history_limit),
    (&["updateStrategy", "partition"], 0, |spec| whole(spec.update_strategy.partition.as_ref())),
    (&["updateStrategy", "maxUnavailable"], 0, |spec| whole(spec.update_strategy.max_unavailable.as_ref())),
    (&["updateStrategy", "progressDeadlineSeconds"], 1, |spec| spec.update_strategy.progress_deadline_seconds),
];

pub(super) fn validate(spec: &SidecarSetSpec, old: Option<&SidecarSetSpec>, path: &Path, errors: &mut Vec<Error>) {
    for (names, least, read) in NUMBERS {
        let Some(number) = read(spec).filter(|number| *number < least && old.and_then(read) != Some(*number)) else {
            continue;
        };
        let path = names.iter().fold(path.clone(), |path, name| path.child(*name));
        errors.push(Error::invalid(&path, number, format!("must be greater than or equal to {least}")));
    }
}

fn whole(count: Option<&IntOrString>) -> Option<i32> {
    match count {
        Some(IntOrString::Int(number)) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{errors, lines, set};
    use super::super::{Context, validate_update};

    /// Every number that is too small, with another field that may change.
    fn too_small(version: &str) -> Value {
        json!({
            "customVersion": version,
            "revisionHistoryLimit": -1,
            "updateStrategy": {"partition": -1, "maxUnavailable": -1, "progressDeadlineSeconds": -1, "priorityStrategy": {
                "weightPriority": [{"weight": -1, "matchSelector": {"matchLabels": {"a": "b"}}}],
            }},
            "injectionStrategy": {"repair": {"maxPerMinute": -1}},
        })
    }

    #[test]
    fn a_number_that_is_too_small_is_refused() {
        insta::assert_snapshot!(errors(too_small("v1")), @"
        spec.updateStrategy.priorityStrategy.weightPriority[0].weight: Invalid value: -1: weight must be valid number in the range 0-100
        spec.injectionStrategy.repair.maxPerMinute: Invalid value: -1: must be greater than or equal to 1
        spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0
        spec.updateStrategy.partition: Invalid value: -1: must be greater than or equal to 0
        spec.updateStrategy.maxUnavailable: Invalid value: -1: must be greater than or equal to 0
        spec.updateStrategy.progressDeadlineSeconds: Invalid value: -1: must be greater than or equal to 1
        ");
        assert_eq!(errors(json!({"revisionHistoryLimit": 0})), "");
    }

    #[test]
    fn a_stored_number_that_is_too_small_counts_as_the_default() {
        let (small, usual) = (set("test", too_small("v1")).spec, set("test", json!({})).spec);
        assert_eq!(small.history_limit(), usual.history_limit());
        assert_eq!(small.update_strategy.progress_deadline(), usual.update_strategy.progress_deadline());
    }

    #[test]
    fn a_stored_number_that_is_too_small_may_stay_until_it_is_changed() {
        let (old, mut new) = (set("test", too_small("v1")), set("test", too_small("v2")));
        assert_eq!(validate_update(&new, &old, &Context::default()), []);
        new.spec.revision_history_limit = Some(-2);
        insta::assert_snapshot!(
            lines(&validate_update(&new, &old, &Context::default())),
            @"spec.revisionHistoryLimit: Invalid value: -2: must be greater than or equal to 0"
        );
        new.spec.revision_history_limit = Some(5);
        assert_eq!(validate_update(&new, &old, &Context::default()), [], "and each of them can be put right alone");
    }
}
