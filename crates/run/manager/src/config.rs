//! What a manager is made of.

use std::sync::Arc;

use axum::http::Uri;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use pillion_api::names;
use pillion_gates::Gates;
use serde_json::{Value, json};

use crate::error::Error;

/// Where the manager lives unless it is told otherwise.
pub const NAMESPACE: &str = "pillion-system";

/// Tells the time.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a manager is made of.
#[derive(Clone)]
pub struct Config {
    /// The API server.
    pub client: Client,
    /// The one clock.
    pub now: Now,
    /// Where the manager lives: its Secret is there, and pods there are never injected.
    pub namespace: String,
    /// Where ControllerRevisions of SidecarSets and Kruise's ConfigMap are. Whoever may write there decides what is injected.
    pub revisions_namespace: String,
    /// How the API server reaches the webhooks.
    pub reach: Reach,
    /// The feature gates.
    pub gates: Gates,
    /// How long a certificate is good for; it is renewed when a third of that is left.
    pub certificate_lifetime: SignedDuration,
}

impl Config {
    /// The usual settings.
    pub fn new(client: Client, now: Now, reach: Reach) -> Config {
        Config {
            client,
            now,
            namespace: NAMESPACE.to_owned(),
            revisions_namespace: names::DEFAULT_SYSTEM_NAMESPACE.to_owned(),
            reach,
            gates: Gates::default(),
            certificate_lifetime: SignedDuration::from_hours(90 * 24),
        }
    }
}

/// How the API server reaches the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Through a Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// At a URL, such as `https://127.0.0.1:9443`.
    Url(String),
}

impl Reach {
    /// The `clientConfig` of the webhook at `path`.
    pub(crate) fn client_config(&self, path: &str, bundle: &str) -> Value {
        use base64::Engine as _;
        let bundle = base64::engine::general_purpose::STANDARD.encode(bundle);
        match self {
            Reach::Service { namespace, name, port } => {
                json!({"service": {"namespace": namespace, "name": name, "port": port, "path": path}, "caBundle": bundle})
            }
            Reach::Url(url) => json!({"url": format!("{}{path}", url.trim_end_matches('/')), "caBundle": bundle}),
        }
    }

    /// The name that the API server expects in the certificate.
    pub(crate) fn host(&self) -> Result<String, Error> {
        match self {
            Reach::Service { namespace, name, .. } => Ok(format!("{name}.{namespace}.svc")),
            Reach::Url(url) => {
                let uri = url.parse::<Uri>().ok().filter(|uri| uri.scheme_str() == Some("https"));
                let host = uri.as_ref().and_then(Uri::host).map(|host| host.trim_matches(['[', ']']).to_owned());
                host.filter(|host| !host.is_empty()).ok_or_else(|| Error::Url { url: url.clone() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_made_for_the_name_that_the_api_server_asks() {
        let service = Reach::Service { namespace: "pillion-system".into(), name: "pillion-webhook".into(), port: 443 };
        let rows = [
            (service, Some("pillion-webhook.pillion-system.svc")),
            (Reach::Url("https://127.0.0.1:9443/".into()), Some("127.0.0.1")),
            (Reach::Url("https://[::1]:9443".into()), Some("::1")),
            (Reach::Url("https://pillion.example".into()), Some("pillion.example")),
            (Reach::Url("http://pillion.example".into()), None),
            (Reach::Url("pillion".into()), None),
        ];
        for (reach, host) in rows {
            assert_eq!(reach.host().ok().as_deref(), host, "{reach:?}");
        }
    }

    #[test]
    fn the_api_server_is_told_the_path_on_either_way() {
        let url = Reach::Url("https://127.0.0.1:9443/".into());
        assert_eq!(
            url.client_config("/convert", "PEM"),
            json!({"url": "https://127.0.0.1:9443/convert", "caBundle": "UEVN"})
        );
        let service = Reach::Service { namespace: "a".into(), name: "b".into(), port: 8443 };
        let expected = json!({"namespace": "a", "name": "b", "port": 8443, "path": "/convert"});
        assert_eq!(service.client_config("/convert", "PEM")["service"], expected);
    }
}
