//! The operations on a resource, as far as clients read them: which there are, of which kind, with which parameters and bodies.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::definitions::{self, DELETE_OPTIONS, PATCH, STATUS, group_version_kind, reference};
use super::{custom, path};
use crate::discovery::{Served, ServedPart};

/// Paths with their operations by method.
type Paths = BTreeMap<String, Map<String, Value>>;

/// Adds the paths of a resource. One whose kind has no definition has none.
pub(super) fn add(paths: &mut Paths, served: &Served) {
    let Some(definition) = definition(served, None) else { return };
    let base = format!("/{}", path(&served.group, &served.version));
    let scope = if served.namespaced { "namespaces/{namespace}/" } else { "" };
    let collection = format!("{base}/{scope}{}", served.plural);
    let object = format!("{collection}/{{name}}");
    let resource = Target { served, part: None, definition: &definition };
    if served.namespaced && served.verbs.iter().any(|verb| verb == "list") {
        let everywhere = paths.entry(format!("{base}/{}", served.plural)).or_default();
        everywhere.insert("get".to_owned(), resource.operation("list", "ForAllNamespaces"));
    }
    for verb in &served.verbs {
        let (path, method) = match &**verb {
            "list" => (&collection, "get"),
            "create" => (&collection, "post"),
            "deletecollection" => (&collection, "delete"),
            "get" => (&object, "get"),
            "update" => (&object, "put"),
            "patch" => (&object, "patch"),
            "delete" => (&object, "delete"),
            _ => continue,
        };
        paths.entry(path.clone()).or_default().insert(method.to_owned(), resource.operation(verb, ""));
    }
    for part in &served.subresources {
        let Some(definition) = self::definition(served, Some(part)) else { continue };
        let below = Target { served, part: Some(part), definition: &definition };
        let operations = paths.entry(format!("{object}/{}", part.name)).or_default();
        for verb in &part.verbs {
            let method = match &**verb {
                "create" => "post",
                "update" => "put",
                "patch" => "patch",
                "get" => "get",
                _ => continue,
            };
            operations.insert(method.to_owned(), below.operation(verb, ""));
        }
    }
    for (path, operations) in paths.range_mut(base..) {
        if !operations.contains_key("parameters") {
            let parameters: Vec<Value> = ["name", "namespace"]
                .iter()
                .filter(|name| path.contains(&format!("{{{name}}}")))
                .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
                .collect();
            operations.insert("parameters".to_owned(), parameters.into());
        }
    }
}

/// Group, version and kind of what a resource, or a part of it, takes and gives.
fn kind<'a>(served: &'a Served, part: Option<&'a ServedPart>) -> (&'a str, &'a str, &'a str) {
    match part {
        Some(part) if part.group.is_empty() => (&served.group, &served.version, &part.kind),
        Some(part) => (&part.group, &part.version, &part.kind),
        None => (&served.group, &served.version, &served.kind),
    }
}

fn definition(served: &Served, part: Option<&ServedPart>) -> Option<String> {
    let (group, version, kind) = kind(served, part);
    if served.custom && group == served.group {
        return Some(custom::name(group, version, kind));
    }
    definitions::name(group, version, kind).map(str::to_owned)
}

/// What operations are on.
struct Target<'a> {
    served: &'a Served,
    part: Option<&'a ServedPart>,
    definition: &'a str,
}

