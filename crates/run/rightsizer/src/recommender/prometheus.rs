//! History from Prometheus: the usage of containers over the last days, as its range queries give it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use axum::http::{Request, Uri, header};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::config::{Prometheus, PrometheusLogin};

/// One container of one pod, and its measurements.
#[derive(Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) pod: String,
    pub(crate) container: String,
    pub(crate) points: Vec<(Timestamp, f64)>,
}

/// What Prometheus knows of the pods of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// CPU usage, in cores.
    pub(crate) cpu: Vec<Series>,
    /// The working set of memory, in bytes.
    pub(crate) memory: Vec<Series>,
    /// The newest labels of each pod. Their keys are written as Prometheus writes them.
    pub(crate) labels: BTreeMap<String, BTreeMap<String, String>>,
}

/// Reads the history of a namespace.
///
/// # Errors
/// Prometheus cannot be reached, refuses, or answers something else.
pub(crate) async fn read(config: &Prometheus, namespace: &str, now: Timestamp) -> Result<Past, String> {
    let client = connect(config)?;
    let ask = async |query: &str| range(&client, config, query, now).await;
    let cpu = ask(&cpu_query(config, Some(namespace))).await?;
    let memory = ask(&memory_query(config, Some(namespace))).await?;
    let labels = if config.pod_labels_metric.is_empty() { Vec::new() } else { ask(&config.pod_labels_metric).await? };
    Ok(Past {
        cpu: series(config, cpu, namespace)?,
        memory: series(config, memory, namespace)?,
        labels: pod_labels(config, labels, namespace),
    })
}

pub(crate) fn cpu_query(config: &Prometheus, namespace: Option<&str>) -> String {
    format!("rate({}{{{}}}[{}])", config.cpu_metric, selector(config, namespace), promql(config.resolution))
}

pub(crate) fn memory_query(config: &Prometheus, namespace: Option<&str>) -> String {
    format!("{}{{{}}}", config.memory_metric, selector(config, namespace))
}

