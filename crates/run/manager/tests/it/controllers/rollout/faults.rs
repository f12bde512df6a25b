//! An API server that answers one write in five with 409, 429 or 500, before or after it has done it, or late.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use kube::Client;
use pillion_apiserver::ApiServer;
use serde_json::json;
use tokio::time::{Instant, sleep};

/// A write to a pod by the controller of rollouts.
#[derive(Clone, Debug)]
pub(crate) struct PodWrite {
    /// The replica.
    pub(crate) writer: String,
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
}

/// The faults of all clients. Clones are the same.
#[derive(Clone)]
pub(crate) struct Faults {
    state: Arc<Mutex<State>>,
}

struct State {
    random: fastrand::Rng,
    is_on: bool,
    count: u32,
    /// The replicas that no answer reaches.
    cut_off: BTreeSet<String>,
    writes: Vec<PodWrite>,
}

/// What happens to a write.
enum Fault {
    None,
    /// It is not done.
    Before(StatusCode),
    /// It is done, and the answer is lost.
    After,
    /// It is done, and the answer comes after everybody has given up.
    Late,
}

impl Faults {
    /// The same seed brings the same faults to the same requests. They have to be started.
    pub(crate) fn new(seed: u64) -> Faults {
        let state = State {
            random: fastrand::Rng::with_seed(seed),
            is_on: false,
            count: 0,
            cut_off: BTreeSet::new(),
            writes: Vec::new(),
        };
        Faults { state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) fn start(&self) {
        self.state.lock().unwrap().is_on = true;
    }

    pub(crate) fn stop(&self) {
        self.state.lock().unwrap().is_on = false;
    }

    pub(crate) fn count(&self) -> u32 {
        self.state.lock().unwrap().count
    }

    /// For some time no request of a replica reaches the API server, those for its Lease included. What it watches, it still sees.
    pub(crate) async fn cut_off(&self, writer: &str, time: Duration) {
        self.state.lock().unwrap().cut_off.insert(writer.to_owned());
        sleep(time).await;
        self.state.lock().unwrap().cut_off.remove(writer);
    }

    fn is_cut_off(&self, writer: &str) -> bool {
        self.state.lock().unwrap().cut_off.contains(writer)
    }

    /// Every write to a pod that has reached the API server.
    pub(crate) fn pod_writes(&self) -> Vec<PodWrite> {
        self.state.lock().unwrap().writes.clone()
    }

    fn draw(&self, request: &Request) -> Fault {
        let mut state = self.state.lock().unwrap();
        let is_write = request.method() != Method::GET;
        let is_lease = request.uri().path().contains("/leases");
        if !state.is_on || !is_write || is_lease || state.random.u8(0..5) != 0 {
            return Fault::None;
        }
        state.count += 1;
        match state.random.u8(0..5) {
            0 => Fault::Before(StatusCode::CONFLICT),
            1 => Fault::Before(StatusCode::TOO_MANY_REQUESTS),
            2 => Fault::Before(StatusCode::INTERNAL_SERVER_ERROR),
            3 => Fault::After,
            _ => Fault::Late,
        }
    }

    /// The client of a replica, whose writes meet the faults.
    pub(crate) fn client(&self, server: &ApiServer, writer: &str) -> Client {
        let (faults, writer) = (self.clone(), writer.to_owned());
        let faulty = from_fn(move |request: Request, next: Next| {
            let (faults, writer) = (faults.clone(), writer.clone());
            async move {
                if faults.is_cut_off(&writer) {
                    while faults.is_cut_off(&writer) {
                        sleep(Duration::from_secs(1)).await;
                    }
                    return answer(StatusCode::INTERNAL_SERVER_ERROR);
                }
                match faults.draw(&request) {
                    Fault::None => faults.run(writer, request, next).await,
                    Fault::Before(status) => answer(status),
                    Fault::Late => {
                        let answer = faults.run(writer, request, next).await;
                        sleep(Duration::from_secs(5)).await;
                        answer
                    }
                    Fault::After => {
                        faults.run(writer, request, next).await;
                        answer(StatusCode::INTERNAL_SERVER_ERROR)
                    }
                }
            }
        });
        // One that matches everything: a layer is only called for what is matched.
        let router = Router::new().fallback_service(server.router()).layer(faulty);
        Client::new(router, "default")
    }
}

impl Faults {
    /// Has the API server answer, and records writes to pods.
    async fn run(&self, writer: String, request: Request, next: Next) -> Response {
        let is_rollout = request.uri().query().is_some_and(|query| query.contains("fieldManager=pillion-rollout"));
        let is_recorded = is_rollout && request.uri().path().contains("/pods/");
        let begun = Instant::now();
        let answer = next.run(request).await;
        if is_recorded {
            self.state.lock().unwrap().writes.push(PodWrite { writer, begun, ended: Instant::now() });
        }
        answer
    }
}

/// A client that never gets an answer about ConfigMaps.
pub(crate) fn silent_config_maps(server: &ApiServer) -> Client {
    let silent = from_fn(async |request: Request, next: Next| {
        if request.uri().path().contains("/configmaps") {
            std::future::pending::<()>().await;
        }
        next.run(request).await
    });
    Client::new(Router::new().fallback_service(server.router()).layer(silent), "default")
}

fn answer(status: StatusCode) -> Response {
    let reason = match status {
        StatusCode::CONFLICT => "Conflict",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "a bad day", "reason": reason,
        "code": status.as_u16(),
    });
    (status, [(header::CONTENT_TYPE, "application/json")], Body::from(body.to_string())).into_response()
}
