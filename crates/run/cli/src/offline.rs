//! From the documents that a user gave to what stands in for a cluster.
//!
//! SidecarSets and their ControllerRevisions are read; LimitRanges, Namespaces, service accounts, VerticalPodAutoscalers and Kruise's ConfigMap are
//! read and passed on; pods and workloads are what the commands are about; everything else is only passed on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use imbl::OrdMap;
use pillion_admission::{Offline, Snapshot};
use pillion_api::field::{self, Path};
use pillion_api::names;
use pillion_api::sidecarset::validation::{Context, Neighbours, Revision, Whitelist};
use pillion_api::sidecarset::{self, DecodeError, SidecarSet, revision, validate, validate_update};
use pillion_api::vpa::{self, VerticalPodAutoscaler};
use pillion_gates::{Gate, Gates};
use pillion_inject::{Accounts, Catalog, Namespace, Revisions};
use pillion_manager::{NAMESPACE, excluded_namespaces};
use pillion_note::Draw;
use pillion_quantity::Quantity;
use pillion_rightsize::{Autoscalers, LimitRanges, sized_set, targeted_set};
use serde_json::Value;

use crate::manifest::{Document, Manifests, ReadError};

/// What the documents say.
#[derive(Debug)]
pub struct Inputs {
    /// The stand-in for a cluster.
    pub offline: Offline,
    /// The SidecarSets, as the mutating webhook would leave them.
    pub sets: Vec<Arc<SidecarSet>>,
    /// The ControllerRevisions of SidecarSets.
    pub revisions: Vec<Value>,
    /// The revisions that sets pin by their names.
    pinned: BTreeSet<String>,
}

impl Inputs {
    /// Whether a document is no SidecarSet and no revision of one.
    pub fn is_object(&self, document: &Document) -> bool {
        !is_sidecar_set(document) && !is_revision_of_a_set(document, &self.pinned)
    }
}

/// How manifests are read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The namespace of objects that name none.
    pub namespace: String,
    /// The random number and what else decides between revisions.
    pub draw: Draw,
    /// Which features are on.
    pub gates: Gates,
    /// What becomes of fields that a SidecarSet does not have.
    pub unknown_fields: UnknownFields,
}

/// What becomes of fields that a SidecarSet does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownFields {
    /// They are errors: a misspelt field would silently do nothing.
    #[default]
    Refuse,
    /// They are warnings: a newer version may have them.
    Allow,
}

/// Reads from manifests what decides about others: SidecarSets, their revisions, LimitRanges, Namespaces, service accounts, autoscalers. The
/// others are only checked, and not kept in memory. `warnings` get what the user should know and what stops nothing.
///
/// # Errors
/// The manifests cannot be read, or everything that is wrong with the documents, each with its place in its file.
pub fn load(
    manifests: &Manifests,
    reading: &Reading,
    warnings: &mut Vec<String>,
) -> Result<Result<Inputs, Vec<String>>, Vec<ReadError>> {
    let (mut documents, mut errors) = (Vec::new(), Vec::new());
    manifests.for_each(|document| {
        check_metadata(&document, &mut errors);
        if decides_about_others(&document) {
            documents.push(document);
        }
    })?;
    Ok(sorted(documents, reading, errors, warnings))
}

/// Whether a document may matter for another one. Those that [`sorted`] looks at are among them.
fn decides_about_others(document: &Document) -> bool {
    is_sidecar_set(document)
        || is_configuration(document)
        || matches!(
            document.kind(),
            "ControllerRevision" | "LimitRange" | "Namespace" | "ServiceAccount" | names::VPA_KIND
        )
}

