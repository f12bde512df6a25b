//! The state of an API server, which all handlers share.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock};

use axum::Router;
use pillion_clock::Clock;
use pillion_gates::{Gate, Gates};
use pillion_rules::SAFE_LETTERS;
use pillion_store::Store;
use sha2::{Digest as _, Sha256};

use crate::compiled::{Conditions, Policies};
use crate::config::Config;
use crate::custom::CustomResources;
use crate::endpoint::Endpoint;
use crate::https_clients::HttpsClients;
use crate::kinds;
use crate::openapi::OpenApi;
use crate::token::TokenSigner;

/// What an API server holds.
pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) gates: Gates,
    pub(crate) tokens: Option<TokenSigner>,
    pub(crate) custom: CustomResources,
    pub(crate) open_api: OpenApi,
    pub(crate) conditions: Conditions,
    pub(crate) policies: Policies,
    random: Mutex<fastrand::Rng>,
    /// The owner's token, once a port is served.
    admin_token: RwLock<Option<String>>,
    /// Webhooks in this process, by the start of their URL.
    pub(crate) webhooks: RwLock<HashMap<String, Router>>,
    /// Connections to webhooks elsewhere.
    pub(crate) https: HttpsClients,
    /// Kubelets in this process, by the name of their node.
    pub(crate) nodes: RwLock<HashMap<String, Router>>,
    /// Serves the resource metrics of pods and nodes.
    pub(crate) metrics: RwLock<Option<Router>>,
}

impl Inner {
    pub(crate) fn new(config: Config) -> Inner {
        let random = config.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let custom = CustomResources::new(&config.store);
        Inner {
            store: config.store,
            clock: config.clock,
            gates: config.gates,
            tokens: config.tokens,
            custom,
            open_api: OpenApi::new(config.gates.is_enabled(Gate::SidecarField)),
            conditions: Conditions::default(),
            policies: Policies::default(),
            random: Mutex::new(random),
            admin_token: RwLock::default(),
            webhooks: RwLock::default(),
            https: HttpsClients::new(config.clock),
            nodes: RwLock::default(),
            metrics: RwLock::default(),
        }
    }

    /// A service of this process for a webhook's URL: of those whose URL is above it, the nearest.
    pub(crate) fn webhook(&self, url: &str) -> Option<Router> {
        let webhooks = self.webhooks.read().unwrap_or_else(PoisonError::into_inner);
        let above = webhooks.iter().filter(|(start, _)| is_below(url, start));
        above.max_by_key(|(start, _)| start.len()).map(|(_, service)| service.clone())
    }

    pub(crate) fn metrics(&self) -> Option<Router> {
        self.metrics.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn node(&self, name: &str) -> Option<Router> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(crate) fn set_admin_token(&self, token: &str) {
        *self.admin_token.write().unwrap_or_else(PoisonError::into_inner) = Some(token.to_owned());
    }

    /// Compares digests, so that timing does not reveal the token.
    pub(crate) fn is_admin_token(&self, token: &str) -> bool {
        let known = self.admin_token.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().is_some_and(|known| Sha256::digest(known) == Sha256::digest(token))
    }

    pub(crate) fn uid(&self) -> String {
        let bytes = self.random.lock().unwrap_or_else(PoisonError::into_inner).u128(..).to_be_bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// Five characters that never spell a word: what generated names end with.
    pub(crate) fn suffix(&self) -> String {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        (0..5).filter_map(|_| random.choice(SAFE_LETTERS)).collect()
    }

    pub(crate) fn number(&self, range: std::ops::Range<u32>) -> u32 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).u32(range)
    }

    /// A number between 0 and 1.
    pub(crate) fn fraction(&self) -> f64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).f64()
    }

    /// The same resource in other groups or versions.
    pub(crate) fn equivalents(&self, endpoint: &Endpoint) -> Vec<Endpoint> {
        match endpoint {
            Endpoint::Builtin(_) => {
                let same = |resource: &&'static pillion_kinds::resource::Resource| {
                    let other = Endpoint::Builtin(resource);
                    other.storage_name() == endpoint.storage_name() && other.api_version() != endpoint.api_version()
                };
                pillion_kinds::resource::all().iter().filter(same).map(Endpoint::Builtin).collect()
            }
            Endpoint::Custom(custom) => self.custom.other_versions(custom).into_iter().map(Endpoint::Custom).collect(),
        }
    }

    /// The resource whose objects have this kind.
    pub(crate) fn endpoint_of_kind(&self, api_version: &str, kind: &str) -> Option<Endpoint> {
        let builtin = kinds::of_kind(api_version, kind).map(Endpoint::Builtin);
        builtin.or_else(|| self.custom.of_kind(api_version, kind).map(Endpoint::Custom))
    }

    /// The resource that a path names.
    pub(crate) fn endpoint(&self, group: &str, version: &str, plural: &str) -> Option<Endpoint> {
        kinds::find(group, version, plural)
            .map(Endpoint::Builtin)
            .or_else(|| self.custom.find(group, version, plural).map(Endpoint::Custom))
    }
}

/// Whether a URL is this one, or below it: `https://example.com` is not the start of `https://example.com.evil.example`.
fn is_below(url: &str, start: &str) -> bool {
    url.strip_prefix(start).is_some_and(|rest| rest.is_empty() || start.ends_with('/') || rest.starts_with(['/', '?']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_below_another_at_a_boundary_only() {
        for (url, start, expected) in [
            ("https://a.svc:443/mutate?timeout=10s", "https://a.svc:443", true),
            ("https://a.svc:443?timeout=10s", "https://a.svc:443", true),
            ("https://a.svc:443", "https://a.svc:443", true),
            ("https://a.svc/x/mutate", "https://a.svc/x/", true),
            ("https://a.svc:4430/mutate", "https://a.svc:443", false),
            ("https://a.svc.evil.example/mutate", "https://a.svc", false),
            ("https://a.svc/xy", "https://a.svc/x", false),
        ] {
            assert_eq!(is_below(url, start), expected, "{url} {start}");
        }
    }
}
