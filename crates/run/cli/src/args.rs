//! The command line as clap sees it: every command, flag and help text.

// Documentation of arguments is what `--help` prints: words in it stand without backticks.
#![allow(clippy::doc_markdown)]

mod check;
mod install;
mod reading;
mod recommend;
mod rollout;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use jiff::Timestamp;
use pillion_expr::{Amount, Resource};
use pillion_manager::ControllerName;
use pillion_manager_program::args::parse_bound;
pub use pillion_manager_program::args::{ClusterArgs, GateArgs, LogFormat, ManagerArgs, ToClusterArgs, UP_GATES};
use pillion_quantity::Quantity;

use self::check::CLUSTER_CHECK_EXAMPLES;
pub use self::check::ClusterCheckArgs;
pub use self::install::{InstallArgs, UninstallArgs};
use self::reading::{PREVIEW_EXAMPLES, WHY_EXAMPLES};
pub use self::reading::{PreviewArgs, RevisionsArgs, WhyArgs};
pub use self::recommend::{RecommendArgs, RecommendOrder, RecommendOutput};
pub use self::rollout::{HistoryArgs, PlanArgs, RestartArgs, RolloutCommand, SetArgs, StatusArgs, UndoArgs};
use crate::offline::UnknownFields;

/// Sidecars done properly on Kubernetes
///
/// Give Pillion SidecarSets and a pod, and see exactly what the pod becomes, with no cluster.
///
/// Data goes to stdout, everything else to stderr. The exit status is 0 when it is done, 1 when the answer is no (a pod
/// is refused, a manifest is broken, an expression is wrong), and 2 when the command was used wrongly.
#[derive(Debug, Parser)]
#[command(name = "pillion", version, subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a Kubernetes on this machine, with Pillion in it, and show what runs
    ///
    /// Starts an API server, the controllers, and a node that runs containers as processes of this machine; applies the
    /// manifests, namespaces and SidecarSets first; and shows SidecarSets, workloads, Jobs, and pods with each container's
    /// state, live in a terminal and as lines elsewhere. Needs neither root nor a container runtime.
    ///
    /// Images are not pulled: the name of an image is a label, and a container's command must be on this machine. The
    /// kubeconfig for kubectl is written into the folder of the run, and its path is shown.
    ///
    /// Ctrl-C ends every process that was started, within the pods' grace periods; a second one at once.
    #[command(after_help = UP_EXAMPLES)]
    Up(UpArgs),
    /// Serve the webhooks and run the controllers of a cluster
    ///
    /// Every replica serves the webhooks; of each controller one replica leads, which holds its Lease. `pillion install` runs this
    /// command in a Deployment. Outside the cluster, API servers must be able to reach --webhook-url.
    ///
    /// The definition of SidecarSet must be there, and so must the webhook configurations that the manager may not create by itself:
    /// `pillion install` creates both.
    ///
    /// SIGTERM ends it: requests are drained, and Leases are given back.
    #[command(after_help = MANAGER_EXAMPLES)]
    Manager(Box<ManagerArgs>),
    /// Print what pods and workloads become when SidecarSets are injected into them
    ///
    /// Reads SidecarSets, pods and workloads (Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job,
    /// CronJob, and whatever else has a pod template in spec.template, such as a CloneSet) and prints what the admission
    /// webhook would make of them. All other objects are printed as they came, in their place. SidecarSets and their
    /// ControllerRevisions are read and not printed; LimitRanges, Namespaces and the ConfigMap kruise-configuration count
    /// as they would in a cluster. The time of injection is written into pods, not into templates, so that the same
    /// manifests give the same output.
    ///
    /// If any document is broken, or any pod would be refused, everything wrong is reported and nothing is printed.
    #[command(after_help = INJECT_EXAMPLES)]
    Inject(InjectArgs),
    /// Explain which SidecarSets are injected, and where each value comes from
    ///
    /// Says of every SidecarSet whether it matches a pod and why, in which order containers come, and how each resource
    /// was computed. A pod that would be refused is explained, too.
    ///
    /// Of a pod of a cluster it also says what the pod has beside what it would get if it were created today: a SidecarSet of
    /// another revision, a container that was changed by hand, a sidecar that is missing. Of a workload it explains the template, and
    /// says this of each of its pods. With -f it explains manifests, without a cluster. It changes nothing.
    #[command(after_help = WHY_EXAMPLES)]
    Why(WhyArgs),
    /// Show what applying SidecarSets would do, without applying them
    ///
    /// Puts the template of every workload of the cluster through admission twice, with the SidecarSets as they are and with those in the
    /// manifests: which workloads are matched, which sidecars are added, changed and removed, the requests and limits of each namespace before
    /// and after, the pods that would be refused and why, and the running pods that could be updated in place. Reads the cluster
    /// and writes nothing.
    ///
    /// With --offline no cluster is contacted: the workloads are those in the manifests.
    ///
    /// The exit status is 1 if a pod would be refused.
    #[command(after_help = PREVIEW_EXAMPLES)]
    Preview(PreviewArgs),
    /// Follow, pause, resume, undo and plan rollouts of SidecarSets
    #[command(subcommand)]
    Rollout(RolloutCommand),
    /// Show what VerticalPodAutoscalers recommend, beside what containers request
    ///
    /// One line for each container: what it requests now, the target with its bounds, from how many samples it was computed, and what all
    /// pods of the workload together would save. Reads autoscalers, their checkpoints, workloads and pods, and changes nothing.
    ///
    /// With --histogram it draws the usage that one autoscaler has seen, from its checkpoints, with the percentiles that bounds come from;
    /// with --explain it says how each number follows from it.
    #[command(after_help = RECOMMEND_EXAMPLES)]
    Recommend(RecommendArgs),
    /// Evaluate, check and draw resource expressions
    ///
    /// An expression computes the cpu or memory of a sidecar from that of the application, for example
    /// max(cpu*50%, 50m). It has + - * / ( ), max and min, numbers, percentages, Kubernetes quantities, and one variable:
    /// cpu or memory.
    #[command(subcommand)]
    Expr(ExprCommand),
    /// Install Pillion on a cluster, or upgrade it
    ///
    /// Applies the manager with least privilege, in two replicas, and returns when a SidecarSet and a pod have been admitted
    /// through it: a SidecarSet named pillion-install-check is created for a moment, and a pod that it selects is created as a
    /// dry run. Objects that are not part of an installation are never overwritten: they are reported, and nothing is
    /// changed.
    #[command(after_help = INSTALL_EXAMPLES)]
    Install(Box<InstallArgs>),
    /// Uninstall Pillion from a cluster
    ///
    /// SidecarSets, their revisions and their definition stay unless --all is given. They are stored in one version first, so
    /// that they can be read and edited without Pillion's conversion webhook. Pods keep the sidecars that they have.
    #[command(after_help = UNINSTALL_EXAMPLES)]
    Uninstall(UninstallArgs),
    /// Check whether Pillion can be installed, and whether an installation works
    ///
    /// Before an installation: the version of Kubernetes, your rights, other webhooks that change pods, an OpenKruise or a
    /// VerticalPodAutoscaler that is installed, and fields that the definition of SidecarSet drops. After it also the replicas, the
    /// registration of the webhooks, their certificate, the leaders, and the pods that should have sidecars and have none. Each
    /// finding is a line with what to do about it. The cluster is read, and nothing is written.
    ///
    /// The exit status is 1 if a finding needs action.
    #[command(after_help = CLUSTER_CHECK_EXAMPLES)]
    Check(ClusterCheckArgs),
    /// Print the CustomResourceDefinitions of SidecarSet, VerticalPodAutoscaler and its checkpoints, and PodProbeMarker
    #[command(after_help = CRDS_EXAMPLES)]
    Crds(CrdsArgs),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Where manifests come from.
