//! Usage straight from kubelets: `/metrics/resource`, for which `get` of `nodes/metrics` is enough. Their certificates are checked.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use axum::http::{Request, Uri};
use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use pillion_rightsize::amount;
use tokio::time::Instant;

use super::samples::Sample;

/// The kubelet's port unless its node says something else.
const PORT: i32 = 10250;
/// A kubelet that takes longer is left out of a pass.
const LONGEST: Duration = Duration::from_secs(10);
/// How many are asked at once.
const AT_ONCE: usize = 20;
/// How often nodes are listed.
const NODES: Duration = Duration::from_mins(5);

pub(crate) struct Kubelets {
    config: kube::Config,
    nodes: HashMap<String, (String, Client)>,
    listed: Option<Instant>,
    counters: HashMap<String, Counter>,
    scrape: u64,
}

/// CPU seconds of a container.
struct Counter {
    seconds: f64,
    at: Timestamp,
    scrape: u64,
}

impl Kubelets {
    pub(crate) fn new(config: kube::Config) -> Kubelets {
        Kubelets { config, nodes: HashMap::new(), listed: None, counters: HashMap::new(), scrape: 0 }
    }

    /// The metrics of every kubelet, as text. A node that cannot be asked is reported, and does not stop the others.
    pub(crate) async fn read(&mut self, client: &Client) -> Result<Vec<String>, String> {
        if self.listed.is_none_or(|listed| listed.elapsed() >= NODES) {
            self.list(client).await?;
        }
        self.scrape += 1;
        let asked = self.nodes.iter().map(|(name, (_, kubelet))| ask(name.clone(), kubelet.clone()).boxed());
        let asked: Vec<_> = asked.collect();
        let answers: Vec<Result<String, String>> = stream::iter(asked).buffer_unordered(AT_ONCE).collect().await;
        // A node that is gone, or whose kubelet does not answer, costs the longest time in one pass and not in every one.
        if answers.iter().any(Result::is_err) {
            self.listed = None;
        }
        let all_failed = !answers.is_empty() && answers.iter().all(Result::is_err);
        if all_failed && let Some(Err(error)) = answers.first() {
            return Err(format!("no kubelet answers: {error}"));
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Every sample of the answers. The use of CPU is known from the second answer on.
    pub(crate) fn parse<'a>(&mut self, texts: &'a [String], mut each: impl FnMut(Sample<'a>)) {
        for line in texts.iter().flat_map(|text| text.lines()) {
            if let Some(line) = Line::parse(line)
                && let Some(sample) = self.sample(&line)
            {
                each(sample);
            }
        }
        let scrape = self.scrape;
        self.counters.retain(|_, counter| counter.scrape == scrape);
    }

    fn sample<'a>(&mut self, line: &Line<'a>) -> Option<Sample<'a>> {
        let mut sample = Sample {
            namespace: Cow::Borrowed(line.namespace),
            pod: Cow::Borrowed(line.pod),
            container: Cow::Borrowed(line.container),
            millicores: None,
            bytes: None,
            at: line.at,
        };
        if line.is_memory {
            sample.bytes = Some(amount(line.value));
            return Some(sample);
        }
        let key = format!("{}/{}/{}", line.namespace, line.pod, line.container);
        let counter = Counter { seconds: line.value, at: line.at, scrape: self.scrape };
        let before = self.counters.insert(key, counter)?;
        let passed = line.at.duration_since(before.at).as_secs_f64();
        // A counter that became smaller is that of a container that was restarted.
        if passed <= 0.0 || line.value < before.seconds {
            return None;
        }
        sample.millicores = Some(amount(((line.value - before.seconds) / passed * 1000.0).ceil()));
        Some(sample)
    }

    async fn list(&mut self, client: &Client) -> Result<(), String> {
        let nodes: Api<Node> = Api::all(client.clone());
        let listed =
            nodes.list(&ListParams::default()).await.map_err(|error| format!("nodes cannot be listed: {error}"))?;
        let mut old = std::mem::take(&mut self.nodes);
        for node in listed.items.into_iter().filter(|node| !is_lost(node)) {
            let Some(address) = address(&node) else { continue };
            let name = node.name_any();
            let kept = old.remove(&name).filter(|(known, _)| *known == address);
            let kubelet = match kept {
                Some((_, kubelet)) => kubelet,
                None => match self.connect(&address) {
                    Ok(kubelet) => kubelet,
                    Err(error) => {
                        tracing::warn!(node = name, error, "the kubelet's metrics cannot be read");
                        continue;
                    }
                },
            };
            self.nodes.insert(name, (address, kubelet));
        }
        self.listed = Some(Instant::now());
        Ok(())
    }

