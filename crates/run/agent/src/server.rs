//! The agent's local endpoint: `/status`, `/healthz`, `/metrics` and `/hot-update`.

use std::sync::Arc;

use pillion_assist::{Refusal, Trigger};

use crate::form;
use crate::http::{Answer, Incoming, Service};
use crate::manager::Manager;

/// Answers requests to the agent.
pub(crate) struct Endpoint {
    pub(crate) manager: Arc<Manager>,
}

impl Service for Endpoint {
    async fn answer(&self, request: Incoming) -> Answer {
        let (security, token) = self.manager.security();
        let open = security.token.is_none() && (security.on_loopback() || security.permissive);
        let authorized = open || token.is_some_and(|token| carries(request.authorization.as_deref(), &token));
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/healthz") => Answer::text(200, "ok\n"),
            _ if !authorized => Answer::text(
                401,
                "a token is needed: Authorization: Bearer TOKEN, of `tokenSecretRef` in the agent's configuration\n",
            ),
            ("GET", "/status") => {
                let body = serde_json::to_string_pretty(&self.manager.status()).unwrap_or_default();
                Answer { status: 200, media: "application/json", body }
            }
            ("GET", "/metrics") => {
                Answer { status: 200, media: "text/plain; version=0.0.4", body: self.manager.metrics() }
            }
            ("POST", "/hot-update") => self.update(&request).await,
            (_, "/hot-update") => Answer::text(405, "Method not allowed\n"),
            _ => Answer::text(404, "there is /status, /healthz, /metrics and /hot-update\n"),
        }
    }
}

impl Endpoint {
    async fn update(&self, request: &Incoming) -> Answer {
        let Some(updater) = self.manager.updater().await else {
            return Answer::text(404, "the plugin hot_update is not in the agent's configuration\n");
        };
        let trigger = trigger(request).and_then(|trigger| updater.check(&trigger).map(|()| trigger));
        let trigger = match trigger {
            Ok(trigger) => trigger,
            Err(Refusal::Bad(message)) => return Answer::text(400, message + "\n"),
            Err(Refusal::Forbidden(message)) => return Answer::text(403, message + "\n"),
        };
        // A caller that hangs up does not stop an update half way.
        let update = tokio::spawn(async move { updater.update(trigger).await });
        match update.await {
            // Word for word what the Go agent answers.
            Ok(Ok(_)) => Answer::text(200, "File downloaded and update successfully"),
            Ok(Err(error)) => Answer::text(500, format!("{error}\n")),
            Err(_) => Answer::text(500, "the update ended unexpectedly\n"),
        }
    }
}

fn trigger(request: &Incoming) -> Result<Trigger, Refusal> {
    let text = String::from_utf8_lossy(&request.body);
    if request.media.starts_with("application/json") {
        return Trigger::from_json(&text);
    }
    let fields = form::fields(&request.query, &request.media, &text);
    Trigger::read(|name| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()))
}

/// Compared in constant time: how long it takes says nothing of the token.
fn carries(header: Option<&str>, token: &str) -> bool {
    let given = header.and_then(|header| header.strip_prefix("Bearer ")).unwrap_or_default().as_bytes();
    let differences = given.iter().zip(token.as_bytes()).fold(0, |seen, (a, b)| seen | (a ^ b));
    !token.is_empty() && given.len() == token.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_opens() {
        assert!(carries(Some("Bearer secret"), "secret"));
        for header in [
            None,
            Some(""),
            Some("Bearer "),
            Some("Bearer secre"),
            Some("Bearer secrets"),
            Some("secret"),
            Some("Basic secret"),
        ] {
            assert!(!carries(header, "secret"), "{header:?}");
        }
        assert!(!carries(Some("Bearer "), ""));
    }
}
