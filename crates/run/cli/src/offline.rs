//! From the documents that a user gave to what stands in for a cluster.
//!
//! SidecarSets and ControllerRevisions are read; LimitRanges, Namespaces and Kruise's ConfigMap are read and passed on;
//! pods and workloads are what the commands are about; everything else is only passed on.

use std::collections::BTreeMap;

use pillion_admission::{Offline, Snapshot};
use pillion_api::field::Path;
use pillion_api::names;
use pillion_api::sidecarset::validation::{Context, Revision, Whitelist, validate};
use pillion_api::sidecarset::{self, DecodeError, SidecarSet};
use pillion_inject::{Catalog, Draw, Namespace};
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
    let catalog = Catalog::new(sets.into_iter().map(|(_, set)| set), &revisions);
    match catalog {
        Ok(catalog) if errors.is_empty() => {
            let snapshot = Snapshot { catalog, namespaces: namespaces(&objects) };
            let is_limit_range =
                |document: &&Document| document.kind() == "LimitRange" && document.api_version() == "v1";
            let limit_ranges = objects.iter().filter(is_limit_range).map(|document| document.value.clone()).collect();
            let offline = Offline { snapshot, limit_ranges, draw, namespace: namespace.to_owned() };
            Ok(Inputs { offline, objects, warnings })
        }
        // Whatever does not compile was refused by validation already, with a better message.
        Err(error) if errors.is_empty() => Err(vec![format!("{error}: {}", error.reason)]),
        _ => Err(errors),
    }
}

fn is_sidecar_set(document: &Document) -> bool {
    document.kind() == names::SIDECARSET_KIND && document.api_version().starts_with(names::GROUP)
}

fn is_revision(document: &Document) -> bool {
    document.kind() == "ControllerRevision" && document.api_version() == "apps/v1"
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
        let own = own_revisions(set, revisions);
        let context = Context { sets: Some(&all), revisions: Some(&own), whitelist };
        errors.extend(
            validate(set, &context).into_iter().map(|error| format!("{}: {error}", document.locate(&error.path))),
        );
    }
}

fn own_revisions<'a>(set: &SidecarSet, revisions: &'a [Value]) -> Vec<Revision<'a>> {
    let label = |revision: &'a Value, key: &str| revision["metadata"]["labels"].get(key).and_then(Value::as_str);
    revisions
        .iter()
        .filter(|revision| label(revision, names::REVISION_OWNER).is_none_or(|owner| owner == set.name()))
        .map(|revision| Revision {
            name: revision["metadata"]["name"].as_str().unwrap_or_default(),
            custom_version: label(revision, names::CUSTOM_VERSION),
        })
        .collect()
}

/// The whitelist for `patchPodMetadata`, if Kruise's ConfigMap is among the documents. Without it nothing is known.
fn whitelist(objects: &[Document], errors: &mut Vec<String>) -> Option<Whitelist> {
    let is_configuration = |document: &&Document| {
        document.kind() == "ConfigMap"
            && document.api_version() == "v1"
            && document.name() == names::CONFIGURATION_CONFIG_MAP
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