#[derive(Debug, Args)]
pub struct ManifestArgs {
    /// Manifests: a file, a folder with everything below it, or - for stdin
    ///
    /// YAML or JSON, one document or many, Lists included. In a folder, *.yaml, *.yml and *.json are read in order of
    /// their names. Can be given several times.
    #[arg(short, long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    pub filenames: Vec<PathBuf>,
    /// The namespace of objects that name none
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub namespace: String,
    /// How SidecarSets are read.
    #[command(flatten)]
    pub strictness: StrictnessArgs,
    /// What decides beside the manifests.
    #[command(flatten)]
    pub decision: DecisionArgs,
    /// The time of admission, which is written into pods [default: now]
    #[arg(long, value_name = "TIME")]
    pub now: Option<Timestamp>,
}

/// How the SidecarSets of manifests are read.
#[derive(Debug, Args)]
pub struct StrictnessArgs {
    /// Accept fields that SidecarSets do not have, with a warning
    ///
    /// By default they are errors, since a misspelt field silently does nothing. Use this for manifests that are written for a newer version of
    /// Pillion or of Kubernetes.
    #[arg(long, requires = "filenames")]
    pub allow_unknown_fields: bool,
}

impl StrictnessArgs {
    /// What becomes of unknown fields.
    pub(crate) fn unknown_fields(&self) -> UnknownFields {
        if self.allow_unknown_fields { UnknownFields::Allow } else { UnknownFields::Refuse }
    }
}