/// Sorts documents whose metadata were checked.
fn sorted(
    documents: Vec<Document>,
    reading: &Reading,
    mut errors: Vec<String>,
    warnings: &mut Vec<String>,
) -> Result<Inputs, Vec<String>> {
    let Reading { namespace, draw, gates, unknown_fields } = reading;
    let gates = *gates;
    let (sets, objects): (Vec<Document>, Vec<Document>) = documents.into_iter().partition(is_sidecar_set);
    let sets = decode(sets, *unknown_fields, &mut errors, warnings);
    let pinned: BTreeSet<String> =
        sets.iter().filter_map(|(_, set)| set.spec.pinned_revision()?.revision_name).collect();
    let (revisions, objects): (Vec<Document>, Vec<Document>) =
        objects.into_iter().partition(|document| is_revision_of_a_set(document, &pinned));
    let revisions: Vec<Value> = revisions.into_iter().map(|document| document.value).collect();
    let whitelist = whitelist(&objects, gates, &mut errors);
    check(&sets, &Live { whitelist, revisions: &revisions, ..Live::default() }, &mut errors);
    check_limit_ranges(&objects, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let sets: Vec<Arc<SidecarSet>> = sets.into_iter().map(|(_, set)| Arc::new(set)).collect();
    let mut catalog = Catalog::default();
    let known: Revisions = revisions.iter().cloned().collect();
    for set in &sets {
        // Whatever does not compile was refused by validation already, with a better message.
        catalog.insert(Arc::clone(set), &known).map_err(|error| vec![format!("{error}: {}", error.reason)])?;
    }
    let limit_ranges = limit_ranges(&objects, namespace);
    let autoscalers = autoscalers(&objects, namespace, gates, &limit_ranges)?;
    let offline = Offline {
        snapshot: Snapshot {
            catalog,
            namespaces: namespaces(&objects),
            accounts: accounts(&objects, namespace),
            autoscalers,
            ..Snapshot::default()
        },
        limit_ranges,
        excluded_namespaces: excluded_namespaces(NAMESPACE).map(str::to_owned).into(),
        gates,
        draw: draw.clone(),
        namespace: namespace.clone(),
    };
    Ok(Inputs { offline, sets, revisions, pinned })
}

/// What SidecarSets that are to be applied to a cluster meet there.
#[derive(Debug, Default)]
pub struct Live<'a> {
    /// The SidecarSets of the cluster.
    pub sets: &'a [Arc<SidecarSet>],
    /// Their ControllerRevisions.
    pub revisions: &'a [Value],
    /// Which annotations `patchPodMetadata` may write; without it nothing is known.
    pub whitelist: Option<Whitelist>,
}

/// The SidecarSets among documents that are to be applied to a cluster.
#[derive(Debug)]
pub struct Applied {
    /// The SidecarSets, as the mutating webhook would leave them.
    pub sets: Vec<Arc<SidecarSet>>,
    /// How many other documents there are.
    pub others: usize,
}

/// Reads the SidecarSets that are to be applied, and checks them as the cluster's webhook would.
///
/// # Errors
/// Everything that is wrong with them, each with its place in its file.
pub fn load_applied(
    documents: Vec<Document>,
    live: &Live<'_>,
    unknown_fields: UnknownFields,
    warnings: &mut Vec<String>,
) -> Result<Applied, Vec<String>> {
    let mut errors = Vec::new();
    let (sets, others): (Vec<Document>, Vec<Document>) = documents.into_iter().partition(is_sidecar_set);
    for document in &sets {
        check_metadata(document, &mut errors);
    }
    let mut sets = decode(sets, unknown_fields, &mut errors, warnings);
    for (_, set) in &mut sets {
        // What the controller has counted stays when a set is applied.
        let same = live.sets.iter().find(|known| known.name() == set.name());
        set.status = same.and_then(|known| known.status.clone());
    }
    check(&sets, live, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Applied { sets: sets.into_iter().map(|(_, set)| Arc::new(set)).collect(), others: others.len() })
}

/// One without a version is meant to be one: saying so is better than passing it on.
fn is_sidecar_set(document: &Document) -> bool {
    let group = document.api_version().split('/').next().unwrap_or_default();
    document.kind() == names::SIDECARSET_KIND && (group == names::GROUP || group.is_empty())
}

/// Workloads have ControllerRevisions, too.
fn is_revision_of_a_set(document: &Document, pinned: &BTreeSet<String>) -> bool {
    document.kind() == "ControllerRevision"
        && document.api_version() == "apps/v1"
        && (document.value["metadata"]["labels"].get(names::REVISION_OWNER).is_some()
            || pinned.contains(document.name()))
}

/// Kruise's own configuration.
fn is_configuration(document: &Document) -> bool {
    document.kind() == "ConfigMap"
        && document.api_version() == "v1"
        && document.name() == names::CONFIGURATION_CONFIG_MAP
        && document.value["metadata"]["namespace"] == names::DEFAULT_SYSTEM_NAMESPACE
}

