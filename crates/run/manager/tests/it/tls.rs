//! The webhooks on a real port, called over HTTPS as a kube-apiserver calls them.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pillion_apiserver::ApiServer;
use pillion_manager::{Certificates, Config, Manager, WebhookAddress};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{Cluster, PODS, SIDECARSETS, names, pod, sidecarset};

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/pillion";

/// A cluster in real time.
async fn cluster() -> Cluster {
    let server = ApiServer::new(pillion_apiserver::Config::in_memory());
    server.bootstrap().await.unwrap();
    let cluster = Cluster { server };
    cluster.service_account("default").await;
    cluster
}

/// A replica of the manager: its port is served, and it goes on until it is stopped.
struct Replica {
    manager: Manager,
    url: String,
    tasks: Vec<JoinHandle<Result<(), pillion_manager::Error>>>,
}

impl Replica {
    async fn start(cluster: &Cluster, identity: &str, lifetime: SignedDuration, url: Option<&str>) -> Replica {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = format!("https://{}", listener.local_addr().unwrap());
        let url = url.map_or(own, str::to_owned);
        let mut config = Config::new(cluster.client(), Arc::new(Timestamp::now), WebhookAddress::Url(url.clone()));
        config.certificates = Certificates::SelfSigned { lifetime };
        config.identity = Some(identity.to_owned());
        let manager = Manager::new(config);
        let (serving, running) = (manager.clone(), manager.clone());
        let serving =
            tokio::spawn(async move { serving.serve(listener, Duration::ZERO, Duration::from_secs(10)).await });
        manager.start().await.unwrap();
        let running = tokio::spawn(async move { running.run().await });
        Replica { manager, url, tasks: vec![serving, running] }
    }

    /// Returns when the API server has been asked to call this replica.
    async fn is_registered(&self, cluster: &Cluster) {
        loop {
            let reply = cluster.request(axum::http::Method::GET, MUTATING, "", None).await.body;
            let url = reply["webhooks"][0]["clientConfig"]["url"].as_str().unwrap_or_default();
            if url.starts_with(&self.url) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn stop(self) {
        self.manager.stop();
        for task in self.tasks {
            task.await.unwrap().unwrap();
        }
    }
}

/// A set without whose sidecars no pod of it is created: every call of a webhook that fails is a refusal.
fn strict() -> Value {
    sidecarset("mesh", json!({"injectionStrategy": {"failurePolicy": "Fail"}}))
}

/// Returns when the API server refuses pods of the set that it cannot ask about.
async fn is_strict(cluster: &Cluster) {
    loop {
        let configuration = cluster.get(MUTATING).await;
        if configuration["webhooks"].as_array().unwrap().len() == 3 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_api_server_calls_over_https_and_trusts_the_bundle() {
    let cluster = cluster().await;
    let replica = Replica::start(&cluster, "one", SignedDuration::from_hours(24), None).await;
    replica.is_registered(&cluster).await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    assert_eq!(names(&cluster.create(PODS, pod("web-0")).await.object()), ["proxy", "app"]);
    let reply = cluster.create(SIDECARSETS, sidecarset("broken", json!({"containers": []}))).await;
    assert_eq!(reply.status.as_u16(), 422, "{}", reply.body);
    replica.stop().await;
}

/// Two replicas share one authority, take turns at leading, and renew their certificates many times: no admission fails.
///
/// `PILLION_CERTIFICATE_SECONDS` and `PILLION_ROUNDS` make it longer: 30 and 4 take two minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_replicas_come_and_go_without_one_failed_admission() {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (seconds, rounds) = (number("PILLION_CERTIFICATE_SECONDS", 5), number("PILLION_ROUNDS", 2));
    let lifetime = SignedDuration::from_secs(seconds);
    let cluster = cluster().await;
    let mut leader = Replica::start(&cluster, "replica-0", lifetime, None).await;
    leader.is_registered(&cluster).await;
    cluster.create(SIDECARSETS, strict()).await.object();
    is_strict(&cluster).await;
    let mut admitted = 0;
    for round in 1..=rounds {
        // Another replica on the same cluster: it has another address, and does not touch the registration while the first leads.
        let next = Replica::start(&cluster, &format!("replica-{round}"), lifetime, None).await;
        let until = tokio::time::Instant::now() + Duration::from_secs(u64::try_from(seconds).unwrap());
        while tokio::time::Instant::now() < until {
            let injected = cluster.create(&format!("{PODS}?dryRun=All"), pod("web")).await.object();
            assert_eq!(names(&injected), ["proxy", "app"], "round {round}, pod {admitted}");
            admitted += 1;
        }
        // The first one gives its Lease back; while the next takes over, pods are still sent to the first.
        leader.manager.stop();
        let old = std::mem::replace(&mut leader, next);
        while !cluster.get(MUTATING).await["webhooks"][0]["clientConfig"]["url"]
            .as_str()
            .is_some_and(|url| url.starts_with(&leader.url))
        {
            tokio::task::yield_now().await;
        }
        old.stop().await;
    }
    assert!(admitted > 0);
    leader.stop().await;
}
