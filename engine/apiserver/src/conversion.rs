//! From one version of a custom resource to another.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use crate::custom::CustomResource;
use crate::meta;
use crate::state::Inner;
use crate::status::{Refusal, Result};
use crate::webhook_client;

/// Conversion webhooks have this long, as with kube-apiserver.
const TIMEOUT_SECONDS: u64 = 30;

/// Objects in the version `wanted`, in their order.
pub(crate) async fn convert(
    inner: &Inner,
    custom: &CustomResource,
    objects: Vec<Value>,
    wanted: &str,
) -> Result<Vec<Value>> {
    let Some(webhook) = &custom.conversion_webhook else {
        return Ok(objects.into_iter().map(|object| with_version(object, wanted)).collect());
    };
    let foreign: Vec<Value> = objects.iter().filter(|object| object["apiVersion"] != wanted).cloned().collect();
    if foreign.is_empty() {
        return Ok(objects);
    }
    let mut converted = ask(inner, custom, webhook, &foreign, wanted).await?.into_iter();
    let take = |object: Value| if object["apiVersion"] == wanted { Some(object) } else { converted.next() };
    Ok(objects.into_iter().filter_map(take).collect())
}

fn with_version(mut object: Value, wanted: &str) -> Value {
    object["apiVersion"] = wanted.into();
    object
}

async fn ask(
    inner: &Inner,
    custom: &CustomResource,
    webhook: &Value,
    objects: &[Value],
    wanted: &str,
) -> Result<Vec<Value>> {
    let first = objects.first().and_then(|object| object["apiVersion"].as_str()).unwrap_or_default();
    let refusal = |why: String| {
        let message = format!("conversion webhook for {first}, Kind={} {why}", custom.kind);
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "", message, Value::Null)
    };
    let failed = |why: String| refusal(format!("failed: {why}"));
    let versions = webhook["conversionReviewVersions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let review_version = versions.into_iter().find(|version| matches!(*version, "v1" | "v1beta1"));
    let Some(review_version) = review_version else {
        return Err(failed("webhook does not accept known ConversionReview versions (v1, v1beta1)".to_owned()));
    };
    let uid = inner.uid();
    let review = json!({
        "kind": "ConversionReview",
        "apiVersion": format!("apiextensions.k8s.io/{review_version}"),
        "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": objects},
    });
    let reply = webhook_client::post(inner, &webhook["clientConfig"], &review, TIMEOUT_SECONDS)
        .await
        .map_err(|why| failed(why.trim_start_matches("failed to call webhook: ").to_owned()))?;
    let converted = converted_objects(&reply, review_version, &uid).map_err(failed)?;
    if converted.len() != objects.len() {
        return Err(refusal(format!("returned {} objects, expected {}", converted.len(), objects.len())));
    }
    let pairs = converted.iter().zip(objects).enumerate();
    pairs.map(|(index, (new, old))| checked(index, new.clone(), old, wanted).map_err(refusal)).collect()
}

/// The objects of a webhook's answer to this request.
fn converted_objects<'a>(
    reply: &'a Value,
    review_version: &str,
    uid: &str,
) -> std::result::Result<&'a [Value], String> {
    let response = &reply["response"];
    if response.is_null() {
        return Err("no response provided".to_owned());
    }
    let text = |value: &'a Value| value.as_str().unwrap_or_default();
    if review_version == "v1" && text(&response["uid"]) != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text(&response["uid"])));
    }
    match (text(&response["result"]["status"]), text(&response["result"]["message"])) {
        ("Success", _) => Ok(response["convertedObjects"].as_array().map(Vec::as_slice).unwrap_or_default()),
        (status, "") => Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => Err(message.to_owned()),
    }
}

/// A webhook may change everything but what the object is: labels and annotations are all it may touch in metadata.
fn checked(index: usize, mut new: Value, old: &Value, wanted: &str) -> std::result::Result<Value, String> {
    let text = |object: &Value, key: &str| object[key].as_str().unwrap_or_default().to_owned();
    for (what, expected, received) in
        [("groupVersion", wanted.to_owned(), text(&new, "apiVersion")), ("kind", text(old, "kind"), text(&new, "kind"))]
    {
        if expected != received {
            return Err(format!(
                "returned invalid object at index {index}: invalid {what} (expected {expected}, received {received})"
            ));
        }
    }
    for (key, what) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (expected, received) = (meta::text(old, key), meta::text(&new, key));
        if expected != received {
            return Err(format!("returned invalid object: must have the same {what}: {expected} != {received}"));
        }
    }
    let mut metadata: Map<String, Value> = old["metadata"].as_object().cloned().unwrap_or_default();
    for key in ["labels", "annotations"] {
        match new["metadata"].get(key) {
            Some(value) => metadata.insert(key.to_owned(), value.clone()),
            None => metadata.shift_remove(key),
        };
    }
    new["metadata"] = Value::Object(metadata);
    meta::sort(&mut new);
    Ok(new)
}
