//! Mutating and validating webhooks: which of them a write concerns, what they are asked, and what their answers do.

use std::collections::HashSet;

use futures::future;
use pillion_patch::decode::Parsed;
use pillion_patch::json::{JsonPatch, PatchError};
use serde_json::Value;

use crate::attributes::Attributes;
use crate::query::FieldValidation;
use crate::status::{Refusal, Result};
use crate::{admission_plugins, body, meta, webhook_client};

mod matching;
mod response;

pub(crate) use matching::{Match, matches_constraints, matches_namespace, matches_object};

use response::Answer;

/// Why a webhook let nothing through.
enum Failure {
    /// It could not be asked, or its answer could not be read; `failurePolicy` decides.
    Call(String),
    /// It said no, or what it did cannot be.
    Rejected(Box<Refusal>),
}

/// One webhook of a configuration.
pub(crate) struct Webhook {
    /// Name of the configuration.
    pub(crate) configuration: String,
    /// As it is configured.
    pub(crate) spec: Value,
}

impl Webhook {
    pub(crate) fn name(&self) -> &str {
        self.spec["name"].as_str().unwrap_or_default()
    }

    /// Tells webhooks of a configuration apart that have the same name.
    fn id(&self, index: usize) -> String {
        format!("{}/{}/{index}", self.configuration, self.name())
    }

    fn ignores_failures(&self) -> bool {
        self.spec["failurePolicy"] == "Ignore"
    }
}

/// Calls the mutating webhooks that the write concerns, one after the other; those that want it a second time if the object changed after them.
pub(crate) async fn mutate(attributes: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<()> {
    let webhooks = matching::configured(attributes, "mutatingwebhookconfigurations.admissionregistration.k8s.io")?;
    if webhooks.is_empty() {
        return Ok(());
    }
    let mut reinvocable = HashSet::new();
    let mut again = HashSet::new();
    let before = object.clone();
    round(attributes, &webhooks, object, old, None, &mut reinvocable, &mut again).await?;
    if *object == before {
        return Ok(());
    }
    // What is built in has its say over the changed object too, and may change it for the webhooks.
    let after_webhooks = object.clone();
    admission_plugins::reinvoke(attributes, object, old)?;
    if *object != after_webhooks {
        again.extend(reinvocable.iter().cloned());
    }
    if !again.is_empty() {
        let wanted = again.clone();
        round(attributes, &webhooks, object, old, Some(&wanted), &mut reinvocable, &mut again).await?;
    }
    Ok(())
}

/// One pass over the webhooks. `only` limits a second pass to those that are to be asked again.
async fn round(
    attributes: &Attributes<'_>,
    webhooks: &[Webhook],
    object: &mut Value,
    old: Option<&Value>,
    only: Option<&HashSet<String>>,
    reinvocable: &mut HashSet<String>,
    again: &mut HashSet<String>,
) -> Result<()> {
    for (index, webhook) in webhooks.iter().enumerate() {
        let id = webhook.id(index);
        if only.is_some_and(|only| !only.contains(&id)) {
            continue;
        }
        let shown = (!object.is_null()).then_some(&*object);
        let Some(matched) = matching::matches(attributes, webhook, shown, old).await? else { continue };
        let outcome = mutate_with(attributes, webhook, &matched, object, old).await;
        match outcome {
            Ok(changed) => {
                if changed {
                    again.extend(reinvocable.iter().cloned());
                }
            }
            Err(Failure::Rejected(refusal)) => return Err(refusal),
            Err(Failure::Call(_)) if webhook.ignores_failures() => {}
            Err(Failure::Call(why)) => {
                return Err(Refusal::internal(format!("failed calling webhook {:?}: {why}", webhook.name())));
            }
        }
        if webhook.spec["reinvocationPolicy"] == "IfNeeded" {
            reinvocable.insert(id);
        }
    }
    Ok(())
}

/// Asks one webhook and applies its patch. True when the object changed.
async fn mutate_with(
    attributes: &Attributes<'_>,
    webhook: &Webhook,
    matched: &Match,
    object: &mut Value,
    old: Option<&Value>,
) -> std::result::Result<bool, Failure> {
    let shown = (!object.is_null()).then_some(&*object);
    let answer = ask(attributes, webhook, matched, shown, old, true).await?;
    let Some(patch) = answer.patch else { return Ok(false) };
    if object.is_null() {
        return Err(Failure::Rejected(Refusal::internal(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            webhook.name()
        ))));
    }
    let mut versioned = matched.to_version(attributes, object).await.map_err(Failure::Rejected)?;
    let operations = JsonPatch::parse(&patch).map_err(|error| {
        Failure::Call(format!("received undecodable patch in webhook response: {}", in_gos_words(&error)))
    })?;
    versioned = operations.apply(versioned).map_err(|error| Failure::Rejected(Refusal::internal(error)))?;
    let mut patched = matched.back(attributes, versioned).await.map_err(Failure::Rejected)?;
    patched = complete(attributes, patched).map_err(|error| Failure::Rejected(Refusal::internal(error)))?;
    let changed = patched != *object;
    *object = patched;
    Ok(changed)
}

