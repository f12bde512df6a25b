//! Resources that CustomResourceDefinitions bring.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use pillion_kinds::table::CustomTable;
use pillion_patch::schema::Schemas;
use pillion_rules::{field, metadata};
use pillion_store::Store;
use pillion_structural::{Part, Report, Structural};
use serde_json::Value;

use crate::kinds::api_version;
use crate::{meta, stored};

pub(crate) mod validation;

pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// One served version of a CustomResourceDefinition.
#[derive(Debug)]
pub(crate) struct CustomResource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) namespaced: bool,
    pub(crate) structural: Structural,
    /// The same for server-side apply.
    pub(crate) schemas: Schemas,
    pub(crate) has_status: bool,
    pub(crate) scale: Option<ScalePaths>,
    /// The columns of `kubectl get`.
    pub(crate) table: CustomTable,
    /// Fields that selectors may name: `.spec.color`.
    selectable_fields: Vec<String>,
    pub(crate) storage_version: String,
    /// Turns objects of one version into another; `None` when only their apiVersion differs.
    pub(crate) conversion_webhook: Option<Value>,
    /// What is stored may have another version, or lack defaults that came later.
    may_differ_from_stored: bool,
    /// The version of the store when it was first served; nobody can have watched it before.
    pub(crate) since: u64,
    /// Said to whoever uses the version.
    pub(crate) deprecation_warning: Option<String>,
}

/// Where a custom resource keeps what `Scale` shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) label_selector: Option<String>,
}

impl CustomResource {
    /// The served versions of a definition whose names were accepted.
    fn all_of(definition: &Value, since: u64) -> Vec<CustomResource> {
        let versions = || definition["spec"]["versions"].as_array().into_iter().flatten();
        let storage = versions().find(|version| version["storage"] == true).map(|version| text(&version["name"]));
        let several = versions().count() > 1 || meta::generation(definition) > 1;
        let served = versions().filter(|version| version["served"] == true);
        served
            .filter_map(|version| {
                CustomResource::new(definition, version, storage.clone().unwrap_or_default(), several, since)
            })
            .collect()
    }

    fn new(
        definition: &Value,
        version: &Value,
        storage_version: String,
        may_differ: bool,
        since: u64,
    ) -> Option<CustomResource> {
        let (spec, names) = (&definition["spec"], &definition["status"]["acceptedNames"]);
        let schema = &version["schema"]["openAPIV3Schema"];
        // A definition is checked before it is stored, so its schema compiles; one that does not is not served.
        let structural = Structural::compile(schema).ok()?;
        let conversion_webhook =
            (spec["conversion"]["strategy"] == "Webhook").then(|| spec["conversion"]["webhook"].clone());
        let scale = version["subresources"].get("scale").map(|scale| ScalePaths {
            spec_replicas: text(&scale["specReplicasPath"]),
            status_replicas: text(&scale["statusReplicasPath"]),
            label_selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
        });
        let (group, kind, version_name) = (text(&spec["group"]), text(&names["kind"]), text(&version["name"]));
        let deprecation_warning = (version["deprecated"] == true).then(|| {
            version["deprecationWarning"]
                .as_str()
                .map_or_else(|| format!("{group}/{version_name} {kind} is deprecated"), str::to_owned)
        });
        let selectable = version["selectableFields"].as_array().into_iter().flatten();
        Some(CustomResource {
            group,
            version: version_name,
            plural: text(&names["plural"]),
            kind,
            list_kind: text(&names["listKind"]),
            namespaced: spec["scope"] == "Namespaced",
            structural,
            schemas: Schemas::from_openapi(schema),
            has_status: version["subresources"].get("status").is_some(),
            scale,
            table: CustomTable::new(&version["additionalPrinterColumns"]),
            selectable_fields: selectable.map(|field| text(&field["jsonPath"])).collect(),
            storage_version,
            conversion_webhook,
            may_differ_from_stored: may_differ,
            since,
            deprecation_warning,
        })
    }

    /// Takes a body apart: what the schema does not know is dropped and reported.
    pub(crate) fn decode(&self, mut value: Value) -> Result<(Value, Vec<String>), String> {
        let unknown = self.structural.coerce(&mut value)?;
        Ok((value, unknown.iter().map(|path| format!("unknown field {path:?}")).collect()))
    }

    /// Reads an object that was written under another schema: as if a client sent it now.
    pub(crate) fn read(&self, object: &mut Value) {
        self.structural.prune(object);
        self.structural.apply_defaults(object);
    }

    pub(crate) fn default(&self, object: &mut Value) {
        self.structural.apply_defaults(object);
    }

