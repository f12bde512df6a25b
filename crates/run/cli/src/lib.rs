//! The `pillion` command: arguments, reading and rendering. Decisions are made below, in `pillion-admission`.
//!
//! ```
//! use pillion::{manifest, render};
//!
//! let (documents, broken) = manifest::parse(&"pod.yaml".into(), "kind: Pod\nmetadata: {name: web}\n");
//! assert!(broken.is_empty());
//! assert_eq!(documents[0].title(), "Pod/web");
//! assert_eq!(render::yaml(&documents[0].value)?, "kind: Pod\nmetadata:\n  name: web\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  argv ──args──▶ command ─┬─ inject ─┐
//!                          ├─ why ────┼─ manifest ──▶ offline ──▶ pillion-admission ──▶ render ──▶ stdout
//!                          ├─ preview ┘  cluster ──▶ known, fleet ──▶ pillion-preview ───────┘
//!                          ├─ rollout ── cluster ──▶ pillion-rollout ──▶ status, tree, forecast; patches, evictions ──▶ a cluster
//!                          ├─ expr ───── pillion-expr ──▶ text, or plot ──▶ terminal, SVG, PNG
//!                          ├─ recommend ─ cluster ──▶ recommend::rows ──▶ render
//!                          ├─ crds ───── pillion-api ───▶ render
//!                          ├─ install, uninstall ── pillion-install ──▶ an API server
//!                          ├─ check ──── cluster ──▶ pillion-check ──▶ findings
//!                          ├─ manager ── pillion-manager ──▶ a cluster
//!                          └─ up ─────── pillion-embedded + pillion-manager ──▶ view ──▶ screen, or lines
//! ```
//!
//! # Invariants
//! - stdout is data; warnings and errors go to stderr.
//! - The exit status is 0 when it is done, 1 when the answer is no, 2 when the command was used wrongly.
//! - Nothing is printed to stdout when the answer is no, but by `preview`, `check`, and `rollout status` and `plan`, whose answer is the
//!   reason.
//! - What comes from a cluster is printed without characters that a terminal acts on.

pub mod args;
mod check;
mod cluster;
mod confirm;
mod connect;
mod expr;
pub mod inject;
mod install;
pub mod manifest;
pub mod offline;
mod preview;
mod recommend;
pub mod render;
mod rollout;
mod terminal;
mod up;
pub mod why;

pub use args::cli_reference_markdown;
pub(crate) use pillion_manager_program::{chain, io_reason};
pub use up::own_program;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::FromArgMatches as _;
use jiff::Timestamp;
use pillion_api::sidecarset::crd;
use pillion_api::{probe_marker, vpa};
use pillion_gates::Gates;
use pillion_note::Draw;
use serde_json::Value;

use crate::args::{
    Cli, Command, CrdsArgs, DecisionArgs, ExprCommand, InjectArgs, InjectOutput, ObjectOutput, Output, PreviewArgs,
    StrictnessArgs, UpArgs, WhyArgs,
};
use crate::cluster::known::Wanted;
use crate::cluster::read::Reader;
use crate::manifest::{Document, Manifests, ReadError};
use crate::offline::{Inputs, Reading};

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The answer is no: these are the reasons.
    No(Vec<String>),
    /// The command was used wrongly.
    Misuse(Vec<String>),
    /// stdout or a file could not be written.
    Write(io::Error),
    /// It was reported to the user already.
    Reported(ExitCode),
}

impl Failure {
    pub(crate) fn no(reason: impl Into<String>) -> Failure {
        Failure::No(vec![reason.into()])
    }

    pub(crate) fn misuse(reason: impl Into<String>) -> Failure {
        Failure::Misuse(vec![reason.into()])
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Write(error)
    }
}

impl From<serde_saphyr::ser::Error> for Failure {
    fn from(error: serde_saphyr::ser::Error) -> Failure {
        Failure::Write(io::Error::other(error))
    }
}

impl From<pillion_manager_program::Error> for Failure {
    fn from(error: pillion_manager_program::Error) -> Failure {
        match error {
            pillion_manager_program::Error::Misuse(reason) => Failure::misuse(reason),
            pillion_manager_program::Error::Failed(reason) => Failure::no(reason),
            pillion_manager_program::Error::Io(error) => Failure::Write(error),
        }
    }
}