/// What decides beside SidecarSets and pods.
#[derive(Debug, Args)]
pub struct DecisionArgs {
    /// The random number, from 0 to 1, that decides between revisions
    ///
    /// A SidecarSet with the injection policy Partial gives a new pod the pinned revision if the number is below the
    /// share that its partition keeps on it.
    #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = parse_draw)]
    pub draw: u64,
    /// The image with pillion-wrap, as the manager's --wrap-image: commands of pods whose sidecars have the mode Strict are wrapped
    #[arg(long, value_name = "IMAGE")]
    pub wrap_image: Option<String>,
    /// Features to switch on or off.
    #[command(flatten)]
    pub gates: GateArgs,
}

/// `pillion up`
#[derive(Debug, Args)]
pub struct UpArgs {
    /// Manifests to apply: files, folders with everything below them, or - for stdin
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// End when all Jobs have ended; the exit status is 1 if any of them failed
    #[arg(long)]
    pub until_done: bool,
    /// The port of the API server on 127.0.0.1 [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// Keep all objects in this folder, which is new, empty or of an earlier run, and go on from what is there [default: keep nothing]
    #[arg(long, value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// What images stand for: a YAML file that maps their names to commands
    ///
    /// For manifests whose containers have no command. Each key is the name of an image, or a pattern with *; its value has
    /// command, args and workingDir as in a container, and env as a map of names to values. An image with `pull: never`, or with
    /// `pull: {error: MESSAGE}`, cannot be pulled: its containers wait with ErrImagePull and ImagePullBackOff.
    #[arg(long, value_name = "FILE")]
    pub images: Option<PathBuf>,
    /// Run no processes: pods are walked through their lives by the clock alone, which scales to 100,000 of them
    #[arg(long)]
    pub simulate: bool,
    /// Write lines even to a terminal
    #[arg(long)]
    pub plain: bool,
    /// Controllers of the manager to run, as for `pillion manager`. Omit a controller to run it in another process [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values_t = ControllerName::ALL, hide_default_value = true)]
    pub controllers: Vec<ControllerName>,
    /// Features to switch on or off.
    #[command(flatten)]
    pub gates: GateArgs,
}

/// `pillion inject`
#[derive(Debug, Args)]
pub struct InjectArgs {
    /// What to read.
    #[command(flatten)]
    pub manifests: ManifestArgs,
    /// How to print: documents, one List, or only what changes
    #[arg(short, long, value_enum, default_value_t = InjectOutput::Yaml)]
    pub output: InjectOutput,
}

