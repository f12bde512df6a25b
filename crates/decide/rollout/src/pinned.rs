//! What is reported of the revision that a set pins for new pods: whether it exists.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use pillion_api::sidecarset::{OnMissing, SidecarSet, SidecarSetStatus};
use pillion_note::{Note, Reason, Subject};

use crate::conditions::{self, Report};
use crate::plan::Plan;
use crate::progress;

/// Condition of a set that pins a revision: whether that revision exists.
pub const PINNED_REVISION: &str = "PinnedRevisionFound";

impl Plan {
    /// Reports whether the revision that the set pins exists. `missing` says which revision is missing.
    pub fn report_pin(&mut self, set: &SidecarSet, missing: Option<&str>, now: Timestamp) {
        let was_missing = is_missing(set.status.as_ref());
        let conditions = &mut self.status.conditions;
        match set.spec.pinned_revision() {
            None => conditions.retain(|condition| condition.type_ != PINNED_REVISION),
            Some(pinned) => {
                let report = match missing {
                    None => {
                        Report { status: "True", reason: "Found", message: "the pinned revision exists".to_owned() }
                    }
                    Some(why) => {
                        let consequence = match pinned.on_missing {
                            Some(OnMissing::Latest) => "new pods get the latest revision",
                            _ => "new pods are refused",
                        };
                        Report { status: "False", reason: "Missing", message: format!("{why}; {consequence}") }
                    }
                };
                let generation = set.metadata.generation;
                *conditions = conditions::write(
                    conditions,
                    [(PINNED_REVISION, report)],
                    generation,
                    progress::whole_seconds(now),
                );
            }
        }
        self.is_status_changed = set.status.as_ref() != Some(&self.status);
        if let Some(condition) = missing_pin(&self.status).filter(|_| !was_missing) {
            let note = Note::warning(
                Subject::sidecar_set(set.name()),
                Reason::PinnedRevisionMissing,
                condition.message.clone(),
            );
            self.notes.push(note);
        }
    }
}

/// The condition of a set whose pinned revision is missing.
pub fn missing_pin(status: &SidecarSetStatus) -> Option<&Condition> {
    status.condition(PINNED_REVISION).filter(|condition| condition.status == "False")
}

fn is_missing(status: Option<&SidecarSetStatus>) -> bool {
    status.and_then(missing_pin).is_some()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pillion_testkit::{mk_container, mk_set};
    use serde_json::{Value, json};

    use super::*;
    use crate::{Refusals, Snapshot, Target, plan};

    fn reported(set: &SidecarSet, missing: Option<&str>, second: i64) -> Plan {
        let snapshot = Snapshot {
            target: &Target::new(Arc::new(set.clone())),
            revisions: &[],
            is_used_elsewhere: &|_| false,
            is_in_scope: &|_| true,
            refusals: &Refusals::default(),
            system_namespace: "kruise-system",
        };
        let now = Timestamp::from_second(second).unwrap();
        let mut plan = plan(&snapshot, [], now);
        plan.report_pin(set, missing, now);
        plan
    }

    fn pins(pin: Value) -> SidecarSet {
        let spec = json!({"containers": [mk_container("proxy")], "injectionStrategy": {"revision": pin}});
        mk_set("mesh", json!({"app": "web"}), spec)
    }

    #[test]
    fn a_missing_revision_is_reported_once_and_its_return_as_well() {
        let why = r#"ControllerRevision "gone" does not exist"#;
        let mut set = pins(json!({"revisionName": "gone"}));
        let plan = reported(&set, Some(why), 0);
        let condition = missing_pin(&plan.status).unwrap();
        assert_eq!(condition.message, r#"ControllerRevision "gone" does not exist; new pods are refused"#);
        let note = plan.notes.iter().find(|note| note.reason == Reason::PinnedRevisionMissing).unwrap();
        assert_eq!(note.message, condition.message);

        set.status = Some(plan.status);
        let again = reported(&set, Some(why), 60);
        assert!(!again.is_status_changed && again.notes.is_empty(), "{again:?}");
        let found = reported(&set, None, 120);
        assert!(found.is_status_changed && missing_pin(&found.status).is_none());
        assert_eq!(found.status.condition(PINNED_REVISION).unwrap().status, "True");

        set.spec.injection_strategy.revision = None;
        assert!(reported(&set, None, 180).status.condition(PINNED_REVISION).is_none());
    }

    #[test]
    fn the_condition_says_what_new_pods_get() {
        let set = pins(json!({"revisionName": "gone", "onMissing": "Latest"}));
        let plan = reported(&set, Some("it does not exist"), 0);
        assert_eq!(missing_pin(&plan.status).unwrap().message, "it does not exist; new pods get the latest revision");
    }
}
