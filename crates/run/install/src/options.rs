//! The options of an installation.

use pillion_api::names;
use pillion_gates::{Gate, Gates, Settings};
use pillion_manager::{NAMESPACE, Part, Peer};

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
    pub controllers: Vec<Part>,
    /// Where the certificates of the webhooks come from.
    pub certificates: Certificates,
    /// The manager's `--feature-gates`; the defaults when empty.
    pub feature_gates: String,
    /// The manager's `--log-format`.
    pub log_format: String,
    /// The manager's `--take-over`, a list with commas; nothing when empty.
    pub take_over: String,
    /// The manager's `--wrap-image`; none when empty.
    pub wrap_image: String,
    /// More flags of the manager, each with its value. None of [`own_flags`](crate::own_flags) is among them.
    pub manager_args: Vec<String>,
    /// Whether the gate `SidecarField` is on, and with it the right to write the phase of pods. [`manifests`](crate::manifests) sets it as
    /// `feature_gates` says, where that can be read.
    pub sidecar_field: bool,
    /// Whether each part runs in a Deployment of its own, with an account that has its rights only. The webhooks keep the names of the manager.
    pub separate: bool,
}

impl Options {
    /// The same with what the feature gates need: rights, and the image with `pillion-wrap`, which is the manager's own unless another is given.
    #[must_use]
    pub(crate) fn with_what_gates_need(mut self) -> Options {
        // The chart has an expression in its place.
        if let Ok(settings) = self.feature_gates.parse::<Settings>() {
            self.sidecar_field = Gates::default().with(&settings).is_enabled(Gate::SidecarField);
        }
        if !self.sidecar_field {
            self.wrap_image.clear();
        } else if self.wrap_image.is_empty() {
            self.wrap_image.clone_from(&self.image);
        }
        self
    }

    /// Whether the objects of `peer` are to be served instead of it.
    pub fn takes_over(&self, peer: Peer) -> bool {
        self.take_over.split(',').any(|name| name == peer.name())
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            namespace: NAMESPACE.to_owned(),
            revisions_namespace: names::DEFAULT_SYSTEM_NAMESPACE.to_owned(),
            image: IMAGE.to_owned(),
            replicas: 2,
            controllers: Part::INSTALLED.to_vec(),
            certificates: Certificates::SelfMade,
            feature_gates: String::new(),
            log_format: "text".to_owned(),
            take_over: String::new(),
            wrap_image: String::new(),
            manager_args: Vec::new(),
            sidecar_field: false,
            separate: false,
        }
    }
}

/// The default image of the manager.
pub const IMAGE: &str = concat!("pillion.dev/pillion:", env!("CARGO_PKG_VERSION"));

/// Where the certificates of the webhooks come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// The manager makes, shares and renews them.
    SelfMade,
    /// A Secret in the manager's namespace with `tls.crt`, `tls.key` and `ca.crt`, as cert-manager writes it.
    Secret(String),
}
