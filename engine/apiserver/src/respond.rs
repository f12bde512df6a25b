//! Writing answers: objects, lists and refusals in the form that the client asked for.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use jiff::Timestamp;
use pillion_kinds::table::{self, Column};
use serde_json::{Map, Value, json};

use crate::call::{Call, Warnings};
use crate::endpoint::Endpoint;
use crate::media::{Output, Transform};
use crate::meta;
use crate::status::{Refusal, Result};

/// An object, transformed as the client asked.
pub(crate) fn object(call: &Call<'_>, code: StatusCode, object: Value) -> Result<Response> {
    let transformed = match call.output.transform {
        Transform::None => object,
        _ if object["kind"] == "Status" => object,
        Transform::Table if object["kind"] == "Scale" => scale_table(call, &object),
        Transform::Table => {
            let metadata = json!({"resourceVersion": meta::text(&object, "resourceVersion")});
            table(call, metadata, std::slice::from_ref(&object))?
        }
        Transform::PartialObject => partial(&object, call.output),
        Transform::PartialList => {
            return Err(not_transformed(
                "PartialObjectMetadataList",
                "is not a list",
                &go_type(&call.endpoint, call.endpoint.kind()),
            ));
        }
    };
    Ok(write(code, &transformed, call.output))
}

/// Go's type of an object, which messages show.
fn go_type(endpoint: &Endpoint, kind: &str) -> String {
    match endpoint {
        Endpoint::Custom(_) => "*unstructured.Unstructured".to_owned(),
        Endpoint::Builtin(resource) => {
            let package =
                if resource.group.is_empty() { "core" } else { resource.group.split('.').next().unwrap_or_default() };
            format!("*{package}.{kind}")
        }
    }
}

fn not_transformed(wanted: &str, is: &str, go_type: &str) -> Box<Refusal> {
    let message = format!("you requested {wanted}, but the requested object {is} ({go_type})");
    Refusal::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message, Value::Null)
}

/// A list cannot be shown as the metadata of one object.
pub(crate) fn list_is_no_object(endpoint: &Endpoint) -> Box<Refusal> {
    let go_type = match endpoint {
        Endpoint::Custom(_) => "*unstructured.UnstructuredList".to_owned(),
        Endpoint::Builtin(_) => go_type(endpoint, &endpoint.list_kind()),
    };
    not_transformed("PartialObjectMetadata", "is a list", &go_type)
}

/// The metadata of an object alone.
pub(crate) fn partial(object: &Value, output: Output) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": meta_version(output),
        "metadata": object["metadata"],
    })
}

fn meta_version(output: Output) -> &'static str {
    if output.beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" }
}

/// How a table is to look.
pub(crate) struct TableOptions<'a> {
    pub(crate) endpoint: &'a Endpoint,
    /// How much of the object goes into each row.
    pub(crate) include: &'a str,
    pub(crate) output: Output,
    pub(crate) now: Timestamp,
}

/// How much of its object each row of a table is to show.
pub(crate) fn check_include<'a>(call: &'a Call<'_>) -> Result<&'a str> {
    match call.query.text("includeObject") {
        include @ ("" | "Metadata" | "Object" | "None") => Ok(include),
        other => Err(Refusal::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
        ))),
    }
}

/// The table that `kubectl get` shows.
pub(crate) fn table(call: &Call<'_>, list_metadata: Value, objects: &[Value]) -> Result<Value> {
    let include = check_include(call)?;
    let options = TableOptions { endpoint: &call.endpoint, include, output: call.output, now: call.now() };
    Ok(table_of(&options, list_metadata, objects, true))
}

/// The table of a Scale, whatever it is the scale of.
fn scale_table(call: &Call<'_>, scale: &Value) -> Value {
    let (columns, cells) = if call.endpoint.is_custom() {
        let table = table::CustomTable::scale();
        (table.columns().to_vec(), table.row(scale, call.now()))
    } else {
        (table::columns("autoscaling", "Scale"), table::row("autoscaling", "Scale", scale, call.now()))
    };
    let shown = match call.query.text("includeObject") {
        "None" => Value::Null,
        "Object" => scale.clone(),
        _ => partial(scale, call.output),
    };
    json!({
        "kind": "Table",
        "apiVersion": meta_version(call.output),
        "metadata": {"resourceVersion": meta::text(scale, "resourceVersion")},
        "columnDefinitions": columns.iter().map(Column::to_json).collect::<Vec<_>>(),
        "rows": [{"cells": cells, "object": shown}],
    })
}

