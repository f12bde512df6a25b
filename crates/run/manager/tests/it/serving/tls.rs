//! The webhooks on a real port, called over HTTPS as a kube-apiserver calls them.
//!
//! Time is virtual, and stands still during each call: what takes time is what the test says, not what the machine is busy with.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use jiff::SignedDuration;
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

/// After this time the API server has closed a connection that it does not use. The next call begins with a handshake.
const IDLE: Duration = Duration::from_secs(31);

/// Does something that goes over sockets. Virtual time would advance whenever all tasks wait, and so while data is in a socket; it does not advance
/// while a blocking task runs.
async fn while_time_stands_still<T>(work: impl Future<Output = T>) -> T {
    let (held, release) = std::sync::mpsc::channel::<()>();
    let holding = tokio::task::spawn_blocking(move || release.recv());
    let done = work.await;
    drop(held);
    let _ = holding.await;
    done
}

/// Looks again and again, for a minute at most.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !holds().await {
        assert!(Instant::now() < deadline, "{what} did not happen in time");
        tokio::time::sleep(Duration::from_millis(100)).await;
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
        let mut config = Config { address: WebhookAddress::Url(service.url.clone()), ..cluster.config() };
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

    /// Returns when it has ended after [`Manager::stop`].
    async fn ended(self) {
        for task in self.tasks {
            task.await.unwrap().unwrap();
        }
    }
}

/// What the API server has been asked to call.
async fn webhooks(cluster: &Cluster) -> Vec<Value> {
    let reply = cluster.request(axum::http::Method::GET, MUTATING, "", None).await.body;
    reply["webhooks"].as_array().cloned().unwrap_or_default()
}

/// The certificates of the authorities that the API server trusts, as PEM.
async fn authorities(cluster: &Cluster) -> String {
    let bundle = webhooks(cluster).await[0]["clientConfig"]["caBundle"].clone();
    String::from_utf8(STANDARD.decode(bundle.as_str().unwrap()).unwrap()).unwrap()
}

/// A set without whose sidecars no pod of it is created: every call of a webhook that fails is a refusal.
fn strict() -> Value {
    sidecarset("mesh", json!({"injectionStrategy": {"failurePolicy": "Fail"}}))
}

/// Creates pods at once. All of them are admitted, with the sidecar.
async fn admits_pods(cluster: &Cluster) {
    let create = || async {
        let reply = cluster.create(&format!("{PODS}?dryRun=All"), pod("web")).await;
        assert_eq!(names(&reply.object()), ["proxy", "app"]);
    };
    while_time_stands_still(join_all((0..4).map(|_| create()))).await;
}

#[tokio::test(start_paused = true)]
async fn the_api_server_calls_over_https_and_trusts_the_bundle() {
    let (cluster, service) = (Cluster::new().await, Service::start().await);
    let replica = Replica::start(&cluster, &service, "one", SignedDuration::from_hours(24)).await;
    service.sends_to(&replica);
    eventually("a registration", async || !webhooks(&cluster).await.is_empty()).await;
    while_time_stands_still(async {
        cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
        let reply = cluster.create(SIDECARSETS, sidecarset("broken", json!({"containers": []}))).await;
        assert_eq!(reply.status.as_u16(), 422, "{}", reply.body);
    })
    .await;
    admits_pods(&cluster).await;
    replica.manager.stop();
    replica.ended().await;
}

/// Replicas behind one address share one authority, take turns at leading, renew their certificates and replace each other, until the first
/// authority has been succeeded and forgotten. Pods are admitted all the time, a few after each handshake: no admission fails.
#[tokio::test(start_paused = true)]
async fn certificates_and_replicas_come_and_go_without_one_failed_admission() {
    // An authority is valid for forty times as long.
    let lifetime = SignedDuration::from_secs(30);
    let (cluster, service) = (Cluster::new().await, Service::start().await);
    let mut current = Replica::start(&cluster, &service, "replica-0", lifetime).await;
    service.sends_to(&current);
    eventually("a registration", async || !webhooks(&cluster).await.is_empty()).await;
    while_time_stands_still(cluster.create(SIDECARSETS, strict())).await.object();
    eventually("a webhook of the set's own", async || webhooks(&cluster).await.len() == 3).await;
    let first = authorities(&cluster).await;
    for number in 1.. {
        let next = Replica::start(&cluster, &service, &format!("replica-{number}"), lifetime).await;
        let before = [current.expiry().await, next.expiry().await];
        for _ in 0..10 {
            tokio::time::sleep(IDLE).await;
            admits_pods(&cluster).await;
        }
        assert!(current.expiry().await != before[0] && next.expiry().await != before[1], "both were renewed");
        service.sends_to(&next);
        let last = std::mem::replace(&mut current, next);
        tokio::join!(admits_pods(&cluster), async {
            // With the requests on their way.
            tokio::task::yield_now().await;
            last.manager.stop();
        });
        admits_pods(&cluster).await;
        last.ended().await;
        admits_pods(&cluster).await;
        if !authorities(&cluster).await.contains(&first) {
            break;
        }
        assert!(number < 30, "an authority is forgotten when its successor has been succeeded");
    }
    current.manager.stop();
    current.ended().await;
}
