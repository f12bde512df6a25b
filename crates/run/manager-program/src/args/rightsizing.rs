//! The flags of the recommender and the updater, by upstream's names.

// Documentation of arguments is what `--help` prints: words in it stand without backticks.
#![allow(clippy::doc_markdown)]

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use jiff::SignedDuration;
use pillion_quantity::Quantity;

use super::parse_bound;
use super::prometheus::PrometheusArgs;

/// The recommender and the updater of `pillion manager`.
#[derive(Debug, Args)]
pub struct RightsizingArgs {
    /// Whose autoscalers.
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// The recommender.
    #[command(flatten)]
    pub recommender: RecommenderArgs,
    /// History from Prometheus.
    #[command(flatten)]
    pub prometheus: PrometheusArgs,
    /// The updater.
    #[command(flatten)]
    pub updater: UpdaterArgs,
}

/// Which autoscalers are served.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rightsizing")]
pub struct ScopeArgs {
    /// Serve the VerticalPodAutoscalers of this namespace only
    #[arg(long, value_name = "NAMESPACE", conflicts_with = "ignored_vpa_object_namespaces")]
    pub vpa_object_namespace: Option<String>,
    /// Leave the VerticalPodAutoscalers of these namespaces alone
    #[arg(long, value_name = "NAMESPACE,…", value_delimiter = ',')]
    pub ignored_vpa_object_namespaces: Vec<String>,
    /// The most CPU that a container gets while it is boosted
    #[arg(long, value_name = "QUANTITY", value_parser = parse_bound, allow_hyphen_values = true)]
    pub max_allowed_cpu_boost: Option<Quantity>,
    /// The Lease that says that new pods are sized; other names than the default need rights of their own
    #[arg(long, value_name = "NAME", default_value = pillion_api::names::VPA_ADMISSION_LEASE)]
    pub status_lease_name: String,
    /// The namespace of that Lease
    #[arg(long, value_name = "NAMESPACE", default_value = pillion_rightsizer::admission_lease::NAMESPACE)]
    pub status_lease_namespace: String,
    /// How often that Lease is renewed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = positive)]
    pub status_lease_update_interval: SignedDuration,
}

/// The recommender.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rightsizing: the recommender")]
pub struct RecommenderArgs {
    /// Where the usage of containers comes from
    #[arg(long, value_enum, default_value_t = UsageSourceArg::MetricsApi)]
    pub usage_source: UsageSourceArg,
    /// Certificates that kubelets' certificates are checked against, as PEM [default: those of the cluster]
    #[arg(long, value_name = "FILE")]
    pub kubelet_certificate_authority: Option<PathBuf>,
    /// Where the history from before a start comes from
    #[arg(long, value_enum, default_value_t = StorageArg::Checkpoint)]
    pub storage: StorageArg,
    /// The name of this recommender: it serves the VerticalPodAutoscalers that name it
    #[arg(long, value_name = "NAME", default_value = pillion_api::vpa::DEFAULT_RECOMMENDER)]
    pub recommender_name: String,
    /// Between two passes of the recommender
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = positive)]
    pub recommender_interval: SignedDuration,
    /// How often orphaned checkpoints are looked for
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = positive)]
    pub checkpoints_gc_interval: SignedDuration,
    /// Checkpoints that a pass could not begin to write within this time are left for the next one
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = positive)]
    pub checkpoints_timeout: SignedDuration,
    /// How many statuses and checkpoints are written at once
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    pub update_worker_count: usize,
    /// What is added to usage, as a share of it
    #[arg(long, value_name = "SHARE", default_value_t = 0.15)]
    pub recommendation_margin_fraction: f64,
    /// The percentile of CPU usage that is the target
    #[arg(long, value_name = "SHARE", default_value_t = 0.9)]
    pub target_cpu_percentile: f64,
    /// The percentile of CPU usage that the lower bound is made from
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    pub recommendation_lower_bound_cpu_percentile: f64,
    /// The percentile of CPU usage that the upper bound is made from
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    pub recommendation_upper_bound_cpu_percentile: f64,
    /// The percentile of memory peaks that is the target
    #[arg(long, value_name = "SHARE", default_value_t = 0.9)]
    pub target_memory_percentile: f64,
    /// The percentile of memory peaks that the lower bound is made from
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    pub recommendation_lower_bound_memory_percentile: f64,
    /// The percentile of memory peaks that the upper bound is made from
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    pub recommendation_upper_bound_memory_percentile: f64,
    /// How much CPU history makes the bounds close
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = positive)]
    pub confidence_interval_cpu: SignedDuration,
    /// How much memory history makes the bounds close
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = positive)]
    pub confidence_interval_memory: SignedDuration,
    /// After this time a sample of CPU counts half
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = positive)]
    pub cpu_histogram_decay_half_life: SignedDuration,
    /// After this time a peak of memory counts half
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = positive)]
    pub memory_histogram_decay_half_life: SignedDuration,
    /// Of each such interval only the highest use of memory counts
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = positive)]
    pub memory_aggregation_interval: SignedDuration,
    /// History without a sample for this many intervals is forgotten
    #[arg(long, value_name = "NUMBER", default_value_t = 8)]
    pub memory_aggregation_interval_count: i64,
    /// The least CPU that is recommended for the containers of a pod together, in millicores
    #[arg(long, value_name = "NUMBER", default_value_t = 25.0)]
    pub pod_recommendation_min_cpu_millicores: f64,
    /// The least memory that is recommended for the containers of a pod together, in MiB
    #[arg(long, value_name = "NUMBER", default_value_t = 250.0)]
    pub pod_recommendation_min_memory_mb: f64,
    /// The most CPU that is recommended for a container whose policy has no maximum
    #[arg(long, value_name = "QUANTITY", value_parser = parse_bound, allow_hyphen_values = true)]
    pub container_recommendation_max_allowed_cpu: Option<Quantity>,
    /// The most memory that is recommended for a container whose policy has no maximum
    #[arg(long, value_name = "QUANTITY", value_parser = parse_bound, allow_hyphen_values = true)]
    pub container_recommendation_max_allowed_memory: Option<Quantity>,
    /// By how much memory grows at least after an OOM kill, as a factor
    #[arg(long, value_name = "FACTOR", default_value_t = 1.2)]
    pub oom_bump_up_ratio: f64,
    /// By how much memory grows at least after an OOM kill, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 104_857_600.0)]
    pub oom_min_bump_up_bytes: f64,
    /// Recommended CPU is rounded up to a multiple of this
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub round_cpu_millicores: i64,
    /// Recommended memory is rounded up to a multiple of this
    #[arg(long, value_name = "BYTES", default_value_t = 1)]
    pub round_memory_bytes: i64,
    /// Recommended memory is rounded to two decimals of its largest unit (deprecated upstream)
    #[arg(long)]
    pub humanize_memory: bool,
    /// CPU is rounded up to whole cores where an annotation of the VerticalPodAutoscaler asks for it
    #[arg(long)]
    pub cpu_integer_post_processor_enabled: bool,
}

