//! Content negotiation: how the answer is to be written, and how the body was.

use axum::http::StatusCode;
use serde_json::json;

use crate::status::{Refusal, Result};

/// What the answer is turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transform {
    /// The object as it is.
    None,
    /// `as=Table`, what `kubectl get` shows.
    Table,
    /// `as=PartialObjectMetadata`, metadata only.
    PartialObject,
    /// `as=PartialObjectMetadataList`
    PartialList,
}

/// How the answer is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) yaml: bool,
    pub(crate) pretty: bool,
    pub(crate) transform: Transform,
    /// `v1beta1` of meta.k8s.io was asked for instead of `v1`.
    pub(crate) beta: bool,
}

impl Output {
    /// The object as it is, in JSON.
    pub(crate) fn json(pretty: bool) -> Output {
        Output { yaml: false, pretty, transform: Transform::None, beta: false }
    }

    /// How refusals and documents that are no objects are written.
    pub(crate) fn of_documents(accept: &str, pretty: bool) -> Output {
        match negotiate(accept, true, false, pretty) {
            Ok(output) if output.transform == Transform::None => output,
            _ => Output::json(pretty),
        }
    }
}

/// What Kubernetes can write. We write all but the last, which clients only ever prefer.
pub(crate) const SUPPORTED: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// What Kubernetes can write a watch in.
pub(crate) const STREAMS: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
const SUPPORTED_CUSTOM: [&str; 2] = ["application/json", "application/yaml"];

/// Picks the first acceptable form of an `Accept` header. `custom` resources know no protobuf and their lists of supported types say so;
/// collections can also be watched.
pub(crate) fn negotiate(accept: &str, custom: bool, collection: bool, pretty: bool) -> Result<Output> {
    if accept.is_empty() {
        return Ok(Output::json(pretty));
    }
    let mut clauses: Vec<Clause> = accept.split(',').filter_map(Clause::parse).collect();
    if !custom && !clauses.iter().any(Clause::is_routed) {
        return Err(not_routed(collection));
    }
    // Stable: equal preference keeps the client's order.
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    for clause in &clauses {
        let yaml = match (clause.kind, clause.subtype) {
            ("application", "json" | "*") | ("*", "*") => false,
            ("application", "yaml") => true,
            _ => continue,
        };
        if let Some(transform) = clause.transform() {
            return Ok(Output { yaml, transform, beta: clause.version == "v1beta1", pretty: pretty || clause.pretty });
        }
    }
    Err(Refusal::not_acceptable(if custom { &SUPPORTED_CUSTOM } else { &SUPPORTED }))
}

/// One alternative of an `Accept` header.
struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f32,
    convert: Option<&'a str>,
    group: &'a str,
    version: &'a str,
    pretty: bool,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Clause<'a>> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let mut clause = Clause { kind, subtype, quality: 1.0, convert: None, group: "", version: "", pretty: false };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key {
                "q" => clause.quality = value.parse().unwrap_or(1.0),
                "as" => clause.convert = Some(value),
                "g" => clause.group = value,
                "v" => clause.version = value,
                "pretty" => clause.pretty = value == "1",
                _ => {}
            }
        }
        Some(clause)
    }

    /// Kubernetes' router looks at the media types first, and knows of no wildcard but the whole one.
    fn is_routed(&self) -> bool {
        match (self.kind, self.subtype) {
            ("*", "*") => true,
            ("application", subtype) => matches!(subtype, "json" | "yaml" | "vnd.kubernetes.protobuf"),
            _ => false,
        }
    }

    /// `None` for a transformation that there is not.
    fn transform(&self) -> Option<Transform> {
        let Some(target) = self.convert else { return Some(Transform::None) };
        if self.group != "meta.k8s.io" || !matches!(self.version, "v1" | "v1beta1") {
            return None;
        }
        match target {
            "Table" => Some(Transform::Table),
            "PartialObjectMetadata" => Some(Transform::PartialObject),
            "PartialObjectMetadataList" => Some(Transform::PartialList),
            _ => None,
        }
    }
}

