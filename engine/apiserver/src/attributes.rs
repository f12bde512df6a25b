//! What admission knows about a write besides the objects.

use serde_json::Value;

use crate::call::Call;
use crate::meta;

pub(crate) mod request;

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    /// As rules and reviews name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }
}

/// What admission knows of a write besides the objects.
pub(crate) struct Attributes<'a> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) operation: Operation,
    pub(crate) dry_run: bool,
    /// The options object, with its kind.
    pub(crate) options: Value,
    /// Name of the object; empty when it is yet to be generated.
    pub(crate) name: String,
    /// Group, version and kind of what is written: the object's, or a subresource's own such as `Scale`.
    pub(crate) kind: (String, String, String),
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(
        call: &'a Call<'a>,
        operation: Operation,
        dry_run: bool,
        options: &Value,
        options_kind: &str,
    ) -> Attributes<'a> {
        let mut shown = serde_json::json!({"kind": options_kind, "apiVersion": "meta.k8s.io/v1"});
        for (key, value) in options.as_object().into_iter().flatten() {
            shown[key] = value.clone();
        }
        let endpoint = &call.endpoint;
        Attributes {
            call,
            operation,
            dry_run,
            options: shown,
            name: call.name().to_owned(),
            kind: (endpoint.group().to_owned(), endpoint.version().to_owned(), endpoint.kind().to_owned()),
        }
    }

    /// For an object whose name is not in the path.
    #[must_use]
    pub(crate) fn named(mut self, name: &str) -> Attributes<'a> {
        name.clone_into(&mut self.name);
        self
    }

    /// For a subresource with a kind of its own.
    #[must_use]
    pub(crate) fn of_kind(mut self, group: &str, version: &str, kind: &str) -> Attributes<'a> {
        self.kind = (group.to_owned(), version.to_owned(), kind.to_owned());
        self
    }

    pub(crate) fn subresource(&self) -> &str {
        self.call.path.subresource.as_deref().unwrap_or_default()
    }

    /// The name of the object for refusals, from the path or the object itself.
    pub(crate) fn object_name<'b>(&'b self, object: &'b Value) -> &'b str {
        match (self.name.as_str(), meta::text(object, "generateName"), meta::name(object)) {
            ("", "", "") => "Unknown",
            ("", "", name) | ("", name, _) | (name, _, _) => name,
        }
    }
}
