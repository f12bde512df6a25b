//! What every write passes on its way to the store, in Kubernetes' order: the steps built in, then policies and webhooks.

use serde_json::Value;

use crate::call::Call;
use crate::status::{GroupResource, Refusal, Result};
use crate::{meta, policy, read, webhook};

mod pods;
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

/// Steps that may change the object. `object` is `Null` when something is deleted.
pub(crate) async fn mutate(attributes: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<()> {
    namespace_lifecycle(attributes, object)?;
    if pods::concerned(attributes) {
        pods::mutate(attributes, object, old)?;
    }
    taint_new_node(attributes, object);
    webhook::mutate(attributes, object, old).await
}

/// The steps built in once more, after a webhook changed the object.
pub(crate) fn reinvoke(attributes: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<()> {
    if pods::concerned(attributes) {
        pods::mutate(attributes, object, old)?;
    }
    Ok(())
}

/// Steps that only say yes or no, when the object is complete.
pub(crate) async fn validate(attributes: &Attributes<'_>, object: Option<&Value>, old: Option<&Value>) -> Result<()> {
    if let (Some(object), true) = (object, pods::concerned(attributes)) {
        pods::validate(attributes, object)?;
    }
    policy::validate(attributes, object, old).await?;
    webhook::validate(attributes, object, old).await
}

/// A node is not ready before it says so.
fn taint_new_node(attributes: &Attributes<'_>, node: &mut Value) {
    if attributes.operation != Operation::Create || !attributes.call.endpoint.is("", "nodes") {
        return;
    }
    let taints = &mut node["spec"]["taints"];
    if !taints.is_array() {
        *taints = Value::Array(Vec::new());
    }
    let Value::Array(taints) = taints else { return };
    let taint = serde_json::json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    if !taints.iter().any(|there| there["key"] == taint["key"] && there["effect"] == taint["effect"]) {
        taints.push(taint);
    }
}

/// Nothing new in a namespace that is not there or going; some namespaces stay for ever.
fn namespace_lifecycle(attributes: &Attributes<'_>, object: &Value) -> Result<()> {
    let call = attributes.call;
    let namespaces = GroupResource::new("", "namespaces");
    if call.endpoint.is("", "namespaces") {
        let is_immortal = matches!(attributes.name.as_str(), "default" | "kube-system" | "kube-public");
        if attributes.operation == Operation::Delete && is_immortal {
            return Err(Refusal::forbidden(&namespaces, &attributes.name, "this namespace may not be deleted"));
        }
        return Ok(());
    }
    if attributes.operation != Operation::Create || !call.endpoint.namespaced() {
        return Ok(());
    }
    let name = call.namespace();
    // Asking whether something is allowed is allowed anywhere.
    if call.endpoint.is("authorization.k8s.io", "localsubjectaccessreviews") {
        return Ok(());
    }
    let Some(stored) = call.inner().store.get(&pillion_store::Key::new("namespaces", "", name)) else {
        return Err(Refusal::not_found(&namespaces, name));
    };
    let namespace = read::parse(&stored)?;
    if !meta::is_deleting(&namespace) && namespace["status"]["phase"] != "Terminating" {
        return Ok(());
    }
    let mut refusal = Refusal::forbidden(
        &call.endpoint.group_resource(),
        attributes.object_name(object),
        &format!("unable to create new content in namespace {name} because it is being terminated"),
    );
    refusal.details["causes"] = serde_json::json!([{
        "reason": "NamespaceTerminating",
        "message": format!("namespace {name} is being terminated"),
        "field": "metadata.namespace",
    }]);
    Err(refusal)
}
