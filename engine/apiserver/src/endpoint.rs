//! A resource as requests meet it: one of Kubernetes' own, or one that a CustomResourceDefinition brought.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use pillion_kinds::resource::{Resource, Service};
use pillion_patch::schema::{self, Schema};
use pillion_rules::field;
use pillion_structural::policy;
use serde_json::Value;

use crate::custom::{CustomResource, validation};
use crate::status::GroupResource;
use crate::{kinds, meta};

/// A resource in one version.
#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    Builtin(&'static Resource),
    Custom(Arc<CustomResource>),
}

/// What of an object a write is about; each has its own rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The resource itself.
    Main,
    /// `/status`
    Status,
    /// `pods/resize`
    Resize,
    /// `pods/ephemeralcontainers`
    EphemeralContainers,
    /// `/scale`
    Scale,
    /// `namespaces/finalize`
    Finalize,
}

impl Part {
    /// The name in paths and in managedFields; empty for the resource itself.
    pub(crate) fn subresource(self) -> &'static str {
        match self {
            Part::Main => "",
            Part::Status => "status",
            Part::Resize => "resize",
            Part::EphemeralContainers => "ephemeralcontainers",
            Part::Scale => "scale",
            Part::Finalize => "finalize",
        }
    }
}

impl Endpoint {
    pub(crate) fn group(&self) -> &str {
        match self {
            Endpoint::Builtin(resource) => resource.group,
            Endpoint::Custom(custom) => &custom.group,
        }
    }

    pub(crate) fn version(&self) -> &str {
        match self {
            Endpoint::Builtin(resource) => resource.version,
            Endpoint::Custom(custom) => &custom.version,
        }
    }

    pub(crate) fn plural(&self) -> &str {
        match self {
            Endpoint::Builtin(resource) => resource.plural,
            Endpoint::Custom(custom) => &custom.plural,
        }
    }

    pub(crate) fn kind(&self) -> &str {
        match self {
            Endpoint::Builtin(resource) => resource.kind,
            Endpoint::Custom(custom) => &custom.kind,
        }
    }

    pub(crate) fn list_kind(&self) -> String {
        match self {
            Endpoint::Builtin(resource) => format!("{}List", resource.kind),
            Endpoint::Custom(custom) => custom.list_kind.clone(),
        }
    }

