//! What is in a volume: pure, from objects that were fetched before.

use std::collections::BTreeMap;

use bytes::Bytes;
use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, ProjectedVolumeSource, Secret, Volume as Spec, VolumeProjection,
};

use super::{Files, Token, VolumeError, bytes};
use crate::config::Capacity;
use crate::environment::{field_of_pod, resource_of_container};
use crate::runtime::{VolumeContent, VolumeFile};
use crate::sources::Sources;

/// What files may be when nothing is said.
const DEFAULT_MODE: i32 = 0o644;

pub(super) fn content(
    spec: &Spec,
    pod: &Pod,
    sources: &Sources,
    tokens: &BTreeMap<(String, String), Token>,
    capacity: &Capacity,
) -> Result<VolumeContent, VolumeError> {
    if let Some(empty) = &spec.empty_dir {
        let memory = empty.medium.as_deref() == Some("Memory");
        return Ok(VolumeContent::Empty { memory, size_limit: bytes(empty.size_limit.as_ref()) });
    }
    if let Some(host) = &spec.host_path {
        let kind = host.type_.clone().unwrap_or_default();
        return Ok(VolumeContent::HostPath { path: host.path.clone().into(), kind });
    }
    if let Some(source) = &spec.config_map {
        let optional = source.optional == Some(true);
        let map = sources.config_map(&source.name, optional)?;
        return of_config_map(map.as_deref(), source.items.as_deref(), source.default_mode, optional)
            .map(VolumeContent::Files);
    }
    if let Some(source) = &spec.secret {
        let optional = source.optional == Some(true);
        let secret = sources.secret(source.secret_name.as_deref().unwrap_or_default(), optional)?;
        return of_secret(secret.as_deref(), source.items.as_deref(), source.default_mode, optional)
            .map(VolumeContent::Files);
    }
    if let Some(source) = &spec.downward_api {
        let items = source.items.as_deref().unwrap_or_default();
        return downward(items, pod, source.default_mode, capacity).map(VolumeContent::Files);
    }
    if let Some(source) = &spec.projected {
        return projected(&spec.name, source, pod, sources, tokens, capacity).map(VolumeContent::Files);
    }
    Err(VolumeError::Unsupported)
}

fn projected(
    volume: &str,
    spec: &ProjectedVolumeSource,
    pod: &Pod,
    sources: &Sources,
    tokens: &BTreeMap<(String, String), Token>,
    capacity: &Capacity,
) -> Result<Files, VolumeError> {
    let mode = spec.default_mode;
    let mut files = Files::new();
    for source in spec.sources.iter().flatten() {
        files.extend(match source {
            VolumeProjection { config_map: Some(reference), .. } => {
                let optional = reference.optional == Some(true);
                let map = sources.config_map(&reference.name, optional)?;
                of_config_map(map.as_deref(), reference.items.as_deref(), mode, optional)?
            }
            VolumeProjection { secret: Some(reference), .. } => {
                let optional = reference.optional == Some(true);
                let secret = sources.secret(&reference.name, optional)?;
                of_secret(secret.as_deref(), reference.items.as_deref(), mode, optional)?
            }
            VolumeProjection { downward_api: Some(source), .. } => {
                downward(source.items.as_deref().unwrap_or_default(), pod, mode, capacity)?
            }
            VolumeProjection { service_account_token: Some(projection), .. } => {
                let token = tokens.get(&(volume.to_owned(), projection.path.clone()));
                let content = token.map(|token| token.text.clone()).unwrap_or_default();
                Files::from([(projection.path.clone(), VolumeFile { content, mode: permissions(mode) })])
            }
            _ => return Err(VolumeError::Unsupported),
        });
    }
    Ok(files)
}

fn of_config_map(
    map: Option<&ConfigMap>,
    items: Option<&[KeyToPath]>,
    mode: Option<i32>,
    optional: bool,
) -> Result<Files, VolumeError> {
    let text = map.into_iter().flat_map(|map| map.data.iter().flatten());
    let binary = map.into_iter().flat_map(|map| map.binary_data.iter().flatten());
    let text = text.map(|(key, value)| (key.as_str(), Bytes::from(value.clone())));
    let values: BTreeMap<&str, Bytes> =
        binary.map(|(key, value)| (key.as_str(), value.0.clone().into())).chain(text).collect();
    chosen(values, items, mode, optional, VolumeError::NoConfigKey)
}

fn of_secret(
    secret: Option<&Secret>,
    items: Option<&[KeyToPath]>,
    mode: Option<i32>,
    optional: bool,
) -> Result<Files, VolumeError> {
    let data = secret.into_iter().flat_map(|secret| secret.data.iter().flatten());
    let values = data.map(|(key, value)| (key.as_str(), value.0.clone().into())).collect();
    chosen(values, items, mode, optional, VolumeError::NoSecretKey)
}

/// All values under their keys, or the chosen ones under the paths that were given.
fn chosen(
    values: BTreeMap<&str, Bytes>,
    items: Option<&[KeyToPath]>,
    mode: Option<i32>,
    optional: bool,
    no_key: fn(String) -> VolumeError,
) -> Result<Files, VolumeError> {
    let items = items.unwrap_or_default();
    if items.is_empty() {
        let file = |(key, content): (&str, Bytes)| (key.to_owned(), VolumeFile { content, mode: permissions(mode) });
        return Ok(values.into_iter().map(file).collect());
    }
    let mut files = Files::new();
    for item in items {
        match values.get(item.key.as_str()) {
            Some(content) => {
                let file = VolumeFile { content: content.clone(), mode: permissions(item.mode.or(mode)) };
                files.insert(item.path.clone(), file);
            }
            None if optional => {}
            None => return Err(no_key(item.key.clone())),
        }
    }
    Ok(files)
}

fn downward(
    items: &[DownwardAPIVolumeFile],
    pod: &Pod,
    mode: Option<i32>,
    capacity: &Capacity,
) -> Result<Files, VolumeError> {
    let mut files = Files::new();
    for item in items {
        let text = match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), _) => field_of_pod(pod, &field.field_path)?,
            (None, Some(selector)) => resource_of_container(pod, None, selector, capacity)?,
            (None, None) => String::new(),
        };
        files.insert(item.path.clone(), VolumeFile { content: text.into(), mode: permissions(item.mode.or(mode)) });
    }
    Ok(files)
}

fn permissions(mode: Option<i32>) -> u32 {
    mode.unwrap_or(DEFAULT_MODE).unsigned_abs() & 0o777
}
