//! `pillion manager`: the webhooks and controllers of a cluster, as a process.

use std::io::{self, IsTerminal as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::client::ClientBuilder;
use pillion_manager::{Certificates, Config, Manager, Metrics, Part, WebhookAddress};
use pillion_rightsizer::{UpdateRate, UsageSource};
use pillion_serve::Server;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::args::{ClusterArgs, LogFormat, ManagerArgs, RightsizingArgs, UsageSourceArg};
use crate::{Failure, chain, connect};

/// The port of the Service.
const SERVICE_PORT: u16 = 443;
/// How long requests may go on after the shutdown delay.
const GRACE: Duration = Duration::from_secs(10);

/// Runs until a signal asks it to end.
pub(crate) fn run(args: &ManagerArgs) -> Result<(), Failure> {
    log(args)?;
    // An error means that a provider has been installed already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(manage(args));
    // A watch that hangs must not hold up the end.
    runtime.shutdown_background();
    outcome
}

fn log(args: &ManagerArgs) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&args.log_level)
        .map_err(|error| Failure::misuse(format!("--log-level {}: {error}", args.log_level)))?;
    // stderr that is gone must not end the manager.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).log_internal_errors(false);
    let log = log.with_ansi(io::stderr().is_terminal());
    // An error means that there is a subscriber already, as in tests.
    let _ = match args.log_format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    };
    Ok(())
}

async fn manage(args: &ManagerArgs) -> Result<(), Failure> {
    let metrics = Metrics::default();
    let webhooks = bind("--bind-address", args.bind_address)?;
    let health = bind("--health-address", args.health_address)?;
    let manager = Manager::new(config(args, metrics).await?);
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
    let serves = args.controllers.contains(&Part::Webhook);
    let work = async {
        tokio::select! {
            started = manager.start() => started?,
            () = manager.stopped() => return Ok(()),
        }
        tracing::info!(version = env!("CARGO_PKG_VERSION"), controllers = ?args.controllers, "started");
        let serve = async { if serves { manager.serve(webhooks, delay, GRACE).await } else { Ok(()) } };
        tokio::try_join!(serve, manager.run()).map(drop)
    };
    let outcome = tokio::select! {
        outcome = work => outcome.map_err(|error: pillion_manager::Error| Failure::no(chain(&error))),
        () = stop => Ok(()),
    };
    serving_health.abort();
    outcome
}

async fn config(args: &ManagerArgs, metrics: Metrics) -> Result<Config, Failure> {
    let connection = connect::config(&ClusterArgs::from(&args.cluster)).await?;
    let usage = usage_source(&args.rightsizing, &connection)?;
    let client = ClientBuilder::try_from(connection)
        .map_err(|error| Failure::misuse(chain(&error)))?
        .with_layer(&metrics.count_requests())
        .build();
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
        rightsizing: rightsizing(&args.rightsizing, usage, config.rightsizing.clone()),
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

/// Where usage comes from: kubelets are asked as the API server is, with certificates of their own if need be.
fn usage_source(args: &RightsizingArgs, connection: &kube::Config) -> Result<UsageSource, Failure> {
    if args.usage_source == UsageSourceArg::MetricsApi {
        return Ok(UsageSource::MetricsApi);
    }
    let mut config = connection.clone();
    if let Some(path) = &args.kubelet_certificate_authority {
        let refuse =
            |reason: String| Failure::misuse(format!("--kubelet-certificate-authority {}: {reason}", path.display()));
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| refuse(error.to_string()))?;
        let certificates: Result<Vec<_>, _> = certificates.map(|der| der.map(|der| der.to_vec())).collect();
        let certificates = certificates.map_err(|error| refuse(error.to_string()))?;
        if certificates.is_empty() {
            return Err(refuse("there is no certificate in it".to_owned()));
        }
        config.root_cert = Some(certificates);
    }
    Ok(UsageSource::Kubelets(Box::new(config)))
}

fn rightsizing(
    args: &RightsizingArgs,
    usage: UsageSource,
    defaults: pillion_rightsizer::Config,
) -> pillion_rightsizer::Config {
    let pause = |time: SignedDuration| Duration::try_from(time).unwrap_or(Duration::from_mins(1));
    let mut config = pillion_rightsizer::Config {
        usage,
        recommender_name: args.recommender_name.clone(),
        recommender_interval: pause(args.recommender_interval),
        updater_interval: pause(args.updater_interval),
        rate: UpdateRate {
            evictions: args.eviction_rate_limit,
            resizes: args.resize_rate_limit,
            burst: args.eviction_rate_burst,
        },
        ..defaults
    };
    config.estimator.margin_fraction = args.recommendation_margin_fraction;
    config.estimator.cpu.target = args.target_cpu_percentile;
    config.estimator.memory.target = args.target_memory_percentile;
    config.estimator.pod_min_millicores = args.pod_recommendation_min_cpu_millicores;
    config.estimator.pod_min_bytes = args.pod_recommendation_min_memory_mb.saturating_mul(1024 * 1024);
    config.samples.memory.oom_bump_up_ratio = args.oom_bump_up_ratio;
    config.samples.memory.oom_min_bump_up = args.oom_min_bump_up_bytes;
    config.updater.min_replicas = args.min_replicas;
    config.updater.eviction_tolerance = args.eviction_tolerance;
    config.updater.in_place_skips_budget = args.in_place_skip_disruption_budget;
    config.updater.update_threshold = args.pod_update_threshold;
    config.updater.evict_after_oom = args.evict_after_oom_threshold;
    config
}

fn bind(flag: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address)
        .map_err(|error| Failure::misuse(format!("{flag} {address}: cannot listen: {}", crate::io_reason(&error))))
}
