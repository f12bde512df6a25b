//! `pods/eviction`: deleting a pod within the limits of its disruption budget.

use axum::http::StatusCode;
use axum::response::Response;
use pillion_patch::apply::{self, Context, Manager};
use pillion_selector::Selector;
use pillion_store::{Key, Write, WriteError};
use serde_json::{Value, json};

use super::binding::set_condition;
use crate::admission;
use crate::attributes::{Attributes, Operation};
use crate::call::Call;
use crate::endpoint::Endpoint;
use crate::query::{DeleteOptions, Verb, WriteOptions};
use crate::status::{GroupResource, Refusal, Result};
use crate::{body, create, delete, kinds, meta, read, respond, storage, stored};

const TOO_MANY: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
/// A budget waits for its controller to confirm evictions; past this many it takes no more.
const MOST_DISRUPTED: usize = 2000;

pub(super) async fn create(call: &Call<'_>) -> Result<Response> {
    let options = WriteOptions::decode(&call.query, Verb::Create)?;
    let schema = "io.k8s.api.policy.v1.Eviction";
    let mut eviction = body::document(call, "Eviction", "policy/v1", schema, options.field_validation)?;
    create::ensure_namespace(call, &mut eviction)?;
    let attributes = Attributes::new(call, Operation::Create, options.dry_run, &options.shown, "CreateOptions")
        .of_kind("policy", "v1", "Eviction");
    admission::mutate(&attributes, &mut eviction, None).await?;
    if meta::name(&eviction) != call.name() {
        return Err(Refusal::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut delete_options = DeleteOptions::from_body(&eviction["deleteOptions"])?;
    delete_options.dry_run |= options.dry_run;
    admission::validate(&attributes, Some(&eviction), None).await?;
    let pod = read::stored(call).await?;
    if !may_go_without_asking(&pod) {
        ask_budget(call, &pod, delete_options.dry_run, &mut delete_options).await?;
    }
    evict(call, &delete_options).await?;
    respond::object(
        call,
        StatusCode::CREATED,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}

/// Pods that do no work disrupt nothing.
fn may_go_without_asking(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending")) || meta::is_deleting(pod)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Takes one disruption from the budget of the pod, if it has one.
async fn ask_budget(call: &Call<'_>, pod: &Value, dry_run: bool, options: &mut DeleteOptions) -> Result<()> {
    loop {
        let budgets = budgets(call, pod)?;
        let (key, version, budget) = match budgets.as_slice() {
            [] => return Ok(()),
            [one] => one,
            _ => {
                return Err(Refusal::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "",
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                    Value::Null,
                ));
            }
        };
        let status = |key: &str| budget["status"][key].as_i64().unwrap_or(0);
        if !is_ready(pod) {
            let always = budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
            let healthy = status("currentHealthy") >= status("desiredHealthy") && status("desiredHealthy") > 0;
            if always || healthy {
                options.resource_version = Some(meta::text(pod, "resourceVersion").to_owned());
                return Ok(());
            }
        }
        allows(budget)?;
        if dry_run {
            return Ok(());
        }
        let mut taken = budget.clone();
        let left = status("disruptionsAllowed") - 1;
        taken["status"]["disruptionsAllowed"] = left.into();
        if !taken["status"]["disruptedPods"].is_object() {
            taken["status"]["disruptedPods"] = json!({});
        }
        taken["status"]["disruptedPods"][call.name()] = meta::time(call.now()).into();
        if left == 0 {
            allow_no_more(call, &mut taken);
        }
        let Some(resource) = kinds::find("policy", "v1", "poddisruptionbudgets") else { return Ok(()) };
        if let Some(schema) = Endpoint::Builtin(resource).schema() {
            let context = Context {
                schema,
                api_version: "policy/v1",
                kind: "PodDisruptionBudget",
                manager: Manager { name: "kube-apiserver", subresource: "status" },
                now: call.now(),
                reset: resource.rules.reset_on_status,
            };
            apply::update(&context, Some(budget), &mut taken);
        }
        let object = storage::to_storage(call.inner(), &Endpoint::Builtin(resource), taken).await?;
        match call.inner().store.write(Write::Update { key: key.clone(), expected: *version, object }).await {
            Ok(_) => return Ok(()),
            Err(WriteError::Conflict { .. } | WriteError::NotFound) => {}
            Err(error) => return Err(storage::not_written(&error)),
        }
    }
}

/// Says in the budget's conditions that its last disruption is taken.
fn allow_no_more(call: &Call<'_>, budget: &mut Value) {
    let status = &mut budget["status"];
    let mut condition = json!({
        "type": DISRUPTION_ALLOWED,
        "status": "False",
        "observedGeneration": status["observedGeneration"].as_i64().unwrap_or(0),
        "lastTransitionTime": meta::time(call.now()),
        "reason": "InsufficientPods",
        "message": "",
    });
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Value::Array(conditions) = &mut status["conditions"] else { return };
    match conditions.iter_mut().find(|old| old["type"] == DISRUPTION_ALLOWED) {
        Some(old) => {
            if old["status"] == "False" {
                condition["lastTransitionTime"] = old["lastTransitionTime"].take();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}

/// The budgets whose selector the pod matches.
fn budgets(call: &Call<'_>, pod: &Value) -> Result<Vec<(Key, u64, Value)>> {
    let snapshot = call.inner().store.list("poddisruptionbudgets.policy", Some(call.namespace()));
    let mut found = Vec::new();
    for (namespace, name, stored) in snapshot.iter() {
        let budget = stored::parse(stored)?;
        let Ok(selector) = serde_json::from_value(budget["spec"]["selector"].clone()) else { continue };
        let Ok(selector) = Selector::from_label_selector(&selector) else { continue };
        if selector.matches(|key| meta::label(pod, key)) {
            let key = Key::new("poddisruptionbudgets.policy", namespace.clone(), name.clone());
            found.push((key, stored.resource_version, budget));
        }
    }
    Ok(found)
}

fn allows(budget: &Value) -> Result<()> {
    let name = meta::name(budget);
    let status = |key: &str| budget["status"][key].as_i64().unwrap_or(0);
    let too_many = |message: String, retry: u32| {
        let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": message}]});
        if retry > 0 {
            details["retryAfterSeconds"] = retry.into();
        }
        Err(Refusal::too_many_requests(TOO_MANY, details))
    };
    let forbidden =
        |why: &str| Err(Refusal::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), name, why));
    if status("observedGeneration") < meta::generation(budget) {
        return too_many(format!("The disruption budget {name} is still being processed by the server."), 10);
    }
    if status("disruptionsAllowed") < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if budget["status"]["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MOST_DISRUPTED) {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if status("disruptionsAllowed") > 0 {
        return Ok(());
    }
    let conditions = budget["status"]["conditions"].as_array().into_iter().flatten();
    let condition = conditions
        .into_iter()
        .find(|condition| condition["type"] == DISRUPTION_ALLOWED && condition["status"] == "False");
    let said = condition.and_then(|condition| condition["message"].as_str()).filter(|text| !text.is_empty());
    let reason = condition.and_then(|condition| condition["reason"].as_str()).unwrap_or_default();
    let (has, needs) = (status("currentHealthy"), status("desiredHealthy"));
    let message = match said {
        Some(text) if reason == "SyncFailed" => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {text}"
        ),
        _ if has <= needs => format!("The disruption budget {name} needs {needs} healthy pods and has {has} currently"),
        Some(text) => {
            format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {text}")
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    };
    too_many(message, 0)
}

/// Says in the pod's status why it goes, and deletes it.
async fn evict(call: &Call<'_>, options: &DeleteOptions) -> Result<()> {
    let mut options = options.clone();
    let key = call.key();
    while !options.dry_run {
        let stored = call.inner().store.get(&key).ok_or_else(|| call.not_found())?;
        let mut pod = stored::parse(&stored)?;
        delete::preconditions(call, call.name(), &options, &pod)?;
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        });
        set_condition(call, &mut pod, &condition);
        let object = storage::to_storage(call.inner(), &call.endpoint, pod).await?;
        match call
            .inner()
            .store
            .write(Write::Update { key: key.clone(), expected: stored.resource_version, object })
            .await
        {
            Ok(event) => {
                if options.resource_version.is_some() {
                    options.resource_version = Some(event.resource_version().to_string());
                }
                break;
            }
            Err(WriteError::Conflict { .. } | WriteError::NotFound) => {}
            Err(error) => return Err(storage::not_written(&error)),
        }
    }
    delete::delete_unasked(call, call.name(), &options).await
}