fn is_limit_range(document: &Document) -> bool {
    document.kind() == "LimitRange" && document.api_version() == "v1"
}

fn wrong(document: &Document, error: &field::Error) -> String {
    format!("{}: {error}", document.locate(&error.path))
}

/// Names, namespaces and labels decide what meets what: of a wrong type they would silently decide nothing.
fn check_metadata(document: &Document, errors: &mut Vec<String>) {
    let metadata = &document.value["metadata"];
    let path = Path::new("metadata");
    let mut must_be = |holds: bool, path: &Path, value: &Value, what: &str| {
        if !holds && !value.is_null() {
            errors.push(wrong(document, &field::Error::type_invalid(path, value.clone(), what)));
        }
    };
    must_be(metadata.is_object(), &path, metadata, "must be an object");
    for key in ["name", "namespace"] {
        must_be(metadata[key].is_string(), &path.child(key), &metadata[key], "must be a string: put it in quotes");
    }
    let labels = &metadata["labels"];
    must_be(labels.is_object(), &path.child("labels"), labels, "must be an object");
    for (key, value) in labels.as_object().into_iter().flatten() {
        must_be(value.is_string(), &path.child("labels").key(key), value, "must be a string: put it in quotes");
    }
}

/// A LimitRange fills in the resources of pods: a wrong value in it would be found in a pod that has no part in it.
fn check_limit_ranges(objects: &[Document], errors: &mut Vec<String>) {
    for document in objects.iter().filter(|document| is_limit_range(document)) {
        let path = Path::new("spec").child("limits");
        let limits = document.value.pointer("/spec/limits").unwrap_or(&Value::Null);
        let Some(items) = limits.as_array() else {
            errors.push(wrong(document, &field::Error::type_invalid(&path, limits.clone(), "must be a list")));
            continue;
        };
        for (i, item) in items.iter().enumerate() {
            for key in ["default", "defaultRequest", "max", "min"] {
                check_quantities(document, &path.index(i).child(key), &item[key], errors);
            }
        }
    }
}

fn check_quantities(document: &Document, path: &Path, list: &Value, errors: &mut Vec<String>) {
    if !list.is_object() && !list.is_null() {
        errors.push(wrong(document, &field::Error::type_invalid(path, list.clone(), "must be an object")));
    }
    for (resource, value) in list.as_object().into_iter().flatten() {
        if let Err(error) = serde_json::from_value::<Quantity>(value.clone()) {
            errors
                .push(wrong(document, &field::Error::invalid(&path.child(resource), value.clone(), error.to_string())));
        }
    }
}

/// Reads the sets as the mutating webhook would leave them.
fn decode(
    documents: Vec<Document>,
    unknown_fields: UnknownFields,
    errors: &mut Vec<String>,
    warnings: &mut Vec<String>,
) -> Vec<(Document, SidecarSet)> {
    let mut sets: Vec<(Document, SidecarSet)> = Vec::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for document in documents {
        for unknown in sidecarset::unknown_fields(&document.value) {
            let text = format!("{}: {unknown}", document.locate(&unknown.path));
            match unknown_fields {
                UnknownFields::Refuse if unknown.suggestion.is_none() && unknown.instead.is_none() => {
                    errors.push(format!("{text}; --allow-unknown-fields accepts fields of newer versions"));
                }
                UnknownFields::Refuse => errors.push(text),
                UnknownFields::Allow => warnings.push(text),
            }
        }
        match sidecarset::decode(document.value.clone()) {
            Ok(mut set) => {
                sidecarset::prepare(&mut set);
                let path = Path::new("metadata").child("name");
                let first = by_name.insert(set.name().to_owned(), sets.len());
                if let Some((first, _)) = first.and_then(|first| sets.get(first)) {
                    let (here, first) = (document.locate(&path), first.locate(&path));
                    errors.push(format!("{here}: SidecarSet {:?} is there twice, first at {first}", set.name()));
                }
                sets.push((document, set));
            }
            Err(DecodeError::Fields(fields)) => errors.extend(fields.iter().map(|error| wrong(&document, error))),
            Err(error) => errors.push(format!("{}: {error}", document.locate(&Path::root()))),
        }
    }
    sets
}

