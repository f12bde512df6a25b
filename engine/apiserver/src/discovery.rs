//! Discovery: which groups, versions and resources there are, in the old form (a document per group and version) and in the aggregated one.
//!
//! ```text
//!  resource::all() ──Served::builtin──┐
//!                                     ├──▶ [Served] ──▶ /api  /apis  /apis/GROUP  /apis/GROUP/VERSION  aggregated
//!  CustomResourceDefinitions ─custom──┘
//! ```

use std::borrow::Cow;
use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pillion_kinds::resource::{Resource, Service};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

mod order;

/// The version of Kubernetes whose API this is.
const VERSION: &str = "1.35.8";

/// What discovery says of one resource in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// API group; empty for the core group.
    pub(crate) group: Cow<'static, str>,
    /// Version within the group.
    pub(crate) version: Cow<'static, str>,
    /// Name in paths.
    pub(crate) plural: Cow<'static, str>,
    /// Name that kubectl shows.
    pub(crate) singular: Cow<'static, str>,
    /// Kind of the objects.
    pub(crate) kind: Cow<'static, str>,
    /// Short names that kubectl accepts.
    pub(crate) short_names: Vec<Cow<'static, str>>,
    /// Sets of resources that it belongs to.
    pub(crate) categories: Vec<Cow<'static, str>>,
    /// Whether objects live in a namespace.
    pub(crate) namespaced: bool,
    /// Verbs, in the order in which they are listed.
    pub(crate) verbs: Vec<Cow<'static, str>>,
    /// What hangs below an object, in the order in which it is listed.
    pub(crate) subresources: Vec<ServedPart>,
    /// Group and version in which objects are kept; `None` when they are not kept.
    pub(crate) stored_as: Option<(Cow<'static, str>, Cow<'static, str>)>,
    /// Whether a `CustomResourceDefinition` brought it.
    pub(crate) custom: bool,
}

/// What discovery says of a subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServedPart {
    /// Last part of the path.
    pub(crate) name: Cow<'static, str>,
    /// Group of the kind; empty when it is the resource's own.
    pub(crate) group: Cow<'static, str>,
    /// Version of the kind, likewise.
    pub(crate) version: Cow<'static, str>,
    /// Kind of the body.
    pub(crate) kind: Cow<'static, str>,
    /// Verbs, in the order in which they are listed.
    pub(crate) verbs: Vec<Cow<'static, str>>,
}

const PART_VERBS: [&str; 3] = ["get", "patch", "update"];
const CUSTOM_VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

impl Served {
    /// A resource of Kubernetes' own.
    pub(crate) fn builtin(resource: &'static Resource) -> Served {
        let stored_as = match (&resource.storage, resource.service) {
            (Some(storage), _) => Some((storage.group.into(), storage.version.into())),
            (None, Service::Answered) => None,
            // kube-apiserver still writes definitions in the form that came before v1.
            _ if resource.group == "apiextensions.k8s.io" => Some((resource.group.into(), "v1beta1".into())),
            (None, _) => Some((resource.group.into(), resource.version.into())),
        };
        let subresources = resource.subresources.iter().map(|part| ServedPart {
            name: part.name.into(),
            group: part.group.into(),
            version: part.version.into(),
            kind: part.kind.into(),
            verbs: words(part.verbs),
        });
        Served {
            group: resource.group.into(),
            version: resource.version.into(),
            plural: resource.plural.into(),
            singular: resource.singular.into(),
            kind: resource.kind.into(),
            short_names: words(resource.short_names),
            categories: words(resource.categories),
            namespaced: resource.namespaced,
            verbs: words(resource.verbs),
            subresources: subresources.collect(),
            stored_as,
            custom: false,
        }
    }

