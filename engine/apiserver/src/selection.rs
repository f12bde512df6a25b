//! Which objects a list or a watch is about.

use pillion_kinds::resource::Resource;
use pillion_partial::{Partial, Shallow};
use pillion_patch::field_selector::{FieldSelector, Term};
use pillion_patch::label_selector::LabelSelector;
use pillion_store::Stored;
use serde::Deserialize;
use serde_json::Value;

use crate::call::Call;
use crate::endpoint::Endpoint;
use crate::query::ListOptions;
use crate::status::{Refusal, Result};
use crate::stored;

/// Label and field selectors of a request.
pub(crate) struct Selection {
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
}

/// The labels of an object, read without the rest of it.
#[derive(Deserialize)]
struct Labelled<'a> {
    #[serde(borrow, default)]
    metadata: Labels<'a>,
}

#[derive(Default, Deserialize)]
struct Labels<'a> {
    #[serde(borrow, default)]
    labels: std::collections::HashMap<std::borrow::Cow<'a, str>, std::borrow::Cow<'a, str>>,
}

impl Selection {
    pub(crate) fn decode(call: &Call<'_>, options: &ListOptions) -> Result<Selection> {
        let labels =
            LabelSelector::parse(&options.label_selector).map_err(|error| Refusal::bad_request(error.to_string()))?;
        let mut fields =
            FieldSelector::parse(&options.field_selector).map_err(|error| Refusal::bad_request(error.to_string()))?;
        for term in &fields.terms {
            if call.endpoint.selectable(&Value::Null, &term.field).is_none() {
                return Err(Refusal::bad_request(unknown_field(&call.endpoint, &term.field)));
            }
        }
        if let Some(name) = &call.path.name {
            match fields.required("metadata.name") {
                _ if fields.is_empty() => {
                    let term = Term { field: "metadata.name".to_owned(), value: name.clone(), equal: true };
                    fields = FieldSelector { terms: vec![term] };
                }
                Some(selected) if selected == name => {}
                _ => return Err(Refusal::bad_request("fieldSelector metadata.name doesn't match requested name")),
            }
        }
        Ok(Selection { labels: (!labels.is_empty()).then_some(labels), fields: (!fields.is_empty()).then_some(fields) })
    }

    /// Selects all.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_none() && self.fields.is_none()
    }

    /// The name that an object must have.
    pub(crate) fn name(&self) -> Option<&str> {
        self.fields.as_ref()?.required("metadata.name")
    }

    pub(crate) fn matches(&self, endpoint: &Endpoint, stored: &Stored) -> bool {
        if let Some(labels) = &self.labels {
            let Ok(object) = serde_json::from_slice::<Labelled<'_>>(&stored.bytes) else { return false };
            if !labels.matches(|key| object.metadata.labels.get(key).map(AsRef::as_ref)) {
                return false;
            }
        }
        let Some(fields) = &self.fields else { return true };
        let Some(object) = with_fields(endpoint, stored, fields) else { return false };
        fields.terms.iter().all(|term| {
            let value = endpoint.selectable(&object, &term.field).unwrap_or_default();
            (value == term.value) == term.equal
        })
    }
}

/// An object with all that the selector looks at.
fn with_fields(endpoint: &Endpoint, stored: &Stored, selector: &FieldSelector) -> Option<Value> {
    match endpoint {
        Endpoint::Builtin(Resource { storage: Some(storage), .. }) => {
            let mut object = stored::parse(stored).ok()?;
            (storage.from_storage)(&mut object);
            Some(object)
        }
        // Which is the first of a list.
        Endpoint::Builtin(_) if selector.terms.iter().all(|term| term.field != "status.podIP") => {
            // Every write is looked at by every watch with a field selector, and selectors look no deeper than `spec.nodeName`.
            Partial(Shallow(2)).parse(&stored.bytes).ok()
        }
        _ => stored::parse(stored).ok(),
    }
}

fn unknown_field(endpoint: &Endpoint, field: &str) -> String {
    match endpoint {
        Endpoint::Custom(_) => format!("field label not supported: {field}"),
        Endpoint::Builtin(resource) => {
            let typed = matches!(
                (resource.group, resource.plural),
                ("", "pods" | "nodes" | "namespaces" | "secrets" | "events" | "replicationcontrollers" | "services")
                    | ("batch", "jobs")
                    | ("events.k8s.io", "events")
            );
            match (resource.group, resource.plural) {
                ("batch", "jobs") => format!("field label {field:?} not supported for Job"),
                _ if typed => format!("field label not supported: {field}"),
                _ => format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
            }
        }
    }
}
