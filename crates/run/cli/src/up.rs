//! `pillion up`: an embedded cluster with the manager, the user's manifests in it, and a view of what happens.
//!
//! ```text
//!  manifests ─▶ engine + manager ─▶ apply ─▶ watch ─▶ view ─┬─▶ screen   (a terminal)
//!                                                           └─▶ lines    (anything else)
//!  Ctrl-C, or all Jobs have ended ─▶ every process is ended, within its grace period ─▶ exit status
//! ```

mod apply;
mod home;
mod lines;
mod logs;
mod own_images;
mod screen;
mod view;
mod watch;

use std::io::{self, IsTerminal as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt as _};
use pillion_embedded::{Clock, Containers, Embedded, ImageMap};
use pillion_gates::{Gate, Gates};
use pillion_manager::{ControllerName, Manager, NAMESPACE, WebhookAddress};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch as channel;
use tokio::time::Instant;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use self::home::Home;
pub use self::own_images::own_program;
use self::own_images::{WRAP_IMAGE, with_own};
use self::screen::{Header, Screen};
use self::view::{View, short};
use crate::args::UpArgs;
use crate::manifest::Document;
use crate::{Failure, chain};

/// The least time between two views that are drawn, or two batches of lines.
const BEAT: Duration = Duration::from_millis(100);
/// The Service at which the API server is to find the manager. It does not exist: the engine calls the manager in process.
const SERVICE: &str = "pillion-webhook";
/// The node measures usage this often: recommendations and resizes are seen while one watches. Elsewhere it is once a minute.
const RIGHTSIZING: Duration = Duration::from_secs(15);
/// After Ctrl-C nothing runs longer than this, whatever a pod's grace period says.
const LONGEST_GRACE: Duration = Duration::from_mins(1);

/// Controllers of a new cluster do their first work within this.
const LONGEST_SETUP: Duration = Duration::from_secs(10);

/// An end that takes longer than this is talked about.
const SILENCE: Duration = Duration::from_secs(3);

/// How a run ended.
enum End {
    /// The Jobs have all ended.
    Done,
    /// The user wants it to end.
    Interrupted,
}

/// Runs the cluster until the Jobs have ended, or the user says so.
pub(crate) fn run(args: &UpArgs, documents: Vec<Document>) -> Result<(), Failure> {
    if args.until_done && !documents.iter().any(is_job) {
        return Err(Failure::misuse("--until-done waits for Jobs, and there is none in these manifests"));
    }
    let images = match &args.images {
        Some(path) => ImageMap::read(path)
            .map_err(|error| Failure::misuse(format!("--images {}: {}", path.display(), chain(&error))))?,
        None => ImageMap::default(),
    };
    // What goes wrong behind the scenes; RUST_LOG shows more. The live view has the terminal for itself.
    if !is_live(args) || std::env::var_os("RUST_LOG").is_some() {
        let filter = EnvFilter::builder().with_default_directive(LevelFilter::ERROR.into()).from_env_lossy();
        // An error means that somebody else listens already.
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
        // It would panic over a stderr that is gone.
        let _ = log.log_internal_errors(false).try_init();
    }
    // An error means that one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(session(args, documents, images));
    // A watch or a probe that hangs must not hold up the end.
    runtime.shutdown_background();
    outcome
}

/// Whether it is a Job of Kubernetes' own: only of these is it known when they have ended.
fn is_job(document: &Document) -> bool {
    document.kind() == "Job" && document.api_version().starts_with("batch/")
}

/// Whether the view is drawn, instead of written as lines.
fn is_live(args: &UpArgs) -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
    let has_size = || terminal_size::terminal_size_of(io::stdout()).is_some();
    !args.plain && !is_dumb && io::stdout().is_terminal() && has_size()
}