    /// The served versions of an established `CustomResourceDefinition`, under the names that were accepted.
    pub(crate) fn custom(definition: &Value) -> Vec<Served> {
        let (spec, names) = (&definition["spec"], &definition["status"]["acceptedNames"]);
        let versions = || spec["versions"].as_array().into_iter().flatten();
        let storage = versions().find(|version| version["storage"] == true).map(|version| owned(&version["name"]));
        let served = versions().filter(|version| version["served"] == true);
        served
            .map(|version| Served {
                group: owned(&spec["group"]),
                version: owned(&version["name"]),
                plural: owned(&names["plural"]),
                singular: owned(&names["singular"]),
                kind: owned(&names["kind"]),
                short_names: all_owned(&names["shortNames"]),
                categories: all_owned(&names["categories"]),
                namespaced: spec["scope"] == "Namespaced",
                verbs: words(&CUSTOM_VERBS),
                subresources: custom_parts(version, &names["kind"]),
                stored_as: storage.clone().map(|version| (owned(&spec["group"]), version)),
                custom: true,
            })
            .collect()
    }
}

fn custom_parts(version: &Value, kind: &Value) -> Vec<ServedPart> {
    let status = ServedPart {
        name: "status".into(),
        group: "".into(),
        version: "".into(),
        kind: owned(kind),
        verbs: words(&PART_VERBS),
    };
    let scale = ServedPart {
        name: "scale".into(),
        group: "autoscaling".into(),
        version: "v1".into(),
        kind: "Scale".into(),
        verbs: words(&PART_VERBS),
    };
    [status, scale].into_iter().filter(|part| !version["subresources"][&*part.name].is_null()).collect()
}

fn words(words: &[&'static str]) -> Vec<Cow<'static, str>> {
    words.iter().map(|word| Cow::Borrowed(*word)).collect()
}

fn owned(value: &Value) -> Cow<'static, str> {
    Cow::Owned(value.as_str().unwrap_or_default().to_owned())
}

fn all_owned(list: &Value) -> Vec<Cow<'static, str>> {
    list.as_array().into_iter().flatten().map(owned).collect()
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Every group with its versions, in the order in which they are listed and preferred. The core group is not among them.
fn groups(served: &[Served]) -> Vec<(&str, Vec<&str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for resource in served.iter().filter(|resource| !resource.group.is_empty()) {
        let (group, version) = (&*resource.group, &*resource.version);
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, versions)) if versions.contains(&version) => {}
            Some((_, versions)) => versions.push(version),
            None => groups.push((group, vec![version])),
        }
    }
    let custom: HashSet<&str> =
        served.iter().filter(|resource| resource.custom).map(|resource| &*resource.group).collect();
    for (group, versions) in &mut groups {
        if custom.contains(group) {
            versions.sort_by(|a, b| order::kube_aware(b, a));
        }
    }
    // Kubernetes' own groups come first, and the metrics of nodes and pods last, as where metrics-server is installed.
    groups.sort_by_key(|(group, _)| match *group {
        "metrics.k8s.io" => (2, ""),
        group if custom.contains(group) => (1, group),
        _ => (0, ""),
    });
    groups
}

/// `/api`. The address is where clients reach this server.
pub(crate) fn api_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    })
}

