//! From one version of a custom resource to another.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::CustomResource;
use crate::meta;
use crate::server::Inner;
use crate::status::{Refusal, Result};
use crate::webhook::call;

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
    let (group, version) = first.split_once('/').unwrap_or(("", first));
    let failed = |why: String| {
        let kind = &custom.kind;
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "",
            format!("conversion webhook for {group}/{version}, Kind={kind} failed: {why}"),
            Value::Null,
        )
    };
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
    let reply = call::post(inner, &webhook["clientConfig"], &review, TIMEOUT_SECONDS)
        .await
        .map_err(|why| failed(why.trim_start_matches("failed to call webhook: ").to_owned()))?;
    let response = &reply["response"];
    if review_version == "v1" && response["uid"] != uid.as_str() {
        return Err(failed(format!("invalid response: expected response.uid={uid:?}, got {}", response["uid"])));
    }
    if response["result"]["status"] != "Success" {
        let message = response["result"]["message"].as_str().filter(|text| !text.is_empty());
        return Err(failed(message.unwrap_or("no response.result.message").to_owned()));
    }
    let converted = response["convertedObjects"].as_array().cloned().unwrap_or_default();
    if converted.len() != objects.len() {
        return Err(failed(format!(
            "invalid response: webhook returned {} objects, expected {}",
            converted.len(),
            objects.len()
        )));
    }
    let pairs = converted.into_iter().zip(objects);
    pairs.map(|(new, old)| checked(new, old, wanted).map_err(failed)).collect()
}

/// A webhook may change everything but what the object is: labels and annotations are all it may touch in metadata.
fn checked(mut new: Value, old: &Value, wanted: &str) -> std::result::Result<Value, String> {
    if new["apiVersion"] != wanted {
        return Err(format!("invalid converted object: apiVersion is {} instead of {wanted:?}", new["apiVersion"]));
    }
    for key in ["name", "namespace", "uid"] {
        if new["metadata"][key] != old["metadata"][key] {
            return Err(format!("invalid converted object: metadata.{key} was changed"));
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
