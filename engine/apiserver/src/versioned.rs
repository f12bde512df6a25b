//! Stored objects in the version of a request.

use pillion_kinds::resource::Resource;
use pillion_store::Stored;
use serde_json::Value;

use crate::endpoint::Endpoint;
use crate::state::Inner;
use crate::status::{Refusal, Result};
use crate::{conversion, storage, stored};

/// An object as the endpoint shows it.
pub(crate) async fn decode(inner: &Inner, endpoint: &Endpoint, stored: &Stored) -> Result<Value> {
    let mut objects = decode_all(inner, endpoint, std::slice::from_ref(stored)).await?;
    objects.pop().ok_or_else(|| Refusal::internal("an object went missing in conversion"))
}

/// Objects as the endpoint shows them; what needs a webhook for it is converted in one call.
pub(crate) async fn decode_all(inner: &Inner, endpoint: &Endpoint, stored: &[Stored]) -> Result<Vec<Value>> {
    let mut objects = stored.iter().map(stored::parse).collect::<Result<Vec<Value>>>()?;
    match endpoint {
        Endpoint::Builtin(Resource { storage: Some(kept), .. }) => {
            for object in &mut objects {
                (kept.from_storage)(object);
                storage::canonical(endpoint, object);
            }
        }
        Endpoint::Builtin(_) => {}
        Endpoint::Custom(custom) if custom.shown_as_stored() => {}
        Endpoint::Custom(custom) => {
            for object in &mut objects {
                // Defaults are those of the version that it was written in.
                let version = object["apiVersion"].as_str().and_then(|text| text.rsplit('/').next());
                let written_in = version.and_then(|version| inner.custom.find(&custom.group, version, &custom.plural));
                if let Some(written_in) = written_in {
                    written_in.read(object);
                }
            }
            objects = conversion::convert(inner, custom, objects, &endpoint.api_version()).await?;
            for object in &mut objects {
                custom.structural.prune(object);
            }
        }
    }
    Ok(objects)
}

/// Whether an object is stored in another version than it would be written in now.
pub(crate) fn is_stale(endpoint: &Endpoint, stored: &Stored) -> Result<bool> {
    match endpoint {
        Endpoint::Custom(custom) if !custom.shown_as_stored() => {
            Ok(stored::parse(stored)?["apiVersion"] != custom.storage_api_version())
        }
        _ => Ok(false),
    }
}

/// Whether what the store keeps is what the endpoint shows, byte for byte.
pub(crate) fn shown_as_stored(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Builtin(resource) => resource.storage.is_none(),
        Endpoint::Custom(custom) => custom.shown_as_stored(),
    }
}
