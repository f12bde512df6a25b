//! The parts of a manager, each of which may run in a process of its own.

use std::fmt;
use std::str::FromStr;

/// A part of the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Serves the webhooks and has API servers call them.
    Webhook,
    /// Keeps revisions of SidecarSets, and updates running pods.
    Rollout,
    /// Finds pods that have been created without their sidecars.
    Repair,
    /// Ends pods whose work is done, where nobody else stops their sidecars.
    Lifecycle,
    /// Recommends what containers should request.
    Recommender,
    /// Brings running pods to what is recommended.
    Updater,
    /// Keeps what in-pod agents need in the namespaces of their pods.
    Agents,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 7] =
        [Part::Webhook, Part::Rollout, Part::Repair, Part::Lifecycle, Part::Recommender, Part::Updater, Part::Agents];

    /// Those that are installed unless others are named. What agents need takes rights to ConfigMaps of all namespaces.
    pub const INSTALLED: [Part; 6] =
        [Part::Webhook, Part::Rollout, Part::Repair, Part::Lifecycle, Part::Recommender, Part::Updater];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Part::Webhook => "webhook",
            Part::Rollout => "rollout",
            Part::Repair => "repair",
            Part::Lifecycle => "lifecycle",
            Part::Recommender => "recommender",
            Part::Updater => "updater",
            Part::Agents => "agents",
        }
    }

    /// The controllers that its leader runs.
    pub(crate) fn controllers(self) -> &'static [&'static str] {
        match self {
            Part::Webhook => &[],
            Part::Rollout => &["rollout", "places"],
            Part::Repair => &["repair"],
            Part::Lifecycle => &["lifecycle"],
            Part::Recommender => &["recommender", "recommender-writes"],
            Part::Updater => &["updater", "follow"],
            Part::Agents => &["agents"],
        }
    }

    /// The Lease that its leader holds. Each part has its own, so that parts may run in different processes.
    pub fn lease(self) -> &'static str {
        match self {
            Part::Webhook => "pillion-webhook",
            Part::Rollout => "pillion-rollout",
            Part::Repair => "pillion-repair",
            Part::Lifecycle => "pillion-lifecycle",
            Part::Recommender => "pillion-recommender",
            Part::Updater => "pillion-updater",
            Part::Agents => "pillion-agents",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Part {
    type Err = UnknownPart;

    fn from_str(name: &str) -> Result<Part, UnknownPart> {
        Part::ALL.into_iter().find(|part| part.name() == name).ok_or_else(|| UnknownPart { name: name.to_owned() })
    }
}

/// The name of no part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no controller {name:?}; the controllers are {}", Part::ALL.map(Part::name).join(", "))]
pub struct UnknownPart {
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_their_names() {
        for part in Part::ALL {
            assert_eq!(part.to_string().parse(), Ok(part));
        }
        let error = "rolout".parse::<Part>().unwrap_err();
        let names = Part::ALL.map(Part::name).join(", ");
        assert_eq!(error.to_string(), format!(r#"there is no controller "rolout"; the controllers are {names}"#));
    }
}