fn selector(config: &Prometheus, namespace: Option<&str>) -> String {
    let mut text = String::new();
    // A String takes whatever is written.
    if !config.cadvisor_job.is_empty() {
        let _ = write!(text, "job={:?}, ", config.cadvisor_job);
    }
    let name = &config.container_name_label;
    let _ = write!(text, r#"{}=~".+", {name}!="POD", {name}!="""#, config.container_pod_label);
    if let Some(namespace) = namespace {
        let _ = write!(text, ", {}={namespace:?}", config.container_namespace_label);
    }
    text
}

/// A time as Prometheus writes it: in the largest unit that fits.
fn promql(time: SignedDuration) -> String {
    let seconds = time.as_secs();
    match seconds {
        s if s >= 3600 && s % 3600 == 0 => format!("{}h", s / 3600),
        s if s >= 60 && s % 60 == 0 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

fn connect(config: &Prometheus) -> Result<Client, String> {
    let refuse = |error: &dyn std::fmt::Display| format!("--prometheus-address {}: {error}", config.address);
    let uri: Uri = config.address.parse().map_err(|error| refuse(&error))?;
    if uri.scheme().is_none() || uri.host().is_none() {
        return Err(refuse(&"write an address such as http://prometheus.monitoring.svc"));
    }
    let mut to = kube::Config::new(uri);
    to.accept_invalid_certs = config.insecure;
    to.read_timeout = Duration::try_from(config.query_timeout).ok();
    Client::try_from(to).map_err(|error| refuse(&error))
}

/// What a query gives over the history.
async fn range(client: &Client, config: &Prometheus, query: &str, now: Timestamp) -> Result<Vec<Found>, String> {
    let start = now - config.length;
    let encoded = utf8_percent_encode(query, NON_ALPHANUMERIC);
    let (start, end, step) = (start.as_second(), now.as_second(), config.resolution.as_secs().max(1));
    let path = format!("/api/v1/query_range?query={encoded}&start={start}&end={end}&step={step}");
    let mut request = Request::get(path);
    if let Some(authorization) = authorization(&config.login) {
        request = request.header(header::AUTHORIZATION, authorization);
    }
    let request = request.body(Vec::new()).map_err(|error| error.to_string())?;
    let longest = Duration::try_from(config.query_timeout).unwrap_or(Duration::from_mins(5));
    let refuse = |error: &dyn std::fmt::Display| format!("Prometheus at {}: {query}: {error}", config.address);
    let answer = tokio::time::timeout(longest, client.request_text(request)).await;
    let text = answer.map_err(|_| refuse(&"no answer in time"))?.map_err(|error| refuse(&error))?;
    let answer: Answer = serde_json::from_str(&text).map_err(|error| refuse(&error))?;
    match answer.data {
        Some(data) if answer.status == "success" && data.result_type == "matrix" => Ok(data.result),
        Some(data) => Err(refuse(&format!("expected a matrix, the answer is a {}", data.result_type))),
        None => Err(refuse(&answer.error.unwrap_or_default())),
    }
}

fn authorization(login: &PrometheusLogin) -> Option<String> {
    use base64::Engine as _;
    match login {
        PrometheusLogin::None => None,
        PrometheusLogin::Bearer(token) => Some(format!("Bearer {token}")),
        PrometheusLogin::Basic { username, password } => {
            let pair = base64::engine::general_purpose::STANDARD.encode(format!("{username}:{password}"));
            Some(format!("Basic {pair}"))
        }
    }
}

#[derive(Deserialize)]
struct Answer {
    status: String,
    error: Option<String>,
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    #[serde(default)]
    result: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(f64, String)>,
}

fn series(config: &Prometheus, found: Vec<Found>, namespace: &str) -> Result<Vec<Series>, String> {
    let mut by_container: BTreeMap<(String, String), Vec<(Timestamp, f64)>> = BTreeMap::new();
    for Found { mut metric, values } in found {
        let mut label = |label: &str| {
            metric
                .remove(label)
                .ok_or_else(|| format!("Prometheus has series of containers without the label {label:?}"))
        };
        if label(&config.container_namespace_label)? != namespace {
            continue;
        }
        let key = (label(&config.container_pod_label)?, label(&config.container_name_label)?);
        by_container.entry(key).or_default().extend(values.iter().filter_map(point));
    }
    // A container that was restarted has one series after the other.
    let sorted = by_container.into_iter().map(|((pod, container), mut points)| {
        points.sort_by_key(|(at, _)| *at);
        Series { pod, container, points }
    });
    Ok(sorted.collect())
}

fn point((at, value): &(f64, String)) -> Option<(Timestamp, f64)> {
    #[expect(clippy::cast_possible_truncation, reason = "milliseconds of this century")]
    let at = Timestamp::from_millisecond((at * 1000.0) as i64).ok()?;
    let value: f64 = value.parse().ok()?;
    value.is_finite().then_some((at, value))
}

/// The newest labels win.
fn pod_labels(config: &Prometheus, found: Vec<Found>, namespace: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut newest: BTreeMap<String, (f64, BTreeMap<String, String>)> = BTreeMap::new();
    for Found { metric, values } in found {
        let is_here = metric.get(&config.pod_namespace_label).is_some_and(|of| of == namespace);
        let (true, Some(pod)) = (is_here, metric.get(&config.pod_name_label)) else { continue };
        let at = values.last().map_or(0.0, |(at, _)| *at);
        if newest.get(pod).is_some_and(|(known, _)| *known > at) {
            continue;
        }
        let own = metric
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(&config.pod_label_prefix)?.to_owned(), value.clone())));
        newest.insert(pod.clone(), (at, own.collect()));
    }
    newest.into_iter().map(|(pod, (_, labels))| (pod, labels)).collect()
}

/// A label's key as Prometheus writes it.
pub(crate) fn sanitized(key: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if key.chars().all(is_plain) {
        return Cow::Borrowed(key);
    }
    Cow::Owned(key.chars().map(|c| if is_plain(c) { c } else { '_' }).collect())
}

#[cfg(test)]
mod tests;
