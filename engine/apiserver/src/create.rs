//! Creating objects.

use axum::http::StatusCode;
use axum::response::Response;
use pillion_gates::Gate;
use pillion_kinds::pod;
use pillion_patch::apply;
use pillion_store::{Write, WriteError};
use serde_json::Value;

use crate::admission;
use crate::attributes::{Attributes, Operation};
use crate::call::Call;
use crate::endpoint::{Endpoint, Part};
use crate::query::{Verb, WriteOptions};
use crate::status::{Refusal, Result};
use crate::{body, definition, meta, owners, respond, service_address, storage, stored};

/// How often a generated name is tried before the client hears of it.
const NAME_ATTEMPTS: usize = 8;

pub(crate) async fn create(call: &Call<'_>) -> Result<Response> {
    let options = WriteOptions::decode(&call.query, Verb::Create)?;
    let mut object = body::object(call, options.field_validation)?;
    wipe_system_fields(&mut object);
    ensure_namespace(call, &mut object)?;
    owners::deduplicate(&mut object, call.warnings, false);
    let created = finish(call, object, &options, &call.manager(&options.field_manager)).await?;
    respond::object(call, StatusCode::CREATED, created)
}

/// What only the server may say.
fn wipe_system_fields(object: &mut Value) {
    for key in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "uid", "selfLink"] {
        meta::set(object, key, None);
    }
}

/// The object lives where the path says.
pub(crate) fn ensure_namespace(call: &Call<'_>, object: &mut Value) -> Result<()> {
    let expected = if call.endpoint.namespaced() { call.namespace() } else { "" };
    let given = meta::namespace(object).to_owned();
    if given == expected {
        return Ok(());
    }
    if given.is_empty() {
        meta::set(object, "namespace", Some(expected.into()));
        return Ok(());
    }
    if expected.is_empty() {
        meta::set(object, "namespace", None);
        return Ok(());
    }
    Err(Refusal::bad_request("the namespace of the provided object does not match the namespace sent on the request"))
}

/// Everything from the decoded object to the stored one.
pub(crate) async fn finish(call: &Call<'_>, mut object: Value, options: &WriteOptions, manager: &str) -> Result<Value> {
    if let Some(context) = storage::apply_context(call, Part::Main, manager) {
        apply::update(&context, None, &mut object);
    }
    admit_and_store(call, object, options).await
}

/// Admission, checks and the store, for an object whose managedFields are set.
pub(crate) async fn admit_and_store(call: &Call<'_>, mut object: Value, options: &WriteOptions) -> Result<Value> {
    let attributes = Attributes::new(call, Operation::Create, options.dry_run, &options.shown, "CreateOptions")
        .named(meta::name(&object));
    admission::mutate(&attributes, &mut object, None).await?;
    owners::deduplicate(&mut object, call.warnings, true);
    let generated = meta::name(&object).is_empty() && !meta::text(&object, "generateName").is_empty();
    let attempts = if generated { NAME_ATTEMPTS } else { 1 };
    let mut outcome = Err(Refusal::internal("no attempt was made"));
    for _ in 0..attempts {
        outcome = store(call, object.clone(), options, &attributes, generated).await;
        match &outcome {
            Err(refusal) if refusal.reason == "AlreadyExists" => {}
            _ => return outcome,
        }
    }
    outcome
}

async fn store(
    call: &Call<'_>,
    mut object: Value,
    options: &WriteOptions,
    attributes: &Attributes<'_>,
    generated: bool,
) -> Result<Value> {
    let inner = call.inner();
    meta::set(&mut object, "creationTimestamp", Some(meta::time(call.now()).into()));
    meta::set(&mut object, "uid", Some(inner.uid().into()));
    if generated {
        let name = generate_name(meta::text(&object, "generateName"), &inner.suffix());
        meta::set(&mut object, "name", Some(name.into()));
    }
    service_address::allocate(call, &mut object, None)?;
    before_create(call, &mut object)?;
    admission::validate(attributes, Some(&object), None).await?;
    storage::reread(inner, &call.endpoint, &mut object).await?;
    let name = meta::name(&object).to_owned();
    let key = call.key_of(&name);
    if options.dry_run {
        return match inner.store.get(&key) {
            Some(existing) => Err(already_exists(call, &name, &stored::parse(&existing)?)),
            None => Ok(object),
        };
    }
    let stored = storage::to_storage(inner, &call.endpoint, object.clone()).await?;
    match inner.store.write(Write::Create { key: key.clone(), object: stored }).await {
        Ok(committed) => {
            meta::set(&mut object, "resourceVersion", Some(committed.resource_version().to_string().into()));
            meta::sort(&mut object);
            definition::after_write(inner, &call.endpoint, &object).await?;
            Ok(object)
        }
        Err(WriteError::AlreadyExists) => {
            let existing = inner.store.get(&key).map(|stored| stored::parse(&stored)).transpose()?;
            let mut refusal = already_exists(call, &name, &existing.unwrap_or_default());
            if generated {
                refusal.message.push_str(", the server was not able to generate a unique name for the object");
            }
            Err(refusal)
        }
        Err(error) => Err(storage::not_written(&error)),
    }
}

fn already_exists(call: &Call<'_>, name: &str, existing: &Value) -> Box<Refusal> {
    let mut refusal = Refusal::already_exists(&call.endpoint.group_resource(), name);
    if meta::is_deleting(existing) {
        refusal.message = format!("object is being deleted: {}", refusal.message);
    }
    refusal
}

/// The prefix, cut so that the whole is a name of 63 characters, and the suffix.
fn generate_name(prefix: &str, suffix: &str) -> String {
    let most = 63 - 5;
    let cut: String = prefix.chars().take(most).collect();
    format!("{cut}{suffix}")
}

/// Drops the field of a feature that is off, and says so.
pub(crate) fn drop_sidecar_field(call: &Call<'_>, object: &mut Value, old: Option<&Value>) {
    if matches!(call.endpoint, Endpoint::Builtin(_)) && !call.inner().gates.is_enabled(Gate::SidecarField) {
        call.warnings.extend(pod::drop_sidecar_field(call.endpoint.plural(), object, old));
    }
}

fn before_create(call: &Call<'_>, object: &mut Value) -> Result<()> {
    ensure_namespace(call, object)?;
    drop_sidecar_field(call, object, None);
    call.endpoint.prepare_create(object);
    storage::canonical(&call.endpoint, object);
    let name = meta::name(object).to_owned();
    call.invalid(&name, &call.endpoint.validate(object))?;
    call.invalid(&name, &storage::common_errors(call, object))?;
    if !meta::text(object, "resourceVersion").is_empty() {
        return Err(Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "",
            "resourceVersion should not be set on objects to be created",
            Value::Null,
        ));
    }
    call.warnings.extend(call.endpoint.warnings(object, None));
    if call.endpoint.stored_only() {
        call.warnings.add(format!(
            "{}: stored, but this one-machine cluster neither checks nor acts on it",
            call.endpoint.group_resource()
        ));
    }
    Ok(())
}