    pub(crate) fn namespaced(&self) -> bool {
        match self {
            Endpoint::Builtin(resource) => resource.namespaced,
            Endpoint::Custom(custom) => custom.namespaced,
        }
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self, Endpoint::Custom(_))
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group() == group && self.plural() == plural
    }

    /// `v1`, `apps/v1`
    pub(crate) fn api_version(&self) -> String {
        kinds::api_version(self.group(), self.version())
    }

    /// The group that messages about wrong objects name: that of the stored form.
    pub(crate) fn storage_group(&self) -> &str {
        match self {
            Endpoint::Builtin(Resource { storage: Some(storage), .. }) => storage.group,
            _ => self.group(),
        }
    }

    /// As messages name the resource.
    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group(), self.plural())
    }

    /// Under what name the store keeps the objects: `pods`, `deployments.apps`.
    pub(crate) fn storage_name(&self) -> String {
        match self {
            Endpoint::Builtin(Resource { storage: Some(storage), plural, .. }) => {
                GroupResource::new(storage.group, plural).to_string()
            }
            _ => self.group_resource().to_string(),
        }
    }

    pub(crate) fn verbs(&self) -> Vec<&str> {
        match self {
            Endpoint::Builtin(resource) => resource.verbs.to_vec(),
            Endpoint::Custom(_) => {
                vec!["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
            }
        }
    }

    /// Verbs of a subresource; `None` when there is no such one.
    pub(crate) fn subresource_verbs(&self, name: &str) -> Option<Vec<&str>> {
        match self {
            Endpoint::Builtin(resource) => {
                resource.subresources.iter().find(|sub| sub.name == name).map(|sub| sub.verbs.to_vec())
            }
            Endpoint::Custom(custom) => {
                let there = match name {
                    "status" => custom.has_status,
                    "scale" => custom.scale.is_some(),
                    _ => false,
                };
                there.then(|| vec!["get", "patch", "update"])
            }
        }
    }

    pub(crate) fn schema(&self) -> Option<Schema<'_>> {
        match self {
            Endpoint::Builtin(resource) => schema::builtin().get(resource.schema),
            Endpoint::Custom(custom) => Some(custom.schemas.root()),
        }
    }

    /// Nothing checks more than the metadata of objects of this kind, or acts on them.
    pub(crate) fn stored_only(&self) -> bool {
        matches!(self, Endpoint::Builtin(Resource { service: Service::StoredOnly, .. }))
    }

    pub(crate) fn default(&self, object: &mut Value) {
        match self {
            Endpoint::Builtin(resource) => (resource.rules.default)(object),
            Endpoint::Custom(custom) => custom.default(object),
        }
    }

    pub(crate) fn prepare_create(&self, object: &mut Value) {
        match self {
            Endpoint::Builtin(resource) => as_stored(resource, object, resource.rules.prepare_create),
            Endpoint::Custom(custom) => {
                if custom.has_status
                    && let Value::Object(object) = object
                {
                    object.shift_remove("status");
                }
                meta::set(object, "generation", Some(1.into()));
            }
        }
    }

    pub(crate) fn validate(&self, object: &Value) -> Vec<field::Error> {
        match self {
            Endpoint::Builtin(resource) => {
                let mut errors = (resource.rules.validate)(&stored_form(resource, object));
                errors.extend(self.expression_errors(object, None));
                errors
            }
            Endpoint::Custom(custom) => custom.validate(object, None, pillion_structural::Part::Object),
        }
    }

    pub(crate) fn prepare_update(&self, part: Part, object: &mut Value, old: &Value) {
        match (self, part) {
            (Endpoint::Builtin(resource), _) => {
                let old = &*stored_form(resource, old);
                as_stored(resource, object, |object| match part {
                    Part::Main | Part::Scale => (resource.rules.prepare_update)(object, old),
                    Part::Status => (resource.rules.prepare_status)(object, old),
                    Part::Finalize => pillion_kinds::namespace::prepare_finalize(object, old),
                    Part::Resize => pillion_kinds::pod::prepare_resize(object, old),
                    Part::EphemeralContainers => pillion_kinds::pod::prepare_ephemeral_containers(object, old),
                });
            }
            (Endpoint::Custom(_), Part::Status) => CustomResource::prepare_status(object, old),
            (Endpoint::Custom(custom), _) => {
                if custom.has_status {
                    copy(object, old, "status");
                }
                count_generation(object, old);
            }
        }
    }

    pub(crate) fn validate_update(&self, part: Part, object: &Value, old: &Value) -> Vec<field::Error> {
        match self {
            Endpoint::Builtin(resource) => {
                let (object, old) = (&*stored_form(resource, object), &*stored_form(resource, old));
                match part {
                    Part::Main => {
                        let mut errors = (resource.rules.validate_update)(object, old);
                        errors.extend(self.expression_errors(object, Some(old)));
                        errors
                    }
                    Part::Scale => (resource.rules.validate_update)(object, old),
                    Part::Status => (resource.rules.validate_status)(object, old),
                    Part::Finalize => pillion_kinds::namespace::validate_finalize(object, old),
                    Part::Resize => pillion_kinds::pod::validate_resize(object, old),
                    Part::EphemeralContainers => pillion_kinds::pod::validate_ephemeral_containers(object, old),
                }
            }
            Endpoint::Custom(custom) => {
                let part = match part {
                    Part::Status => pillion_structural::Part::Status,
                    _ => pillion_structural::Part::Object,
                };
                custom.validate(object, Some(old), part)
            }
        }
    }

    /// What is wrong with schemas and expressions in objects that bring some.
    fn expression_errors(&self, object: &Value, old: Option<&Value>) -> Vec<field::Error> {
        match (self.group(), self.plural()) {
            ("apiextensions.k8s.io", "customresourcedefinitions") => validation::schema_errors(object, old),
            ("admissionregistration.k8s.io", "validatingadmissionpolicies") => policy::validate_policy(object),
            ("admissionregistration.k8s.io", "mutatingwebhookconfigurations" | "validatingwebhookconfigurations") => {
                let webhooks = object["webhooks"].as_array().into_iter().flatten().enumerate();
                let path = field::Path::new("webhooks");
                let check = |(index, webhook): (usize, &Value)| {
                    let path = path.index(index).child("matchConditions");
                    policy::validate_match_conditions(&webhook["matchConditions"], &path, false)
                };
                webhooks.flat_map(check).collect()
            }
            _ => Vec::new(),
        }
    }

    pub(crate) fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        match self {
            Endpoint::Builtin(resource) => (resource.rules.warnings)(object, old),
            Endpoint::Custom(_) => Vec::new(),
        }
    }

    /// The value that field selectors compare; `None` for a field that may not be selected by.
    pub(crate) fn selectable(&self, object: &Value, field: &str) -> Option<String> {
        match (field, self) {
            ("metadata.name", _) => Some(meta::name(object).to_owned()),
            ("metadata.namespace", _) if self.knows_namespace() => Some(meta::namespace(object).to_owned()),
            (_, Endpoint::Builtin(resource)) => (resource.rules.selectable)(object, field),
            (_, Endpoint::Custom(custom)) => custom.selectable(object, field),
        }
    }

    /// Whether selectors may name the namespace: some kinds that have none do not mind.
    fn knows_namespace(&self) -> bool {
        match self {
            Endpoint::Builtin(_) => !self.is("", "nodes") && !self.is("", "namespaces"),
            Endpoint::Custom(custom) => custom.namespaced,
        }
    }

    /// Whether a PUT may make an object that is not there.
    pub(crate) fn create_on_update(&self) -> bool {
        matches!(self, Endpoint::Builtin(resource) if resource.rules.create_on_update)
    }

    /// Whether a PUT may leave out the resourceVersion.
    pub(crate) fn unconditional_update(&self) -> bool {
        matches!(self, Endpoint::Builtin(resource) if resource.rules.unconditional_update)
    }

    pub(crate) fn orphan_by_default(&self) -> bool {
        matches!(self, Endpoint::Builtin(resource) if resource.rules.orphan_by_default)
    }

    /// Paths that a write through this part never owns.
    pub(crate) fn reset_fields(&self, part: Part) -> &[&[&str]] {
        match (self, part) {
            (Endpoint::Builtin(resource), Part::Main) => resource.rules.reset_on_main,
            (Endpoint::Builtin(resource), Part::Status) => resource.rules.reset_on_status,
            (Endpoint::Builtin(_), _) => &[],
            (Endpoint::Custom(custom), Part::Status) => {
                if custom.has_status {
                    &[&["spec"]]
                } else {
                    &[]
                }
            }
            (Endpoint::Custom(custom), _) => {
                if custom.has_status {
                    &[&["status"]]
                } else {
                    &[]
                }
            }
        }
    }
}

