//! How Prometheus is asked for history, by upstream's names.

// Documentation of arguments is what `--help` prints: words in it stand without backticks.
#![allow(clippy::doc_markdown)]

use std::path::PathBuf;

use clap::Args;
use jiff::SignedDuration;

/// History from Prometheus.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rightsizing: history from Prometheus")]
pub struct PrometheusArgs {
    /// Where Prometheus is
    #[arg(long, value_name = "URL", default_value = "http://prometheus.monitoring.svc")]
    pub prometheus_address: String,
    /// Do not check the certificate of Prometheus
    #[arg(long)]
    pub prometheus_insecure: bool,
    /// A bearer token for Prometheus
    #[arg(long, value_name = "TOKEN", conflicts_with = "prometheus_bearer_token_file")]
    pub prometheus_bearer_token: Option<String>,
    /// A file with a bearer token for Prometheus
    #[arg(long, value_name = "FILE")]
    pub prometheus_bearer_token_file: Option<PathBuf>,
    /// The user name for Prometheus [default: the environment variable PROMETHEUS_USERNAME]
    #[arg(long, value_name = "NAME")]
    pub username: Option<String>,
    /// The password for Prometheus [default: the environment variable PROMETHEUS_PASSWORD]
    #[arg(long, value_name = "PASSWORD")]
    pub password: Option<String>,
    /// The longest that a query may take
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = prometheus_time)]
    pub prometheus_query_timeout: SignedDuration,
    /// The job that scrapes cAdvisor
    #[arg(long, value_name = "NAME", default_value = "kubernetes-cadvisor")]
    pub prometheus_cadvisor_job_name: String,
    /// How far back history is read
    #[arg(long, value_name = "TIME", default_value = "8d", value_parser = prometheus_time)]
    pub history_length: SignedDuration,
    /// Between two samples of history
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = prometheus_time)]
    pub history_resolution: SignedDuration,
    /// The metric of CPU usage
    #[arg(long, value_name = "METRIC", default_value = "container_cpu_usage_seconds_total")]
    pub history_cpu_metric: String,
    /// The metric of memory usage
    #[arg(long, value_name = "METRIC", default_value = "container_memory_working_set_bytes")]
    pub history_memory_metric: String,
    /// The label with the namespace of a container
    #[arg(long, value_name = "LABEL", default_value = "namespace")]
    pub container_namespace_label: String,
    /// The label with the pod of a container
    #[arg(long, value_name = "LABEL", default_value = "pod_name")]
    pub container_pod_name_label: String,
    /// The label with the name of a container
    #[arg(long, value_name = "LABEL", default_value = "name")]
    pub container_name_label: String,
    /// The metric whose labels are the labels of pods; none if it is empty
    #[arg(long, value_name = "METRIC", default_value = r#"up{job="kubernetes-pods"}"#)]
    pub metric_for_pod_labels: String,
    /// What the labels of pods begin with
    #[arg(long, value_name = "PREFIX", default_value = "pod_label_")]
    pub pod_label_prefix: String,
    /// The label with the namespace of a pod
    #[arg(long, value_name = "LABEL", default_value = "kubernetes_namespace")]
    pub pod_namespace_label: String,
    /// The label with the name of a pod
    #[arg(long, value_name = "LABEL", default_value = "kubernetes_pod_name")]
    pub pod_name_label: String,
}

/// A time as Prometheus reads it: days, weeks and years have a fixed length.
fn prometheus_time(text: &str) -> Result<SignedDuration, String> {
    let wrong = || format!("{text:?} is no time; write one such as 8d, 1h or 30s");
    let (mut seconds, mut rest) = (0_i64, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0).ok_or_else(wrong)?;
        let number: i64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 24 * 3600,
            "w" => 7 * 24 * 3600,
            "y" => 365 * 24 * 3600,
            _ => return Err(wrong()),
        };
        seconds = number.checked_mul(unit).and_then(|it| it.checked_add(seconds)).ok_or_else(wrong)?;
        rest = &rest[end..];
    }
    if seconds > 0 {
        Ok(SignedDuration::from_secs(seconds))
    } else {
        Err("the time must be longer than zero".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_prometheus_reads_them() {
        let hours = |text: &str| prometheus_time(text).unwrap().as_hours();
        assert_eq!((hours("8d"), hours("1h"), hours("1w"), hours("1d12h")), (192, 1, 168, 36));
        for wrong in ["", "8", "d", "8 d", "1x", "0s", "99999999999999999999d"] {
            assert!(prometheus_time(wrong).is_err(), "{wrong}");
        }
    }
}
