//! Whether a write concerns a webhook: rules, selectors, conditions.

use pillion_selector::Selector;
use pillion_store::Key;
use serde_json::Value;

use super::Webhook;
use crate::attributes::{Attributes, Operation};
use crate::endpoint::Endpoint;
use crate::status::{Refusal, Result};
use crate::{condition, conversion, meta, stored};

/// The webhooks of all configurations of a kind, in the order in which they are asked.
pub(super) fn configured(attributes: &Attributes<'_>, resource: &str) -> Result<Vec<Webhook>> {
    let endpoint = &attributes.call.endpoint;
    // What configures admission must stay changeable, whatever it says.
    if endpoint.group() == "admissionregistration.k8s.io" {
        return Ok(Vec::new());
    }
    let mut webhooks = Vec::new();
    for (_, name, stored) in attributes.call.inner().store.list(resource, None).iter() {
        let configuration = stored::parse(stored)?;
        for spec in configuration["webhooks"].as_array().into_iter().flatten() {
            webhooks.push(Webhook { configuration: name.to_string(), spec: spec.clone() });
        }
    }
    Ok(webhooks)
}

/// The form in which a webhook wants to see the write.
pub(crate) struct Match {
    /// The resource whose rule matched; another version than the request's when only that one is named.
    endpoint: Endpoint,
}

