//! What a manager is made of.

use std::fmt::Display;
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::Arc;

use axum::http::Uri;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use pillion_api::names;
use pillion_api::vpa::DEFAULT_RECOMMENDER;
use pillion_events::Recorder;
use pillion_gates::Gates;
use pillion_informer::Reconciler;
use pillion_quantity::Quantity;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::controller_name::ControllerName;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::peer::Peer;

/// The manager's namespace unless another is given.
pub const NAMESPACE: &str = "pillion-system";

/// The namespaces whose pods the webhook is not called for: the cluster's own, and `namespace`, the manager's.
pub fn excluded_namespaces(namespace: &str) -> [&str; 2] {
    ["kube-system", namespace]
}

/// Reads the time of day.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a manager is made of.
#[derive(Clone)]
pub struct Config {
    /// The API server.
    pub client: Client,
    /// The same for evictions, where `client` repeats requests by itself: 429 is the answer to an eviction that a PodDisruptionBudget forbids.
    pub evicting: Option<Client>,
    /// What acquires and renews Leases, so that neither large answers nor long passes delay it. Without it `client` does.
    pub leasing: Option<Leasing>,
    /// The one clock.
    pub now: Now,
    /// The manager's own namespace: its Secret and its Leases are there, and pods there are never injected.
    pub namespace: String,
    /// Where ControllerRevisions of SidecarSets and Kruise's ConfigMap are. Whoever may write there decides what is injected.
    pub revisions_namespace: String,
    /// Where the API server finds the webhooks.
    pub address: WebhookAddress,
    /// Where the webhooks' certificates come from.
    pub certificates: Certificates,
    /// The feature gates.
    pub gates: Gates,
    /// What this process does.
    pub parts: Vec<ControllerName>,
    /// Who this replica is in elections; it must differ from every other process. `None` for the only manager of a cluster, which leads
    /// without a Lease.
    pub identity: Option<String>,
    /// Whether the manager installs the definition of SidecarSet. Otherwise `pillion install` or an administrator must have installed it.
    pub installs_definition: bool,
    /// Whose objects the manager may serve, once they do not serve them any more.
    pub take_over: Vec<Peer>,
    /// The image with `pillion-wrap`, for sidecars with the mode Strict.
    pub wrap_image: Option<String>,
    /// `--max-allowed-cpu-boost`: no boost gives a container more CPU than this.
    pub max_cpu_boost: Option<Quantity>,
    /// Settings of the recommender and the updater; their gates, metrics and namespaces are those of the manager.
    pub rightsizing: pillion_rightsizer::Config,
    /// What is counted.
    pub metrics: Metrics,
}

impl Config {
    /// Returns a reconciler whose work is counted.
    pub(crate) fn reconciler<'a, K>(&self, name: &'static str) -> Reconciler<'a, K>
    where
        K: Clone + Display + Eq + Hash + Send + 'a,
    {
        Reconciler::new(name).observed_by(self.metrics.controller(name))
    }

    /// Writes the events of controllers.
    pub(crate) fn recorder(&self) -> Recorder {
        let now = self.now.clone();
        Recorder::new(self.client.clone(), move || now(), "pillion")
    }

    /// The settings of the only manager of a cluster: it does everything.
    pub fn new(client: Client, now: Now, address: WebhookAddress) -> Config {
        Config {
            rightsizing: pillion_rightsizer::Config::new(client.clone(), now.clone()),
            client,
            evicting: None,
            leasing: None,
            now,
            namespace: NAMESPACE.to_owned(),
            revisions_namespace: names::DEFAULT_SYSTEM_NAMESPACE.to_owned(),
            address,
            certificates: Certificates::default(),
            gates: Gates::default(),
            parts: ControllerName::ALL.to_vec(),
            identity: None,
            installs_definition: true,
            take_over: Vec::new(),
            wrap_image: None,
            max_cpu_boost: None,
            metrics: Metrics::default(),
        }
    }

    /// The first part of this process. Its Lease says whether the leader of all of them is alive.
    pub(crate) fn first_part(&self) -> Option<ControllerName> {
        self.parts.iter().min().copied()
    }

    /// The Lease that the leader of a part holds. Recommenders of different names serve different autoscalers, side by side.
    pub fn lease(&self, part: ControllerName) -> String {
        match (part, self.rightsizing.recommender_name.as_str()) {
            (ControllerName::Recommender, name) if name != DEFAULT_RECOMMENDER => format!("{}-{name}", part.lease()),
            _ => part.lease().to_owned(),
        }
    }
}

/// What acquires and renews Leases.
#[derive(Clone)]
pub struct Leasing {
    /// A client that nothing else uses.
    pub client: Client,
    /// The runtime in which it was made.
    pub runtime: Handle,
}

/// Where the webhooks' certificates come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// The manager makes and renews them. Replicas share an authority in a Secret.
    SelfSigned {
        /// How long a certificate is valid; it is renewed when a third of that is left. Its authority is valid 40 times as long.
        lifetime: SignedDuration,
    },
    /// A folder with `tls.crt`, `tls.key` and, unless API servers trust the certificate anyway, `ca.crt`: a mounted Secret, such as cert-manager
    /// writes. It is read again when it changes.
    Folder(PathBuf),
}

