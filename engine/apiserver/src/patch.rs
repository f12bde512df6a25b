//! PATCH, in its four kinds.

use axum::http::StatusCode;
use axum::response::Response;
use pillion_patch::decode;
use pillion_patch::{apply, json, print, strategic};
use pillion_rules::field;
use serde_json::Value;

use crate::call::Call;
use crate::change::{self, Source};
use crate::endpoint::Part;
use crate::media::{self, PatchType};
use crate::query::{FieldValidation, Verb, WriteOptions};
use crate::status::{Refusal, Result};
use crate::{body, meta, respond, storage};

struct Patch<'a, 'b> {
    call: &'a Call<'b>,
    part: Part,
    kind: PatchType,
    manager: String,
    options: &'a WriteOptions,
}

impl Source for Patch<'_, '_> {
    fn make(&self, live: Option<&Value>) -> Result<Value> {
        if self.kind == PatchType::Apply {
            return self.apply(live);
        }
        let live = live.ok_or_else(|| self.call.not_found())?;
        let mut new = match self.kind {
            PatchType::Strategic => self.strategic(live)?,
            _ => self.json(live)?,
        };
        if let Some(context) = storage::apply_context(self.call, self.part, &self.manager) {
            apply::update(&context, Some(live), &mut new);
        }
        Ok(new)
    }
}

impl Patch<'_, '_> {
    /// JSON patch and merge patch: both make a text that is then decoded like a body.
    fn json(&self, live: &Value) -> Result<Value> {
        let (patched, mut complaints) = if self.kind == PatchType::Json {
            let patch = json::JsonPatch::parse(&self.call.body).map_err(|error| self.json_refusal(&error))?;
            let patched = patch.apply(live.clone()).map_err(|error| self.json_refusal(&error))?;
            (patched, patch.strict.iter().map(|error| format!("json patch {error}")).collect::<Vec<_>>())
        } else {
            let (patch, strict) =
                json::parse_merge_patch(&self.call.body).map_err(|error| self.json_refusal(&error))?;
            let mut patched = live.clone();
            json::merge(&mut patched, patch);
            (patched, strict.iter().map(ToString::to_string).collect())
        };
        let shown = || {
            // Go writes what has no type of its own with sorted keys.
            if self.call.endpoint.is_custom() { shown(&respond::sorted(&patched)) } else { shown(&patched) }
        };
        if let Some(why) = body::foreign(&self.call.endpoint, &patched) {
            return Err(invalid_patch(shown(), &why));
        }
        let (object, unknown) = body::typed(&self.call.endpoint, patched.clone().into(), self.options.field_validation)
            .map_err(|error| invalid_patch(shown(), &error))?;
        complaints.extend(unknown);
        self.strict(&complaints, shown)?;
        Ok(object)
    }

    fn json_refusal(&self, error: &json::PatchError) -> Box<Refusal> {
        json_refusal(error, self.options.field_validation)
    }

    fn strategic(&self, live: &Value) -> Result<Value> {
        let endpoint = &self.call.endpoint;
        let Some(schema) = endpoint.schema() else { return Err(Refusal::internal("no schema")) };
        let parsed = decode::parse(&self.call.body).map_err(|error| Refusal::bad_request(error.to_string()))?;
        if !parsed.value.is_object() && !parsed.value.is_null() {
            return Err(Refusal::bad_request(decode::no_object(&parsed.value).to_string()));
        }
        let shown = || print::go_value(&parsed.value);
        let merged = strategic::strategic_merge(schema, live.clone(), parsed.value.clone())
            .map_err(|error| strategic_refusal(&error))?;
        let decoded = decode::convert(schema, merged).map_err(|error| invalid_patch(shown(), &error.to_string()))?;
        let mut object = decoded.object;
        body::set_type_meta(endpoint, &mut object);
        endpoint.default(&mut object);
        let duplicates = parsed.duplicates.iter().map(|path| format!("duplicate field {path:?}"));
        let complaints: Vec<String> = duplicates.chain(decoded.strict.iter().map(ToString::to_string)).collect();
        self.strict(&complaints, shown)?;
        Ok(object)
    }

