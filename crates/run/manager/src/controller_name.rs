//! The controllers that can be named on the command line. Each may run in a process of its own.

use std::fmt;
use std::str::FromStr;

/// The name of a controller of the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControllerName {
    /// Serves the webhooks and has API servers call them.
    Webhook,
    /// Keeps revisions of SidecarSets, and updates running pods.
    Rollout,
    /// Finds pods that have been created without their sidecars.
    Repair,
    /// Ends pods whose work is done, unless something else stops their sidecars.
    Lifecycle,
    /// Recommends what containers should request.
    Recommender,
    /// Brings running pods to what is recommended.
    Updater,
    /// Keeps what in-pod agents need in the namespaces of their pods.
    Agents,
}

impl ControllerName {
    /// All of them.
    pub const ALL: [ControllerName; 7] = [
        ControllerName::Webhook,
        ControllerName::Rollout,
        ControllerName::Repair,
        ControllerName::Lifecycle,
        ControllerName::Recommender,
        ControllerName::Updater,
        ControllerName::Agents,
    ];

    /// Those that are installed unless others are named. What agents need takes rights to ConfigMaps of all namespaces.
    pub const INSTALLED: [ControllerName; 6] = [
        ControllerName::Webhook,
        ControllerName::Rollout,
        ControllerName::Repair,
        ControllerName::Lifecycle,
        ControllerName::Recommender,
        ControllerName::Updater,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ControllerName::Webhook => "webhook",
            ControllerName::Rollout => "rollout",
            ControllerName::Repair => "repair",
            ControllerName::Lifecycle => "lifecycle",
            ControllerName::Recommender => "recommender",
            ControllerName::Updater => "updater",
            ControllerName::Agents => "agents",
        }
    }

    /// The reconcilers that its leader runs.
    pub(crate) fn reconcilers(self) -> &'static [&'static str] {
        match self {
            ControllerName::Webhook => &["registration"],
            ControllerName::Rollout => &["rollout", "places"],
            ControllerName::Repair => &["repair"],
            ControllerName::Lifecycle => &["lifecycle"],
            ControllerName::Recommender => &["recommender", "recommender-writes"],
            ControllerName::Updater => &["updater", "follow"],
            ControllerName::Agents => &["agents"],
        }
    }

    /// The Lease that its leader holds. Each has its own, so that they may run in different processes.
    pub fn lease(self) -> &'static str {
        match self {
            ControllerName::Webhook => "pillion-webhook",
            ControllerName::Rollout => "pillion-rollout",
            ControllerName::Repair => "pillion-repair",
            ControllerName::Lifecycle => "pillion-lifecycle",
            ControllerName::Recommender => "pillion-recommender",
            ControllerName::Updater => "pillion-updater",
            ControllerName::Agents => "pillion-agents",
        }
    }
}

impl fmt::Display for ControllerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ControllerName {
    type Err = UnknownController;

    fn from_str(name: &str) -> Result<ControllerName, UnknownController> {
        ControllerName::ALL
            .into_iter()
            .find(|part| part.name() == name)
            .ok_or_else(|| UnknownController { name: name.to_owned() })
    }
}

/// A name that no controller has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown controller {name:?}: use one of {}", ControllerName::ALL.map(ControllerName::name).join(", "))]
pub struct UnknownController {
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_their_names() {
        for part in ControllerName::ALL {
            assert_eq!(part.to_string().parse(), Ok(part));
        }
        let error = "rolout".parse::<ControllerName>().unwrap_err();
        let names = ControllerName::ALL.map(ControllerName::name).join(", ");
        assert_eq!(error.to_string(), format!(r#"unknown controller "rolout": use one of {names}"#));
    }
}
