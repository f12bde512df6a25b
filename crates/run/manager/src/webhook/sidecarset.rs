//! A SidecarSet gets its defaults and hashes, and is checked.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use pillion_api::field::{Error, Path};
use pillion_api::names;
use pillion_api::sidecarset::validation::{Context, Revision, Whitelist};
use pillion_api::sidecarset::{self, DecodeError, SidecarSet, revision, validate_update};
use pillion_gates::Gate;
use serde_json::Value;

use crate::cluster::View;
use crate::manager::Inner;
use crate::not_in_force;
use crate::review::{Answer, Request};

/// Writes defaults and hashes. What cannot be read is left to the schema and to [`validate`], which say what is wrong with it.
pub(crate) fn mutate(request: &Request) -> Answer {
    if !request.is("CREATE") && !request.is("UPDATE") {
        return Answer::default();
    }
    let Ok(before) = sidecarset::decode(request.object.clone()) else { return Answer::default() };
    let mut after = before.clone();
    sidecarset::prepare(&mut after);
    // The difference of two readings holds only what was decided: fields that reading leaves out are in neither.
    match (serde_json::to_value(&before), serde_json::to_value(&after)) {
        (Ok(before), Ok(after)) => Answer { patch: json_patch::diff(&before, &after), ..Answer::default() },
        (Err(error), _) | (_, Err(error)) => Answer::bad_request(error.to_string()),
    }
}

/// Checks a SidecarSet against its own rules and what else is there, and remembers one that is let through.
pub(crate) async fn validate(inner: &Inner, request: &Request) -> Answer {
    if !request.is("CREATE") && !request.is("UPDATE") {
        return Answer::default();
    }
    let set = match sidecarset::decode(request.object.clone()) {
        Ok(set) => Arc::new(set),
        Err(error) => return unreadable(&request.object, &error),
    };
    let whitelist = whitelist(inner, &set).await;
    let answer = decide(request, &set, &inner.views.borrow().clone(), &inner.pending.sets(), whitelist);
    if answer.is_allowed() && !request.is_dry_run() {
        inner.pending.admitted(set);
    }
    answer
}

/// The list of annotations that sets may write on pods; asked for only when one does. `Err` says why it cannot be had.
async fn whitelist(inner: &Inner, set: &SidecarSet) -> Result<Option<Whitelist>, String> {
    if set.spec.patch_pod_metadata.is_empty() {
        return Ok(None);
    }
    let config_maps: Api<ConfigMap> = Api::namespaced(inner.config.client.clone(), &inner.config.revisions_namespace);
    let stored = config_maps.get_opt(names::CONFIGURATION_CONFIG_MAP).await.map_err(|error| error.to_string())?;
    let rules =
        stored.and_then(|stored| stored.data).and_then(|mut data| data.remove(names::PATCH_POD_METADATA_WHITELIST));
    let allowed = inner.config.gates.is_enabled(Gate::SidecarSetPatchPodMetadataDefaultsAllowed);
    Whitelist::parse(rules.as_deref(), allowed).map(Some).map_err(|error| error.to_string())
}

fn decide(
    request: &Request,
    set: &SidecarSet,
    view: &View,
    pending: &[Arc<SidecarSet>],
    whitelist: Result<Option<Whitelist>, String>,
) -> Answer {
    let awaited: HashSet<&str> = pending.iter().map(|awaited| awaited.name()).collect();
    let known = view.sets.values().filter(|known| !awaited.contains(known.name()));
    let sets: Vec<&SidecarSet> = known.chain(pending).map(AsRef::as_ref).collect();
    let revisions: Vec<Revision<'_>> =
        view.revisions.iter().filter_map(|stored| revision::pinnable(set.name(), stored)).collect();
    let (whitelist, unknown) = match whitelist {
        Ok(whitelist) => (whitelist, None),
        Err(reason) => (None, Some(Error::internal(&Path::new("spec").child("patchPodMetadata"), reason))),
    };
    let context = Context { sets: Some(&sets), revisions: Some(&revisions), whitelist: whitelist.as_ref() };
    let mut errors = match sidecarset::decode(request.old_object.clone()) {
        Ok(old) if request.is("UPDATE") => validate_update(set, &old, &context),
        _ => sidecarset::validate(set, &context),
    };
    errors.extend(unknown);
    let unknown_fields = sidecarset::unknown_fields(&request.object).into_iter().map(|field| field.to_string());
    let warnings = unknown_fields.chain(not_in_force::warnings(set)).collect();
    if errors.is_empty() {
        Answer::default().with_warnings(warnings)
    } else {
        Answer::invalid((names::GROUP, names::SIDECARSET_KIND), set.name(), &errors).with_warnings(warnings)
    }
}

