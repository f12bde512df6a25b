//! GET of one object.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use crate::call::Call;
use crate::status::Result;
use crate::{list, respond, versioned};

pub(crate) async fn get(call: &Call<'_>) -> Result<Response> {
    let version = list::resource_version_of_one(call.query.text("resourceVersion"))?;
    let newest = call.inner().store.resource_version();
    if version > newest {
        return Err(list::too_large(version, newest));
    }
    let object = stored(call).await?;
    respond::object(call, StatusCode::OK, object)
}

/// The object of the path.
pub(crate) async fn stored(call: &Call<'_>) -> Result<Value> {
    let stored = call.inner().store.get(&call.key()).ok_or_else(|| call.not_found())?;
    versioned::decode(call.inner(), &call.endpoint, &stored).await
}