impl Default for Certificates {
    fn default() -> Certificates {
        Certificates::SelfSigned { lifetime: SignedDuration::from_hours(90 * 24) }
    }
}

/// Where the API server finds the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookAddress {
    /// Behind a Service.
    Service { namespace: String, name: String, port: u16 },
    /// At a URL, such as `https://127.0.0.1:9443`.
    Url(String),
}

/// The Service of the conversion webhook, beside the Service `name` of the others. Replicas that are not ready must be behind it, too: to become
/// ready they list SidecarSets, and the API server may have to convert those first.
pub fn conversion_service(name: &str) -> String {
    format!("{name}-conversion")
}

impl WebhookAddress {
    /// Where the API server finds the conversion webhook: with a Service, behind [`conversion_service`].
    pub(crate) fn of_conversion(&self) -> WebhookAddress {
        match self {
            WebhookAddress::Service { namespace, name, port } => {
                WebhookAddress::Service { namespace: namespace.clone(), name: conversion_service(name), port: *port }
            }
            url @ WebhookAddress::Url(_) => url.clone(),
        }
    }

    /// The `clientConfig` of the webhook at `path`. Without a bundle, API servers trust what their machine trusts.
    pub(crate) fn client_config(&self, path: &str, bundle: &str) -> Value {
        use base64::Engine as _;
        let mut config = match self {
            WebhookAddress::Service { namespace, name, port } => {
                json!({"service": {"namespace": namespace, "name": name, "port": port, "path": path}})
            }
            WebhookAddress::Url(url) => json!({"url": format!("{}{path}", url.trim_end_matches('/'))}),
        };
        if !bundle.is_empty() {
            config["caBundle"] = base64::engine::general_purpose::STANDARD.encode(bundle).into();
        }
        config
    }

    /// Whether a `clientConfig` is of a webhook at this address.
    pub(crate) fn is_in(&self, client: &Value) -> bool {
        match self {
            WebhookAddress::Service { namespace, name, .. } => {
                client["service"]["namespace"] == *namespace && client["service"]["name"] == *name
            }
            WebhookAddress::Url(url) => {
                let path = client["url"].as_str().and_then(|called| called.strip_prefix(url.trim_end_matches('/')));
                path.is_some_and(|path| path.starts_with('/'))
            }
        }
    }

    /// The name that the API server expects in the certificate.
    pub(crate) fn host(&self) -> Result<String, Error> {
        match self {
            WebhookAddress::Service { namespace, name, .. } => Ok(format!("{name}.{namespace}.svc")),
            WebhookAddress::Url(url) => {
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
    fn conversion_has_a_service_of_its_own() {
        let service = WebhookAddress::Service { namespace: "a".into(), name: "b".into(), port: 443 };
        assert_eq!(service.of_conversion().host().unwrap(), "b-conversion.a.svc");
        let url = WebhookAddress::Url("https://pillion.example".into());
        assert_eq!(url.of_conversion(), url);
    }

    #[test]
    fn a_certificate_is_made_for_the_name_that_the_api_server_asks() {
        let service =
            WebhookAddress::Service { namespace: "pillion-system".into(), name: "pillion-webhook".into(), port: 443 };
        let rows = [
            (service, Some("pillion-webhook.pillion-system.svc")),
            (WebhookAddress::Url("https://127.0.0.1:9443/".into()), Some("127.0.0.1")),
            (WebhookAddress::Url("https://[::1]:9443".into()), Some("::1")),
            (WebhookAddress::Url("https://pillion.example".into()), Some("pillion.example")),
            (WebhookAddress::Url("http://pillion.example".into()), None),
            (WebhookAddress::Url("pillion".into()), None),
        ];
        for (address, host) in rows {
            assert_eq!(address.host().ok().as_deref(), host, "{address:?}");
        }
    }

    #[test]
    fn a_client_config_has_the_path_and_the_bundle() {
        let url = WebhookAddress::Url("https://127.0.0.1:9443/".into());
        assert_eq!(
            url.client_config("/convert", "PEM"),
            json!({"url": "https://127.0.0.1:9443/convert", "caBundle": "UEVN"})
        );
        assert_eq!(url.client_config("/convert", ""), json!({"url": "https://127.0.0.1:9443/convert"}));
        let service = WebhookAddress::Service { namespace: "a".into(), name: "b".into(), port: 8443 };
        let expected = json!({"namespace": "a", "name": "b", "port": 8443, "path": "/convert"});
        assert_eq!(service.client_config("/convert", "PEM")["service"], expected);
        assert!(service.is_in(&service.client_config("/convert", "PEM")));
        assert!(!service.is_in(&url.client_config("/convert", "PEM")) && !service.of_conversion().is_in(&json!({})));
        assert!(url.is_in(&url.client_config("/convert", "")));
        assert!(!url.is_in(&json!({"url": "https://127.0.0.1:94430/convert"})) && !url.is_in(&Value::Null));
    }
}