async fn session(args: &UpArgs, documents: Vec<Document>, images: ImageMap) -> Result<(), Failure> {
    let mut interrupts = Interrupts::new()?;
    let home = Home::new(args.data.as_deref()).map_err(Failure::misuse)?;
    let view = View {
        began: Some(Timestamp::now()),
        is_without_webhooks: !args.controllers.contains(&ControllerName::Webhook),
        ..View::default()
    };
    let engine = start(args, &home, images).await?;
    let outcome = tokio::select! {
        outcome = play(args, &home, &engine, documents, view) => outcome,
        () = interrupts.next() => Ok(End::Interrupted),
    };
    // Containers may take a while to end; what went wrong is reported before.
    let outcome = outcome.map_err(|failure| Failure::Reported(crate::report(&failure)));
    let stopping = engine.stop(LONGEST_GRACE);
    let say_so = async {
        tokio::time::sleep(SILENCE).await;
        crate::say("waiting for containers to end; Ctrl-C ends them at once");
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = stopping => {}
        () = say_so => {}
        // Containers end with this program: nothing is left behind.
        () = interrupts.next() => crate::say("ended at once"),
    }
    match outcome {
        Ok(End::Interrupted) if args.until_done => Err(Failure::no("interrupted before all Jobs had ended")),
        other => other.map(drop),
    }
}

async fn start(args: &UpArgs, home: &Home, images: ImageMap) -> Result<Embedded, Failure> {
    let containers = if args.simulate {
        Containers::Simulated { images }
    } else {
        Containers::Processes { images: with_own(images), supervisor: None }
    };
    let config = pillion_embedded::Config {
        folder: home.folder().to_path_buf(),
        keep: home.objects(),
        listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, args.port))),
        containers,
        clock: Clock::system(),
        seed: None,
        gates: args.gates.gates_of_up(),
    };
    let engine = Embedded::start_without_controllers(config).await.map_err(|error| Failure::no(chain(&error)))?;
    engine.write_kubeconfig(&home.kubeconfig()).map_err(|error| Failure::no(chain(&error)))?;
    Ok(engine)
}

/// Starts the manager, applies the manifests and shows what happens.
async fn play(
    args: &UpArgs,
    home: &Home,
    engine: &Embedded,
    documents: Vec<Document>,
    view: View,
) -> Result<End, Failure> {
    let began = Instant::now();
    let client = engine.client();
    let manager = start_manager(engine, args).await.map_err(Failure::no)?;
    // Pods of workloads that an earlier run has kept get their sidecars, too.
    engine.start_controllers();
    default_service_account(&client).await;
    let kubeconfig = quoted(&home.kubeconfig());
    let enabled = enabled(args.gates.gates_of_up());
    let live = is_live(args);
    let screen = if live { Some(Screen::open()?) } else { None };
    let view = channel::Sender::new(view);
    let finished = channel::Sender::new(false);
    let work = async {
        let mut jobs = Vec::new();
        let defined = apply::defined(&documents);
        for document in apply::in_order(documents) {
            let applied = apply::apply(&client, &document, &defined).await.map_err(Failure::no)?;
            if is_job(&document) {
                jobs.push((applied.namespace().unwrap_or_default(), applied.name_any()));
            }
        }
        if args.until_done {
            // The sender is right here.
            let _ = view.subscribe().wait_for(|view| view.jobs_have_ended(&jobs)).await;
            finished.send_replace(true);
        }
        std::future::pending::<Result<(), Failure>>().await
    };
    tokio::select! {
        shown = show(screen, (&kubeconfig, enabled.as_deref()), began, &view, finished.subscribe()) => shown?,
        outcome = work => outcome?,
        ended = manager.run() => {
            let reason = ended.err().map_or_else(|| "it was stopped".to_owned(), |error| chain(&error));
            return Err(Failure::no(format!("the manager has ended: {reason}")));
        }
        () = watch::keep(client.clone(), &view) => return Err(Failure::no("the watches have ended by themselves")),
    }
    let (summary, failed) = lines::summary(&view.borrow());
    // Whoever read the lines has read this already.
    if live {
        crate::print(&format!("{}\n", summary.join("\n")))?;
    }
    if failed.is_empty() {
        return Ok(End::Done);
    }
    for key in &failed {
        for line in logs::last_words(&client, key).await {
            crate::say(&line);
        }
    }
    Err(Failure::No(failed.iter().map(|key| format!("Job {} did not complete", short(key))).collect()))
}

/// Returns when the namespace `default` has its service account: before that the API server refuses pods.
async fn default_service_account(client: &kube::Client) {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let exists = await_condition(accounts, "default", |account: Option<&ServiceAccount>| account.is_some());
    // If it does not appear, the API server says so to whoever creates a pod.
    let _ = tokio::time::timeout(LONGEST_SETUP, exists).await;
}

