//! The agent's local endpoint: `/status`, `/healthz`, `/metrics` and `/hot-update`.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use pillion_assist::{Refusal, Trigger, check_origin, check_page};

use crate::form;
use crate::http::{Answer, Head, Service};
use crate::manager::Manager;

/// Answers requests to the agent.
pub(crate) struct Endpoint {
    pub(crate) manager: Arc<Manager>,
}

impl Service for Endpoint {
    fn check(&self, head: &Head) -> Option<Answer> {
        let (is_get, path) = (head.method == "GET", head.path.as_str());
        if is_get && path == "/healthz" {
            return Some(Answer::text(200, "ok\n"));
        }
        let (security, token) = self.manager.security();
        let has_token = token.is_some_and(|token| carries(head.authorization.as_deref(), &token));
        // A scraper may have a name of its own for the pod. It changes nothing, and browsers show its answer to no other page.
        let is_scrape = is_get && path == "/metrics";
        if !is_scrape && let Err(problem) = self.check_origin(head, has_token) {
            return Some(Answer::text(403, problem + "\n"));
        }
        let open = security.token.is_none() && (security.on_loopback() || security.permissive);
        (!open && !has_token).then(|| {
            Answer::text(
                401,
                "a token is needed: Authorization: Bearer TOKEN, of `tokenSecretRef` in the agent's configuration\n",
            )
        })
    }

    async fn answer(&self, head: Head, body: Bytes) -> Answer {
        match (head.method.as_str(), head.path.as_str()) {
            ("GET", "/status") => {
                let body = serde_json::to_string_pretty(&self.manager.status()).unwrap_or_default();
                Answer { status: 200, media: "application/json", body }
            }
            ("GET", "/metrics") => {
                Answer { status: 200, media: "text/plain; version=0.0.4", body: self.manager.metrics() }
            }
            ("POST", "/hot-update") => self.update(&head, &body).await,
            (_, "/hot-update") => Answer::text(405, "Method not allowed\n"),
            _ => Answer::text(404, "there is /status, /healthz, /metrics and /hot-update\n"),
        }
    }
}

impl Endpoint {
    /// Whether a request comes from a web page. No page has the token, so that with it the pod may be called by any name, such as a Service's.
    fn check_origin(&self, head: &Head, has_token: bool) -> Result<(), String> {
        let hosts: Vec<&str> = head.hosts.iter().map(String::as_str).collect();
        let origins: Vec<&str> = head.origins.iter().map(String::as_str).collect();
        if has_token {
            return check_page(&hosts, &origins);
        }
        let own: Vec<IpAddr> = self.manager.address().into_iter().chain(head.own).collect();
        check_origin(&hosts, &origins, &own)
    }

    async fn update(&self, head: &Head, body: &Bytes) -> Answer {
        let Some(updater) = self.manager.updater().await else {
            return Answer::text(404, "the plugin hot_update is not in the agent's configuration\n");
        };
        let trigger = trigger(head, body).and_then(|trigger| updater.check(&trigger).map(|()| trigger));
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

fn trigger(head: &Head, body: &Bytes) -> Result<Trigger, Refusal> {
    let text = String::from_utf8_lossy(body);
    if head.media.starts_with("application/json") {
        return Trigger::from_json(&text);
    }
    let fields = form::fields(&head.query, &head.media, &text);
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
