//! How Prometheus is asked for history.

use jiff::SignedDuration;

/// How Prometheus is asked. The defaults are upstream's.
#[derive(Clone, Debug, PartialEq)]
pub struct Prometheus {
    /// `--prometheus-address`.
    pub address: String,
    /// `--prometheus-insecure`: certificates are not checked.
    pub insecure: bool,
    /// How this program proves who it is.
    pub login: PrometheusLogin,
    /// `--prometheus-query-timeout`.
    pub query_timeout: SignedDuration,
    /// `--history-length`.
    pub length: SignedDuration,
    /// `--history-resolution`.
    pub resolution: SignedDuration,
    /// `--prometheus-cadvisor-job-name`.
    pub cadvisor_job: String,
    /// `--history-cpu-metric`.
    pub cpu_metric: String,
    /// `--history-memory-metric`.
    pub memory_metric: String,
    /// `--container-namespace-label`.
    pub container_namespace_label: String,
    /// `--container-pod-name-label`.
    pub container_pod_label: String,
    /// `--container-name-label`.
    pub container_name_label: String,
    /// `--metric-for-pod-labels`.
    pub pod_labels_metric: String,
    /// `--pod-label-prefix`.
    pub pod_label_prefix: String,
    /// `--pod-namespace-label`.
    pub pod_namespace_label: String,
    /// `--pod-name-label`.
    pub pod_name_label: String,
}

impl Default for Prometheus {
    fn default() -> Prometheus {
        let text = str::to_owned;
        Prometheus {
            address: text("http://prometheus.monitoring.svc"),
            insecure: false,
            login: PrometheusLogin::None,
            query_timeout: SignedDuration::from_mins(5),
            length: SignedDuration::from_hours(8 * 24),
            resolution: SignedDuration::from_hours(1),
            cadvisor_job: text("kubernetes-cadvisor"),
            cpu_metric: text("container_cpu_usage_seconds_total"),
            memory_metric: text("container_memory_working_set_bytes"),
            container_namespace_label: text("namespace"),
            container_pod_label: text("pod_name"),
            container_name_label: text("name"),
            pod_labels_metric: text(r#"up{job="kubernetes-pods"}"#),
            pod_label_prefix: text("pod_label_"),
            pod_namespace_label: text("kubernetes_namespace"),
            pod_name_label: text("kubernetes_pod_name"),
        }
    }
}

/// How the recommender proves to Prometheus who it is.
#[derive(Clone, PartialEq, Eq)]
pub enum PrometheusLogin {
    /// It does not.
    None,
    /// By a token.
    Bearer(String),
    /// By a password.
    Basic {
        /// Whose.
        username: String,
        password: String,
    },
}

impl std::fmt::Debug for PrometheusLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PrometheusLogin::None => "None",
            PrometheusLogin::Bearer(_) => "Bearer(…)",
            PrometheusLogin::Basic { .. } => "Basic(…)",
        })
    }
}