/// Runs the program with these arguments, the first of which is its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let command = args::command(arguments.first().map(OsString::as_os_str));
    let cli = match command.try_get_matches_from(arguments).and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to stdout; a reader that has seen enough of it is no mistake.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match dispatch(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

/// Reports to the user why. Returns the exit status.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    match failure {
        Failure::No(reasons) => say_errors(reasons, 1),
        Failure::Misuse(reasons) => say_errors(reasons, 2),
        // `pillion … | head` has what it wanted.
        Failure::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Failure::Write(error) => say_errors(&[format!("cannot write: {error}")], 1),
        Failure::Reported(status) => *status,
    }
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Inject(args) => run_inject(&args),
        Command::Up(args) => run_up(&args),
        Command::Manager(args) => Ok(pillion_manager_program::run(&args)?),
        Command::Why(args) => run_why(&args),
        Command::Preview(args) => run_preview(&args),
        Command::Recommend(args) => recommend::run(&args),
        Command::Rollout(command) => rollout::run(&command),
        Command::Expr(ExprCommand::Eval(args)) => print(&expr::eval(&args)?),
        Command::Expr(ExprCommand::Check(args)) => print(&expr::check(&args)?),
        Command::Expr(ExprCommand::Plot(args)) => print_coloured(&expr::plot(&args)?),
        Command::Install(args) => install::install(&args),
        Command::Uninstall(args) => install::uninstall(&args),
        Command::Check(args) => check::run(&args),
        Command::Crds(CrdsArgs { output }) => print(&match output {
            ObjectOutput::Yaml => crds_yaml()?,
            ObjectOutput::Json => render::json_list(&definitions()),
        }),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut args::command(None), "pillion", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
}

/// The definitions of the kinds that Pillion serves, as `pillion crds` prints them.
pub fn crds_yaml() -> Result<String, serde_saphyr::ser::Error> {
    render::yaml_stream(&definitions())
}

fn definitions() -> [Value; 4] {
    [crd::sidecarset(), vpa::crd::vertical_pod_autoscaler(), vpa::crd::checkpoint(), probe_marker::crd()]
}

fn run_inject(args: &InjectArgs) -> Result<(), Failure> {
    let manifests = &args.manifests;
    let texts = Manifests::open(&manifests.filenames, &mut io::stdin());
    let inputs = load(&texts, &manifests.namespace, &manifests.decision, &manifests.strictness)?;
    // Nothing is printed when something is wrong: the text may be on its way into a cluster.
    let mut rendered = Rendered::new(args.output);
    let mut failure = None;
    let warnings = inject::inject(&texts, &inputs, now(manifests.now), |outcome| {
        if failure.is_none() {
            failure = rendered.add(&outcome).err();
        }
    });
    let warnings = warnings.map_err(Failure::No)?;
    failure.map_or(Ok(()), |failure| Err(Failure::from(failure)))?;
    say_warnings(&warnings);
    match rendered {
        Rendered::Yaml(stream) => print(&stream.finish()),
        Rendered::Json(list) => print(&list.finish()),
        Rendered::Diff(text) => print_coloured(&text),
    }
}

/// What `pillion inject` prints, as far as it has come.
enum Rendered {
    Yaml(render::YamlStream),
    Json(render::JsonList),
    Diff(String),
}

impl Rendered {
    fn new(output: InjectOutput) -> Rendered {
        match output {
            InjectOutput::Yaml => Rendered::Yaml(render::YamlStream::default()),
            InjectOutput::Json => Rendered::Json(render::JsonList::default()),
            InjectOutput::Diff => Rendered::Diff(String::new()),
        }
    }

    fn add(&mut self, outcome: &inject::Outcome) -> Result<(), serde_saphyr::ser::Error> {
        match self {
            Rendered::Yaml(stream) => stream.add(outcome.after())?,
            Rendered::Json(list) => list.add(outcome.after()),
            Rendered::Diff(text) => {
                text.push_str(&render::diff(&outcome.document.full_title(), &outcome.document.value, outcome.after())?);
            }
        }
        Ok(())
    }
}

fn run_up(args: &UpArgs) -> Result<(), Failure> {
    let documents = if args.paths.is_empty() { Vec::new() } else { read(&args.paths)? };
    up::run(args, documents)
}