/// Rules look at the stored form of an object.
fn stored_form<'a>(resource: &Resource, object: &'a Value) -> Cow<'a, Value> {
    match &resource.storage {
        None => Cow::Borrowed(object),
        Some(storage) => {
            let mut stored = object.clone();
            (storage.to_storage)(&mut stored);
            Cow::Owned(stored)
        }
    }
}

/// Changes an object in its stored form.
fn as_stored(resource: &Resource, object: &mut Value, change: impl FnOnce(&mut Value)) {
    match &resource.storage {
        None => change(object),
        Some(storage) => {
            (storage.to_storage)(object);
            change(object);
            (storage.from_storage)(object);
        }
    }
}

/// Counts a change of anything but metadata.
fn count_generation(object: &mut Value, old: &Value) {
    let counted = |object: &Value| -> BTreeMap<String, Value> {
        let fields = object.as_object().into_iter().flatten();
        let counted = fields.filter(|(key, _)| !matches!(key.as_str(), "metadata" | "kind" | "apiVersion"));
        counted.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let generation = meta::generation(old) + i64::from(counted(object) != counted(old));
    meta::set(object, "generation", Some(generation.into()));
}

/// Takes a field from `old`, its absence included.
pub(crate) fn copy(object: &mut Value, old: &Value, key: &str) {
    let Value::Object(object) = object else { return };
    match old.get(key) {
        Some(value) => {
            object.insert(key.to_owned(), value.clone());
        }
        None => {
            object.shift_remove(key);
        }
    }
}
