//! The life of the process: connect, serve and reconcile until a signal arrives.

mod rightsizing;

use std::io::{self, IsTerminal as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::client::ClientBuilder;
use nix::errno::Errno;
use pillion_manager::{Certificates, Config, ControllerName, Leasing, Manager, Metrics, WebhookAddress};
use pillion_serve::Server;
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{SignalKind, signal};
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::{ClusterArgs, LogFormat, ManagerArgs};
use crate::{Error, chain, connect, io_reason};

const SERVICE_PORT: u16 = 443;
/// How long requests may go on after the shutdown delay.
const GRACE: Duration = Duration::from_secs(10);

/// Runs until a signal asks it to end.
pub fn run(args: &ManagerArgs) -> Result<(), Error> {
    log(args)?;
    connect::install_crypto();
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    // A thread of its own renews Leases while passes keep the others busy.
    let leasing = Builder::new_multi_thread().worker_threads(1).thread_name("leases").enable_all().build()?;
    let outcome = runtime.block_on(manage(args, leasing.handle()));
    // A watch that hangs must not hold up the end.
    runtime.shutdown_background();
    leasing.shutdown_background();
    outcome
}

fn log(args: &ManagerArgs) -> Result<(), Error> {
    let log = logger(&args.log_level, args.log_format, io::stderr().is_terminal(), io::stderr)?;
    // An error means that there is a subscriber already, as in tests.
    let _ = log.try_init();
    Ok(())
}

/// Writes what is at least as important as `level` says, for each module.
fn logger<W>(
    level: &str,
    format: LogFormat,
    is_coloured: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, Error>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(level).map_err(|error| Error::Misuse(format!("--log-level {level}: {error}")))?;
    // stderr that is gone must not end the manager.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).log_internal_errors(false);
    let log = log.with_ansi(is_coloured);
    Ok(match format {
        LogFormat::Text => Box::new(log.finish()),
        LogFormat::Json => Box::new(log.json().finish()),
    })
}

async fn manage(args: &ManagerArgs, leasing: &Handle) -> Result<(), Error> {
    let metrics = Metrics::default();
    let serves = args.controllers.contains(&ControllerName::Webhook);
    let webhooks = if serves { Some(bind("--bind-address", args.bind_address)?) } else { None };
    let health = bind("--health-address", args.health_address)?;
    let manager = Manager::new(config(args, metrics, leasing).await?);
    let health = Server::new(health, manager.health())?;
    let serving_health = tokio::spawn(health.run());
    let delay = Duration::from_secs(args.shutdown_delay);
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let stop = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        tracing::info!("ending: requests are drained, and Leases are given back");
        manager.stop();
        // Longer than everything that has to end may take.
        tokio::time::sleep(delay + 2 * GRACE).await;
        tracing::warn!("not everything ended in time");
    };
    let work = async {
        tokio::select! {
            started = manager.start() => started?,
            () = manager.stopped() => return Ok(()),
        }
        tracing::info!(version = env!("CARGO_PKG_VERSION"), controllers = ?args.controllers, "started");
        let serve = async {
            match webhooks {
                Some(listener) => manager.serve(listener, delay, GRACE).await,
                None => Ok(()),
            }
        };
        tokio::try_join!(serve, manager.run()).map(drop)
    };
    let outcome = tokio::select! {
        outcome = work => outcome.map_err(|error: pillion_manager::Error| Error::Failed(chain(&error))),
        () = stop => Ok(()),
    };
    serving_health.abort();
    outcome
}

