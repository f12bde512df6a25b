//! `/scale`: how many replicas there are and should be, the same for every kind that has them.

use axum::http::{Method, StatusCode};
use axum::response::Response;
use pillion_kinds::field;
use pillion_patch::apply::ApplyError;
use pillion_patch::selector::Selector;
use pillion_patch::{apply, decode, json, schema, strategic};
use serde_json::{Value, json};

use crate::call::Call;
use crate::change::{self, Source};
use crate::endpoint::{Endpoint, Part};
use crate::media::{self, PatchType};
use crate::query::{FieldValidation, Verb, WriteOptions};
use crate::status::{Refusal, Result};
use crate::{body, meta, patch, read, respond, storage};

const SCHEMA: &str = "io.k8s.api.autoscaling.v1.Scale";

pub(super) async fn answer(call: &Call<'_>) -> Result<Response> {
    if call.method == Method::GET {
        let object = read::stored(call).await?;
        let path = Paths::of(&call.endpoint).spec;
        if call.endpoint.is_custom() && read_path(&object, &path).is_none() {
            return Err(Refusal::internal(format!("the spec replicas field {path:?} does not exist")));
        }
        return respond::object(call, StatusCode::OK, of(call, &object)?);
    }
    let (kind, options) = if call.method == Method::PUT {
        (None, WriteOptions::decode(&call.query, Verb::Update)?)
    } else {
        let kind = media::patch_type(&call.content_type, call.endpoint.is_custom())?;
        (Some(kind), WriteOptions::decode(&call.query, Verb::Patch { apply: kind == PatchType::Apply })?)
    };
    let given = match kind {
        None => Some(body::document(call, "Scale", "autoscaling/v1", SCHEMA, options.field_validation)?),
        Some(_) => None,
    };
    let source = Scaled {
        call,
        kind,
        given,
        manager: call.manager(&options.field_manager),
        force: options.force,
        validation: options.field_validation,
    };
    let (object, _) = change::change(call, Part::Scale, &options, false, &source).await?;
    respond::object(call, StatusCode::OK, of(call, &object)?)
}

/// Writes the replicas of a Scale into its object.
pub(crate) fn set(call: &Call<'_>, object: &mut Value, scale: &Value) {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    write_path(object, &Paths::of(&call.endpoint).spec, replicas.into());
}

/// The Scale of an object.
pub(crate) fn of(call: &Call<'_>, object: &Value) -> Result<Value> {
    let paths = Paths::of(&call.endpoint);
    let replicas = |path: &str| read_path(object, path).and_then(Value::as_i64);
    let selector = match &call.endpoint {
        Endpoint::Builtin(_) => selector_text(&object["spec"]["selector"])?,
        Endpoint::Custom(_) => {
            let path = paths.selector.as_deref().unwrap_or_default();
            read_path(object, path).and_then(Value::as_str).unwrap_or_default().to_owned()
        }
    };
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(key) {
            metadata[key] = value.clone();
        }
    }
    let mut spec = json!({});
    match replicas(&paths.spec) {
        Some(0) | None => {}
        Some(count) => spec["replicas"] = count.into(),
    }
    let mut status = json!({"replicas": replicas(&paths.status).unwrap_or(0)});
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    Ok(json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}))
}

fn selector_text(selector: &Value) -> Result<String> {
    let selector = serde_json::from_value(selector.clone()).map_err(Refusal::internal)?;
    let selector = Selector::from_label_selector(&selector).map_err(|error| Refusal::bad_request(error.to_string()))?;
    Ok(selector.to_string())
}

/// Where an object keeps what its Scale shows.
struct Paths {
    spec: String,
    status: String,
    selector: Option<String>,
}

impl Paths {
    fn of(endpoint: &Endpoint) -> Paths {
        match endpoint {
            Endpoint::Custom(custom) if custom.scale.is_some() => {
                let scale = custom.scale.clone().unwrap_or_default();
                Paths { spec: scale.spec_replicas, status: scale.status_replicas, selector: scale.label_selector }
            }
            _ => Paths { spec: ".spec.replicas".to_owned(), status: ".status.replicas".to_owned(), selector: None },
        }
    }
}

/// The value at a path such as `.spec.replicas`.
fn read_path<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').filter(|part| !part.is_empty()).try_fold(object, |value, part| value.get(part))
}

fn write_path(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[part];
    }
    *place = value;
}

/// A change of the Scale, carried over to the object.
struct Scaled<'a, 'b> {
    call: &'a Call<'b>,
    /// `None` for a PUT.
    kind: Option<PatchType>,
    /// The Scale of a PUT.
    given: Option<Value>,
    manager: String,
    force: bool,
    validation: FieldValidation,
}

