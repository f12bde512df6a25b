//! An API server that answers one write in five with 409, 429 or 500, before or after it has done it, or late.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use kube::Client;
use pillion_apiserver::ApiServer;
use serde_json::json;

/// The faults of one client. Clones are the same.
#[derive(Clone)]
pub(crate) struct Faults {
    state: Arc<Mutex<State>>,
}

struct State {
    random: fastrand::Rng,
    is_on: bool,
    count: u32,
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
        let state = State { random: fastrand::Rng::with_seed(seed), is_on: false, count: 0 };
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

    /// A client whose writes meet the faults.
    pub(crate) fn client(&self, server: &ApiServer) -> Client {
        let faults = self.clone();
        let faulty = from_fn(move |request: Request, next: Next| {
            let faults = faults.clone();
            async move {
                match faults.draw(&request) {
                    Fault::None => next.run(request).await,
                    Fault::Before(status) => answer(status),
                    Fault::Late => {
                        let answer = next.run(request).await;
                        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
                        answer
                    }
                    Fault::After => {
                        next.run(request).await;
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