/// How `pillion inject` prints.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum InjectOutput {
    /// A stream of YAML documents
    Yaml,
    /// One v1 List
    Json,
    /// A unified diff for each object that changes
    Diff,
}

/// How a command prints that speaks to people first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Text,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

/// `pillion crds`
#[derive(Debug, Args)]
pub struct CrdsArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t = ObjectOutput::Yaml)]
    pub output: ObjectOutput,
}

/// How an object is printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ObjectOutput {
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// What can be done with an expression.
#[derive(Debug, Subcommand)]
pub enum ExprCommand {
    /// Print the value of an expression
    ///
    /// The variable needs a value: a quantity, or the word unlimited for a container without a limit. The result is
    /// rounded up to 1m of cpu or 1 byte of memory. A negative result is an error, because a pod with it is refused.
    #[command(after_help = EVAL_EXAMPLES)]
    Eval(EvalArgs),
    /// Check an expression without evaluating it
    ///
    /// Prints which variable it uses. A wrong expression is shown with a caret below the mistake, and exit status 1.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Draw the curve of an expression, in the terminal or as a picture
    #[command(after_help = PLOT_EXAMPLES)]
    Plot(PlotArgs),
}

/// `pillion expr eval`
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// The expression, such as max(cpu*50%, 50m)
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    pub expression: String,
    /// What the result is
    ///
    /// Without it, the variable that the expression uses. For an expression without a variable it is memory if --memory
    /// is given, and otherwise cpu.
    #[arg(long, value_parser = resource_parser())]
    pub resource: Option<Resource>,
    /// The value of cpu: a quantity or unlimited
    #[arg(long, value_name = "AMOUNT", value_parser = parse_amount, allow_hyphen_values = true)]
    pub cpu: Option<Amount>,
    /// The value of memory: a quantity or unlimited
    #[arg(long, value_name = "AMOUNT", value_parser = parse_amount, allow_hyphen_values = true)]
    pub memory: Option<Amount>,
    /// Show each step
    #[arg(long)]
    pub explain: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// `pillion expr check`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The expression
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    pub expression: String,
    /// Allow only the variable of this resource
    #[arg(long, value_parser = resource_parser())]
    pub resource: Option<Resource>,
}

/// `pillion expr plot`
#[derive(Debug, Args)]
pub struct PlotArgs {
    /// The expression
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    pub expression: String,
    /// Where the curve begins
    #[arg(long, value_name = "QUANTITY", value_parser = parse_bound, default_value = "0", allow_hyphen_values = true)]
    pub from: Quantity,
    /// Where the curve ends
    #[arg(long, value_name = "QUANTITY", value_parser = parse_bound, allow_hyphen_values = true)]
    pub to: Quantity,
    /// What the result is; without it, the variable that the expression uses, or cpu
    #[arg(long, value_parser = resource_parser())]
    pub resource: Option<Resource>,
    /// Write a picture instead: a file that ends in .svg or .png
    #[arg(short, long, value_name = "FILE", value_parser = parse_picture)]
    pub output: Option<Picture>,
}

/// A picture file to be written.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Where.
    pub path: PathBuf,
    /// What, by the ending of its name.
    pub format: PictureFormat,
}

/// The formats of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// Scalable; text is set in the reader's own sans-serif font.
    Svg,
    /// Pixels.
    Png,
}

/// Listed, so that help and completions know them.
fn resource_parser() -> impl TypedValueParser<Value = Resource> {
    let names = [Resource::Cpu, Resource::Memory].map(Resource::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Resource>())
}

