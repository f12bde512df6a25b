//! Events about an object, as decisions give them.

use k8s_openapi::api::core::v1::ObjectReference;
use pillion_events::Recorder;

/// An event that is to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedEvent {
    pub(crate) warning: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl PlannedEvent {
    /// What went as it should.
    pub(crate) fn normal(reason: &str, message: impl Into<String>) -> PlannedEvent {
        PlannedEvent { warning: false, reason: reason.to_owned(), message: message.into() }
    }

    /// What did not.
    pub(crate) fn warning(reason: &str, message: impl Into<String>) -> PlannedEvent {
        PlannedEvent { warning: true, reason: reason.to_owned(), message: message.into() }
    }

    pub(crate) fn record(&self, recorder: &Recorder, about: &ObjectReference) {
        if self.warning {
            recorder.warning(about, &self.reason, self.message.as_str());
        } else {
            recorder.normal(about, &self.reason, self.message.as_str());
        }
    }
}
