//! The options of an installation.

use pillion_api::names;
use pillion_gates::{Gate, Gates, Settings};
use pillion_manager::{ControllerName, NAMESPACE, Peer};

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
    pub controllers: Vec<ControllerName>,
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
    /// Whether usage comes from kubelets, and with it the right to read what they measure. [`manifests`](crate::manifests) sets it where
    /// `manager_args` have [`KUBELETS`].
    pub kubelets: bool,
    /// Whether each part runs in a Deployment of its own, with an account that has its rights only. The webhooks keep the names of the manager.
    pub separate: bool,
}

impl Options {
    /// The same with what feature gates and flags need: rights, and the image with `pillion-wrap`, which is the manager's own unless another is
    /// given.
    #[must_use]
    pub(crate) fn with_what_flags_need(mut self) -> Options {
        self.kubelets |= self.manager_args.iter().any(|argument| argument == KUBELETS);
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

    /// How long a replica still serves webhooks after it was asked to end, in seconds.
    pub(crate) fn shutdown_delay(&self) -> u64 {
        let given = self.manager_args.iter().find_map(|argument| argument.strip_prefix(SHUTDOWN_DELAY_FLAG));
        given.and_then(|seconds| seconds.parse().ok()).unwrap_or(SHUTDOWN_DELAY)
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
            controllers: ControllerName::INSTALLED.to_vec(),
            certificates: Certificates::SelfMade,
            feature_gates: String::new(),
            log_format: "text".to_owned(),
            take_over: String::new(),
            wrap_image: String::new(),
            manager_args: Vec::new(),
            sidecar_field: false,
            kubelets: false,
            separate: false,
        }
    }
}

/// The default image of the manager.
pub const IMAGE: &str = concat!("pillion.dev/pillion:", env!("CARGO_PKG_VERSION"));

/// The flag of the manager by which usage comes from kubelets.
pub const KUBELETS: &str = "--usage-source=kubelets";
/// The flag of the manager that says how long it still serves webhooks after it was asked to end. Its value, in seconds, follows.
pub const SHUTDOWN_DELAY_FLAG: &str = "--shutdown-delay=";
/// The same without the flag.
pub const SHUTDOWN_DELAY: u64 = 5;
/// How many seconds a replica may then take to answer what it was asked and to store what it knows: 20 at most, and some to spare.
pub const SHUTDOWN_GRACE: u64 = 25;

/// Where the certificates of the webhooks come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// The manager makes, shares and renews them.
    SelfMade,
    /// A Secret in the manager's namespace with `tls.crt`, `tls.key` and `ca.crt`, as cert-manager writes it.
    Secret(String),
}