fn run_why(args: &WhyArgs) -> Result<(), Failure> {
    let explanations = if args.filenames.is_empty() {
        vec![why_running(args)?]
    } else {
        let namespace = args.cluster.namespace.as_deref().unwrap_or("default");
        let manifests = Manifests::open(&args.filenames, &mut io::stdin());
        let inputs = load(&manifests, namespace, &args.decision, &args.strictness)?;
        why::explain(&manifests, &inputs, now(args.now)).map_err(Failure::No)?
    };
    if explanations.is_empty() {
        return Err(Failure::no("there is no pod and no workload in these manifests"));
    }
    if args.output == Output::Text {
        return print_text(&explanations.iter().map(why::text).collect::<Vec<_>>().join("\n"));
    }
    let value = serde_json::to_value(&explanations).map_err(io::Error::from)?;
    print(&rendered(&value, args.output)?)
}

fn why_running(args: &WhyArgs) -> Result<why::Explanation, Failure> {
    let mut warnings = Vec::new();
    let explanation = block_on(async {
        let connection = connect::connect(&args.cluster).await?;
        let wanted = wanted(Some(&connection.namespace), &args.revisions.revisions_namespace, &args.decision);
        let (reader, user) = (Reader::new(connection.client), args.decision.gates.settings());
        why::explain_running(&reader, &args.target, wanted, &user, now(args.now), &mut warnings).await
    })?;
    say_warnings(&warnings);
    explanation
}

fn run_preview(args: &PreviewArgs) -> Result<(), Failure> {
    let mut warnings = Vec::new();
    let preview = if args.offline {
        let namespace = args.cluster.namespace.as_deref().unwrap_or("default");
        let load = |manifests: &Manifests| load(manifests, namespace, &args.decision, &args.strictness);
        let manifests = Manifests::open(&args.filenames, &mut io::stdin());
        let inputs = load(&manifests)?;
        let base = Manifests::open(&args.base, &mut io::stdin());
        let base = if args.base.is_empty() { None } else { Some(load(&base)?) };
        preview::on_manifests(&manifests, &inputs, base.as_ref())
    } else {
        let documents = read(&args.filenames)?;
        block_on(async {
            let connection = connect::connect(&args.cluster).await.map_err(|failure| match failure {
                Failure::Misuse(reasons) => Failure::Misuse(
                    reasons
                        .into_iter()
                        .map(|reason| format!("{reason}; --offline previews manifests without a cluster"))
                        .collect(),
                ),
                other => other,
            })?;
            let namespace = args.cluster.namespace.as_deref();
            let wanted = wanted(namespace, &args.revisions.revisions_namespace, &args.decision);
            let (reader, user) = (Reader::new(connection.client), args.decision.gates.settings());
            let unknown_fields = args.strictness.unknown_fields();
            preview::on_cluster(&reader, documents, wanted, &user, unknown_fields, &mut warnings).await
        })?
    };
    say_warnings(&warnings);
    let preview = preview?;
    if args.output == Output::Text {
        print_text(&preview::text(&preview))?;
    } else {
        print(&rendered(&serde_json::to_value(&preview).map_err(io::Error::from)?, args.output)?)?;
    }
    let refused = preview.refused().count();
    if refused == 0 {
        return Ok(());
    }
    let workloads = if refused == 1 { "1 workload" } else { &format!("{refused} workloads") };
    Err(Failure::no(format!("pods of {workloads} would be refused")))
}

/// What to read of a cluster.
fn wanted<'a>(namespace: Option<&'a str>, revisions_namespace: &'a str, decision: &'a DecisionArgs) -> Wanted<'a> {
    let draw = Draw { random: decision.draw, ..Draw::default() };
    let wrap_image = decision.wrap_image.as_deref();
    Wanted { namespace, revisions_namespace, gates: Gates::default(), wrap_image, draw }
}

/// Runs what talks to a cluster.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work))
}

/// A value for a program.
pub(crate) fn rendered(value: &Value, output: Output) -> Result<String, Failure> {
    if output == Output::Json { Ok(render::json_text(value)) } else { rendered_yaml(value) }
}

/// A value as YAML.
pub(crate) fn rendered_yaml(value: &Value) -> Result<String, Failure> {
    Ok(render::yaml(value)?)
}

/// Reads the manifests.
fn read(paths: &[PathBuf]) -> Result<Vec<Document>, Failure> {
    manifest::read(paths, &mut io::stdin()).map_err(unreadable)
}