/// Checks sets as the validating webhook would when they are applied to what is live.
fn check(sets: &[(Document, SidecarSet)], live: &Live<'_>, errors: &mut Vec<String>) {
    let mut by_name: HashMap<&str, &SidecarSet> = live.sets.iter().map(|set| (set.name(), set.as_ref())).collect();
    let old = by_name.clone();
    by_name.extend(sets.iter().map(|(_, set)| (set.name(), set)));
    let mut neighbours = Neighbours::default();
    for set in by_name.values() {
        neighbours.insert(set);
    }
    for (document, set) in sets {
        let own: Vec<Revision<'_>> =
            live.revisions.iter().map(|stored| revision::described(set.name(), stored)).collect();
        let others: Vec<&SidecarSet> =
            neighbours.of(set).into_iter().filter_map(|name| by_name.get(name).copied()).collect();
        let context = Context { sets: Some(&others), revisions: Some(&own), whitelist: live.whitelist.as_ref() };
        let found = match old.get(set.name()) {
            Some(old) => validate_update(set, old, &context),
            // It was stored by a version that allowed more, and the cluster uses it as it is.
            None if set.metadata.uid.is_some() => validate_update(set, set, &context),
            None => validate(set, &context),
        };
        errors.extend(found.iter().map(|error| wrong(document, error)));
    }
}

/// The whitelist for `patchPodMetadata`, if Kruise's ConfigMap is among the documents. Without it nothing is known.
fn whitelist(objects: &[Document], gates: Gates, errors: &mut Vec<String>) -> Option<Whitelist> {
    let document = objects.iter().find(|document| is_configuration(document))?;
    let rules = document.value["data"].get(names::PATCH_POD_METADATA_WHITELIST).and_then(Value::as_str)?;
    let allowed = gates.is_enabled(Gate::SidecarSetPatchPodMetadataDefaultsAllowed);
    match Whitelist::parse(Some(rules), allowed) {
        Ok(whitelist) => Some(whitelist),
        Err(error) => {
            let path = Path::new("data").key(names::PATCH_POD_METADATA_WHITELIST);
            errors.push(format!("{}: {path}: {error}", document.locate(&path)));
            None
        }
    }
}

fn limit_ranges(objects: &[Document], namespace: &str) -> BTreeMap<String, Vec<Value>> {
    let mut by_namespace: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for document in objects.iter().filter(|document| is_limit_range(document)) {
        let own = document.value["metadata"]["namespace"].as_str().filter(|name| !name.is_empty());
        by_namespace.entry(own.unwrap_or(namespace).to_owned()).or_default().push(document.value.clone());
    }
    by_namespace
}