    /// Checks a new or changed object.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>, part: Part) -> Vec<field::Error> {
        let path = field::Path::new("metadata");
        let errors = match old {
            None => metadata::validate(&object["metadata"], &path, self.namespaced, metadata::subdomain_name),
            Some(old) => metadata::validate_update(&object["metadata"], &old["metadata"], &path),
        };
        let mut report = Report { errors, warnings: Vec::new() };
        if let Some(scale) = &self.scale {
            for path in [&scale.spec_replicas, &scale.status_replicas] {
                report.errors.extend(replicas_error(object, path));
            }
        }
        self.structural.validate_into(object, old, part, &mut report);
        report.errors
    }

    /// A write of `/status` changes nothing else.
    pub(crate) fn prepare_status(object: &mut Value, old: &Value) {
        let status = object.get("status").cloned();
        let managed = object["metadata"].get("managedFields").cloned();
        *object = old.clone();
        meta::set(object, "managedFields", managed);
        if let Value::Object(object) = object {
            match status {
                Some(status) => object.insert("status".to_owned(), status),
                None => object.shift_remove("status"),
            };
        }
    }

    /// The value that field selectors compare.
    pub(crate) fn selectable(&self, object: &Value, field: &str) -> Option<String> {
        let path = self.selectable_fields.iter().find(|path| path.trim_start_matches('.') == field)?;
        let parts = path.split('.').filter(|part| !part.is_empty());
        let value = parts.fold(object, |value, part| &value[part]);
        Some(match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        })
    }

    pub(crate) fn shown_as_stored(&self) -> bool {
        !self.may_differ_from_stored
    }

    /// The version that is stored, as objects name it.
    pub(crate) fn storage_api_version(&self) -> String {
        api_version(&self.group, &self.storage_version)
    }
}

/// What is wrong with the number of replicas that Scale is to show.
fn replicas_error(object: &Value, path: &str) -> Option<field::Error> {
    let value = path.split('.').filter(|part| !part.is_empty()).try_fold(object, |value, part| value.get(part))?;
    let go_type = match value {
        Value::Number(number) => match number.as_i64() {
            Some(replicas) if replicas < 0 => {
                return Some(field::Error::invalid(
                    &field::Path::new(path),
                    replicas,
                    "should be a non-negative integer",
                ));
            }
            Some(_) => return None,
            None => "float64",
        },
        Value::Null => return None,
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let shown = pillion_patch::print::go_value(value);
    let why = format!("{path} accessor error: {shown} is of the type {go_type}, expected int64");
    Some(field::Error::invalid(&field::Path::new(path), 0, why))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Status of a condition.
pub(crate) fn condition<'a>(definition: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = definition["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}

/// The definitions that are in force.
#[derive(Debug, Default)]
pub(crate) struct CustomResources {
    inner: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By name of the definition.
    definitions: HashMap<String, Arc<Value>>,
    /// By group, version and plural.
    resources: HashMap<(String, String, String), Arc<CustomResource>>,
    /// Names of definitions that are deleted as soon as their objects are.
    terminating: HashSet<String>,
}

impl CustomResources {
    /// Those in the store.
    pub(crate) fn new(store: &Store) -> CustomResources {
        let resources = CustomResources::default();
        for (_, _, stored) in store.list(DEFINITIONS, None).iter() {
            if let Ok(definition) = stored::parse(stored) {
                // Whoever watched before the restart is sent back by the store itself.
                resources.changed(&definition, 0);
            }
        }
        resources
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<CustomResource>> {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.inner.read().unwrap_or_else(PoisonError::into_inner).resources.get(&key).cloned()
    }

    pub(crate) fn of_kind(&self, version: &str, kind: &str) -> Option<Arc<CustomResource>> {
        let state = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let same = |custom: &&Arc<CustomResource>| {
            custom.kind == kind && api_version(&custom.group, &custom.version) == version
        };
        state.resources.values().find(same).cloned()
    }

    /// The same resource in its other versions.
    pub(crate) fn other_versions(&self, custom: &CustomResource) -> Vec<Arc<CustomResource>> {
        let state = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let same = |other: &&Arc<CustomResource>| {
            other.group == custom.group && other.plural == custom.plural && other.version != custom.version
        };
        let mut others: Vec<Arc<CustomResource>> = state.resources.values().filter(same).cloned().collect();
        others.sort_by(|a, b| a.version.cmp(&b.version));
        others
    }

    /// All definitions that are served, by name.
    pub(crate) fn definitions(&self) -> Vec<Arc<Value>> {
        let state = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Arc<Value>> = state.definitions.values().cloned().collect();
        all.sort_by(|a, b| meta::name(a).cmp(meta::name(b)));
        all
    }

    /// Takes a definition into account, once it is established.
    pub(crate) fn changed(&self, definition: &Value, version: u64) {
        let established = condition(definition, "Established") == Some("True");
        let name = meta::name(definition).to_owned();
        let mut state = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let known = state.resources.values().find(|resource| format!("{}.{}", resource.plural, resource.group) == name);
        let since = known.map_or(version, |resource| resource.since);
        state.forget(&name);
        if !established {
            return;
        }
        for resource in CustomResource::all_of(definition, since) {
            let key = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
            state.resources.insert(key, Arc::new(resource));
        }
        state.definitions.insert(name, Arc::new(definition.clone()));
    }

    pub(crate) fn removed(&self, name: &str) {
        let mut state = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        state.forget(name);
        state.terminating.remove(name);
    }

    /// Remembers that a definition is marked for deletion.
    pub(crate) fn terminates(&self, name: &str) {
        self.inner.write().unwrap_or_else(PoisonError::into_inner).terminating.insert(name.to_owned());
    }

    pub(crate) fn is_terminating(&self, name: &str) -> bool {
        self.inner.read().unwrap_or_else(PoisonError::into_inner).terminating.contains(name)
    }
}

impl State {
    fn forget(&mut self, name: &str) {
        self.definitions.remove(name);
        self.resources.retain(|(group, _, plural), _| format!("{plural}.{group}") != name);
    }
}