/// The updater.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rightsizing: the updater")]
pub struct UpdaterArgs {
    /// Between two passes of the updater
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = positive)]
    pub updater_interval: SignedDuration,
    /// Pods of a controller that has fewer are not evicted, unless the VerticalPodAutoscaler says otherwise
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    pub min_replicas: i64,
    /// The share of a controller's pods that may be disrupted at once
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    pub eviction_tolerance: f64,
    /// Evictions per second at most; no limit at 0
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0, allow_negative_numbers = true)]
    pub eviction_rate_limit: f64,
    /// Resizes in place per second at most; no limit at 0
    #[arg(long, value_name = "NUMBER", default_value_t = 10.0, allow_negative_numbers = true)]
    pub resize_rate_limit: f64,
    /// How many updates may be made at once after a quiet time
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    pub eviction_rate_burst: u32,
    /// Resizes that restart no container do not count as disruptions
    #[arg(long)]
    pub in_place_skip_disruption_budget: bool,
    /// A pod within its bounds is updated only for a change of at least this share
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    pub pod_update_threshold: f64,
    /// A pod within its bounds is updated only when it is at least this old
    #[arg(long, value_name = "TIME", default_value = "12h", value_parser = positive)]
    pub in_recommendation_bounds_eviction_lifetime_threshold: SignedDuration,
    /// An OOM kill within this time after the start makes a pod eligible for an update
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = positive)]
    pub evict_after_oom_threshold: SignedDuration,
    /// Whether pods are updated only while an admission controller renews its Lease
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub use_admission_controller_status: bool,
    /// The Lease of the admission controller that is looked at
    #[arg(long, value_name = "NAME", default_value = pillion_api::names::VPA_ADMISSION_LEASE)]
    pub admission_controller_status_lease_name: String,
    /// The namespace of that Lease
    #[arg(long, value_name = "NAMESPACE", default_value = pillion_rightsizer::admission_lease::NAMESPACE)]
    pub admission_controller_status_lease_namespace: String,
    /// For how long a renewal of that Lease is good
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = positive)]
    pub admission_controller_status_lease_timeout: SignedDuration,
}

/// Where the history from before a start comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StorageArg {
    /// VerticalPodAutoscalerCheckpoints, which the recommender writes
    Checkpoint,
    /// Prometheus; no checkpoints are read or written
    Prometheus,
}

/// Where the usage of containers comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UsageSourceArg {
    /// The metrics API, which metrics-server serves
    MetricsApi,
    /// /metrics/resource of every kubelet, without metrics-server; needs the right to get nodes/metrics
    Kubelets,
}

pub(super) fn positive(text: &str) -> Result<SignedDuration, String> {
    let time: SignedDuration = text.parse().map_err(|error| format!("write a time such as 1m or 30s: {error}"))?;
    if time.is_positive() { Ok(time) } else { Err("the time must be longer than zero".to_owned()) }
}
