//! `/scale`: reads and changes the replicas of an object.

use axum::http::{Method, StatusCode};
use axum::response::Response;
use pillion_patch::apply::scale::Replicas;
use pillion_patch::apply::{Context, Manager};
use pillion_patch::{apply, decode, json, schema, strategic};
use pillion_rules::field;
use serde_json::{Value, json};

use crate::call::Call;
use crate::change::{self, Source};
use crate::endpoint::{Endpoint, Part};
use crate::media::{self, PatchType};
use crate::query::{FieldValidation, Verb, WriteOptions};
use crate::scale::{Paths, of, read_path, write_path};
use crate::status::{Refusal, Result};
use crate::{body, meta, patch, read, respond};

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
        let versions = versions(call);
        let versions: Vec<Replicas<'_>> = versions.iter().map(Version::replicas).collect();
        let owners = &live["metadata"]["managedFields"];
        let mut old = of(call, live)?;
        let of_scale = apply::scale::of_scale(owners, &versions).map_err(Refusal::internal)?;
        meta::set(&mut old, "managedFields", Some(of_scale).filter(|list| *list != json!([])));
        let scale = self.scale(&old)?;
        change::check_name(call, &scale)?;
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
        let path = Paths::of(&call.endpoint).spec;
        check_replicas(call, &path, replicas)?;
        let version = meta::text(&scale, "resourceVersion");
        if !version.is_empty() && version != meta::text(live, "resourceVersion") {
            return Err(Refusal::conflict(&call.endpoint.group_resource(), call.name(), change::MODIFIED));
        }
        let mut new = live.clone();
        write_path(&mut new, &path, replicas.into());
        let scalers = &scale["metadata"]["managedFields"];
        let owners = apply::scale::of_scaled(owners, scalers, &call.api_version, &versions);
        let owners = owners.map_err(Refusal::internal)?;
        meta::set(&mut new, "managedFields", Some(owners).filter(|list| *list != json!([])));
        Ok(new)
    }

    fn expected_uid(&self) -> Option<&str> {
        self.given.as_ref().map(meta::uid).filter(|uid| !uid.is_empty())
    }
}

fn check_replicas(call: &Call<'_>, path: &str, replicas: i64) -> Result<()> {
    if replicas >= 0 {
        return Ok(());
    }
    if call.endpoint.is_custom() {
        let error = field::Error::invalid(&field::Path::new(path), replicas, "should be a non-negative integer");
        return Err(Refusal::invalid(call.endpoint.group(), call.endpoint.kind(), call.name(), &[error]));
    }
    let path = field::Path::new("spec").child("replicas");
    let error = field::Error::invalid(&path, replicas, "must be greater than or equal to 0");
    Err(Refusal::invalid("autoscaling", "Scale", call.name(), &[error]))
}

/// A version of the scaled resource, and where its replicas are.
struct Version {
    api_version: String,
    path: Option<String>,
}

impl Version {
    fn replicas(&self) -> Replicas<'_> {
        let path = self.path.as_ref().map(|path| path.split('.').filter(|part| !part.is_empty()).collect());
        Replicas { api_version: &self.api_version, path }
    }
}

fn versions(call: &Call<'_>) -> Vec<Version> {
    let others = if call.endpoint.is_custom() { call.inner().equivalents(&call.endpoint) } else { Vec::new() };
    let version = |endpoint: &Endpoint| {
        let path = match endpoint {
            Endpoint::Custom(custom) => custom.scale.as_ref().map(|scale| scale.spec_replicas.clone()),
            Endpoint::Builtin(_) => Some(Paths::of(endpoint).spec),
        };
        Version { api_version: endpoint.api_version(), path }
    };
    std::iter::once(&call.endpoint).chain(&others).map(version).collect()
}

impl Scaled<'_, '_> {
    /// The Scale that the client wants, and who owns what of it.
    fn scale(&self, old: &Value) -> Result<Value> {
        let Some(schema) = schema::builtin().get(SCHEMA) else { return Err(Refusal::internal("no schema of Scale")) };
        let context = Context {
            schema,
            api_version: apply::scale::API_VERSION,
            kind: "Scale",
            manager: Manager { name: &self.manager, subresource: Part::Scale.subresource() },
            now: self.call.now(),
            reset: &[],
        };
        let refusal = |error: &json::PatchError| patch::json_refusal(error, self.validation);
        let patched = match self.kind {
            None => self.given.clone().unwrap_or_default(),
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
                let applied = patch::configuration(&self.call.body)?;
                let applied = apply::apply(&context, Some(old), &applied, self.force);
                return applied.map_err(|error| patch::apply_refusal(&error));
            }
        };
        let shown = || patch::shown(&patched);
        let decoded = decode::decode(schema, patched.clone())
            .map_err(|error| patch::invalid_patch(shown(), &error.to_string()))?;
        let mut new = decode::write(schema, decoded.object);
        apply::update(&context, Some(old), &mut new);
        Ok(new)
    }
}
