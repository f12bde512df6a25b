//! `serviceaccounts/token`: a token that ends by itself, and with the pod that it is bound to.

use axum::http::StatusCode;
use axum::response::Response;
use jiff::SignedDuration;
use pillion_patch::apply::{self, Context, Manager};
use pillion_patch::schema;
use pillion_rules::field;
use pillion_store::Key;
use serde_json::{Value, json};

use crate::admission;
use crate::attributes::{Attributes, Operation};
use crate::authentication::ISSUER;
use crate::call::Call;
use crate::query::{Verb, WriteOptions};
use crate::status::{GroupResource, Refusal, Result};
use crate::{body, create, meta, read, respond, stored};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const SCHEMA: &str = "io.k8s.api.authentication.v1.TokenRequest";
/// What kubelets ask for; such tokens are warned about after that long, and hold for a year.
const SHORT: i64 = 60 * 60 + 7;
const EXTENDED: i64 = 365 * 24 * 60 * 60;

pub(super) async fn create(call: &Call<'_>) -> Result<Response> {
    let options = WriteOptions::decode(&call.query, Verb::Create)?;
    let mut request = body::document(call, KIND, "authentication.k8s.io/v1", SCHEMA, options.field_validation)?;
    create::ensure_namespace(call, &mut request)?;
    let account = read::stored(call).await?;
    let manager = call.manager(&options.field_manager);
    if let Some(schema) = schema::builtin().get(SCHEMA) {
        let context = Context {
            schema,
            api_version: "authentication.k8s.io/v1",
            kind: KIND,
            manager: Manager { name: &manager, subresource: "token" },
            now: call.now(),
            reset: &[],
        };
        if request["spec"]["expirationSeconds"].is_null() {
            request["spec"]["expirationSeconds"] = 3600.into();
        }
        apply::update(&context, None, &mut request);
    }
    complete(call, &mut request, &account)?;
    let attributes = Attributes::new(call, Operation::Create, options.dry_run, &options.shown, "CreateOptions")
        .of_kind(GROUP, "v1", KIND);
    admission::mutate(&attributes, &mut request, None).await?;
    check(&request)?;
    admission::validate(&attributes, Some(&request), None).await?;
    let bound = bound_object(call, &request["spec"]["boundObjectRef"])?;
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
    let claims = claims(call, &request, &account, &bound, seconds);
    let Some(signer) = &call.inner().tokens else { return Err(Refusal::internal("this server signs no tokens")) };
    let token = signer.sign(&claims).map_err(Refusal::internal)?;
    let expires = call.now().checked_add(SignedDuration::from_secs(seconds)).unwrap_or(jiff::Timestamp::MAX);
    request["status"] = json!({"token": token, "expirationTimestamp": meta::time(expires)});
    respond::object(call, StatusCode::CREATED, request)
}

/// The name of the account and the audience of the server where the request names none.
fn complete(call: &Call<'_>, request: &mut Value, account: &Value) -> Result<()> {
    let name = meta::name(request);
    if !name.is_empty() && name != call.name() {
        let path = field::Path::new("metadata").child("name");
        let error = field::Error::invalid(&path, name, "must match the service account name if specified");
        return Err(Refusal::invalid(GROUP, KIND, call.name(), &[error]));
    }
    let uid = meta::uid(request);
    if !uid.is_empty() && uid != meta::uid(account) {
        let why = format!(
            "the UID in the token request ({uid}) does not match the UID of the service account ({})",
            meta::uid(account)
        );
        return Err(Refusal::conflict(&GroupResource::new(GROUP, KIND), call.name(), &why));
    }
    for key in ["name", "namespace", "uid"] {
        meta::set(request, key, account["metadata"].get(key).cloned());
    }
    meta::set(request, "creationTimestamp", Some(meta::time(call.now()).into()));
    meta::sort(request);
    let spec = &mut request["spec"];
    if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
        spec["audiences"] = json!([ISSUER]);
    }
    if spec.get("boundObjectRef").is_none() {
        spec["boundObjectRef"] = Value::Null;
    }
    Ok(())
}

fn check(request: &Value) -> Result<()> {
    let path = field::Path::new("spec").child("expirationSeconds");
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(0);
    let why = if seconds < 600 {
        "may not specify a duration less than 10 minutes"
    } else if seconds > 1 << 32 {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(());
    };
    Err(Refusal::invalid(GROUP, KIND, "", &[field::Error::invalid(&path, seconds, why)]))
}

/// What the token is bound to, as its claims name it.
fn bound_object(call: &Call<'_>, reference: &Value) -> Result<Value> {
    if reference.is_null() {
        return Ok(json!({}));
    }
    let text = |key: &str| reference[key].as_str().unwrap_or_default();
    let (kind, resource, namespace) = match (text("apiVersion"), text("kind")) {
        ("v1" | "", "Pod") => ("pod", "pods", call.namespace()),
        ("v1" | "", "Secret") => ("secret", "secrets", call.namespace()),
        ("v1" | "", "Node") => ("node", "nodes", ""),
        (version, kind) => {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            return Err(Refusal::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    };
    let name = text("name");
    let stored = call.inner().store.get(&Key::new(resource, namespace, name));
    let stored = stored.ok_or_else(|| Refusal::not_found(&GroupResource::new("", resource), name))?;
    let object = stored::parse(&stored)?;
    if kind == "pod" && object["spec"]["serviceAccountName"] != call.name() {
        return Err(Refusal::bad_request(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            call.name()
        )));
    }
    let uid = text("uid");
    if !uid.is_empty() && uid != meta::uid(&object) {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Refusal::conflict(&GroupResource::new("", text("kind")), name, &why));
    }
    let mut bound = json!({kind: {"name": name, "uid": meta::uid(&object)}});
    if kind == "pod"
        && let Some(node) = object["spec"]["nodeName"].as_str()
    {
        bound["node"] = json!({"name": node});
        if let Some(stored) = call.inner().store.get(&Key::new("nodes", "", node)) {
            bound["node"]["uid"] = meta::uid(&stored::parse(&stored)?).into();
        }
    }
    Ok(bound)
}

fn claims(call: &Call<'_>, request: &Value, account: &Value, bound: &Value, seconds: i64) -> Value {
    let now = call.now().as_second();
    let mut kubernetes = json!({
        "namespace": call.namespace(),
        "serviceaccount": {"name": call.name(), "uid": meta::uid(account)},
    });
    for (key, value) in bound.as_object().into_iter().flatten() {
        kubernetes[key] = value.clone();
    }
    let audiences = &request["spec"]["audiences"];
    let extended = bound.get("pod").is_some() && seconds == SHORT && *audiences == json!([ISSUER]);
    if extended {
        kubernetes["warnafter"] = (now + seconds).into();
    }
    json!({
        "aud": audiences,
        "exp": now + if extended { EXTENDED } else { seconds },
        "iat": now,
        "iss": ISSUER,
        "jti": call.inner().uid(),
        "kubernetes.io": kubernetes,
        "nbf": now,
        "sub": format!("system:serviceaccount:{}:{}", call.namespace(), call.name()),
    })
}
