//! `namespaces/finalize`: the namespace controller's word that a namespace is empty.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use crate::call::Call;
use crate::change::{self, Source};
use crate::endpoint::Part;
use crate::query::{Verb, WriteOptions};
use crate::status::Result;
use crate::{body, meta, respond};

struct Finalized {
    namespace: Value,
}

impl Source for Finalized {
    fn make(&self, live: Option<&Value>) -> Result<Value> {
        let mut new = self.namespace.clone();
        // Finalizing is nobody's doing: the owners stay.
        meta::set(&mut new, "managedFields", live.and_then(|live| live["metadata"].get("managedFields")).cloned());
        Ok(new)
    }
}

pub(super) async fn update(call: &Call<'_>) -> Result<Response> {
    let options = WriteOptions::decode(&call.query, Verb::Update)?;
    let namespace = body::object(call, options.field_validation)?;
    change::check_name(call, &namespace)?;
    let source = Finalized { namespace };
    let (object, _) = change::change(call, Part::Finalize, &options, false, &source).await?;
    respond::object(call, StatusCode::OK, object)
}
