//! The router on a TLS port, for those who have a token.

use std::net::TcpListener;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use pillion_serve::{CertificateError, Server};
use tokio::sync::watch;

use crate::authentication::{self, ISSUER};
use crate::credentials::Credentials;
use crate::media::Output;
use crate::respond;
use crate::server::ApiServer;
use crate::state::Inner;
use crate::status::{GroupResource, Refusal};
use crate::user::User;

/// Why the port is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The certificate or its key cannot be used.
    #[error("the server's certificate cannot be used")]
    Certificate(#[source] CertificateError),
    /// The port cannot be served.
    #[error("cannot serve on the port")]
    Port(#[source] std::io::Error),
}

impl ApiServer {
    /// Serves on a port until the future is dropped. Every request must carry the owner's token or a service account's; health and version
    /// are for all.
    ///
    /// # Errors
    /// The certificate or the port cannot be used.
    pub async fn serve(&self, listener: TcpListener, credentials: &Credentials) -> Result<(), ServeError> {
        self.inner.set_admin_token(&credentials.token);
        let tls = pillion_serve::tls(&credentials.certificate, &credentials.key).map_err(ServeError::Certificate)?;
        let server = Server::new(listener, authenticated(self)).map_err(ServeError::Port)?;
        server.with_tls(watch::channel(tls).1).run().await;
        Ok(())
    }
}

fn authenticated(server: &ApiServer) -> Router {
    carried_out(server.router()).layer(middleware::from_fn_with_state(server.clone(), authenticate))
}

/// The same service, except that what has begun to write goes on when its client hangs up: the rest of its writes would be missing.
pub(crate) fn carried_out(router: Router) -> Router {
    router.layer(middleware::from_fn(async |request: Request, next: Next| {
        if request.method() == Method::GET {
            return next.run(request).await;
        }
        match tokio::spawn(next.run(request)).await {
            Ok(response) => response,
            Err(error) => respond::refusal(&Refusal::internal(error), Output::json(false)),
        }
    }))
}

async fn authenticate(State(server): State<ApiServer>, mut request: Request, next: Next) -> Response {
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(bearer_token);
    let user = match token {
        Some(token) => user_of(&server.inner, token),
        None if is_public(request.uri().path()) => Some(anonymous()),
        None => None,
    };
    let Some(user) = user else {
        return respond::refusal(&Refusal::unauthorized(), Output::json(false));
    };
    let user = match impersonated(&request) {
        Some(other) if other.is_owner() && !user.is_owner() => {
            let why = format!("User {:?} cannot impersonate the owner of the cluster", user.name);
            let users = GroupResource { group: String::new(), resource: "users".to_owned() };
            return respond::refusal(&Refusal::forbidden(&users, &other.name, &why), Output::json(false));
        }
        Some(other) => other,
        None => user,
    };
    request.extensions_mut().insert(user);
    next.run(request).await
}

/// The token in an `Authorization` header. The name of the scheme is case-insensitive (RFC 9110, section 11.1).
fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Who the caller wants to act as. Roles are not enforced here, so that everyone may act as anyone but the owner, who alone can enter
/// containers.
fn impersonated(request: &Request) -> Option<User> {
    let text = |name: &str| {
        let values = request.headers().get_all(name).into_iter();
        values.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect::<Vec<_>>()
    };
    let name = text("impersonate-user").into_iter().next()?;
    let mut groups = text("impersonate-group");
    groups.push("system:authenticated".to_owned());
    Some(User { name, uid: String::new(), groups, extra: Vec::new() })
}

fn user_of(inner: &Inner, token: &str) -> Option<User> {
    if inner.is_admin_token(token) {
        return Some(User::admin());
    }
    authentication::service_account(inner, token, &[ISSUER])
}

fn is_public(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz", "/version"]
        .iter()
        .any(|public| path.strip_prefix(public).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

fn anonymous() -> User {
    User {
        name: "system:anonymous".to_owned(),
        uid: String::new(),
        groups: vec!["system:unauthenticated".to_owned()],
        extra: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::StatusCode;
    use serde_json::{Value, json};
    use tower::ServiceExt as _;

    use super::*;
    use crate::config::Config;

    /// What a server answers to somebody with a token.
    async fn asked(
        server: &ApiServer,
        token: &str,
        request: axum::http::request::Builder,
        body: Value,
    ) -> (StatusCode, Value) {
        let request =
            request.header("authorization", format!("Bearer {token}")).header("content-type", "application/json");
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let response = authenticated(server).oneshot(request.body(body).unwrap()).await.unwrap();
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    #[tokio::test]
    async fn only_the_owner_enters_containers_and_nobody_becomes_the_owner() {
        let server = ApiServer::new(Config::in_memory());
        server.bootstrap().await.unwrap();
        server.inner.set_admin_token("owner");
        server.register_node("one", Router::new().fallback(async || "reached"));
        let post = |path: &str| Request::post(path.to_owned());
        for (path, object) in [
            ("/api/v1/nodes", json!({"metadata": {"name": "one"}})),
            ("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}})),
            (
                "/api/v1/namespaces/default/pods",
                json!({"metadata": {"name": "web"}, "spec": {"nodeName": "one", "containers": [{"name": "main", "image": "x"}]}}),
            ),
        ] {
            assert_eq!(asked(&server, "owner", post(path), object).await.0, StatusCode::CREATED, "{path}");
        }
        let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
        let (_, made) = asked(&server, "owner", post(path), json!({"spec": {}})).await;
        let of_pod = made["status"]["token"].as_str().unwrap();
        for path in [
            "/api/v1/namespaces/default/pods/web/exec?command=id&stdout=1",
            "/api/v1/namespaces/default/pods/web/attach?stdout=1",
            "/api/v1/namespaces/default/pods/web/portforward",
            "/api/v1/nodes/one/proxy/exec/default/web/main?command=id&stdout=1",
            "/api/v1/nodes/one/proxy/attach/default/web/main?stdout=1",
            "/api/v1/nodes/one/proxy/portForward/default/web",
            "/api/v1/nodes/one/proxy/%65xec/default/web/main?command=id&stdout=1",
        ] {
            let get = || Request::get(path.to_owned()).header("upgrade", "websocket");
            let as_owner = get().header("impersonate-user", "admin").header("impersonate-group", "system:masters");
            assert_eq!(asked(&server, of_pod, get(), Value::Null).await.0, StatusCode::FORBIDDEN, "{path}");
            assert_eq!(asked(&server, of_pod, as_owner, Value::Null).await.0, StatusCode::FORBIDDEN, "{path}");
            assert_ne!(asked(&server, "owner", get(), Value::Null).await.0, StatusCode::FORBIDDEN, "{path}");
        }
        let get = Request::get("/api/v1/nodes/one/proxy/metrics/resource");
        assert_eq!(asked(&server, of_pod, get, Value::Null).await.0, StatusCode::OK);
        let get = Request::get("/api/v1/namespaces/default/pods/web").header("impersonate-user", "alice");
        assert_eq!(asked(&server, of_pod, get, Value::Null).await.0, StatusCode::OK);
    }

    #[test]
    fn the_scheme_of_a_token_is_read_in_any_case() {
        for header in ["Bearer t", "bearer t", " BEARER  t "] {
            assert_eq!(bearer_token(header), Some("t"), "{header:?}");
        }
        for header in ["t", "Basic t", "Bearert", ""] {
            assert_eq!(bearer_token(header), None, "{header:?}");
        }
    }
}
