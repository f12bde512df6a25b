//! A deadline for every request to the API server.

use std::time::Duration;

use http::Request;
use kube::Client;
use kube::client::Body;

/// How long a request may take, its answer included. An API server gives up after a minute, and waits for a webhook for half a minute at most.
const LONGEST: Duration = Duration::from_secs(30);

/// Returns a client whose requests fail after 30 seconds without an answer. Watches have no deadline.
#[must_use]
pub fn with_deadlines(client: &Client) -> Client {
    let inner = client.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            if is_watch(&request) {
                return inner.send(request).await;
            }
            let answer = async {
                let (head, body) = inner.send(request).await?.into_parts();
                Ok(http::Response::from_parts(head, Body::from(body.collect_bytes().await?)))
            };
            let answer = tokio::time::timeout(LONGEST, answer).await;
            answer.unwrap_or_else(|_| Err(kube::Error::Service(format!("no answer within {LONGEST:?}").into())))
        }
    });
    Client::new(service, client.default_namespace())
}

fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|parameter| matches!(parameter, "watch" | "watch=1" | "watch=true"))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::WatchParams;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_hangs_fails_and_a_watch_has_no_deadline() {
        let hang = get(async || tokio::time::sleep(Duration::from_hours(1)).await);
        let router = Router::new().fallback(hang);
        let maps: Api<ConfigMap> = Api::default_namespaced(with_deadlines(&Client::new(router, "default")));
        let start = Instant::now();
        let error = maps.get("a").await.unwrap_err();
        assert_eq!((error.to_string().as_str(), start.elapsed()), ("ServiceError: no answer within 30s", LONGEST));
        let parameters = WatchParams::default();
        let watch = maps.watch(&parameters, "0");
        assert!(tokio::time::timeout(2 * LONGEST, watch).await.is_err(), "it still waits for its first event");
    }
}