/// The autoscalers among documents. What they recommend is in their status.
fn autoscalers(
    objects: &[Document],
    namespace: &str,
    gates: Gates,
    limit_ranges: &BTreeMap<String, Vec<Value>>,
) -> Result<Autoscalers, Vec<String>> {
    let mut errors = Vec::new();
    let mut found = Vec::new();
    let is_autoscaler =
        |document: &&Document| document.kind() == names::VPA_KIND && document.api_version() == names::AUTOSCALING_V1;
    for document in objects.iter().filter(is_autoscaler) {
        let mut value = document.value.clone();
        let own = value["metadata"]["namespace"].as_str().filter(|name| !name.is_empty());
        if own.is_none() {
            value["metadata"]["namespace"] = namespace.into();
        }
        match vpa::decode(value) {
            Ok(autoscaler) => {
                errors.extend(refused(&autoscaler).iter().map(|error| wrong(document, error)));
                found.push(autoscaler);
            }
            Err(error) => errors.push(format!("{}: {error}", document.locate(&Path::root()))),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(sorted_autoscalers(found, gates, limit_ranges))
}

/// What the webhook would say when an autoscaler is applied. The cluster's gates are not known, so that each of them counts as on. One that
/// comes from a cluster was stored, and is used as the cluster uses it.
fn refused(autoscaler: &VerticalPodAutoscaler) -> Vec<field::Error> {
    if autoscaler.metadata.uid.is_some() {
        return Vec::new();
    }
    let mut autoscaler = autoscaler.clone();
    vpa::apply_defaults(&mut autoscaler);
    vpa::validate(&autoscaler, None, vpa::Gates::ALL).errors
}

/// Autoscalers by what they target.
pub(crate) fn sorted_autoscalers(
    all: Vec<VerticalPodAutoscaler>,
    gates: Gates,
    limit_ranges: &BTreeMap<String, Vec<Value>>,
) -> Autoscalers {
    let all = all.into_iter().map(Arc::new);
    let (of_sets, list): (Vec<_>, Vec<_>) = all.partition(|it| targeted_set(it).is_some());
    let of_sets = of_sets.into_iter().filter(|it| sized_set(it, NAMESPACE, gates.into()).is_some()).collect();
    let merged = |(namespace, ranges): (&String, &Vec<Value>)| (namespace.clone(), LimitRanges::merge(ranges));
    Autoscalers { list, of_sets, ranges: limit_ranges.iter().map(merged).collect(), max_boost: None }
}

/// The service accounts among documents that may be injected.
fn accounts(objects: &[Document], namespace: &str) -> Accounts {
    let mut accounts = Accounts::default();
    for document in objects.iter().filter(|it| it.kind() == "ServiceAccount" && it.api_version() == "v1") {
        accounts.insert_object(&document.value, namespace);
    }
    accounts
}

fn namespaces(objects: &[Document]) -> OrdMap<String, Namespace> {
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

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// What a good text says, and the text.
    pub(crate) fn load_text(text: &str) -> (Manifests, Inputs) {
        let manifests = Manifests::of_text("test.yaml", text);
        let inputs = load(&manifests, &reading(UnknownFields::Refuse), &mut Vec::new()).unwrap().unwrap();
        (manifests, inputs)
    }

    /// The usual way to read.
    pub(crate) fn reading(unknown_fields: UnknownFields) -> Reading {
        Reading { namespace: "default".to_owned(), draw: Draw::default(), gates: Gates::default(), unknown_fields }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::reading;
    use super::*;

    const SET: &str = "
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: mesh}
spec:
  selector: {matchLabels: {app: web}}
  containers: [{name: proxy, image: envoy:1.30}]
";

    #[test]
    fn what_a_cluster_has_stored_is_read_as_the_cluster_uses_it() {
        let wrong = SET
            .replace("metadata: {name: mesh}", "metadata: {name: mesh, METADATA}")
            .replace("spec:", "spec:\n  revisionHistoryLimit: -1");
        for (metadata, is_refused) in [("labels: {}", true), ("uid: '1'", false)] {
            let text = wrong.replace("METADATA", metadata);
            let read = load(&Manifests::of_text("test.yaml", &text), &reading(UnknownFields::Refuse), &mut Vec::new());
            assert_eq!(read.unwrap().is_err(), is_refused, "{text}");
        }
    }

    #[test]
    fn a_misspelt_field_is_refused_unless_unknown_fields_are_allowed() {
        let text = SET.replace("image: envoy:1.30", "image: envoy:1.30, resourcePolicy: {}");
        let said =
            "test.yaml:7:65: unknown field \"spec.containers[0].resourcePolicy\": did you mean \"resourcesPolicy\"?";
        let manifests = Manifests::of_text("test.yaml", &text);
        let mut warnings = Vec::new();
        let refused = load(&manifests, &reading(UnknownFields::Refuse), &mut warnings).unwrap().unwrap_err();
        assert_eq!((refused, warnings.len()), (vec![said.to_owned()], 0));
        assert!(load(&manifests, &reading(UnknownFields::Allow), &mut warnings).unwrap().is_ok());
        assert_eq!(warnings, [said]);

        let unknown = SET.replace("image: envoy:1.30", "image: envoy:1.30, brandNew: {}");
        let refused =
            load(&Manifests::of_text("test.yaml", &unknown), &reading(UnknownFields::Refuse), &mut Vec::new());
        let refused = refused.unwrap().unwrap_err();
        assert!(refused[0].ends_with("; --allow-unknown-fields accepts fields of newer versions"), "{refused:?}");

        let documents = || crate::manifest::parse(&"test.yaml".into(), &text).0;
        let applied = load_applied(documents(), &Live::default(), UnknownFields::Refuse, &mut warnings);
        assert_eq!(applied.unwrap_err(), [said], "as preview and rollout plan read it");
        assert!(load_applied(documents(), &Live::default(), UnknownFields::Allow, &mut warnings).is_ok());
    }
}
