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
use crate::status::Refusal;
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
    let user = impersonated(&request).unwrap_or(user);
    request.extensions_mut().insert(user);
    next.run(request).await
}

/// The token in an `Authorization` header. The name of the scheme is case-insensitive (RFC 9110, section 11.1).
fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Who the caller wants to act as. Roles are not enforced here, so that everyone may act as anyone.
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
    use super::*;

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