impl Source for Scaled<'_, '_> {
    fn make(&self, live: Option<&Value>) -> Result<Value> {
        let call = self.call;
        let live = live.ok_or_else(|| call.not_found())?;
        let paths = Paths::of(&call.endpoint);
        let old = of(call, live)?;
        let scale = self.scale(&old)?;
        change::check_name(call, &scale)?;
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
        if replicas < 0 && call.endpoint.is_custom() {
            let path = field::Path::new(paths.spec.as_str());
            let error = field::Error::invalid(&path, replicas, "should be a non-negative integer");
            return Err(Refusal::invalid(call.endpoint.group(), call.endpoint.kind(), call.name(), &[error]));
        }
        if replicas < 0 {
            let path = field::Path::new("spec").child("replicas");
            let error = field::Error::invalid(&path, replicas, "must be greater than or equal to 0");
            return Err(Refusal::invalid("autoscaling", "Scale", call.name(), &[error]));
        }
        let version = meta::text(&scale, "resourceVersion");
        if !version.is_empty() && version != meta::text(live, "resourceVersion") {
            return Err(Refusal::conflict(&call.endpoint.group_resource(), call.name(), change::MODIFIED));
        }
        let Some(context) = storage::apply_context(call, Part::Scale, &self.manager) else {
            return Err(Refusal::internal("no schema"));
        };
        if self.kind == Some(PatchType::Apply) {
            let mut wanted = json!({
                "apiVersion": call.endpoint.api_version(),
                "kind": call.endpoint.kind(),
                "metadata": {"name": call.name()},
            });
            write_path(&mut wanted, &paths.spec, replicas.into());
            let applied = apply::apply(&context, Some(live), &wanted, self.force);
            return applied.map_err(|error| patch::apply_refusal(&in_terms_of_scale(error))).map(without_time);
        }
        let mut new = live.clone();
        write_path(&mut new, &paths.spec, replicas.into());
        apply::update(&context, Some(live), &mut new);
        Ok(without_time(new))
    }

    fn expected_uid(&self) -> Option<&str> {
        self.given.as_ref().map(meta::uid).filter(|uid| !uid.is_empty())
    }
}

/// Who scales owns the replicas as of no time.
fn without_time(mut object: Value) -> Value {
    if let Some(Value::Array(entries)) = object["metadata"].get_mut("managedFields") {
        for entry in entries.iter_mut() {
            if let (true, Value::Object(entry)) = (entry["subresource"] == "scale", entry) {
                entry.shift_remove("time");
            }
        }
        // No time is before any time, within an operation.
        entries.sort_by_key(|entry| (entry["operation"] != "Apply", entry["time"].is_string()));
    }
    object
}

/// Conflicts are told in the version of the Scale.
fn in_terms_of_scale(mut error: ApplyError) -> ApplyError {
    if let ApplyError::Conflict(conflicts) = &mut error {
        for conflict in &mut conflicts.0 {
            "autoscaling/v1".clone_into(&mut conflict.api_version);
        }
    }
    error
}

impl Scaled<'_, '_> {
    /// The Scale that the client wants.
    fn scale(&self, old: &Value) -> Result<Value> {
        let Some(schema) = schema::builtin().get(SCHEMA) else { return Err(Refusal::internal("no schema of Scale")) };
        let refusal = |error: &json::PatchError| patch::json_refusal(error, self.validation);
        let patched = match self.kind {
            None => return Ok(self.given.clone().unwrap_or_default()),
            Some(PatchType::Json) => json::JsonPatch::parse(&self.call.body)
                .and_then(|patch| patch.apply(old.clone()))
                .map_err(|error| refusal(&error))?,
            Some(PatchType::Merge) => {
                let (merge, _) = json::parse_merge_patch(&self.call.body).map_err(|error| refusal(&error))?;
                let mut patched = old.clone();
                json::merge(&mut patched, merge);
                patched
            }
            Some(PatchType::Strategic) => {
                let parsed = decode::parse(&self.call.body).map_err(|error| Refusal::bad_request(error.to_string()))?;
                strategic::strategic_merge(schema, old.clone(), parsed.value)
                    .map_err(|error| patch::strategic_refusal(&error))?
            }
            Some(PatchType::Apply) => {
                decode::parse_yaml(&self.call.body)
                    .map_err(|error| Refusal::bad_request(format!("error decoding YAML: {error}")))?
                    .value
            }
        };
        let shown = serde_json::to_string(&patched).unwrap_or_default();
        let decoded =
            decode::decode(schema, patched).map_err(|error| patch::invalid_patch(shown, &error.to_string()))?;
        Ok(decoded.object)
    }
}