/// Kubernetes reads the patches of webhooks into a type of another name.
fn in_gos_words(error: &PatchError) -> String {
    error.to_string().replace("[]handlers.jsonPatchOp", "jsonpatch.Patch")
}

/// What a patch left is an object of its kind, with defaults.
fn complete(attributes: &Attributes<'_>, object: Value) -> std::result::Result<Value, String> {
    let endpoint = &attributes.call.endpoint;
    if attributes.kind.2 != endpoint.kind() {
        return Ok(object);
    }
    let managed = object["metadata"].get("managedFields").cloned();
    let parsed = Parsed { value: object, duplicates: Vec::new() };
    let (mut object, _) = body::typed(endpoint, parsed, FieldValidation::Ignore)?;
    meta::set(&mut object, "managedFields", managed);
    Ok(object)
}

/// Calls the validating webhooks that the write concerns, all at the same time. The first refusal, in their order, is the answer.
pub(crate) async fn validate(attributes: &Attributes<'_>, object: Option<&Value>, old: Option<&Value>) -> Result<()> {
    let webhooks = matching::configured(attributes, "validatingwebhookconfigurations.admissionregistration.k8s.io")?;
    let mut relevant = Vec::new();
    for webhook in &webhooks {
        if let Some(matched) = matching::matches(attributes, webhook, object, old).await? {
            relevant.push((webhook, matched));
        }
    }
    let calls = relevant.iter().map(|(webhook, matched)| ask(attributes, webhook, matched, object, old, false));
    let answers = future::join_all(calls).await;
    for ((webhook, _), answer) in relevant.iter().zip(answers) {
        match answer {
            Ok(_) => {}
            Err(Failure::Rejected(refusal)) => return Err(refusal),
            Err(Failure::Call(_)) if webhook.ignores_failures() => {}
            Err(Failure::Call(why)) => {
                return Err(Refusal::internal(format!("failed calling webhook {:?}: {why}", webhook.name())));
            }
        }
    }
    Ok(())
}

/// Asks a webhook; an answer that says no is a rejection.
async fn ask(
    attributes: &Attributes<'_>,
    webhook: &Webhook,
    matched: &Match,
    object: Option<&Value>,
    old: Option<&Value>,
    mutating: bool,
) -> std::result::Result<Answer, Failure> {
    if attributes.dry_run && !matches!(webhook.spec["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")) {
        return Err(Failure::Rejected(Refusal::bad_request(format!(
            "admission webhook {:?} does not support dry run",
            webhook.name()
        ))));
    }
    let review = response::review(attributes, webhook, matched, object, old).await?;
    let timeout = webhook.spec["timeoutSeconds"].as_u64().unwrap_or(10);
    let reply = webhook_client::post(attributes.call.inner(), &webhook.spec["clientConfig"], &review, timeout)
        .await
        .map_err(Failure::Call)?;
    let answer = response::read(&review, &reply, mutating)
        .map_err(|why| Failure::Call(format!("received invalid webhook response: {why}")))?;
    if let Some(kind) = &answer.unsupported_patch {
        return Err(Failure::Call(format!("unsupported patch type {kind:?}")));
    }
    for warning in &answer.warnings {
        attributes.call.warnings.add(warning.clone());
    }
    if answer.allowed { Ok(answer) } else { Err(Failure::Rejected(response::denied(webhook.name(), &answer.result))) }
}
