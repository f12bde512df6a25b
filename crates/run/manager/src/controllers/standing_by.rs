//! Says in an event that the manager stands by, and when it goes on.

use k8s_openapi::api::core::v1::ObjectReference;
use pillion_events::{Recorder, reference_to};

use crate::config::Config;

/// Reports whether the manager stands by. It is an event of the manager's namespace: nothing is written to objects that somebody else serves.
pub(crate) struct StandingBy {
    recorder: Recorder,
    about: ObjectReference,
    /// What was last reported.
    reported: Option<String>,
}

impl StandingBy {
    pub(crate) fn new(config: &Config) -> StandingBy {
        StandingBy {
            recorder: config.recorder(),
            about: reference_to("v1", "Namespace", Some(&config.namespace), &config.namespace, None),
            reported: None,
        }
    }

    /// Writes an event if this is news.
    pub(crate) fn report(&mut self, obstacle: Option<&str>) {
        let before = std::mem::replace(&mut self.reported, obstacle.map(str::to_owned));
        match obstacle {
            Some(obstacle) if before.as_deref() != Some(obstacle) => {
                let text = format!("SidecarSets and their pods are left alone: {obstacle}");
                self.recorder.warning(&self.about, "StandingBy", text);
            }
            None if before.is_some() => self.recorder.normal(&self.about, "GoingOn", "nobody else serves SidecarSets"),
            _ => {}
        }
    }
}