/// The share of all u64 that is below a decimal fraction, exactly as it is written: as a float, 0.31 would be a little less than 31%.
fn parse_draw(text: &str) -> Result<u64, String> {
    const DIGITS: usize = 18;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !is_number(whole) || !is_number(fraction) {
        return Err("not a number such as 0.31".to_owned());
    }
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    if fraction.len() > DIGITS {
        return Err(format!("has more than {DIGITS} decimals"));
    }
    match (whole, fraction) {
        ("", _) => {
            let one = 10_u128.pow(u32::try_from(DIGITS).unwrap_or_default());
            let share: u128 = format!("{fraction:0<DIGITS$}").parse().unwrap_or_default();
            Ok(u64::try_from((share << 64).div_ceil(one)).unwrap_or(u64::MAX))
        }
        ("1", "") => Ok(u64::MAX),
        _ => Err("must be from 0 to 1".to_owned()),
    }
}

fn parse_amount(text: &str) -> Result<Amount, String> {
    match text.parse::<Amount>() {
        Ok(Amount::Finite(quantity)) if quantity.is_negative() => Err("must not be negative".to_owned()),
        Ok(amount) => Ok(amount),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_picture(text: &str) -> Result<Picture, String> {
    let path = PathBuf::from(text);
    let format = match path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => PictureFormat::Svg,
        Some("png") => PictureFormat::Png,
        _ => return Err("must end in .svg or .png".to_owned()),
    };
    Ok(Picture { path, format })
}

/// The command line for a program that was called by this name: as `kubectl-pillion` it is a plugin of kubectl, and its
/// help says `kubectl pillion`.
pub fn command(called: Option<&OsStr>) -> clap::Command {
    let is_plugin =
        called.and_then(|called| Path::new(called).file_stem()).is_some_and(|stem| stem == "kubectl-pillion");
    let command = Cli::command();
    if is_plugin { command.bin_name("kubectl pillion") } else { command }
}

/// The reference of the command line as Markdown: the help of every command, one after the other.
pub fn cli_reference_markdown() -> String {
    let mut text = String::from("# The command line\n\n");
    text.push_str("This page is made by `cargo xtask gen` from the program's own help; do not edit it.\n");
    let mut root = Cli::command().term_width(100);
    root.build();
    push_reference(&mut text, &mut root);
    text
}

fn push_reference(text: &mut String, command: &mut clap::Command) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    // Writing to a String cannot fail.
    let _ = write!(text, "\n## {name}\n\n```text\n{}\n```\n", help.join("\n").trim_end());
    for subcommand in command.get_subcommands_mut().filter(|subcommand| subcommand.get_name() != "help") {
        push_reference(text, subcommand);
    }
}

const UP_EXAMPLES: &str = "\
Examples:
  pillion up examples/quickstart --until-done     a SidecarSet, a Deployment and a Job; ends with the Job
  pillion up app.yaml --data ~/.pillion           go on where the last run stopped
  pillion up --images images.yaml app/            containers without a command, as the file says";

const MANAGER_EXAMPLES: &str = "\
Examples:
  # In a pod, with the service account that `pillion install` creates
  pillion manager

  # On this machine, for a cluster whose API server can reach it
  pillion manager --kubeconfig ~/.kube/config --webhook-url https://127.0.0.1:9443 --bind-address 127.0.0.1:9443

  # Only the webhooks
  pillion manager --controllers webhook";

const INJECT_EXAMPLES: &str = "\
Examples:
  # What a deployment becomes
  pillion inject -f sidecarsets/ -f deployment.yaml

  # Only what changes
  pillion inject -f sidecarsets/ -f deployment.yaml -o diff

  # Between two programs
  kustomize build . | pillion inject -f sidecarsets/ -f - | kubectl apply -f -";

const EVAL_EXAMPLES: &str = "\
Examples:
  # Half of the application, but at least 50m: prints 300m
  pillion expr eval 'max(cpu*50%, 50m)' --cpu 600m

  # An application without a limit: prints 2
  pillion expr eval 'min(cpu, 2)' --cpu unlimited

  # Each step of it
  pillion expr eval 'memory/4 + 64Mi' --memory 1Gi --explain";