/// The gates that are switched on, in plain sight.
fn enabled(gates: Gates) -> Option<String> {
    let names: Vec<&str> = Gate::ALL.into_iter().filter(|gate| gates.is_enabled(*gate)).map(Gate::name).collect();
    (!names.is_empty()).then(|| format!("feature gates: {}", names.join(", ")))
}

async fn start_manager(engine: &Embedded, args: &UpArgs) -> Result<Manager, String> {
    let (gates, parts) = (args.gates.gates_of_up(), args.controllers.clone());
    // There is no Service: the webhooks are in this process.
    let url = format!("https://{SERVICE}.{NAMESPACE}.svc:443");
    let address = WebhookAddress::Url(url.clone());
    let clock = engine.server().clock();
    let defaults = pillion_manager::Config::new(engine.client(), Arc::new(move || clock.now()), address);
    let rightsizing = pillion_rightsizer::Config {
        recommender_interval: RIGHTSIZING,
        updater_interval: RIGHTSIZING,
        ..defaults.rightsizing.clone()
    };
    let serves = parts.contains(&ControllerName::Webhook);
    // A simulated container runs no wrapper, which could end it.
    let wrap_image = (!args.simulate).then(|| WRAP_IMAGE.to_owned());
    let config = pillion_manager::Config { gates, parts, rightsizing, wrap_image, ..defaults };
    let manager = Manager::new(config);
    if serves {
        engine.server().register_webhook(&url, manager.webhooks());
    }
    manager.start().await.map_err(|error| chain(&error))?;
    if serves {
        manager.register().await.map_err(|error| chain(&error))?;
    }
    Ok(manager)
}

/// Shows every change, until all has been shown after the end.
async fn show(
    mut screen: Option<Screen>,
    (kubeconfig, enabled): (&str, Option<&str>),
    began: Instant,
    view: &channel::Sender<View>,
    finished: channel::Receiver<bool>,
) -> io::Result<()> {
    let header = Header { kubeconfig: kubeconfig.to_owned(), gates: enabled.map(str::to_owned) };
    if screen.is_none() {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "export KUBECONFIG={kubeconfig}")?;
        if let Some(gates) = enabled {
            writeln!(stdout, "{gates}")?;
        }
    }
    let mut old = View::default();
    let mut beat = tokio::time::interval(BEAT);
    loop {
        beat.tick().await;
        let last = *finished.borrow();
        let new = view.borrow().clone();
        if let Some(screen) = &mut screen {
            screen.draw(&header, &new, began.elapsed(), Timestamp::now())?;
        } else {
            let mut stdout = io::stdout().lock();
            for line in lines::changes(&old, &new) {
                writeln!(stdout, "{:>6.1}s  {line}", began.elapsed().as_secs_f64())?;
            }
            stdout.flush()?;
        }
        if last {
            return Ok(());
        }
        old = new;
    }
}

/// The signals that ask a program to end. Without a handler they would end it at once, and leave its folder behind.
struct Interrupts {
    signals: Vec<Signal>,
}

impl Interrupts {
    fn new() -> io::Result<Interrupts> {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
            SignalKind::quit(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ];
        Ok(Interrupts { signals: kinds.into_iter().map(signal).collect::<io::Result<_>>()? })
    }

    async fn next(&mut self) {
        let signals = self.signals.iter_mut().map(|signal| Box::pin(signal.recv()));
        futures::future::select_all(signals).await;
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    if path.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-+:@,".contains(letter)) {
        return path;
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_job_of_kubernetes_own_is_waited_for() {
        for (api_version, expected) in
            [("batch/v1", true), ("batch.example.com/v1", false), ("jobs.example.com/v1", false)]
        {
            let text = format!("{{apiVersion: {api_version}, kind: Job, metadata: {{name: a}}}}");
            let (documents, _) = crate::manifest::parse(&"a.yaml".into(), &text);
            assert_eq!(documents.iter().map(is_job).collect::<Vec<_>>(), [expected], "{api_version}");
        }
    }

    #[test]
    fn a_path_is_quoted_when_a_shell_would_take_it_apart() {
        let rows = [
            ("/tmp/pillion-aB3/kubeconfig", "/tmp/pillion-aB3/kubeconfig"),
            ("/home/my data/kubeconfig", "'/home/my data/kubeconfig'"),
            ("/home/$x/it's", r"'/home/$x/it'\''s'"),
        ];
        for (path, expected) in rows {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }
}
