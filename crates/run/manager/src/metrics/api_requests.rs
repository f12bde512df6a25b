//! Requests to the API server, counted on their way.

use std::task::{Context, Poll};

use axum::http::{Request, Response};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tower::{Layer, Service};

use super::Metrics;

/// Counts the requests of a client. See [`Metrics::count_requests`].
#[derive(Clone)]
pub struct CountRequests {
    metrics: Metrics,
}

impl CountRequests {
    pub(super) fn new(metrics: Metrics) -> CountRequests {
        CountRequests { metrics }
    }
}

impl<S> Layer<S> for CountRequests {
    type Service = Counted<S>;

    fn layer(&self, service: S) -> Counted<S> {
        Counted { service, metrics: self.metrics.clone() }
    }
}

/// A service whose requests are counted.
#[derive(Clone)]
pub struct Counted<S> {
    service: S,
    metrics: Metrics,
}

impl<S, A, B> Service<Request<A>> for Counted<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (metrics, verb) = (self.metrics.clone(), verb(&request));
        let answered = move |answer: &Result<Response<B>, S::Error>| {
            // Without an answer there is no code; 0 is what client-go reports as "<error>".
            metrics.requested(verb, answer.as_ref().map_or(0, |response| response.status().as_u16()));
        };
        self.service.call(request).inspect(answered).boxed()
    }
}

/// The method, except that a watch is not a read.
fn verb<B>(request: &Request<B>) -> String {
    let query = request.uri().query().unwrap_or_default();
    let is_watch = query.split('&').any(|parameter| matches!(parameter, "watch" | "watch=1" | "watch=true"));
    if is_watch { "WATCH".to_owned() } else { request.method().as_str().to_owned() }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn requests_are_counted_by_verb_and_code() {
        let metrics = Metrics::default();
        let router = Router::new().route("/pods", get(async || "{}"));
        let client = metrics.count_requests().layer(router);
        for uri in ["/pods", "/pods?watch=true&limit=5", "/pods?watch=1", "/nodes"] {
            client.clone().oneshot(Request::builder().uri(uri).body(Body::empty()).unwrap()).await.unwrap();
        }
        let text = metrics.text();
        for line in [
            r#"pillion_api_requests_total{verb="GET",code="200"} 1"#,
            r#"pillion_api_requests_total{verb="WATCH",code="200"} 2"#,
            r#"pillion_api_requests_total{verb="GET",code="404"} 1"#,
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
