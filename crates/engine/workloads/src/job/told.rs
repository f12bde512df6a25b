//! Events about an object, as decisions give them.

use k8s_openapi::api::core::v1::ObjectReference;
use pillion_events::Recorder;

/// An event that is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) warning: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Told {
    /// What went as it should.
    pub(crate) fn normal(reason: &str, message: impl Into<String>) -> Told {
        Told { warning: false, reason: reason.to_owned(), message: message.into() }
    }

    /// What did not.
    pub(crate) fn warning(reason: &str, message: impl Into<String>) -> Told {
        Told { warning: true, reason: reason.to_owned(), message: message.into() }
    }

    /// Tells it.
    pub(crate) fn tell(&self, recorder: &Recorder, about: &ObjectReference) {
        if self.warning {
            recorder.warning(about, &self.reason, self.message.as_str());
        } else {
            recorder.normal(about, &self.reason, self.message.as_str());
        }
    }
}