    fn connect(&self, address: &str) -> Result<Client, String> {
        let mut config = self.config.clone();
        config.cluster_url = address.parse::<Uri>().map_err(|error| format!("{address}: {error}"))?;
        config.tls_server_name = None;
        Client::try_from(config).map_err(|error| error.to_string())
    }
}

/// The metrics of one kubelet.
async fn ask(node: String, kubelet: Client) -> Result<String, String> {
    let request = Request::get("/metrics/resource").body(Vec::new()).map_err(|error| error.to_string())?;
    let asked = tokio::time::timeout(LONGEST, kubelet.request_text(request)).await;
    let answer = match asked {
        Ok(answer) => answer.map_err(|error| explain(&error)),
        Err(_) => Err(format!("no answer within {} s", LONGEST.as_secs())),
    };
    answer.inspect_err(|error| tracing::warn!(node, error, "the kubelet's metrics cannot be read"))
}

/// Where the kubelet of a node listens.
fn address(node: &Node) -> Option<String> {
    let status = node.status.as_ref()?;
    let addresses = status.addresses.as_deref().unwrap_or_default();
    let of =
        |kind: &str| addresses.iter().find(|address| address.type_ == kind).map(|address| address.address.as_str());
    let host = of("InternalIP").or_else(|| of("Hostname"))?;
    let port = status.daemon_endpoints.as_ref().and_then(|endpoints| endpoints.kubelet_endpoint.as_ref());
    let port = port.map_or(PORT, |endpoint| endpoint.port);
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    Some(format!("https://{host}:{port}"))
}

/// Whether the node controller has lost contact with the kubelet.
fn is_lost(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "Unknown")
}

fn explain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            "the manager may not read it; it needs `get` of nodes/metrics".to_owned()
        }
        error => {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            if text.contains("certificate") {
                text.push_str(
                    "; have kubelets use certificates of the cluster's authority (serverTLSBootstrap), or give theirs with \
                     --kubelet-certificate-authority",
                );
            }
            text
        }
    }
}

/// A line about a container: `name{container="…",namespace="…",pod="…"} value milliseconds`.
#[derive(Debug, PartialEq)]
struct Line<'a> {
    is_memory: bool,
    namespace: &'a str,
    pod: &'a str,
    container: &'a str,
    value: f64,
    at: Timestamp,
}