fn unreadable(errors: Vec<ReadError>) -> Failure {
    let is_misuse = errors.iter().any(|error| matches!(error, ReadError::Unreadable { .. }));
    let reasons = errors.iter().map(ToString::to_string).collect();
    if is_misuse { Failure::Misuse(reasons) } else { Failure::No(reasons) }
}

/// Reads what decides about others, with what else the user has decided.
fn load(
    manifests: &Manifests,
    namespace: &str,
    decision: &DecisionArgs,
    strictness: &StrictnessArgs,
) -> Result<Inputs, Failure> {
    let reading = Reading {
        namespace: namespace.to_owned(),
        draw: Draw { random: decision.draw, ..Draw::default() },
        gates: decision.gates.gates(),
        unknown_fields: strictness.unknown_fields(),
    };
    let mut warnings = Vec::new();
    let inputs = offline::load(manifests, &reading, &mut warnings).map_err(unreadable)?;
    // An unknown field may well be why a known one is missing.
    say_warnings(&warnings);
    let mut inputs = inputs.map_err(Failure::No)?;
    inputs.offline.snapshot.sidecar_means.wrap_image.clone_from(&decision.wrap_image);
    Ok(inputs)
}

fn now(given: Option<Timestamp>) -> Timestamp {
    given.unwrap_or_else(Timestamp::now)
}

/// Writes data to stdout, to the letter.
fn print(text: &str) -> Result<(), Failure> {
    write(io::stdout().lock(), text)
}

/// Writes text for people to stdout. What comes from a cluster is in it.
fn print_text(text: &str) -> Result<(), Failure> {
    print(&terminal::clean(text))
}

/// Writes text with colours to stdout; they are left out where they cannot be seen or are not wanted.
fn print_coloured(text: &str) -> Result<(), Failure> {
    write(anstream::stdout().lock(), text)
}

fn write(mut stdout: impl Write, text: &str) -> Result<(), Failure> {
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

fn say_errors(reasons: &[String], status: u8) -> ExitCode {
    const ERROR: Style = AnsiColor::Red.on_default().bold();
    for reason in reasons {
        let reason = terminal::clean(reason);
        say(&format!("{ERROR}error:{ERROR:#} {reason}"));
    }
    ExitCode::from(status)
}

/// As kubectl shows the warnings of an API server.
fn say_warnings(warnings: &[String]) {
    const WARNING: Style = AnsiColor::Yellow.on_default().bold();
    for warning in warnings {
        let warning = terminal::clean(warning);
        say(&format!("{WARNING}Warning:{WARNING:#} {warning}"));
    }
}

/// Writes a line to stderr. `eprintln!` would panic when the terminal is gone, and then nobody is there to read it.
pub(crate) fn say(line: &str) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fmt;

    use pillion_gates::Settings;

    use super::*;

    /// An error that says this, with its cause.
    #[derive(Debug)]
    struct Said(&'static str, Option<Box<Said>>);

    impl fmt::Display for Said {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Said {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(self.1.as_deref()?)
        }
    }

    #[test]
    fn a_cause_that_was_said_already_is_not_said_again() {
        let refused = || Some(Box::new(Said("connection refused", None)));
        let client = |text: &'static str| Some(Box::new(Said(text, refused())));
        let rows = [
            (Said("cannot list pods", client("client error")), "cannot list pods: client error: connection refused"),
            (Said("client error", client("client error")), "client error: connection refused"),
            (Said("a: b: connection refused", client("b")), "a: b: connection refused"),
        ];
        for (error, expected) in rows {
            assert_eq!(chain(&error), expected);
        }
    }

    #[test]
    fn a_gate_that_the_user_switches_off_is_one_that_the_user_sets() {
        let settings = |flags: &[&str]| {
            let arguments = ["pillion", "why", "web-0"].into_iter().chain(flags.iter().copied());
            let matches = args::command(None).try_get_matches_from(arguments).unwrap();
            let Command::Why(args) = Cli::from_arg_matches(&matches).unwrap().command else { panic!("{flags:?}") };
            args.decision.gates.settings()
        };
        assert_eq!(settings(&[]), Settings::default());
        let flags = ["--feature-gates=SidecarField=false", "--feature-gates=InPlace=true"];
        assert_eq!(settings(&flags), "InPlace=true,SidecarField=false".parse().unwrap());
    }
}