fn unreadable(object: &Value, error: &DecodeError) -> Answer {
    match error {
        DecodeError::Fields(errors) => {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            Answer::invalid((names::GROUP, names::SIDECARSET_KIND), name, errors)
        }
        other => Answer::bad_request(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use imbl::OrdMap;
    use pillion_testkit::{mk_container, mk_set};
    use serde_json::json;

    use super::*;

    fn object(spec: Value) -> Value {
        json!({"apiVersion": names::V1BETA1, "kind": "SidecarSet", "metadata": {"name": "mesh"}, "spec": spec})
    }

    fn request(operation: &str, object: Value, old_object: Value) -> Request {
        Request { operation: operation.to_owned(), object, old_object, ..Request::default() }
    }

    fn spec() -> Value {
        json!({"selector": {"matchLabels": {"app": "web"}}, "containers": [mk_container("proxy")]})
    }

    fn decided(request: &Request, view: &View, pending: &[Arc<SidecarSet>]) -> Answer {
        decide(request, &sidecarset::decode(request.object.clone()).unwrap(), view, pending, Ok(None))
    }

    fn causes(answer: &Answer) -> Vec<String> {
        let causes = answer.refusal.as_ref().map(|status| status["details"]["causes"].as_array().unwrap().as_slice());
        causes.unwrap_or_default().iter().map(|cause| format!("{}: {}", cause["field"], cause["message"])).collect()
    }

    #[test]
    fn defaults_and_hashes_are_added_and_nothing_else_is_touched() {
        let mut object = object(spec());
        object["spec"]["containers"][0]["dreams"] = json!({"of": ["sheep"]});
        object["spec"]["updateStrategy"] = Value::Null;
        object["spec"]["later"] = json!(1);
        let mut after = object.clone();
        json_patch::patch(&mut after, &mutate(&request("CREATE", object, Value::Null)).patch).unwrap();
        assert_eq!(
            after["spec"]["updateStrategy"],
            json!({"type": "RollingUpdate", "partition": 0, "maxUnavailable": 1})
        );
        assert_eq!(after["spec"]["containers"][0]["dreams"], json!({"of": ["sheep"]}));
        assert_eq!(after["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
        assert_eq!(after["spec"]["later"], 1);
        assert!(after["metadata"]["annotations"][names::HASH].is_string());
        let again = mutate(&request("UPDATE", after, Value::Null)).patch;
        assert_eq!(again.0, [], "defaulting twice is defaulting once");
    }

    #[test]
    fn status_and_deletion_are_not_asked_about() {
        let status =
            Request { sub_resource: Some("status".to_owned()), ..request("UPDATE", object(spec()), Value::Null) };
        assert!(mutate(&status).patch.0.is_empty());
        assert!(mutate(&request("DELETE", Value::Null, object(spec()))).patch.0.is_empty());
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let broken = json!({"containers": [{"name": "Proxy", "colour": "red"}]});
        let answer = decided(&request("CREATE", object(broken), Value::Null), &View::default(), &[]);
        let causes = causes(&answer);
        assert!(causes.len() > 2 && causes.iter().any(|cause| cause.contains("spec.selector")), "{causes:?}");
        assert_eq!(answer.warnings, [r#"unknown field "spec.containers[0].colour""#]);
    }

    #[test]
    fn a_set_whose_spec_stays_can_be_updated_whatever_the_rules_are_now() {
        let broken = object(json!({"containers": [{"name": "Proxy"}]}));
        let answer = decided(&request("UPDATE", broken.clone(), broken), &View::default(), &[]);
        assert!(answer.is_allowed());
    }

    #[test]
    fn a_set_is_compared_with_those_in_force_and_those_let_through_a_moment_ago() {
        let mut new = object(spec());
        let defaults = mutate(&request("CREATE", new.clone(), Value::Null)).patch;
        json_patch::patch(&mut new, &defaults).unwrap();
        let other = Arc::new(mk_set("other", json!({"app": "web"}), json!({"containers": [mk_container("proxy")]})));
        let request = request("CREATE", new, Value::Null);
        let expected =
            [r#""spec.containers[0].name": "Invalid value: \"proxy\": container proxy already exist in other""#];
        assert_eq!(causes(&decided(&request, &View::default(), &[Arc::clone(&other)])), expected);

        let view = View { sets: OrdMap::unit("other".to_owned(), other), ..View::default() };
        assert_eq!(causes(&decided(&request, &view, &[])), expected);
        let changed = Arc::new(mk_set("other", json!({"app": "web"}), json!({"containers": [mk_container("agent")]})));
        assert!(decided(&request, &view, &[changed]).is_allowed(), "what comes counts, not what was");
    }
}
