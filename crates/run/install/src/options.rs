//! What an installation can be told.

use std::fmt;
use std::str::FromStr;

use pillion_api::names;

/// The settings of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The namespace of the manager.
    pub namespace: String,
    /// The namespace of the ControllerRevisions of SidecarSets.
    pub revisions_namespace: String,
    /// The image of the manager.
    pub image: String,
    /// How many replicas the manager has.
    pub replicas: u32,
    /// The parts of the manager that run.
    pub controllers: Vec<Controller>,
    /// Where the certificates of the webhooks come from.
    pub certificates: Certificates,
    /// The manager's `--feature-gates`; the defaults when empty.
    pub feature_gates: String,
    /// The manager's `--log-format`.
    pub log_format: String,
    /// The manager's `--take-over`; nothing when empty.
    pub take_over: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            namespace: NAMESPACE.to_owned(),
            revisions_namespace: names::DEFAULT_SYSTEM_NAMESPACE.to_owned(),
            image: IMAGE.to_owned(),
            replicas: 2,
            controllers: Controller::ALL.to_vec(),
            certificates: Certificates::SelfMade,
            feature_gates: String::new(),
            log_format: "text".to_owned(),
            take_over: String::new(),
        }
    }
}

/// The default namespace of the manager.
pub const NAMESPACE: &str = "pillion-system";
/// The default image of the manager.
pub const IMAGE: &str = concat!("pillion.dev/pillion:", env!("CARGO_PKG_VERSION"));

/// A part of the manager, with rights of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// The admission and conversion webhooks.
    Webhook,
    /// Finds pods that should have a sidecar and have none.
    Repair,
}

impl Controller {
    /// Every part.
    pub const ALL: [Controller; 2] = [Controller::Webhook, Controller::Repair];

    /// Its name in the manager's `--controllers`.
    pub fn name(self) -> &'static str {
        match self {
            Controller::Webhook => "webhook",
            Controller::Repair => "repair",
        }
    }

    /// The Lease that its leader holds.
    pub fn lease(self) -> &'static str {
        match self {
            Controller::Webhook => "pillion-webhook",
            Controller::Repair => "pillion-repair",
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Controller {
    type Err = String;

    fn from_str(text: &str) -> Result<Controller, String> {
        Controller::ALL.into_iter().find(|controller| controller.name() == text).ok_or_else(|| {
            let names = Controller::ALL.map(Controller::name).join(", ");
            format!("there is no controller {text:?}; the controllers are {names}")
        })
    }
}

/// Where the certificates of the webhooks come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// The manager makes, shares and renews them.
    SelfMade,
    /// A Secret in the manager's namespace with `tls.crt`, `tls.key` and `ca.crt`, as cert-manager writes it.
    Secret(String),
}