const CHECK_EXAMPLES: &str = "\
Examples:
  pillion expr check 'max(cpu*50%, 50m)'
  pillion expr check 'memory*10%' --resource memory";

const PLOT_EXAMPLES: &str = "\
Examples:
  # In the terminal
  pillion expr plot 'max(cpu*50%, 500m)' --to 4

  # As a picture
  pillion expr plot 'memory/4 + 64Mi' --from 128Mi --to 2Gi -o memory.svg";

const RECOMMEND_EXAMPLES: &str = "\
Examples:
  pillion recommend -A
  pillion recommend web --histogram
  pillion recommend web --explain

  # What to write into the manifests instead
  pillion recommend web -o patch

  # The same, applied to the cluster; the default field manager would remove what it applied before
  pillion recommend web -o patch | kubectl apply --server-side --field-manager=pillion-recommend -f -

  # The largest savings first
  pillion recommend -A --sort-by=saves";

const INSTALL_EXAMPLES: &str = "\
Examples:
  pillion install
  pillion install --image registry.example.com/pillion:0.1.0 --replicas 3
  pillion install --manager-arg=--usage-source=kubelets --manager-arg=--log-level=debug

  # Review it first, or commit it
  pillion install --print > pillion.yaml
  kubectl apply --server-side -f pillion.yaml";

const UNINSTALL_EXAMPLES: &str = "\
Examples:
  pillion uninstall
  pillion uninstall --all --yes     # with every SidecarSet";

const CRDS_EXAMPLES: &str = "\
Examples:
  pillion crds | kubectl apply --server-side -f -";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(pillion completions bash)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn called_as_a_plugin_of_kubectl_it_says_so() {
        let usage = |called: &str| command(Some(OsStr::new(called))).render_usage().to_string();
        assert_eq!(usage("/usr/local/bin/kubectl-pillion"), "Usage: kubectl pillion <COMMAND>");
        assert_eq!(usage("kubectl-pillion.exe"), "Usage: kubectl pillion <COMMAND>");
        assert_eq!(usage("./pillion"), "Usage: pillion <COMMAND>");
    }

    #[test]
    fn a_draw_is_a_share_of_all_numbers() {
        assert_eq!(parse_draw("0"), Ok(0));
        assert_eq!(parse_draw("0.5"), Ok(1 << 63));
        assert_eq!(parse_draw(".250"), Ok(1 << 62));
        assert_eq!(parse_draw("1"), Ok(u64::MAX));
        assert_eq!(parse_draw("1.0"), Ok(u64::MAX));
        // Not below 31%: a share of 31/100 of all numbers does not include it, but the one before.
        let exact = u128::from(parse_draw("0.31").unwrap());
        assert!(exact * 100 >= 31 << 64 && (exact - 1) * 100 < 31 << 64);
        for text in ["-0.1", "1.1", "2", "NaN", "x", "", ".", "1e-1", "0.1234567890123456789"] {
            assert!(parse_draw(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_picture_is_known_by_the_end_of_its_name() {
        assert_eq!(parse_picture("a/b.SVG").map(|picture| picture.format), Ok(PictureFormat::Svg));
        assert_eq!(parse_picture("b.png").map(|picture| picture.format), Ok(PictureFormat::Png));
        assert!(parse_picture("b.jpeg").is_err() && parse_picture("png").is_err());
    }

    #[test]
    fn the_reference_has_every_command() {
        fn names(command: &clap::Command, path: &str) -> Vec<String> {
            let inner = command.get_subcommands().filter(|inner| inner.get_name() != "help");
            let inner = inner.flat_map(|inner| names(inner, &format!("{path} {}", inner.get_name())));
            std::iter::once(path.to_owned()).chain(inner).collect()
        }
        let text = cli_reference_markdown();
        let headings: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(headings, names(&Cli::command(), "pillion"));
        assert!(text.lines().all(|line| line.chars().count() <= 101), "help is wrapped");
    }
}
