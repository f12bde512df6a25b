//! The flags of the manager, and those that it has in common with other commands.

// Documentation of arguments is what `--help` prints: words in it stand without backticks.
#![allow(clippy::doc_markdown)]

mod prometheus;
mod rightsizing;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::SignedDuration;
use pillion_gates::{Gates, Settings};
use pillion_install::SHUTDOWN_DELAY;
use pillion_manager::{ControllerName, Peer};
use pillion_quantity::Quantity;
use tracing_subscriber::EnvFilter;

pub use self::prometheus::PrometheusArgs;
pub use self::rightsizing::{RecommenderArgs, RightsizingArgs, ScopeArgs, StorageArg, UpdaterArgs, UsageSourceArg};

/// `pillion manager`
#[derive(Debug, Args)]
pub struct ManagerArgs {
    /// The manager's own namespace, where its Secret and its Leases are
    #[arg(short, long, value_name = "NAME", default_value = pillion_manager::NAMESPACE)]
    pub namespace: String,
    /// The namespace of the ControllerRevisions of SidecarSets and of the ConfigMap kruise-configuration
    #[arg(long, value_name = "NAME", default_value = pillion_api::names::DEFAULT_SYSTEM_NAMESPACE)]
    pub revisions_namespace: String,
    /// What this process does, so that controllers can run in processes and with accounts of their own
    ///
    /// The controllers are webhook, rollout, repair, lifecycle, recommender, updater and agents. By default all of them run; `pillion install`
    /// leaves agents out unless it is named.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values_t = ControllerName::ALL, hide_default_value = true)]
    pub controllers: Vec<ControllerName>,
    /// Where the webhooks' certificates come from: self, or a folder
    ///
    /// With self, the manager makes and renews them, and replicas share an authority in the Secret pillion-webhook-certificate.
    /// A folder has tls.crt, tls.key and ca.crt in it, such as a mounted Secret of cert-manager, and is read again when it changes.
    #[arg(long, value_name = "SOURCE", default_value = "self")]
    pub certificates: String,
    /// How long a certificate that the manager makes is valid; it is renewed when a third of that is left
    #[arg(long, value_name = "TIME", default_value = "2160h", value_parser = lifetime)]
    pub certificate_lifetime: SignedDuration,
    /// The Service through which API servers reach the webhooks; it is in the manager's own namespace
    #[arg(long, value_name = "NAME", default_value = "pillion-webhook", conflicts_with = "webhook_url")]
    pub service_name: String,
    /// The URL at which API servers reach the webhooks, for a manager outside the cluster
    #[arg(long, value_name = "URL")]
    pub webhook_url: Option<String>,
    /// Where webhooks are served, with TLS: by default at every address, of IPv4 and IPv6
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:9443")]
    pub bind_address: SocketAddr,
    /// Where /healthz, /readyz and /metrics are served, without TLS: by default at every address, of IPv4 and IPv6
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8080")]
    pub health_address: SocketAddr,
    /// Serve the objects of an installed OpenKruise (kruise) or VerticalPodAutoscaler (vpa), once it has stopped
    ///
    /// While an OpenKruise runs, or is registered for SidecarSets, the manager does nothing about SidecarSets and their pods: /readyz and the
    /// log say why. While a component of the VerticalPodAutoscaler project runs, or is installed, the same controller of the manager waits.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub take_over: Vec<Peer>,
    /// How long webhooks are still served after SIGTERM, in seconds, while API servers notice that this replica ends
    #[arg(long, value_name = "SECONDS", default_value_t = SHUTDOWN_DELAY, value_parser = clap::value_parser!(u64).range(..=LONGEST_SHUTDOWN_DELAY))]
    pub shutdown_delay: u64,
    /// How log lines are written
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// What is logged: a level, or one for each module, such as info,pillion_lease=debug
    #[arg(long, value_name = "LEVELS", default_value = "info", value_parser = levels)]
    pub log_level: String,
    /// The image with pillion-wrap, which runs the commands of pods whose sidecars have the mode Strict
    ///
    /// Without it, and where a command is not in the manifest, the manager writes the terminal phase of such pods.
    #[arg(long, value_name = "IMAGE")]
    pub wrap_image: Option<String>,
    /// The recommender and the updater.
    #[command(flatten)]
    pub rightsizing: RightsizingArgs,
    /// Features to switch on or off.
    #[command(flatten)]
    pub gates: GateArgs,
    /// What is managed.
    #[command(flatten)]
    pub cluster: ToClusterArgs,
}

