//! Asks for places of a partition, and confirms them: with `policy: Quota` a new pod gets the pinned revision if a place is free.
//!
//! ```text
//!  admissions and confirmations of this replica ─▶ a line for each set ─▶ one write for all that wait ─▶ ConfigMap (compare and swap)
//!                                                                                                          ▲
//!  the leader of rollouts: how many pods have the revision, which places were seen ────────────────────────┘
//! ```

mod line;
mod object;
mod registration;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillion_api::sidecarset::SidecarSet;
use pillion_rollout::{Applicant, Confirmation, Grant, Limit, Origin};
use tokio::sync::oneshot;

use self::line::{Line, Wish};
pub(crate) use self::object::PlacesObject;
pub(crate) use self::registration::Registration;
use crate::config::Config;
use crate::lock::lock;

/// How long an admission waits for its place. The API server waits three seconds for a pod.
const LONGEST: Duration = Duration::from_secs(1);
/// How long a confirmation may take. The API server waits ten seconds for it.
const LONGEST_CONFIRMATION: Duration = Duration::from_secs(5);

/// The lines of all sets, by the name of their objects.
#[derive(Default)]
pub(crate) struct Lines {
    by_object: Mutex<HashMap<String, Arc<Line>>>,
}

/// What an admission wants.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// The place, by the id that is written on the pod.
    pub(crate) id: String,
    /// Whose successor the pod may be.
    pub(crate) origin: Option<Origin>,
    /// Who asks, if the API server confirms the place.
    pub(crate) applicant: Option<Applicant>,
    pub(crate) revision: String,
    /// How many places there are.
    pub(crate) limit: Limit,
    /// A dry run takes no place.
    pub(crate) is_dry_run: bool,
}

/// A pod that is about to be created.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// The id that is written on the pod.
    pub(crate) id: String,
    pub(crate) revision: String,
    /// How many places there are.
    pub(crate) limit: Limit,
}

impl Lines {
    /// Asks for a place. `None` if there was no answer in time.
    pub(crate) async fn ask(&self, config: &Config, set: &SidecarSet, ask: Ask) -> Option<Grant> {
        let (sender, answer) = oneshot::channel();
        self.line(config, set).add(Wish::Ask(ask, sender));
        tokio::time::timeout(LONGEST, answer).await.ok()?.ok()
    }

    /// Confirms a place. `None` if there was no answer in time.
    pub(crate) async fn confirm(&self, config: &Config, set: &SidecarSet, arrival: Arrival) -> Option<Confirmation> {
        let (sender, answer) = oneshot::channel();
        self.line(config, set).add(Wish::Confirm(arrival, sender));
        tokio::time::timeout(LONGEST_CONFIRMATION, answer).await.ok()?.ok()
    }

    /// Gives a place back whose pod was refused. If that fails, the place expires.
    pub(crate) fn give_back(&self, config: &Config, set: &SidecarSet, id: &str) {
        self.line(config, set).add(Wish::GiveBack(id.to_owned()));
    }

    fn line(&self, config: &Config, set: &SidecarSet) -> Arc<Line> {
        let object = PlacesObject::new(config, set);
        let mut lines = lock(&self.by_object);
        // A line that nobody waits in is made anew when it is needed.
        lines.retain(|name, line| name == object.name() || Arc::strong_count(line) > 1);
        let new = || Arc::new(Line::new(config, object.clone()));
        Arc::clone(lines.entry(object.name().to_owned()).or_insert_with(new))
    }
}