    fn strict(&self, complaints: &[String], shown: impl Fn() -> String) -> Result<()> {
        match self.options.field_validation {
            FieldValidation::Strict if !complaints.is_empty() => {
                Err(invalid_patch(shown(), &format!("strict decoding error: {}", complaints.join(", "))))
            }
            FieldValidation::Warn => {
                self.call.warnings.extend(complaints.iter().cloned());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Server-side apply.
    fn apply(&self, live: Option<&Value>) -> Result<Value> {
        let call = self.call;
        let mut applied = configuration(&call.body)?;
        if let Some(version) = applied["apiVersion"].as_str()
            && version != call.endpoint.api_version()
        {
            return Err(Refusal::bad_request(format!(
                "Incorrect version specified in apply patch. Specified patch version: {version}, expected: {}",
                call.endpoint.api_version()
            )));
        }
        if live.is_none() {
            // A version of what is not there means nothing.
            meta::set(&mut applied, "resourceVersion", None);
        }
        let Some(context) = storage::apply_context(call, self.part, &self.manager) else {
            return Err(Refusal::internal("no schema"));
        };
        let merged =
            apply::apply(&context, live, &applied, self.options.force).map_err(|error| apply_refusal(&error))?;
        let managed = merged["metadata"].get("managedFields").cloned();
        let (mut object, _) = body::typed(&call.endpoint, merged.into(), FieldValidation::Ignore)
            .map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "", error, Value::Null))?;
        meta::set(&mut object, "managedFields", managed);
        Ok(object)
    }
}

/// What is to be applied.
pub(crate) fn configuration(body: &[u8]) -> Result<Value> {
    let parsed =
        decode::parse_yaml(body).map_err(|error| Refusal::bad_request(format!("error decoding YAML: {error}")))?;
    if parsed.value.is_object() {
        return Ok(parsed.value);
    }
    Err(Refusal::bad_request(
        "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal into Go value of type map[string]interface {}",
    ))
}

/// A patched object, as messages show it.
pub(crate) fn shown(patched: &Value) -> String {
    serde_json::to_string(patched).unwrap_or_default()
}

pub(crate) fn apply_refusal(error: &apply::ApplyError) -> Box<Refusal> {
    match error {
        apply::ApplyError::Conflict(conflicts) => {
            let causes: Vec<Value> = conflicts
                .0
                .iter()
                .map(|conflict| serde_json::json!({"reason": "FieldManagerConflict", "message": conflict.message(), "field": conflict.path}))
                .collect();
            Refusal::new(StatusCode::CONFLICT, "Conflict", error.to_string(), serde_json::json!({"causes": causes}))
        }
        apply::ApplyError::BadRequest(message) => Refusal::bad_request(message.as_str()),
        apply::ApplyError::Invalid(message) => {
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "", message.as_str(), Value::Null)
        }
    }
}

pub(crate) fn json_refusal(error: &json::PatchError, validation: FieldValidation) -> Box<Refusal> {
    match error {
        json::PatchError::TooLarge(_) => Refusal::too_large(error.to_string()),
        json::PatchError::Apply(_) => Refusal::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            "the server rejected our request due to an error in our request",
            serde_json::json!({}),
        ),
        json::PatchError::Syntax(_) | json::PatchError::Form(_) if validation != FieldValidation::Ignore => {
            Refusal::bad_request(format!("error decoding patch: {error}"))
        }
        _ => Refusal::bad_request(error.to_string()),
    }
}

pub(crate) fn strategic_refusal(error: &strategic::StrategicError) -> Box<Refusal> {
    match error.status() {
        400 => Refusal::bad_request(error.to_string()),
        422 => Refusal::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            "the server rejected our request due to an error in our request",
            serde_json::json!({}),
        ),
        _ => Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "", error.to_string(), Value::Null),
    }
}

/// A patch whose result is no object of the kind.
pub(crate) fn invalid_patch(shown: String, error: &str) -> Box<Refusal> {
    Refusal::invalid("", "", "", &[field::Error::invalid(&field::Path::new("patch"), shown, error)])
}

pub(crate) async fn patch(call: &Call<'_>) -> Result<Response> {
    let kind = media::patch_type(&call.content_type, call.endpoint.is_custom())?;
    let options = WriteOptions::decode(&call.query, Verb::Patch { apply: kind == PatchType::Apply })?;
    let part = call.part();
    let source = Patch { call, part, kind, manager: call.manager(&options.field_manager), options: &options };
    let (object, created) = change::change(call, part, &options, kind == PatchType::Apply, &source).await?;
    let code = if created { StatusCode::CREATED } else { StatusCode::OK };
    respond::object(call, code, object)
}
