//! Changing an object that may be changed by others at the same time: read, transform, check, compare and swap; again if another was faster.

use axum::http::StatusCode;
use pillion_patch::apply;
use pillion_rules::{field, metadata};
use pillion_store::{Write, WriteError};
use serde_json::{Value, json};

use crate::admission;
use crate::attributes::{Attributes, Operation};
use crate::call::Call;
use crate::endpoint::Part;
use crate::query::WriteOptions;
use crate::status::{Refusal, Result};
use crate::{create, definition, delete, meta, owners, scale, service_address, storage, versioned};

pub(crate) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Where the new object comes from.
pub(crate) trait Source {
    /// The new object, with its managedFields, made from the one that is there (`None` when there is none).
    fn make(&self, live: Option<&Value>) -> Result<Value>;

    /// The uid that the object must have, if the client named one.
    fn expected_uid(&self) -> Option<&str> {
        None
    }
}

/// Changes the object of the path. The second part says whether it was created.
pub(crate) async fn change(
    call: &Call<'_>,
    part: Part,
    options: &WriteOptions,
    may_create: bool,
    source: &(dyn Source + Sync),
) -> Result<(Value, bool)> {
    let key = call.key();
    loop {
        let stored = call.inner().store.get(&key);
        let Some(stored) = stored else {
            if !may_create || part != Part::Main {
                return Err(call.not_found());
            }
            match make_new(call, options, source).await {
                // Someone else made it meanwhile: then it is a change after all.
                Err(refusal) if refusal.reason == "AlreadyExists" && !options.dry_run => continue,
                outcome => return outcome.map(|object| (object, true)),
            }
        };
        let live = versioned::decode(call.inner(), &call.endpoint, &stored).await?;
        check_uid(source, &live, &storage::registry_key(&key), call)?;
        let new = source.make(Some(&live))?;
        let new = prepare(call, part, options, new, &live).await?;
        // An object that is stored in an older version is written even if nothing changes: that is how objects are migrated.
        if same(&new, &live) && !versioned::is_stale(&call.endpoint, &stored)? {
            return Ok((live, false));
        }
        if should_delete(&new, &live) && part_may_delete(call, &new) {
            if options.dry_run || delete::remove(call, &key, stored.resource_version).await? {
                return Ok((new, false));
            }
            continue;
        }
        if options.dry_run {
            return Ok((new, false));
        }
        let write = Write::Update {
            key: key.clone(),
            expected: stored.resource_version,
            object: storage::to_storage(call.inner(), &call.endpoint, new.clone()).await?,
        };
        match call.inner().store.write(write).await {
            Ok(committed) => {
                let mut new = new;
                meta::set(&mut new, "resourceVersion", Some(committed.resource_version().to_string().into()));
                meta::sort(&mut new);
                definition::after_write(call.inner(), &call.endpoint, &new).await?;
                return Ok((new, false));
            }
            Err(WriteError::Conflict { .. } | WriteError::NotFound) => {}
            Err(error) => return Err(storage::not_written(&error)),
        }
    }
}

/// A PUT or an apply of something that is not there.
async fn make_new(call: &Call<'_>, options: &WriteOptions, source: &(dyn Source + Sync)) -> Result<Value> {
    let mut object = source.make(None)?;
    if !meta::uid(&object).is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {}, and no existing object was found",
            meta::uid(&object)
        );
        return Err(Refusal::conflict(&call.endpoint.group_resource(), call.name(), &why));
    }
    create::ensure_namespace(call, &mut object)?;
    check_name(call, &object)?;
    create::admit_and_store(call, object, options).await
}

fn check_uid(source: &(dyn Source + Sync), live: &Value, key: &str, call: &Call<'_>) -> Result<()> {
    match source.expected_uid() {
        Some(uid) if uid != meta::uid(live) => {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                meta::uid(live)
            );
            Err(Refusal::conflict(&call.endpoint.group_resource(), call.name(), &why))
        }
        _ => Ok(()),
    }
}

/// Admission and checks.
async fn prepare(call: &Call<'_>, part: Part, options: &WriteOptions, mut new: Value, live: &Value) -> Result<Value> {
    create::ensure_namespace(call, &mut new)?;
    check_name(call, &new)?;
    let attributes = Attributes::new(call, Operation::Update, options.dry_run, &options.shown, "UpdateOptions");
    if part == Part::Scale {
        return prepare_scale(call, attributes.of_kind("autoscaling", "v1", "Scale"), new, live).await;
    }
    admission::mutate(&attributes, &mut new, Some(live)).await?;
    owners::deduplicate(&mut new, call.warnings, true);
    check_resource_version(call, &mut new, live)?;
    service_address::allocate(call, &mut new, Some(live))?;
    before_update(call, part, &mut new, live)?;
    apply::keep_times(live, &mut new);
    admission::validate(&attributes, Some(&new), Some(live)).await?;
    storage::reread(call.inner(), &call.endpoint, &mut new).await?;
    Ok(new)
}