/// What the router answers to an `Accept` that it has nothing for.
fn not_routed(streams: bool) -> Box<Refusal> {
    let mut all = SUPPORTED.to_vec();
    if streams {
        all.extend(STREAMS);
    }
    let message = format!("406: Not Acceptable\n\nAvailable representations: {}", all.join(", "));
    Refusal::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message, json!({}))
}

/// Whether discovery documents can be written as the client wants.
pub(crate) fn discovery(accept: &str) -> Result<()> {
    let clauses: Vec<Clause> = accept.split(',').filter_map(Clause::parse).collect();
    if accept.is_empty() || clauses.iter().any(|clause| clause.is_routed() && clause.convert.is_none()) {
        return Ok(());
    }
    if aggregated_discovery(accept).is_some() {
        return Ok(());
    }
    Err(if clauses.iter().any(Clause::is_routed) { Refusal::not_acceptable(&SUPPORTED) } else { not_routed(false) })
}

/// The media type of aggregated discovery, if the client asks for it.
pub(crate) fn aggregated_discovery(accept: &str) -> Option<&'static str> {
    let clauses = accept.split(',').filter_map(Clause::parse);
    let wanted = clauses.into_iter().find(|clause| {
        clause.convert == Some("APIGroupDiscoveryList")
            && clause.group == "apidiscovery.k8s.io"
            && clause.version == "v2"
    });
    wanted.map(|_| "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
}

/// How a body was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Json,
    Yaml,
    Protobuf,
}

/// The form of the body of a create, update or delete.
pub(crate) fn input(content_type: &str, custom: bool) -> Result<Input> {
    match essence(content_type).as_str() {
        "" | "application/json" => Ok(Input::Json),
        "application/yaml" => Ok(Input::Yaml),
        "application/vnd.kubernetes.protobuf" if !custom => Ok(Input::Protobuf),
        _ => Err(Refusal::unsupported_media_type(if custom { &SUPPORTED_CUSTOM } else { &SUPPORTED })),
    }
}

/// The kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// The kind of patch of a `Content-Type`.
pub(crate) fn patch_type(content_type: &str, custom: bool) -> Result<PatchType> {
    let all = [
        ("application/json-patch+json", PatchType::Json),
        ("application/merge-patch+json", PatchType::Merge),
        ("application/strategic-merge-patch+json", PatchType::Strategic),
        ("application/apply-patch+yaml", PatchType::Apply),
    ];
    let wanted = essence(content_type);
    let served = || all.iter().filter(|(_, kind)| !(custom && *kind == PatchType::Strategic));
    match served().find(|(name, _)| *name == wanted) {
        Some((_, kind)) => Ok(*kind),
        None if custom => Err(Refusal::unsupported_media_type(&served().map(|(name, _)| *name).collect::<Vec<_>>())),
        None => Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            "415: Unsupported Media Type",
            json!({}),
        )),
    }
}

fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectl_get_is_given_a_table() {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(negotiate(accept, false, false, false).unwrap().transform, Transform::Table);
    }

    #[test]
    fn a_client_that_prefers_protobuf_is_given_json() {
        let output = negotiate("application/vnd.kubernetes.protobuf,application/json", false, false, false).unwrap();
        assert_eq!((output.yaml, output.transform), (false, Transform::None));
    }

    #[test]
    fn what_nobody_can_write_is_refused() {
        let refusal = negotiate("application/xml", false, true, false).unwrap_err();
        assert_eq!(
            refusal.message,
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        );
    }

    #[test]
    fn custom_resources_have_no_strategic_merge_patch() {
        assert_eq!(patch_type("application/strategic-merge-patch+json", false).unwrap(), PatchType::Strategic);
        assert_eq!(patch_type("application/strategic-merge-patch+json", true).unwrap_err().code, 415);
    }
}
