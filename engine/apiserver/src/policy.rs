//! ValidatingAdmissionPolicies: which of them a write concerns, with which parameters, and what their verdicts do.

use axum::http::StatusCode;
use pillion_selector::Selector;
use pillion_store::Key;
use pillion_structural::policy::{Decision, Request, denial};
use serde_json::{Value, json};

use crate::attributes::{Attributes, request};
use crate::endpoint::Endpoint;
use crate::status::{Refusal, Result};
use crate::webhook::{Match, matches_constraints, matches_namespace, matches_object};
use crate::{meta, stored};

const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";

/// Evaluates the policies that are bound to the write.
pub(crate) async fn validate(attributes: &Attributes<'_>, object: Option<&Value>, old: Option<&Value>) -> Result<()> {
    // What configures admission must stay changeable, whatever it says.
    if attributes.call.endpoint.group() == "admissionregistration.k8s.io" {
        return Ok(());
    }
    let store = &attributes.call.inner().store;
    let policies = store.list(POLICIES, None);
    if policies.is_empty() {
        return Ok(());
    }
    let bindings = store
        .list(BINDINGS, None)
        .iter()
        .map(|(_, _, stored)| stored::parse(stored))
        .collect::<Result<Vec<Value>>>()?;
    for (_, name, stored) in policies.iter() {
        let policy = stored::parse(stored)?;
        let bound = bindings.iter().filter(|binding| binding["spec"]["policyName"] == **name);
        for binding in bound {
            let constraints = &policy["spec"]["matchConstraints"];
            let Some(matched) = concerns(attributes, constraints, object, old)? else { continue };
            let narrowed = &binding["spec"]["matchResources"];
            if narrowed.is_object() && concerns(attributes, narrowed, object, old)?.is_none() {
                continue;
            }
            apply(attributes, &policy, binding, &matched, object, old).await?;
        }
    }
    Ok(())
}

/// Whether `matchConstraints` or `matchResources` pick the write, and in which version.
fn concerns(
    attributes: &Attributes<'_>,
    constraints: &Value,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<Option<Match>> {
    if !matches_object(&constraints["objectSelector"], object, old) {
        return Ok(None);
    }
    let excluded = &constraints["excludeResourceRules"];
    if excluded.as_array().is_some_and(|rules| !rules.is_empty()) {
        let exclusion = json!({"resourceRules": excluded, "matchPolicy": constraints["matchPolicy"]});
        if matches_constraints(attributes, &exclusion).is_some() {
            return Ok(None);
        }
    }
    let matched = if constraints["resourceRules"].as_array().is_none_or(Vec::is_empty) {
        Some(Match::own(attributes))
    } else {
        matches_constraints(attributes, constraints)
    };
    let Some(matched) = matched else { return Ok(None) };
    let in_namespace = matches_namespace(attributes, &constraints["namespaceSelector"], object, old)?;
    Ok(in_namespace.then_some(matched))
}

async fn apply(
    attributes: &Attributes<'_>,
    policy: &Value,
    binding: &Value,
    matched: &Match,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<()> {
    let call = attributes.call;
    let versioned = async |object: Option<&Value>| match object {
        Some(object) => matched.to_version(attributes, object).await,
        None => Ok(Value::Null),
    };
    let (object, old) = (versioned(object).await?, versioned(old).await?);
    let described = Value::Object(request::describe(attributes, matched.endpoint()));
    let namespace = call.inner().store.get(&Key::new("namespaces", "", call.namespace()));
    let namespace = namespace.map(|stored| stored::parse(&stored)).transpose()?.unwrap_or_default();
    let compiled = call.inner().policies.compiled(policy);
    let parameters = match parameters(attributes, policy, binding) {
        Ok(parameters) => parameters,
        Err(why) if policy["spec"]["failurePolicy"] == "Ignore" => {
            let _ = why;
            return Ok(());
        }
        Err(why) => return Err(denied(attributes, &object, policy, binding, &failed(why))),
    };
    for parameter in parameters {
        let request = Request {
            object: &object,
            old_object: &old,
            request: &described,
            namespace: &namespace,
            params: parameter.as_ref(),
        };
        let decisions = compiled.evaluate(&request);
        let actions = binding["spec"]["validationActions"].as_array().cloned().unwrap_or_default();
        if actions.iter().any(|action| action == "Warn") {
            for decision in &decisions {
                call.warnings.add(decision.warning(meta::name(policy), meta::name(binding)));
            }
        }
        if let (Some(decision), true) = (decisions.first(), actions.iter().any(|action| action == "Deny")) {
            return Err(denied(attributes, &object, policy, binding, decision));
        }
    }
    Ok(())
}

fn failed(why: String) -> Decision {
    Decision { message: why, reason: "Invalid".to_owned(), validation: None }
}

fn denied(
    attributes: &Attributes<'_>,
    object: &Value,
    policy: &Value,
    binding: &Value,
    decision: &Decision,
) -> Box<Refusal> {
    let message = denial(meta::name(policy), Some(meta::name(binding)), &decision.message);
    let resource = attributes.call.endpoint.group_resource();
    let mut refusal = Refusal::forbidden(&resource, attributes.object_name(object), &message);
    refusal.code = StatusCode::from_u16(decision.code()).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY).as_u16();
    refusal.reason.clone_from(&decision.reason);
    refusal.details["causes"] = json!([{"message": message}]);
    refusal
}

/// The parameters that a binding brings; `None` for a policy that wants none.
fn parameters(
    attributes: &Attributes<'_>,
    policy: &Value,
    binding: &Value,
) -> std::result::Result<Vec<Option<Value>>, String> {
    let kind = &policy["spec"]["paramKind"];
    let reference = &binding["spec"]["paramRef"];
    if kind.is_null() || reference.is_null() {
        return Ok(vec![None]);
    }
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(kind, "apiVersion"), text(kind, "kind"));
    let inner = attributes.call.inner();
    let Some(endpoint) = inner.endpoint_of_kind(&api_version, &kind) else {
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        return Err(format!(
            "failed to configure policy: failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"
        ));
    };
    let namespace = if !endpoint.namespaced() {
        String::new()
    } else if text(reference, "namespace").is_empty() {
        attributes.call.namespace().to_owned()
    } else {
        text(reference, "namespace")
    };
    let found = find(attributes, &endpoint, reference, &namespace)?;
    if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
        return Err(
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
                .to_owned(),
        );
    }
    Ok(found.into_iter().map(Some).collect())
}

fn find(
    attributes: &Attributes<'_>,
    endpoint: &Endpoint,
    reference: &Value,
    namespace: &str,
) -> std::result::Result<Vec<Value>, String> {
    let store = &attributes.call.inner().store;
    let parse = |stored: &pillion_store::Stored| stored::parse(stored).map_err(|refusal| refusal.message.clone());
    if let Some(name) = reference["name"].as_str() {
        let stored = store.get(&Key::new(endpoint.storage_name(), namespace, name));
        return stored.iter().map(parse).collect();
    }
    let selector = serde_json::from_value(reference["selector"].clone()).map_err(|error| error.to_string())?;
    let selector = Selector::from_label_selector(&selector).map_err(|error| error.to_string())?;
    let snapshot = store.list(&endpoint.storage_name(), (!namespace.is_empty()).then_some(namespace));
    let all =
        snapshot.iter().map(|(_, _, stored)| parse(stored)).collect::<std::result::Result<Vec<Value>, String>>()?;
    Ok(all.into_iter().filter(|object| selector.matches(|key| meta::label(object, key))).collect())
}
