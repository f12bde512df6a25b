//! The webhooks on a real port, called over HTTPS as a kube-apiserver calls them.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use pillion_apiserver::ApiServer;
use pillion_manager::{Config, Manager, Reach};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{Cluster, PODS, SIDECARSETS, names, pod, sidecarset};

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/pillion";

/// A cluster of real time, and a manager on a free port whose clock is set by hand.
struct Served {
    cluster: Cluster,
    manager: Manager,
    time: Arc<Mutex<Timestamp>>,
    serving: JoinHandle<Result<(), pillion_manager::Error>>,
}

impl Served {
    async fn new(time: Timestamp) -> Served {
        let server = ApiServer::new(pillion_apiserver::Config::in_memory());
        server.bootstrap().await.unwrap();
        let cluster = Cluster { server };
        cluster.service_account("default").await;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let time = Arc::new(Mutex::new(time));
        let now = Arc::clone(&time);
        let mut config = Config::new(cluster.client(), Arc::new(move || *now.lock().unwrap()), Reach::Url(url));
        config.certificate_lifetime = SignedDuration::from_hours(24);
        let manager = Manager::start(config).await.unwrap();
        let serving = {
            let manager = manager.clone();
            tokio::spawn(async move { manager.serve(listener).await })
        };
        manager.register().await.unwrap();
        Served { cluster, manager, time, serving }
    }

    /// Registers again at another time.
    async fn register_at(&self, time: Timestamp) {
        *self.time.lock().unwrap() = time;
        self.manager.register().await.unwrap();
    }

    /// Has the API server trust the newest authority alone. Whether a pod is injected then tells whose certificate is served.
    async fn is_newest_served(&self, pod_name: &str) -> bool {
        let mut configuration = self.cluster.get(MUTATING).await;
        let bundle = configuration["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap();
        let bundle = String::from_utf8(STANDARD.decode(bundle).unwrap()).unwrap();
        let newest = &bundle[bundle.rfind("-----BEGIN CERTIFICATE-----").unwrap()..];
        configuration["webhooks"][0]["clientConfig"]["caBundle"] = json!(STANDARD.encode(newest));
        self.put(configuration).await;
        let pod = self.cluster.create(PODS, pod(pod_name)).await.object();
        self.manager.register().await.unwrap();
        names(&pod) == ["proxy", "app"]
    }

    async fn put(&self, configuration: Value) {
        let put = axum::http::Method::PUT;
        self.cluster.request(put, MUTATING, "application/json", Some(configuration)).await.object();
    }
}

#[tokio::test]
async fn the_api_server_calls_over_https_and_trusts_the_bundle() {
    let served = Served::new(Timestamp::now()).await;
    served.cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    assert_eq!(names(&served.cluster.create(PODS, pod("web-0")).await.object()), ["proxy", "app"]);
    let reply = served.cluster.create(SIDECARSETS, sidecarset("broken", json!({"containers": []}))).await;
    assert_eq!(reply.status.as_u16(), 422, "{}", reply.body);
    served.serving.abort();
}

#[tokio::test]
async fn a_new_certificate_is_served_without_a_new_start() {
    let now = Timestamp::now();
    let served = Served::new(now - SignedDuration::from_hours(17)).await;
    served.cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    assert!(served.is_newest_served("web-0").await, "there is only one");
    served.register_at(now - SignedDuration::from_mins(20)).await;
    assert!(!served.is_newest_served("web-1").await, "the next one is only trusted yet");
    served.register_at(now).await;
    assert!(served.is_newest_served("web-2").await);
    served.serving.abort();
}