impl<'a> Line<'a> {
    /// `None` for a line about something else.
    fn parse(line: &'a str) -> Option<Line<'a>> {
        let (name, rest) = line.split_once('{')?;
        let is_memory = match name {
            "container_cpu_usage_seconds_total" => false,
            "container_memory_working_set_bytes" => true,
            _ => return None,
        };
        let (labels, numbers) = rest.split_once('}')?;
        let label = |wanted: &str| {
            labels.split(',').find_map(|label| {
                let (key, value) = label.split_once('=')?;
                (key.trim() == wanted).then(|| value.trim_matches('"'))
            })
        };
        let mut numbers = numbers.split_ascii_whitespace();
        let value = numbers.next()?.parse().ok()?;
        let at = Timestamp::from_millisecond(numbers.next()?.parse().ok()?).ok()?;
        Some(Line {
            is_memory,
            namespace: label("namespace")?,
            pod: label("pod")?,
            container: label("container")?,
            value,
            at,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kubelets() -> Kubelets {
        Kubelets::new(kube::Config::new("https://127.0.0.1".parse().unwrap()))
    }

    fn text(cpu: f64, memory: f64, at: i64) -> Vec<String> {
        let labels = r#"{container="mesh",namespace="shop",pod="web-0"}"#;
        vec![format!(
            "# TYPE container_cpu_usage_seconds_total counter\n\
             container_cpu_usage_seconds_total{labels} {cpu} {at}\n\
             container_memory_working_set_bytes{labels} {memory:e} {at}\n\
             pod_cpu_usage_seconds_total{{namespace=\"shop\",pod=\"web-0\"}} 7 {at}\n"
        )]
    }

    fn samples(kubelets: &mut Kubelets, texts: &[String]) -> Vec<(Option<i64>, Option<i64>)> {
        let mut samples = Vec::new();
        kubelets.scrape += 1;
        kubelets.parse(texts, |sample| samples.push((sample.millicores, sample.bytes)));
        samples
    }

    #[test]
    fn cpu_is_what_was_used_between_two_answers() {
        let mut kubelets = kubelets();
        assert_eq!(samples(&mut kubelets, &text(10.0, 1_048_576.0, 0)), [(None, Some(1_048_576))]);
        assert_eq!(samples(&mut kubelets, &text(16.0, 5.0, 60_000)), [(Some(100), None), (None, Some(5))]);
        assert_eq!(samples(&mut kubelets, &text(1.0, 5.0, 120_000)), [(None, Some(5))], "it was restarted");
        assert_eq!(samples(&mut kubelets, &text(1.0, 5.0, 120_000)), [(None, Some(5))], "the same answer again");
    }

    #[test]
    fn a_container_that_is_gone_is_forgotten() {
        let mut kubelets = kubelets();
        samples(&mut kubelets, &text(10.0, 1.0, 0));
        samples(&mut kubelets, &[]);
        assert!(kubelets.counters.is_empty());
    }

    #[test]
    fn a_kubelet_is_where_its_node_says() {
        let node: Node = serde_json::from_value(json!({"status": {
            "addresses": [{"type": "Hostname", "address": "one"}, {"type": "InternalIP", "address": "fd00::1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10255}}
        }}))
        .unwrap();
        assert_eq!(address(&node).as_deref(), Some("https://[fd00::1]:10255"));
        assert_eq!(address(&Node::default()), None);
    }

    /// A kubelet that vouches for itself, and one that somebody else vouches for.
    #[tokio::test]
    async fn the_certificate_of_a_kubelet_is_checked() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        let answer = axum::routing::get(|| async { "pod_memory_working_set_bytes 1" });
        let router = axum::Router::new().route("/metrics/resource", answer);
        let tls = pillion_serve::tls(&own.cert.pem(), &own.signing_key.serialize_pem()).unwrap();
        let server = pillion_serve::Server::new(listener, router).unwrap().with_tls(tokio::sync::watch::channel(tls).1);
        tokio::spawn(server.run());
        let client = {
            let server = pillion_apiserver::ApiServer::new(pillion_apiserver::Config::in_memory());
            Client::new(server.router(), "default")
        };
        let asked_by_who_trusts = async |certificate: &rcgen::Certificate| {
            let mut kubelets = kubelets();
            kubelets.config.root_cert = Some(vec![certificate.der().to_vec()]);
            let kubelet = kubelets.connect(&address).unwrap();
            kubelets.nodes.insert("one".to_owned(), (address.clone(), kubelet));
            kubelets.listed = Some(Instant::now());
            kubelets.read(&client).await
        };
        assert_eq!(asked_by_who_trusts(&own.cert).await.unwrap(), ["pod_memory_working_set_bytes 1"]);
        let error = asked_by_who_trusts(&other.cert).await.unwrap_err();
        assert!(error.starts_with("no kubelet answers: ") && error.contains("certificate"), "{error}");
        assert!(error.ends_with("--kubelet-certificate-authority"), "{error}");
    }

    /// One whose address nobody can use, one that the node controller has lost, and a good one.
    #[tokio::test(start_paused = true)]
    async fn a_node_that_cannot_be_asked_does_not_stop_the_others() {
        let server = pillion_apiserver::ApiServer::new(pillion_apiserver::Config::in_memory());
        server.bootstrap().await.unwrap();
        let client = Client::new(server.router(), "default");
        for (name, host, ready) in
            [("bad", "not a host", "True"), ("good", "127.0.0.1", "True"), ("lost", "127.0.0.1", "Unknown")]
        {
            let status = json!({
                "addresses": [{"type": "InternalIP", "address": host}], "conditions": [{"type": "Ready", "status": ready}]
            });
            let node: Node = serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap();
            Api::all(client.clone()).create(&kube::api::PostParams::default(), &node).await.unwrap();
        }
        let mut kubelets = kubelets();
        kubelets.list(&client).await.unwrap();
        assert_eq!(kubelets.nodes.keys().collect::<Vec<_>>(), ["good"]);
    }
}
