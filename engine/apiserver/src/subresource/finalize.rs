//! `namespaces/finalize`: the namespace controller's word that a namespace is empty.

use axum::http::StatusCode;
use axum::response::Response;
use pillion_patch::apply;
use serde_json::Value;

use crate::call::Call;
use crate::change::{self, Source};
use crate::endpoint::Part;
use crate::query::{Verb, WriteOptions};
use crate::status::Result;
use crate::{body, respond, storage};

struct Finalized<'a, 'b> {
    call: &'a Call<'b>,
    namespace: Value,
    manager: String,
}

impl Source for Finalized<'_, '_> {
    fn make(&self, live: Option<&Value>) -> Result<Value> {
        let mut new = self.namespace.clone();
        if let Some(context) = storage::apply_context(self.call, Part::Main, &self.manager) {
            apply::update(&context, live, &mut new);
        }
        Ok(new)
    }
}

pub(super) async fn update(call: &Call<'_>) -> Result<Response> {
    let options = WriteOptions::decode(&call.query, Verb::Update)?;
    let namespace = body::object(call, options.field_validation)?;
    change::check_name(call, &namespace)?;
    let source = Finalized { call, namespace, manager: call.manager(&options.field_manager) };
    let (object, _) = change::change(call, Part::Finalize, &options, false, &source).await?;
    respond::object(call, StatusCode::OK, object)
}