async fn config(args: &ManagerArgs, metrics: Metrics, leasing: &Handle) -> Result<Config, Error> {
    let connection = connect::config(&ClusterArgs::from(&args.cluster)).await?;
    let usage = rightsizing::usage_source(&args.rightsizing.recommender, &connection)?;
    let history = rightsizing::history_source(&args.rightsizing)?;
    let client = |config| -> Result<kube::Client, Error> {
        let builder = ClientBuilder::try_from(config).map_err(|error| Error::Misuse(chain(&error)))?;
        Ok(builder.with_layer(&metrics.count_requests()).build())
    };
    let mut without_retries = connection.clone();
    without_retries.default_retry = false;
    let evicting = Some(client(without_retries.clone())?);
    let leasing = Leasing { client: in_runtime(leasing, || client(without_retries))?, runtime: leasing.clone() };
    let client = client(connection)?;
    let address = match &args.webhook_url {
        Some(url) => WebhookAddress::Url(url.clone()),
        None => WebhookAddress::Service {
            namespace: args.namespace.clone(),
            name: args.service_name.clone(),
            port: SERVICE_PORT,
        },
    };
    let certificates = match args.certificates.as_str() {
        "self" => Certificates::SelfSigned { lifetime: args.certificate_lifetime },
        folder => Certificates::Folder(folder.into()),
    };
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    let config = Config::new(client, Arc::new(Timestamp::now), address);
    Ok(Config {
        rightsizing: pillion_rightsizer::Config {
            evicting: evicting.clone(),
            usage,
            history,
            ..rightsizing::config(&args.rightsizing, config.rightsizing.clone())
        },
        evicting,
        leasing: Some(leasing),
        max_cpu_boost: args.rightsizing.scope.max_allowed_cpu_boost,
        namespace: args.namespace.clone(),
        revisions_namespace: args.revisions_namespace.clone(),
        certificates,
        gates: args.gates.gates(),
        parts: args.controllers.clone(),
        // A process that starts again on the same host is another candidate.
        identity: Some(format!("{host}_{:016x}", fastrand::u64(..))),
        installs_definition: false,
        take_over: args.take_over.clone(),
        wrap_image: args.wrap_image.clone(),
        metrics,
        ..config
    })
}

/// Makes something whose tasks are to run in a runtime.
fn in_runtime<T>(runtime: &Handle, make: impl FnOnce() -> T) -> T {
    let _entered = runtime.enter();
    make()
}

fn bind(flag: &str, address: SocketAddr) -> Result<TcpListener, Error> {
    listen(address, TcpListener::bind)
        .map_err(|error| Error::Misuse(format!("{flag} {address}: cannot listen: {}", io_reason(&error))))
}

/// Every address of IPv6 is every address of IPv4 as well, and stands for those alone where a machine has no IPv6.
fn listen<T>(address: SocketAddr, bind: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let is_missing = |error: &io::Error| {
        let code = error.raw_os_error().map(Errno::from_raw);
        matches!(code, Some(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL))
    };
    match bind(address) {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && is_missing(&error) => {
            bind((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        listener => listener,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What is logged, in memory.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_address_of_ipv6_takes_connections_of_ipv4() {
        let listener = bind("--bind-address", "[::]:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
    }

    #[test]
    fn where_there_is_no_ipv6_every_address_is_one_of_ipv4() {
        let rows = [
            ("[::]:9443", Errno::EAFNOSUPPORT, Some("0.0.0.0:9443")),
            ("[::]:9443", Errno::EADDRNOTAVAIL, Some("0.0.0.0:9443")),
            ("[::]:9443", Errno::EADDRINUSE, None),
            ("[::1]:9443", Errno::EADDRNOTAVAIL, None),
        ];
        for (address, error, expected) in rows {
            let bind =
                |address: SocketAddr| if address.is_ipv6() { Err(error.into()) } else { Ok(address.to_string()) };
            let bound = listen(address.parse().unwrap(), bind);
            assert_eq!(bound.ok().as_deref(), expected, "{address} {error}");
        }
    }

    #[test]
    fn every_module_has_its_level_and_lines_are_json_where_that_is_asked_for() {
        let logged = |format| {
            let lines = Lines::default();
            let writer = lines.clone();
            let log = logger("warn,pillion_lease=debug", format, false, move || writer.clone()).unwrap();
            tracing::subscriber::with_default(log, || {
                tracing::debug!(target: "pillion_lease", lease = "pillion-repair", "renewed");
                tracing::info!(target: "pillion_manager", "not shown");
                tracing::warn!(target: "pillion_manager", "shown");
            });
            let bytes = lines.0.lock().unwrap().clone();
            String::from_utf8(bytes).unwrap()
        };
        let json = logged(LogFormat::Json);
        let lines: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{json}");
        assert_eq!((&lines[0]["level"], &lines[0]["target"]), (&"DEBUG".into(), &"pillion_lease".into()));
        assert_eq!(lines[0]["fields"]["lease"], "pillion-repair");
        assert_eq!(lines[1]["fields"]["message"], "shown");
        let text = logged(LogFormat::Text);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("DEBUG pillion_lease: renewed lease=\"pillion-repair\""), "{text}");
        assert!(logger("pillion_lease=loud", LogFormat::Text, false, io::stderr).is_err());
    }
}
