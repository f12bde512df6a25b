//! The arguments of rightsizing: the flags of the recommender and the updater, by upstream's names, and `pillion recommend`.

// Documentation of arguments is what `--help` prints: words in it stand without backticks.
#![allow(clippy::doc_markdown)]

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::SignedDuration;

use super::ClusterArgs;

/// The recommender and the updater of `pillion manager`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rightsizing")]
pub struct RightsizingArgs {
    /// Where the usage of containers comes from
    #[arg(long, value_enum, default_value_t = UsageSourceArg::MetricsApi)]
    pub usage_source: UsageSourceArg,
    /// Certificates that kubelets' certificates are checked against, as PEM [default: those of the cluster]
    #[arg(long, value_name = "FILE")]
    pub kubelet_certificate_authority: Option<PathBuf>,
    /// The name of this recommender: it serves the VerticalPodAutoscalers that name it
    #[arg(long, value_name = "NAME", default_value = pillion_api::vpa::DEFAULT_RECOMMENDER)]
    pub recommender_name: String,
    /// Between two passes of the recommender
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = positive)]
    pub recommender_interval: SignedDuration,
    /// What is added to usage, as a share of it
    #[arg(long, value_name = "SHARE", default_value_t = 0.15)]
    pub recommendation_margin_fraction: f64,
    /// The percentile of CPU usage that is the target
    #[arg(long, value_name = "SHARE", default_value_t = 0.9)]
    pub target_cpu_percentile: f64,
    /// The percentile of memory peaks that is the target
    #[arg(long, value_name = "SHARE", default_value_t = 0.9)]
    pub target_memory_percentile: f64,
    /// The least CPU that is recommended for the containers of a pod together, in millicores
    #[arg(long, value_name = "NUMBER", default_value_t = 25)]
    pub pod_recommendation_min_cpu_millicores: i64,
    /// The least memory that is recommended for the containers of a pod together, in MiB
    #[arg(long, value_name = "NUMBER", default_value_t = 250)]
    pub pod_recommendation_min_memory_mb: i64,
    /// By how much memory grows at least after an OOM kill, as a factor
    #[arg(long, value_name = "FACTOR", default_value_t = 1.2)]
    pub oom_bump_up_ratio: f64,
    /// By how much memory grows at least after an OOM kill, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 104_857_600)]
    pub oom_min_bump_up_bytes: i64,
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
    /// How many more updates at once after a quiet time
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    pub eviction_rate_burst: u32,
    /// Resizes that restart no container do not count as disruptions
    #[arg(long)]
    pub in_place_skip_disruption_budget: bool,
    /// A pod within its bounds is updated only for a change of at least this share
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    pub pod_update_threshold: f64,
    /// An OOM kill within this time after the start makes a pod eligible for an update
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = positive)]
    pub evict_after_oom_threshold: SignedDuration,
}

/// Where the usage of containers comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UsageSourceArg {
    /// The metrics API, which metrics-server serves
    MetricsApi,
    /// /metrics/resource of every kubelet, without metrics-server; needs the right to get nodes/metrics
    Kubelets,
}

fn positive(text: &str) -> Result<SignedDuration, String> {
    let time: SignedDuration = text.parse().map_err(|error| format!("write a time such as 1m or 30s: {error}"))?;
    if time.is_positive() { Ok(time) } else { Err("the time must be longer than zero".to_owned()) }
}

/// `pillion recommend`
#[derive(Debug, Args)]
pub struct RecommendArgs {
    /// A VerticalPodAutoscaler [default: all of the namespace]
    #[arg(value_name = "VPA")]
    pub name: Option<String>,
    /// Those of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = RecommendOutput::Table)]
    pub output: RecommendOutput,
    /// Draw the usage that the autoscaler has seen
    #[arg(long, requires = "name", conflicts_with_all = ["output", "all_namespaces", "explain"])]
    pub histogram: bool,
    /// Explain how each number is computed from the usage that is stored
    ///
    /// With the default settings of the recommender; samples since the last checkpoint are not in it.
    #[arg(long, requires = "name", conflicts_with_all = ["output", "all_namespaces"])]
    pub explain: bool,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// How `pillion recommend` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecommendOutput {
    /// For people
    Table,
    /// For programs
    Json,
    /// For spreadsheets
    Csv,
    /// Workloads with the requests that are recommended, for kubectl apply --server-side
    Patch,
}