impl Target<'_> {
    fn operation(&self, verb: &str, suffix: &str) -> Value {
        let (group, version, kind) = kind(self.served, self.part);
        let (action, word) = match verb {
            "create" => ("post", "create"),
            "update" => ("put", "replace"),
            "get" => ("get", "read"),
            "deletecollection" => ("deletecollection", "deleteCollection"),
            other => (other, other),
        };
        let response = match verb {
            "list" => reference(&format!("{}List", self.definition)),
            "deletecollection" => reference(STATUS),
            "get" if self.part.is_some_and(|part| part.name == "log") => json!({"type": "string"}),
            _ => reference(self.definition),
        };
        let mut operation = json!({
            "tags": [self.tag()],
            "operationId": format!("{word}{}{suffix}", self.id(suffix.is_empty())),
            "parameters": parameters(verb),
            "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": response}}}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": group_version_kind(group, version, kind),
        });
        if let Some(body) = self.body(verb) {
            operation["requestBody"] = body;
        }
        operation
    }

    fn body(&self, verb: &str) -> Option<Value> {
        let patches = ["apply-patch+yaml", "json-patch+json", "merge-patch+json", "strategic-merge-patch+json"];
        match verb {
            "create" | "update" => {
                Some(json!({"content": {"*/*": {"schema": reference(self.definition)}}, "required": true}))
            }
            "delete" | "deletecollection" => Some(json!({"content": {"*/*": {"schema": reference(DELETE_OPTIONS)}}})),
            "patch" => {
                // Only of Kubernetes' own types is it known how a strategic merge patch merges.
                let types = patches.iter().filter(|kind| !self.served.custom || !kind.starts_with("strategic"));
                let content: Map<String, Value> =
                    types.map(|kind| (format!("application/{kind}"), json!({"schema": reference(PATCH)}))).collect();
                Some(json!({"content": content, "required": true}))
            }
            _ => None,
        }
    }

    /// The group in words: `rbacAuthorization_v1`, `tablesPillionDev_v1`, `core_v1`.
    fn tag(&self) -> String {
        let camel = self.group_words();
        let mut letters = camel.chars();
        let first = letters.next().map(|letter| letter.to_ascii_lowercase());
        format!("{}{}_{}", first.map(String::from).unwrap_or_default(), letters.as_str(), self.served.version)
    }

    fn id(&self, scoped: bool) -> String {
        let namespaced = if self.served.namespaced && scoped { "Namespaced" } else { "" };
        let part = self.part.map(|part| capitalised(&part.name)).unwrap_or_default();
        format!("{}{}{namespaced}{}{part}", self.group_words(), capitalised(&self.served.version), self.served.kind)
    }

    fn group_words(&self) -> String {
        let group = match &*self.served.group {
            "" => "core",
            group if self.served.custom => group,
            group => group.strip_suffix(".k8s.io").unwrap_or(group),
        };
        group.split('.').map(capitalised).collect()
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| format!("{}{}", first.to_ascii_uppercase(), letters.as_str())).unwrap_or_default()
}

/// The query parameters that a verb takes.
fn parameters(verb: &str) -> Vec<Value> {
    const WRITE: &[(&str, &str)] = &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
    const DELETE: &[(&str, &str)] = &[
        ("dryRun", "string"),
        ("gracePeriodSeconds", "integer"),
        ("orphanDependents", "boolean"),
        ("propagationPolicy", "string"),
    ];
    const SELECT: &[(&str, &str)] = &[
        ("continue", "string"),
        ("fieldSelector", "string"),
        ("labelSelector", "string"),
        ("limit", "integer"),
        ("resourceVersion", "string"),
        ("resourceVersionMatch", "string"),
        ("sendInitialEvents", "boolean"),
        ("timeoutSeconds", "integer"),
    ];
    const WATCH: &[(&str, &str)] = &[("allowWatchBookmarks", "boolean"), ("watch", "boolean")];
    let groups: &[&[(&str, &str)]] = match verb {
        "create" | "update" => &[WRITE],
        "patch" => &[WRITE, &[("force", "boolean")]],
        "delete" => &[DELETE],
        "deletecollection" => &[DELETE, SELECT],
        "list" => &[SELECT, WATCH],
        _ => &[],
    };
    let parameter = |(name, kind): &(&str, &str)| json!({"name": name, "in": "query", "schema": {"type": kind}});
    groups.iter().copied().flatten().map(parameter).collect()
}
