//! The webhooks on a real port, called over HTTPS as a kube-apiserver calls them.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pillion_apiserver::ApiServer;
use pillion_manager::{Certificates, Config, Manager, WebhookAddress};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::{Cluster, PODS, SIDECARSETS, asked, names, pod, readyz, sidecarset};

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/pillion";

/// For as long as a replica that ends still answers: until no new connection reaches it.
const SHUTDOWN_DELAY: Duration = Duration::from_secs(1);

/// A cluster in real time.
async fn cluster() -> Cluster {
    let server = ApiServer::new(pillion_apiserver::Config::in_memory());
    server.bootstrap().await.unwrap();
    let cluster = Cluster { server };
    cluster.service_account("default").await;
    cluster
}

/// Looks again and again at what real processes and sockets do, for a minute at most.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !holds().await {
        assert!(Instant::now() < deadline, "{what} did not happen in time");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// One address of several replicas, like a Service: new connections go to the replica that was named last.
struct Service {
    url: String,
    replica: watch::Sender<Option<SocketAddr>>,
}

impl Service {
    async fn start() -> Service {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let (replica, mut named) = watch::channel(None::<SocketAddr>);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let Ok(replica) = named.wait_for(Option::is_some).await.map(|replica| *replica) else { return };
                tokio::spawn(async move {
                    if let Ok(mut far) = TcpStream::connect(replica.unwrap()).await {
                        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
        });
        Service { url, replica }
    }

    fn sends_to(&self, replica: &Replica) {
        self.replica.send_replace(Some(replica.address));
    }
}

/// A replica of the manager: its port is served, and it goes on until it is stopped.
struct Replica {
    manager: Manager,
    address: SocketAddr,
    tasks: Vec<JoinHandle<Result<(), pillion_manager::Error>>>,
}

impl Replica {
    async fn start(cluster: &Cluster, service: &Service, identity: &str, lifetime: SignedDuration) -> Replica {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let url = WebhookAddress::Url(service.url.clone());
        let mut config = Config::new(cluster.client(), Arc::new(Timestamp::now), url);
        config.certificates = Certificates::SelfSigned { lifetime };
        config.identity = Some(identity.to_owned());
        let manager = Manager::new(config);
        let (serving, running) = (manager.clone(), manager.clone());
        let serving =
            tokio::spawn(async move { serving.serve(listener, SHUTDOWN_DELAY, Duration::from_secs(10)).await });
        manager.start().await.unwrap();
        let running = tokio::spawn(async move { running.run().await });
        let replica = Replica { manager, address, tasks: vec![serving, running] };
        eventually("a replica that is ready", async || readyz(&replica.manager).await.0.is_success()).await;
        replica
    }

    /// When its certificate expires, as its metrics say.
    async fn expiry(&self) -> String {
        let (_, text) = asked(&self.manager, "/metrics").await;
        text.lines().find(|line| line.starts_with("pillion_certificate_expir")).unwrap().to_owned()
    }

    async fn stop(self) {
        self.manager.stop();
        for task in self.tasks {
            task.await.unwrap().unwrap();
        }
    }
}

/// How many webhooks the API server has been asked to call.
async fn webhooks(cluster: &Cluster) -> usize {
    let reply = cluster.request(axum::http::Method::GET, MUTATING, "", None).await.body;
    reply["webhooks"].as_array().map_or(0, Vec::len)
}

/// A set without whose sidecars no pod of it is created: every call of a webhook that fails is a refusal.
fn strict() -> Value {
    sidecarset("mesh", json!({"injectionStrategy": {"failurePolicy": "Fail"}}))
}

#[tokio::test]
async fn the_api_server_calls_over_https_and_trusts_the_bundle() {
    let (cluster, service) = (cluster().await, Service::start().await);
    let replica = Replica::start(&cluster, &service, "one", SignedDuration::from_hours(24)).await;
    service.sends_to(&replica);
    eventually("a registration", async || webhooks(&cluster).await > 0).await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    assert_eq!(names(&cluster.create(PODS, pod("web-0")).await.object()), ["proxy", "app"]);
    let reply = cluster.create(SIDECARSETS, sidecarset("broken", json!({"containers": []}))).await;
    assert_eq!(reply.status.as_u16(), 422, "{}", reply.body);
    replica.stop().await;
}

/// Admits pods without a pause until it is stopped. Counts them; the first that fails is reported.
struct Load {
    admitted: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    task: JoinHandle<Result<(), String>>,
}

impl Load {
    fn start(cluster: &Cluster) -> Load {
        let (admitted, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, over) = (Arc::clone(&admitted), Arc::clone(&is_over));
        let cluster = Cluster { server: cluster.server.clone() };
        let task = tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let reply = cluster.create(&format!("{PODS}?dryRun=All"), pod("web")).await;
                if !reply.status.is_success() || names(&reply.body) != ["proxy", "app"] {
                    return Err(format!("pod {}: {}", count.load(Ordering::Relaxed), reply.body));
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        Load { admitted, is_over, task }
    }

    /// Returns when this many more have been admitted, or when one has failed.
    async fn admits(&self, more: u64) {
        let wanted = self.admitted.load(Ordering::Relaxed) + more;
        eventually("an admission", async || self.task.is_finished() || self.admitted.load(Ordering::Relaxed) >= wanted)
            .await;
    }

    async fn stop(self) -> Result<(), String> {
        self.is_over.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

/// Replicas behind one address share one authority, take turns at leading, renew their certificates many times and replace each other, while pods
/// are admitted all the time: no admission fails.
///
/// `PILLION_CERTIFICATE_SECONDS` and `PILLION_ROUNDS` make it longer: 30 and 4 take two minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_replicas_come_and_go_without_one_failed_admission() {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (seconds, rounds) = (number("PILLION_CERTIFICATE_SECONDS", 5), number("PILLION_ROUNDS", 2));
    let lifetime = SignedDuration::from_secs(seconds);
    let (cluster, service) = (cluster().await, Service::start().await);
    let mut current = Replica::start(&cluster, &service, "replica-0", lifetime).await;
    service.sends_to(&current);
    eventually("a registration", async || webhooks(&cluster).await > 0).await;
    cluster.create(SIDECARSETS, strict()).await.object();
    eventually("a webhook of the set's own", async || webhooks(&cluster).await == 3).await;
    let load = Load::start(&cluster);
    for round in 1..=rounds {
        let next = Replica::start(&cluster, &service, &format!("replica-{round}"), lifetime).await;
        for replica in [&current, &next] {
            let before = replica.expiry().await;
            eventually("a renewal", async || replica.expiry().await != before).await;
        }
        load.admits(1).await;
        service.sends_to(&next);
        std::mem::replace(&mut current, next).stop().await;
        load.admits(1).await;
    }
    load.stop().await.unwrap();
    current.stop().await;
}
