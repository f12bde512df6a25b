//! The arguments of `pillion install` and `pillion uninstall`.

use std::path::PathBuf;

use clap::Args;
use pillion_gates::{GateError, Settings};
use pillion_install::{Certificates, ControllerName, IMAGE, NAMESPACE, Options, Peer};
use pillion_manager_program::args::ToClusterArgs;
use pillion_rules::format::{Complaints, dns_label, dns_subdomain};

/// `pillion install`
#[derive(Debug, Args)]
pub struct InstallArgs {
    /// Print the manifests instead of applying them; this needs no cluster
    ///
    /// Namespaces are among them. Where one exists already, applying them puts labels on it: app.kubernetes.io/managed-by,
    /// by which uninstall finds it, and on the manager's namespace the enforcement of the Pod Security Standard restricted.
    #[arg(long)]
    pub print: bool,
    /// The namespace of the manager, created if it is missing
    #[arg(short, long, value_name = "NAME", default_value = NAMESPACE, value_parser = namespace)]
    namespace: String,
    /// The namespace of the revisions of SidecarSets, created if it is missing
    #[arg(long, value_name = "NAME", default_value_t = Options::default().revisions_namespace, value_parser = namespace)]
    revisions_namespace: String,
    /// The image of the manager
    #[arg(long, value_name = "IMAGE", default_value = IMAGE, value_parser = image)]
    image: String,
    /// How many replicas the manager has: all serve webhooks, one leads the controllers
    #[arg(long, value_name = "NUMBER", default_value_t = Options::default().replicas, value_parser = clap::value_parser!(u32).range(1..))]
    replicas: u32,
    /// The parts of the manager that run, webhook among them; each has rights of its own
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values_t = ControllerName::INSTALLED)]
    controllers: Vec<ControllerName>,
    /// Run each part in a Deployment of its own, with an account that has only the rights of the part
    #[arg(long)]
    separate: bool,
    /// A Secret in the manager's namespace with tls.crt, tls.key and ca.crt, as cert-manager writes it
    ///
    /// Without it the manager makes, shares and renews its certificates itself.
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    certificate_secret: Option<String>,
    /// Features of the manager to switch on or off: a comma-separated list of NAME=true or NAME=false
    #[arg(long, value_name = "GATES", default_value = "", hide_default_value = true, value_parser = gates)]
    feature_gates: String,
    /// The image with pillion-wrap, which runs the commands of pods whose sidecars have the mode Strict [default: the manager's image]
    ///
    /// It has an effect where the feature gate SidecarField is on.
    #[arg(long, value_name = "IMAGE", default_value = "", hide_default_value = true, value_parser = image_or_none)]
    wrap_image: String,
    /// How the manager writes its log
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"], default_value = "text")]
    log_format: String,
    /// A flag of `pillion manager` that has no option here, with its value, such as --log-level=debug. Can be given several times
    #[arg(long = "manager-arg", value_name = "FLAG", allow_hyphen_values = true)]
    manager_args: Vec<String>,
    /// Serve the objects of an installed OpenKruise (kruise) or VerticalPodAutoscaler (vpa) instead of it
    ///
    /// OpenKruise must have been stopped. Its definition of SidecarSet is replaced, and the webhook configurations that it has left are deleted,
    /// with the rights of whoever runs this command. SidecarSets, revisions and pods stay as they are. The
    /// components of the VerticalPodAutoscaler project must have been stopped, too: each part of the manager waits for its own.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    take_over: Vec<Peer>,
    /// Print what brings the in-pod agent into a namespace, for the configuration of --filename, instead of the manager
    ///
    /// The account, its Role, the policy that bounds it, and a SidecarSet that injects the agent into pods with the label
    /// pillion.dev/agent: enabled.
    #[arg(long, requires_all = ["print", "filename"], help_heading = "Agent")]
    pub agent: bool,
    /// The agent's configuration: config.yaml, or the ConfigMap that has it
    #[arg(short, long, value_name = "FILE", requires = "agent", help_heading = "Agent")]
    pub filename: Option<PathBuf>,
    /// The namespace of the pods that get the agent
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = namespace, requires = "agent", help_heading = "Agent")]
    pub agent_namespace: String,
    /// The image with pillion-agent
    #[arg(long, value_name = "IMAGE", default_value = IMAGE, value_parser = image, requires = "agent", help_heading = "Agent")]
    pub agent_image: String,
    /// The user that the agent runs as, where that is the user of the process that it signals
    ///
    /// Without it an agent that signals is root with the capability KILL and no other.
    #[arg(long, value_name = "UID", requires = "agent", help_heading = "Agent")]
    pub agent_user: Option<u32>,
    /// How many seconds the manager may take until it answers
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub timeout: u64,
    /// Where to install.
    #[command(flatten)]
    pub cluster: ToClusterArgs,
}

impl InstallArgs {
    /// The installation that the arguments describe.
    pub fn options(&self) -> Options {
        Options {
            namespace: self.namespace.clone(),
            revisions_namespace: self.revisions_namespace.clone(),
            image: self.image.clone(),
            replicas: self.replicas,
            controllers: self.controllers.clone(),
            certificates: self.certificate_secret.clone().map_or(Certificates::SelfMade, Certificates::Secret),
            feature_gates: self.feature_gates.clone(),
            log_format: self.log_format.clone(),
            wrap_image: self.wrap_image.clone(),
            manager_args: self.manager_args.clone(),
            separate: self.separate,
            take_over: self.take_over.iter().map(|peer| peer.name()).collect::<Vec<_>>().join(","),
            ..Options::default()
        }
    }
}

/// What the manager would refuse is refused before it is installed.
fn gates(text: &str) -> Result<String, GateError> {
    text.parse::<Settings>().map(|_| text.to_owned())
}

fn namespace(text: &str) -> Result<String, String> {
    valid(text, dns_label(text))
}

/// The name of most objects.
fn object_name(text: &str) -> Result<String, String> {
    valid(text, dns_subdomain(text))
}

/// What the API server would say, before anything is changed.
fn valid(text: &str, complaints: Complaints) -> Result<String, String> {
    if complaints.is_empty() { Ok(text.to_owned()) } else { Err(complaints.join("; ")) }
}

/// Whoever pulls it decides what the name of an image is; none of them accepts these.
fn image(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("write an image, such as registry.example.com/pillion:0.1.0".to_owned());
    }
    image_or_none(text)
}

fn image_or_none(text: &str) -> Result<String, String> {
    if text.contains(char::is_whitespace) {
        return Err("the name of an image has no spaces in it".to_owned());
    }
    Ok(text.to_owned())
}

/// `pillion uninstall`
#[derive(Debug, Args)]
pub struct UninstallArgs {
    /// Delete every SidecarSet and VerticalPodAutoscaler, their revisions, checkpoints and definitions, too. A definition that another program has installed stays, with what it defines
    #[arg(long)]
    pub all: bool,
    /// Do not ask before everything is deleted
    #[arg(long)]
    pub yes: bool,
    /// How many seconds each thing that is deleted may take until it is gone
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub timeout: u64,
    /// Where it is installed.
    #[command(flatten)]
    pub cluster: ToClusterArgs,
}