/// `/apis`
pub(crate) fn api_group_list(served: &[Served]) -> Value {
    let groups: Vec<Value> = groups(served).iter().map(|(group, versions)| api_group(group, versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`; `None` when there is no such group.
pub(crate) fn api_group_document(served: &[Served], group: &str) -> Option<Value> {
    let groups = groups(served);
    let (group, versions) = groups.iter().find(|(name, _)| *name == group)?;
    let mut document = Map::from_iter([("kind".to_owned(), "APIGroup".into()), ("apiVersion".to_owned(), "v1".into())]);
    if let Value::Object(group) = api_group(group, versions) {
        document.extend(group);
    }
    Some(Value::Object(document))
}

fn api_group(group: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": group_version(group, version), "version": version}))
        .collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

/// `/api/v1` and `/apis/GROUP/VERSION`; `None` when there is no such version.
pub(crate) fn api_resource_list(served: &[Served], group: &str, version: &str) -> Option<Value> {
    let of_version = served.iter().filter(|resource| resource.group == group && resource.version == version);
    let resources: Vec<Value> = of_version.flat_map(api_resources).collect();
    if resources.is_empty() {
        return None;
    }
    let mut list = Map::from_iter([("kind".to_owned(), Value::from("APIResourceList"))]);
    // The core group is older than the field.
    if !group.is_empty() {
        list.insert("apiVersion".to_owned(), "v1".into());
    }
    list.insert("groupVersion".to_owned(), group_version(group, version).into());
    list.insert("resources".to_owned(), resources.into());
    Some(Value::Object(list))
}

fn api_resources(resource: &Served) -> Vec<Value> {
    let mut own = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        own["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        own["categories"] = json!(resource.categories);
    }
    if let Some((group, version)) = &resource.stored_as {
        own["storageVersionHash"] = storage_version_hash(group, version, &resource.kind).into();
    }
    let parts = resource.subresources.iter().map(|part| {
        let mut entry = Map::new();
        entry.insert("name".to_owned(), format!("{}/{}", resource.plural, part.name).into());
        entry.insert("singularName".to_owned(), "".into());
        entry.insert("namespaced".to_owned(), resource.namespaced.into());
        for (key, value) in [("group", &part.group), ("version", &part.version)] {
            if !value.is_empty() {
                entry.insert(key.to_owned(), json!(value));
            }
        }
        entry.insert("kind".to_owned(), json!(part.kind));
        entry.insert("verbs".to_owned(), json!(part.verbs));
        Value::Object(entry)
    });
    std::iter::once(own).chain(parts).collect()
}

/// Tells a client whether objects have to be written anew after an upgrade.
fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let hash = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(&hash[..8])
}

/// `/api` in the aggregated form: an `APIGroupDiscoveryList` of the core group.
pub(crate) fn aggregated_core(served: &[Served]) -> Value {
    aggregated(vec![json!({"metadata": {}, "versions": [aggregated_version(served, "", "v1")]})])
}

/// `/apis` in the aggregated form.
pub(crate) fn aggregated_groups(served: &[Served]) -> Value {
    let groups = groups(served).into_iter().map(|(group, versions)| {
        let versions: Vec<Value> =
            versions.into_iter().map(|version| aggregated_version(served, group, version)).collect();
        json!({"metadata": {"name": group}, "versions": versions})
    });
    aggregated(groups.collect())
}

fn aggregated(items: Vec<Value>) -> Value {
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_version(served: &[Served], group: &str, version: &str) -> Value {
    let of_version = served.iter().filter(|resource| resource.group == group && resource.version == version);
    let resources: Vec<Value> = of_version.map(aggregated_resource).collect();
    json!({"version": version, "resources": resources, "freshness": "Current"})
}

fn aggregated_resource(resource: &Served) -> Value {
    // The server that serves custom resources spells out what is the resource's own; the one of Kubernetes' own kinds does not.
    let (group, version) = if resource.custom { (&*resource.group, &*resource.version) } else { ("", "") };
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": {"group": group, "version": version, "kind": resource.kind},
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    let parts = resource.subresources.iter().map(|part| {
        let (group, version) = if part.group.is_empty() { (group, version) } else { (&*part.group, &*part.version) };
        json!({
            "subresource": part.name,
            "responseKind": {"group": group, "version": version, "kind": part.kind},
            "verbs": part.verbs,
        })
    });
    let parts: Vec<Value> = parts.collect();
    if !parts.is_empty() {
        entry["subresources"] = parts.into();
    }
    entry
}

/// `/version`
pub(crate) fn version() -> Value {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "major": "1",
        "minor": "35",
        "emulationMajor": "1",
        "emulationMinor": "35",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "34",
        "gitVersion": format!("v{VERSION}+pillion"),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{arch}", std::env::consts::OS),
    })
}

#[cfg(test)]
mod tests;
