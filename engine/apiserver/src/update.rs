//! PUT: a whole object in place of the one that is there.

use axum::http::StatusCode;
use axum::response::Response;
use pillion_patch::apply;
use serde_json::Value;

use crate::call::Call;
use crate::change::{self, Source};
use crate::endpoint::Part;
use crate::query::{Verb, WriteOptions};
use crate::status::Result;
use crate::{body, create, meta, owners, respond, storage};

struct Replace<'a, 'b> {
    call: &'a Call<'b>,
    part: Part,
    manager: String,
    object: Value,
}

impl Source for Replace<'_, '_> {
    fn make(&self, live: Option<&Value>) -> Result<Value> {
        let mut new = self.object.clone();
        if let Some(context) = storage::apply_context(self.call, self.part, &self.manager) {
            apply::update(&context, live, &mut new);
        }
        Ok(new)
    }

    fn expected_uid(&self) -> Option<&str> {
        Some(meta::uid(&self.object)).filter(|uid| !uid.is_empty())
    }
}

pub(crate) async fn update(call: &Call<'_>) -> Result<Response> {
    let options = WriteOptions::decode(&call.query, Verb::Update)?;
    let mut object = body::object(call, options.field_validation)?;
    create::ensure_namespace(call, &mut object)?;
    change::check_name(call, &object)?;
    owners::deduplicate(&mut object, call.warnings, false);
    let part = call.part();
    let source = Replace { call, part, manager: call.manager(&options.field_manager), object };
    let (object, created) = change::change(call, part, &options, call.endpoint.create_on_update(), &source).await?;
    let code = if created { StatusCode::CREATED } else { StatusCode::OK };
    respond::object(call, code, object)
}