impl Match {
    /// In the version of the request.
    pub(crate) fn own(attributes: &Attributes<'_>) -> Match {
        Match { endpoint: attributes.call.endpoint.clone() }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn is_other(&self, attributes: &Attributes<'_>) -> bool {
        self.endpoint.api_version() != attributes.call.api_version
    }

    /// The object in the webhook's version.
    pub(crate) async fn to_version(&self, attributes: &Attributes<'_>, object: &Value) -> Result<Value> {
        if !self.is_other(attributes) {
            return Ok(object.clone());
        }
        convert(attributes, &attributes.call.endpoint, &self.endpoint, object.clone()).await
    }

    pub(crate) async fn back(&self, attributes: &Attributes<'_>, object: Value) -> Result<Value> {
        if !self.is_other(attributes) {
            return Ok(object);
        }
        convert(attributes, &self.endpoint, &attributes.call.endpoint, object).await
    }
}

async fn convert(attributes: &Attributes<'_>, from: &Endpoint, to: &Endpoint, mut object: Value) -> Result<Value> {
    match (from, to) {
        (Endpoint::Custom(custom), Endpoint::Custom(_)) => {
            let inner = attributes.call.inner();
            let mut converted = conversion::convert(inner, custom, vec![object], &to.api_version()).await?;
            Ok(converted.pop().unwrap_or_default())
        }
        (Endpoint::Builtin(from), Endpoint::Builtin(to)) => {
            if let Some(storage) = &from.storage {
                (storage.to_storage)(&mut object);
            }
            if let Some(storage) = &to.storage {
                (storage.from_storage)(&mut object);
            }
            Ok(object)
        }
        _ => Ok(object),
    }
}

/// Whether the write concerns the webhook, and in which version.
pub(super) async fn matches(
    attributes: &Attributes<'_>,
    webhook: &Webhook,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<Option<Match>> {
    if !matches_object(&webhook.spec["objectSelector"], object, old) {
        return Ok(None);
    }
    let Some(matched) = matches_constraints(attributes, &webhook.spec) else { return Ok(None) };
    if !matches_namespace(attributes, &webhook.spec["namespaceSelector"], object, old)? {
        return Ok(None);
    }
    let conditions = webhook.spec["matchConditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if conditions.is_empty() {
        return Ok(Some(matched));
    }
    let object = match object {
        Some(object) => Some(matched.to_version(attributes, object).await?),
        None => None,
    };
    let old = match old {
        Some(old) => Some(matched.to_version(attributes, old).await?),
        None => None,
    };
    match condition::all_hold(attributes, matched.endpoint(), &webhook.spec, object.as_ref(), old.as_ref()) {
        Ok(true) => Ok(Some(matched)),
        Ok(false) => Ok(None),
        Err(why) => Err(Refusal::forbidden(&attributes.call.endpoint.group_resource(), &attributes.name, &why)),
    }
}

/// The first rule that names the request's resource, or with `matchPolicy: Equivalent` another version of it.
pub(crate) fn matches_constraints(attributes: &Attributes<'_>, spec: &Value) -> Option<Match> {
    let own = &attributes.call.endpoint;
    let rules = || spec["rules"].as_array().or_else(|| spec["resourceRules"].as_array()).into_iter().flatten();
    if rules().any(|rule| rule_matches(attributes, own, rule)) {
        return Some(Match { endpoint: own.clone() });
    }
    if spec["matchPolicy"] == "Exact" {
        return None;
    }
    let others = attributes.call.inner().equivalents(own);
    rules().find_map(|rule| {
        let other = others.iter().find(|other| rule_matches(attributes, other, rule))?;
        Some(Match { endpoint: other.clone() })
    })
}

fn rule_matches(attributes: &Attributes<'_>, endpoint: &Endpoint, rule: &Value) -> bool {
    let lists = |key: &str, wanted: &str| {
        let values = rule[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        values.into_iter().any(|value| value == "*" || value == wanted)
    };
    let names = rule["resourceNames"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named = names.is_empty() || names.iter().any(|name| name == attributes.name.as_str());
    lists("operations", attributes.operation.name())
        && lists("apiGroups", endpoint.group())
        && lists("apiVersions", endpoint.version())
        && named
        && scope_matches(attributes, rule["scope"].as_str().unwrap_or("*"))
        && resource_matches(attributes, endpoint, rule)
}

fn scope_matches(attributes: &Attributes<'_>, scope: &str) -> bool {
    match scope {
        "Namespaced" => attributes.call.endpoint.namespaced(),
        "Cluster" => !attributes.call.endpoint.namespaced(),
        _ => true,
    }
}

fn resource_matches(attributes: &Attributes<'_>, endpoint: &Endpoint, rule: &Value) -> bool {
    let subresource = attributes.subresource();
    rule["resources"].as_array().into_iter().flatten().filter_map(Value::as_str).any(|pattern| {
        let (resource, sub) = pattern.split_once('/').unwrap_or((pattern, ""));
        (resource == "*" || resource == endpoint.plural()) && (sub == "*" || sub == subresource)
    })
}

/// Whether the selector picks the object as it was or as it is to be.
pub(crate) fn matches_object(selector: &Value, object: Option<&Value>, old: Option<&Value>) -> bool {
    let Some(selector) = parse(selector) else { return true };
    let picks = |object: &Value| selector.matches(|key| meta::label(object, key));
    object.is_some_and(picks) || old.is_some_and(picks)
}

/// Whether the selector picks the namespace of the object. Whatever lives in none is picked.
pub(crate) fn matches_namespace(
    attributes: &Attributes<'_>,
    selector: &Value,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<bool> {
    let Some(selector) = parse(selector) else { return Ok(true) };
    let call = attributes.call;
    if call.endpoint.is("", "namespaces") && attributes.subresource().is_empty() {
        let namespace = if attributes.operation == Operation::Delete { old } else { object };
        return Ok(namespace.is_some_and(|namespace| selector.matches(|key| meta::label(namespace, key))));
    }
    if call.namespace().is_empty() {
        return Ok(true);
    }
    let namespaces = crate::status::GroupResource::new("", "namespaces");
    let stored = call.inner().store.get(&Key::new("namespaces", "", call.namespace()));
    let stored = stored.ok_or_else(|| Refusal::not_found(&namespaces, call.namespace()))?;
    let namespace = stored::parse(&stored)?;
    Ok(selector.matches(|key| meta::label(&namespace, key)))
}

/// A selector that leaves something out; `None` for one that picks everything.
fn parse(selector: &Value) -> Option<Selector> {
    let selector = serde_json::from_value(selector.clone()).ok()?;
    let selector = Selector::from_label_selector(&selector).ok()?;
    (!selector.is_empty()).then_some(selector)
}
