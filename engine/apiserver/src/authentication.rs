//! Whose token it is.

use jiff::Timestamp;
use pillion_store::Key;
use serde_json::Value;

use crate::state::Inner;
use crate::user::User;
use crate::{meta, stored};

/// The audience of tokens for this API server, and their issuer.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// The user of a service account's token, if it holds: signed here, neither too early nor too late, and all that it is bound to still there.
pub(crate) fn service_account(inner: &Inner, token: &str, audiences: &[&str]) -> Option<User> {
    let claims = inner.tokens.as_ref()?.verify(token)?;
    let now = inner.clock.now();
    let time = |key: &str| claims[key].as_i64().and_then(|seconds| Timestamp::from_second(seconds).ok());
    if time("exp")? <= now || time("nbf")? > now {
        return None;
    }
    let for_us =
        claims["aud"].as_array()?.iter().filter_map(Value::as_str).any(|audience| audiences.contains(&audience));
    if !for_us {
        return None;
    }
    let bound = &claims["kubernetes.io"];
    let namespace = bound["namespace"].as_str()?;
    let account = &bound["serviceaccount"];
    let is_there = |resource: &str, namespace: &str, reference: &Value| {
        let name = reference["name"].as_str().unwrap_or_default();
        let stored = inner.store.get(&Key::new(resource, namespace, name));
        let object = stored.and_then(|stored| stored::parse(&stored).ok());
        object.is_some_and(|object| reference["uid"] == meta::uid(&object))
    };
    if !is_there("serviceaccounts", namespace, account) {
        return None;
    }
    if bound.get("pod").is_some_and(|pod| !is_there("pods", namespace, pod)) {
        return None;
    }
    if bound.get("secret").is_some_and(|secret| !is_there("secrets", namespace, secret)) {
        return None;
    }
    let mut extra = Vec::new();
    if let Some(id) = claims["jti"].as_str() {
        extra.push(("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("JTI={id}")]));
    }
    for (kind, key) in [("node", "name"), ("node", "uid"), ("pod", "name"), ("pod", "uid")] {
        if let Some(text) = bound[kind][key].as_str() {
            extra.push((format!("authentication.kubernetes.io/{kind}-{key}"), vec![text.to_owned()]));
        }
    }
    Some(User {
        name: format!("system:serviceaccount:{namespace}:{}", account["name"].as_str().unwrap_or_default()),
        uid: account["uid"].as_str().unwrap_or_default().to_owned(),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
        extra,
    })
}