/// A table, with or without the columns' headers.
pub(crate) fn table_of(options: &TableOptions<'_>, list_metadata: Value, objects: &[Value], headers: bool) -> Value {
    let rows: Vec<Value> = objects.iter().map(|object| row(options, object)).collect();
    let definitions = if headers {
        Value::Array(columns(options.endpoint).iter().map(Column::to_json).collect())
    } else {
        Value::Null
    };
    json!({
        "kind": "Table",
        "apiVersion": meta_version(options.output),
        "metadata": list_metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

fn columns(endpoint: &Endpoint) -> Vec<Column> {
    match endpoint {
        Endpoint::Builtin(resource) => table::columns(resource.group, resource.kind),
        Endpoint::Custom(custom) => custom.table.columns().to_vec(),
    }
}

fn row(options: &TableOptions<'_>, object: &Value) -> Value {
    let mut row = Map::new();
    match options.endpoint {
        Endpoint::Builtin(resource) => {
            let cells = table::row(resource.group, resource.kind, object, options.now);
            row.insert("cells".to_owned(), Value::Array(cells));
            let conditions = table::row_conditions(resource.group, resource.kind, object);
            if !conditions.is_empty() {
                row.insert("conditions".to_owned(), Value::Array(conditions));
            }
        }
        Endpoint::Custom(custom) => {
            row.insert("cells".to_owned(), Value::Array(custom.table.row(object, options.now)));
        }
    }
    let shown = match options.include {
        "None" => Value::Null,
        "Object" => object.clone(),
        _ => partial(object, options.output),
    };
    row.insert("object".to_owned(), shown);
    Value::Object(row)
}

/// A document that is no object of a resource: discovery, reviews.
pub(crate) fn document(value: &Value, output: Output) -> Response {
    write(StatusCode::OK, value, output)
}

pub(crate) fn refusal(refusal: &Refusal, output: Output) -> Response {
    let code = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if refusal.plain {
        let mut response = Response::new(Body::from(refusal.message.clone()));
        *response.status_mut() = code;
        content_type(&mut response, "text/plain; charset=utf-8");
        return response;
    }
    let mut response = write(code, &refusal.to_status(), output);
    if let Some(seconds) = refusal.details["retryAfterSeconds"].as_u64()
        && let Ok(value) = HeaderValue::from_str(&seconds.to_string())
    {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}

/// A document with a media type of its own.
pub(crate) fn typed(value: &Value, kind: &'static str) -> Response {
    let mut response = document(value, Output::json(false));
    content_type(&mut response, kind);
    response
}

/// JSON text that is already written.
pub(crate) fn json_text(text: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(text));
    content_type(&mut response, "application/json");
    response
}

pub(crate) fn write(code: StatusCode, value: &Value, output: Output) -> Response {
    let (text, kind) = if output.yaml {
        (serde_saphyr::to_string(&sorted(value)).unwrap_or_default().into_bytes(), "application/yaml")
    } else if output.pretty {
        (serde_json::to_vec_pretty(value).unwrap_or_default(), "application/json")
    } else {
        let mut text = serde_json::to_vec(value).unwrap_or_default();
        text.push(b'\n');
        (text, "application/json")
    };
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    content_type(&mut response, kind);
    response
}

/// Go's YAML has its keys in order.
pub(crate) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by(|a, b| a.0.cmp(b.0));
            Value::Object(fields.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

pub(crate) fn content_type(response: &mut Response, kind: &'static str) {
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
}

/// Adds the warnings as headers: `299 - "text"`.
pub(crate) fn with_warnings(mut response: Response, warnings: &Warnings) -> Response {
    for text in warnings.drain() {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
        let printable: String = escaped.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{printable}\"").as_bytes()) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}
