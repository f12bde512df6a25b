//! Reviews: questions that are answered and not stored.

use axum::http::StatusCode;
use axum::response::Response;
use pillion_patch::apply;
use serde_json::{Value, json};

use crate::authentication::{self, ISSUER};
use crate::call::Call;
use crate::endpoint::{Endpoint, Part};
use crate::query::{Verb, WriteOptions};
use crate::status::{Refusal, Result};
use crate::{body, create, meta, respond, storage, subresource};

pub(crate) fn is_review(endpoint: &Endpoint) -> bool {
    matches!(endpoint.group(), "authentication.k8s.io" | "authorization.k8s.io") || endpoint.is("", "bindings")
}

pub(crate) async fn answer(call: &Call<'_>) -> Result<Response> {
    if call.endpoint.is("", "bindings") {
        return subresource::bind(call).await;
    }
    let options = WriteOptions::decode(&call.query, Verb::Create)?;
    let mut review = body::object(call, options.field_validation)?;
    create::ensure_namespace(call, &mut review)?;
    if let Some(context) = storage::apply_context(call, Part::Main, &call.manager(&options.field_manager)) {
        apply::update(&context, None, &mut review);
    }
    match call.endpoint.plural() {
        "tokenreviews" => token(call, &mut review)?,
        "selfsubjectreviews" => {
            meta::set(&mut review, "creationTimestamp", Some(meta::time(call.now()).into()));
            review["status"] = json!({"userInfo": call.user.to_json()});
        }
        "selfsubjectrulesreviews" => rules(&mut review)?,
        _ => access(call, &mut review)?,
    }
    storage::canonical(&call.endpoint, &mut review);
    respond::object(call, StatusCode::CREATED, review)
}

fn token(call: &Call<'_>, review: &mut Value) -> Result<()> {
    let text = review["spec"]["token"].as_str().unwrap_or_default().to_owned();
    if text.is_empty() {
        return Err(Refusal::bad_request("token is required for TokenReview in authentication"));
    }
    let wanted: Vec<String> = review["spec"]["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let audiences: Vec<&str> =
        if wanted.is_empty() { vec![ISSUER] } else { wanted.iter().map(String::as_str).collect() };
    let user = if call.inner().is_admin_token(&text) {
        Some(crate::user::User::admin())
    } else {
        authentication::service_account(call.inner(), &text, &audiences)
    };
    review["status"] = match user {
        Some(user) => json!({"authenticated": true, "user": user.to_json(), "audiences": audiences}),
        None => json!({"user": {}, "error": why_not(call, &text, &audiences)}),
    };
    Ok(())
}

/// What is wrong with a token.
fn why_not(call: &Call<'_>, token: &str, audiences: &[&str]) -> String {
    let claims = call.inner().tokens.as_ref().and_then(|tokens| tokens.verify(token));
    let Some(claims) = claims else { return "invalid bearer token".to_owned() };
    let quoted = |all: &[&str]| format!("[{}]", all.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(" "));
    let own: Vec<&str> = claims["aud"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let why = if own.iter().any(|audience| audiences.contains(audience)) {
        "Token has been invalidated".to_owned()
    } else {
        format!("token audiences {} is invalid for the target audiences {}", quoted(&own), quoted(audiences))
    };
    format!("[invalid bearer token, {why}]")
}

/// Roles are stored and not enforced here: everything is allowed.
fn access(call: &Call<'_>, review: &mut Value) -> Result<()> {
    let errors = call.endpoint.validate(review);
    if !errors.is_empty() {
        // Kubernetes does not name the kind here.
        return Err(Refusal::invalid(call.endpoint.group(), "", "", &errors));
    }
    review["status"] = json!({"allowed": true});
    Ok(())
}

fn rules(review: &mut Value) -> Result<()> {
    if review["spec"]["namespace"].as_str().unwrap_or_default().is_empty() {
        return Err(Refusal::bad_request("no namespace on request"));
    }
    // The answer is a new object.
    review["metadata"] = json!({});
    review["spec"] = json!({});
    review["status"] = json!({
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": false,
    });
    Ok(())
}