/// API servers have noticed long before that a replica ends.
const LONGEST_SHUTDOWN_DELAY: u64 = 3600;

/// What the log would refuse is refused with the other arguments, before anything starts or is installed.
fn levels(text: &str) -> Result<String, String> {
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Shorter than this a certificate may expire before API servers have learned of the next one.
const SHORTEST_LIFETIME: SignedDuration = SignedDuration::from_secs(10);

fn lifetime(text: &str) -> Result<SignedDuration, String> {
    let time: SignedDuration = text.parse().map_err(|error| format!("write a time such as 2160h: {error}"))?;
    if time >= SHORTEST_LIFETIME { Ok(time) } else { Err("10s is the shortest lifetime".to_owned()) }
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

/// What `pillion up` switches on by itself.
pub const UP_GATES: &str = "NativeSidecar=true,SidecarField=true";

/// `--feature-gates`
#[derive(Debug, Args)]
pub struct GateArgs {
    /// Features to switch on or off: a comma-separated list of NAME=true or NAME=false
    ///
    /// CPUStartupBoost (ALPHA, default false): startupBoost gives more CPU while a container starts.
    /// EnableSortSidecarContainerByName (ALPHA, default false): injected containers are sorted by name, across SidecarSets.
    /// InPlace (ALPHA, default false): the update mode InPlace of VerticalPodAutoscalers. NativeSidecar (ALPHA, default false;
    /// `pillion up` switches it on): VerticalPodAutoscalers size native sidecars as well. PerVPAConfig (ALPHA, default false):
    /// fields of a VerticalPodAutoscaler override flags.
    /// SidecarField (ALPHA, default false; `pillion up` switches it on): sidecars that the pod's author has marked end when the work is
    /// done. SidecarFollowsApp (ALPHA, default false): injected sidecars with a resourcesPolicy are resized when the app is resized in
    /// place. SidecarSetPatchPodMetadataDefaultsAllowed (ALPHA, default false): patchPodMetadata may write any annotation where
    /// there is no whitelist. SidecarSetTarget (ALPHA, default false): a VerticalPodAutoscaler in the manager's namespace may target
    /// a SidecarSet. AllAlpha and AllBeta set all gates of a stage. Can be given several times.
    #[arg(long = "feature-gates", value_name = "GATES")]
    feature_gates: Vec<Settings>,
}

impl GateArgs {
    /// The gates as they are set.
    pub fn gates(&self) -> Gates {
        self.gates_over(Settings::default())
    }

    /// The gates of `pillion up`, which switches on what it is there to show: [`UP_GATES`].
    pub fn gates_of_up(&self) -> Gates {
        self.gates_over(UP_GATES.parse().unwrap_or_default())
    }

    /// What is set, which a cluster's manager may have set otherwise.
    pub fn settings(&self) -> Settings {
        self.settings_over(Settings::default())
    }

    fn gates_over(&self, defaults: Settings) -> Gates {
        Gates::default().with(&self.settings_over(defaults))
    }

    fn settings_over(&self, defaults: Settings) -> Settings {
        self.feature_gates.iter().fold(defaults, Settings::and)
    }
}

/// Which cluster a command talks to, where it does not look into one namespace.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ToClusterArgs {
    /// The kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the service account of the pod]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Which cluster a command talks to, with kubectl's flags.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// The kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the service account of the pod]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The namespace [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
}

impl From<&ToClusterArgs> for ClusterArgs {
    fn from(args: &ToClusterArgs) -> ClusterArgs {
        ClusterArgs { kubeconfig: args.kubeconfig.clone(), context: args.context.clone(), namespace: None }
    }
}

/// Parses a quantity that must not be negative.
pub fn parse_bound(text: &str) -> Result<Quantity, String> {
    match text.parse::<Quantity>() {
        Ok(quantity) if quantity.is_negative() => Err("must not be negative".to_owned()),
        Ok(quantity) => Ok(quantity),
        Err(error) => Err(error.to_string()),
    }
}
