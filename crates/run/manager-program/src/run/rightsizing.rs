//! From the flags of rightsizing to its settings.

use std::fs;
use std::time::Duration;

use jiff::SignedDuration;
use pillion_api::vpa::ResourceList;
use pillion_rightsize::amount;
use pillion_rightsizer::{
    Config, HistorySource, LeaseName, Namespaces, Prometheus, PrometheusLogin, UpdateRate, UsageSource,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::args::{PrometheusArgs, RecommenderArgs, RightsizingArgs, StorageArg, UpdaterArgs, UsageSourceArg};
use crate::{Error, io_reason};

/// Where usage comes from: kubelets are asked as the API server is, with certificates of their own if need be.
pub(super) fn usage_source(args: &RecommenderArgs, connection: &kube::Config) -> Result<UsageSource, Error> {
    if args.usage_source == UsageSourceArg::MetricsApi {
        return Ok(UsageSource::MetricsApi);
    }
    let mut config = connection.clone();
    if let Some(path) = &args.kubelet_certificate_authority {
        let refuse =
            |reason: String| Error::Misuse(format!("--kubelet-certificate-authority {}: {reason}", path.display()));
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

/// Where the history from before a start comes from.
pub(super) fn history_source(args: &RightsizingArgs) -> Result<HistorySource, Error> {
    if args.recommender.storage == StorageArg::Checkpoint {
        return Ok(HistorySource::Checkpoints);
    }
    let of = &args.prometheus;
    Ok(HistorySource::Prometheus(Box::new(Prometheus {
        address: of.prometheus_address.trim_end_matches('/').to_owned(),
        insecure: of.prometheus_insecure,
        login: login(of)?,
        query_timeout: of.prometheus_query_timeout,
        length: of.history_length,
        resolution: of.history_resolution,
        cadvisor_job: of.prometheus_cadvisor_job_name.clone(),
        cpu_metric: of.history_cpu_metric.clone(),
        memory_metric: of.history_memory_metric.clone(),
        container_namespace_label: of.container_namespace_label.clone(),
        container_pod_label: of.container_pod_name_label.clone(),
        container_name_label: of.container_name_label.clone(),
        pod_labels_metric: of.metric_for_pod_labels.clone(),
        pod_label_prefix: of.pod_label_prefix.clone(),
        pod_namespace_label: of.pod_namespace_label.clone(),
        pod_name_label: of.pod_name_label.clone(),
    })))
}

/// A token wins over a password, as upstream.
fn login(args: &PrometheusArgs) -> Result<PrometheusLogin, Error> {
    if let Some(token) = &args.prometheus_bearer_token {
        return Ok(PrometheusLogin::Bearer(token.clone()));
    }
    if let Some(path) = &args.prometheus_bearer_token_file {
        let token = fs::read_to_string(path).map_err(|error| {
            let reason = io_reason(&error);
            Error::Misuse(format!("--prometheus-bearer-token-file {}: {reason}", path.display()))
        })?;
        return Ok(PrometheusLogin::Bearer(token.trim().to_owned()));
    }
    let or_environment = |flag: &Option<String>, variable: &str| flag.clone().or_else(|| std::env::var(variable).ok());
    let username = or_environment(&args.username, "PROMETHEUS_USERNAME").filter(|it| !it.is_empty());
    let password = or_environment(&args.password, "PROMETHEUS_PASSWORD").filter(|it| !it.is_empty());
    Ok(match (username, password) {
        (Some(username), Some(password)) => PrometheusLogin::Basic { username, password },
        _ => PrometheusLogin::None,
    })
}

/// The settings of the recommender and the updater.
pub(super) fn config(args: &RightsizingArgs, defaults: Config) -> Config {
    let mut config = Config {
        namespaces: Namespaces {
            only: args.scope.vpa_object_namespace.clone().filter(|name| !name.is_empty()),
            ignored: args.scope.ignored_vpa_object_namespaces.iter().filter(|name| !name.is_empty()).cloned().collect(),
        },
        ..defaults
    };
    config.status_lease =
        LeaseName { namespace: args.scope.status_lease_namespace.clone(), name: args.scope.status_lease_name.clone() };
    config.status_lease_interval = pause(args.scope.status_lease_update_interval);
    set_recommender(&mut config, &args.recommender);
    set_updater(&mut config, &args.updater);
    config
}

fn set_recommender(config: &mut Config, args: &RecommenderArgs) {
    config.recommender_name.clone_from(&args.recommender_name);
    config.recommender_interval = pause(args.recommender_interval);
    config.checkpoints_gc_interval = args.checkpoints_gc_interval;
    config.checkpoints_timeout = pause(args.checkpoints_timeout);
    config.update_workers = args.update_worker_count;
    config.rounds_to_whole_cores = args.cpu_integer_post_processor_enabled;
    config.format.round_millicores = args.round_cpu_millicores;
    config.format.round_bytes = args.round_memory_bytes;
    config.format.humanize_memory = args.humanize_memory;
    let most = [
        ("cpu", args.container_recommendation_max_allowed_cpu),
        ("memory", args.container_recommendation_max_allowed_memory),
    ];
    let most = most.into_iter().filter_map(|(resource, most)| Some((resource.to_owned(), most?)));
    config.max_allowed = most.collect::<ResourceList>();
    let estimator = &mut config.estimator;
    estimator.margin_fraction = args.recommendation_margin_fraction;
    estimator.cpu.target = args.target_cpu_percentile;
    estimator.cpu.lower = args.recommendation_lower_bound_cpu_percentile;
    estimator.cpu.upper = args.recommendation_upper_bound_cpu_percentile;
    estimator.memory.target = args.target_memory_percentile;
    estimator.memory.lower = args.recommendation_lower_bound_memory_percentile;
    estimator.memory.upper = args.recommendation_upper_bound_memory_percentile;
    estimator.cpu_confidence_interval = args.confidence_interval_cpu;
    estimator.memory_confidence_interval = args.confidence_interval_memory;
    estimator.pod_min_millicores = amount(args.pod_recommendation_min_cpu_millicores);
    estimator.pod_min_bytes = amount(args.pod_recommendation_min_memory_mb * 1024.0 * 1024.0);
    let samples = &mut config.samples;
    samples.cpu_half_life = args.cpu_histogram_decay_half_life;
    samples.memory_half_life = args.memory_histogram_decay_half_life;
    samples.memory.interval = args.memory_aggregation_interval;
    samples.memory.interval_count = args.memory_aggregation_interval_count;
    samples.memory.oom_bump_up_ratio = args.oom_bump_up_ratio;
    samples.memory.oom_min_bump_up = amount(args.oom_min_bump_up_bytes);
}

fn set_updater(config: &mut Config, args: &UpdaterArgs) {
    config.updater_interval = pause(args.updater_interval);
    config.needs_admission = args.use_admission_controller_status;
    config.admission_lease = LeaseName {
        namespace: args.admission_controller_status_lease_namespace.clone(),
        name: args.admission_controller_status_lease_name.clone(),
    };
    config.admission_lease_timeout = args.admission_controller_status_lease_timeout;
    config.rate = UpdateRate {
        evictions: args.eviction_rate_limit,
        resizes: args.resize_rate_limit,
        burst: args.eviction_rate_burst,
    };
    let updater = &mut config.updater;
    updater.min_replicas = args.min_replicas;
    updater.eviction_tolerance = args.eviction_tolerance;
    updater.in_place_skips_budget = args.in_place_skip_disruption_budget;
    updater.update_threshold = args.pod_update_threshold;
    updater.evict_after_oom = args.evict_after_oom_threshold;
    updater.lifetime_threshold = args.in_recommendation_bounds_eviction_lifetime_threshold;
}

fn pause(time: SignedDuration) -> Duration {
    Duration::try_from(time).unwrap_or(Duration::from_mins(1))
}