/// As [`prepare`], where admission sees the Scale and not the object.
async fn prepare_scale(call: &Call<'_>, attributes: Attributes<'_>, mut new: Value, live: &Value) -> Result<Value> {
    let old_scale = scale::of(call, live)?;
    let mut new_scale = scale::of(call, &new)?;
    admission::mutate(&attributes, &mut new_scale, Some(&old_scale)).await?;
    scale::set(call, &mut new, &new_scale);
    check_resource_version(call, &mut new, live)?;
    before_update(call, Part::Scale, &mut new, live)?;
    apply::keep_times(live, &mut new);
    admission::validate(&attributes, Some(&scale::of(call, &new)?), Some(&old_scale)).await?;
    storage::reread(call.inner(), &call.endpoint, &mut new).await?;
    Ok(new)
}

/// Whether two objects are the same, whatever the order of their fields.
fn same(new: &Value, live: &Value) -> bool {
    new == live
}

/// The name in the body is the name in the path.
pub(crate) fn check_name(call: &Call<'_>, object: &Value) -> Result<()> {
    let name = meta::name(object);
    if name.is_empty() {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.name()
        )));
    }
    if name != call.name() {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name()
        )));
    }
    Ok(())
}

fn check_resource_version(call: &Call<'_>, new: &mut Value, live: &Value) -> Result<()> {
    let given = meta::resource_version(new);
    let current = meta::text(live, "resourceVersion").to_owned();
    match given {
        Some(0) if call.endpoint.unconditional_update() => {
            meta::set(new, "resourceVersion", Some(current.into()));
            Ok(())
        }
        Some(0) => {
            let error = field::Error::invalid(
                &field::Path::new("metadata").child("resourceVersion"),
                json!(0),
                "must be specified for an update",
            );
            Err(Refusal::invalid(call.endpoint.group(), call.endpoint.plural(), call.name(), &[error]))
        }
        Some(version) if version.to_string() == current => Ok(()),
        Some(_) => Err(Refusal::conflict(&call.endpoint.group_resource(), call.name(), MODIFIED)),
        None => Err(bad_version(meta::text(new, "resourceVersion"))),
    }
}

fn bad_version(text: &str) -> Box<Refusal> {
    Refusal::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "",
        format!("strconv.ParseUint: parsing {text:?}: invalid syntax"),
        Value::Null,
    )
}

fn before_update(call: &Call<'_>, part: Part, new: &mut Value, live: &Value) -> Result<()> {
    let keep = |new: &mut Value, key: &str| meta::set(new, key, live["metadata"].get(key).cloned());
    keep(new, "generation");
    create::drop_sidecar_field(call, new, Some(live));
    call.endpoint.prepare_update(part, new, live);
    if meta::uid(new).is_empty() {
        keep(new, "uid");
    }
    if live["metadata"]["creationTimestamp"].is_string() {
        keep(new, "creationTimestamp");
    }
    if meta::is_deleting(live) {
        keep(new, "deletionTimestamp");
    }
    if new["metadata"]["deletionGracePeriodSeconds"].is_null() {
        keep(new, "deletionGracePeriodSeconds");
    }
    storage::canonical(&call.endpoint, new);
    let mut errors = storage::common_errors(call, new);
    errors.extend(metadata::validate_update(&new["metadata"], &live["metadata"], &field::Path::new("metadata")));
    errors.extend(call.endpoint.validate_update(part, new, live));
    call.invalid(meta::name(new), &errors)?;
    if part == Part::Main {
        call.warnings.extend(call.endpoint.warnings(new, Some(live)));
    }
    Ok(())
}

/// The last finalizer went while the object was being deleted.
fn should_delete(new: &Value, live: &Value) -> bool {
    meta::finalizers(new).is_empty()
        && meta::is_deleting(live)
        && live["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
}

/// A namespace goes when its own finalizers are gone too.
fn part_may_delete(call: &Call<'_>, new: &Value) -> bool {
    !call.endpoint.is("", "namespaces") || new["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty)
}
