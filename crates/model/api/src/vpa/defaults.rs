//! Defaults that are written into the object. All others are applied where a value is used.

use super::{PodUpdatePolicy, UpdateMode, VerticalPodAutoscaler};

/// Sets `updatePolicy.updateMode: Recreate` where there is no update policy at all.
///
/// Returns whether anything was set.
pub fn apply_defaults(autoscaler: &mut VerticalPodAutoscaler) -> bool {
    if autoscaler.spec.update_policy.is_some() {
        return false;
    }
    let policy = PodUpdatePolicy { update_mode: Some(UpdateMode::Recreate), ..PodUpdatePolicy::default() };
    autoscaler.spec.update_policy = Some(policy);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_absent_update_policy_is_filled_in() {
        let mut autoscaler = VerticalPodAutoscaler::default();
        assert!(apply_defaults(&mut autoscaler));
        assert_eq!(autoscaler.update_mode(), &UpdateMode::Recreate);
        assert!(!apply_defaults(&mut autoscaler));

        autoscaler.spec.update_policy = Some(PodUpdatePolicy { min_replicas: Some(1), ..PodUpdatePolicy::default() });
        assert!(!apply_defaults(&mut autoscaler));
        assert_eq!(autoscaler.spec.update_policy.unwrap().update_mode, None);
    }
}
