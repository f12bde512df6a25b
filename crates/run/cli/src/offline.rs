//! From the documents that a user gave to what stands in for a cluster.
//!
//! SidecarSets and ControllerRevisions are read; LimitRanges, Namespaces and Kruise's ConfigMap are read and passed on;
//! pods and workloads are what the commands are about; everything else is only passed on.

use std::collections::BTreeMap;

use pillion_admission::{Offline, Snapshot};
use pillion_api::field::{self, Path};
use pillion_api::names;
use pillion_api::sidecarset::validation::{Context, Revision, Whitelist, validate};
use pillion_api::sidecarset::{self, DecodeError, SidecarSet, revision};
use pillion_inject::{Catalog, Draw, Namespace};
use pillion_quantity::Quantity;
use serde_json::Value;

use crate::manifest::Document;

/// What the documents say.
#[derive(Debug)]
pub struct Inputs {
    /// The stand-in for a cluster.
    pub offline: Offline,
    /// Everything but SidecarSets and their revisions, in the order in which it came.
    pub objects: Vec<Document>,
    /// What the user should know, and what stops nothing.
    pub warnings: Vec<String>,
}

/// Sorts the documents. `namespace` is that of objects that name none.
///
/// # Errors
/// Everything that is wrong with the SidecarSets, each with its place in its file.
pub fn load(documents: Vec<Document>, namespace: &str, draw: Draw) -> Result<Inputs, Vec<String>> {
    let (configuration, objects): (Vec<Document>, Vec<Document>) =
        documents.into_iter().partition(|document| is_sidecar_set(document) || is_revision(document));
    let (sets, revisions): (Vec<Document>, Vec<Document>) = configuration.into_iter().partition(is_sidecar_set);
    let revisions: Vec<Value> = revisions.into_iter().map(|document| document.value).collect();

    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    let whitelist = whitelist(&objects, &mut errors);
    let sets = decode(sets, &mut errors, &mut warnings);
    check(&sets, &revisions, whitelist.as_ref(), &mut errors);
    check_limit_ranges(&objects, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    match Catalog::new(sets.into_iter().map(|(_, set)| set), &revisions) {
        Ok(catalog) => {
            let snapshot = Snapshot { catalog, namespaces: namespaces(&objects) };
            let is_limit_range =
                |document: &&Document| document.kind() == "LimitRange" && document.api_version() == "v1";
            let limit_ranges = objects
                .iter()
                .filter(|document| is_limit_range(document))
                .map(|document| document.value.clone())
                .collect();
            let offline = Offline { snapshot, limit_ranges, draw, namespace: namespace.to_owned() };
            Ok(Inputs { offline, objects, warnings })
        }
        // Whatever does not compile was refused by validation already, with a better message.
        Err(error) => Err(vec![format!("{error}: {}", error.reason)]),
    }
}

fn is_sidecar_set(document: &Document) -> bool {
    document.kind() == names::SIDECARSET_KIND && document.api_version().split('/').next() == Some(names::GROUP)
}

fn is_revision(document: &Document) -> bool {
    document.kind() == "ControllerRevision" && document.api_version() == "apps/v1"
}

fn is_limit_range(document: &Document) -> bool {
    document.kind() == "LimitRange" && document.api_version() == "v1"
}

/// A LimitRange fills in the resources of pods: a wrong value in it would be found in a pod that has no part in it.
fn check_limit_ranges(objects: &[Document], errors: &mut Vec<String>) {
    for document in objects.iter().filter(|document| is_limit_range(document)) {
        let limits = document.value["spec"]["limits"].as_array().into_iter().flatten().enumerate();
        for (path, list) in limits.flat_map(|(i, item)| {
            let path = Path::new("spec").child("limits").index(i);
            ["default", "defaultRequest", "max", "min"].map(|key| (path.child(key), &item[key]))
        }) {
            for (resource, value) in list.as_object().into_iter().flatten() {
                if let Err(error) = serde_json::from_value::<Quantity>(value.clone()) {
                    let path = path.child(resource);
                    let error = field::Error::invalid(&path, value.clone(), error.to_string());
                    errors.push(format!("{}: {error}", document.locate(&path)));
                }
            }
        }
    }
}

/// Reads the sets as the mutating webhook would leave them.
fn decode(
    documents: Vec<Document>,
    errors: &mut Vec<String>,
    warnings: &mut Vec<String>,
) -> Vec<(Document, SidecarSet)> {
    let mut sets: Vec<(Document, SidecarSet)> = Vec::new();
    for document in documents {
        for unknown in sidecarset::unknown_fields(&document.value) {
            warnings.push(format!("{}: {unknown}", document.locate(&unknown.path)));
        }
        match sidecarset::decode(document.value.clone()) {
            Ok(mut set) => {
                sidecarset::prepare(&mut set);
                if let Some((first, _)) = sets.iter().find(|(_, other)| other.name() == set.name()) {
                    let path = Path::new("metadata").child("name");
                    let first = first.locate(&path);
                    errors.push(format!(
                        "{}: SidecarSet {:?} is there twice, first at {first}",
                        document.locate(&path),
                        set.name()
                    ));
                }
                sets.push((document, set));
            }
            Err(DecodeError::Fields(fields)) => {
                errors.extend(fields.into_iter().map(|error| format!("{}: {error}", document.locate(&error.path))));
            }
            Err(error) => errors.push(format!("{}: {error}", document.locate(&Path::root()))),
        }
    }
    sets
}

fn check(
    sets: &[(Document, SidecarSet)],
    revisions: &[Value],
    whitelist: Option<&Whitelist>,
    errors: &mut Vec<String>,
) {
    let all: Vec<&SidecarSet> = sets.iter().map(|(_, set)| set).collect();
    for (document, set) in sets {
        let own: Vec<Revision<'_>> =
            revisions.iter().filter_map(|stored| revision::pinnable(set.name(), stored)).collect();
        let context = Context { sets: Some(&all), revisions: Some(&own), whitelist };
        errors.extend(
            validate(set, &context).into_iter().map(|error| format!("{}: {error}", document.locate(&error.path))),
        );
    }
}

/// The whitelist for `patchPodMetadata`, if Kruise's ConfigMap is among the documents. Without it nothing is known.
fn whitelist(objects: &[Document], errors: &mut Vec<String>) -> Option<Whitelist> {
    let is_configuration = |document: &&Document| {
        document.kind() == "ConfigMap"
            && document.api_version() == "v1"
            && document.name() == names::CONFIGURATION_CONFIG_MAP
            && document.value["metadata"]["namespace"] == names::DEFAULT_SYSTEM_NAMESPACE
    };
    let document = objects.iter().find(is_configuration)?;
    let rules = document.value["data"].get(names::PATCH_POD_METADATA_WHITELIST).and_then(Value::as_str)?;
    match Whitelist::parse(Some(rules), false) {
        Ok(whitelist) => Some(whitelist),
        Err(error) => {
            let path = Path::new("data").key(names::PATCH_POD_METADATA_WHITELIST);
            errors.push(format!("{}: {path}: {error}", document.locate(&path)));
            None
        }
    }
}

fn namespaces(objects: &[Document]) -> BTreeMap<String, Namespace> {
    let is_namespace = |document: &&Document| document.kind() == "Namespace" && document.api_version() == "v1";
    let labels = |document: &Document| {
        let labels = document.value["metadata"]["labels"].as_object().into_iter().flatten();
        labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    objects
        .iter()
        .filter(is_namespace)
        .map(|document| (document.name().to_owned(), Namespace::new(document.name(), labels(document))))
        .collect()
}
