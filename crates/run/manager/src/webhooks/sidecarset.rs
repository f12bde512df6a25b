//! A SidecarSet gets its defaults and hashes, and is checked.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use pillion_api::field::{Error, Path};
use pillion_api::names;
use pillion_api::sidecarset::validation::{Context, Revision, Whitelist};
use pillion_api::sidecarset::{self, DecodeError, SidecarSet, validate_update};
use pillion_gates::{Gate, Gates};
use pillion_inject::Revisions;
use serde_json::Value;

use crate::caches::cluster::View;
use crate::caches::revision_view::pinnable_by;
use crate::state::Inner;
use crate::webhooks::not_in_force;
use crate::webhooks::review::{Answer, Request};

/// Writes defaults and hashes. What cannot be read is left to the schema and to [`validate`], which say what is wrong with it.
/// While somebody else serves SidecarSets, that is theirs to do.
pub(crate) fn mutate(inner: &Inner, request: &Request) -> Answer {
    if inner.is_alone() { prepare(request) } else { Answer::default() }
}

fn prepare(request: &Request) -> Answer {
    let Ok(before) = sidecarset::decode(request.object.clone()) else { return Answer::default() };
    let mut after = before.clone();
    sidecarset::prepare(&mut after);
    // The difference of two readings holds only what was decided: fields that reading leaves out are in neither.
    Answer::change(&before, &after)
}

/// Checks a SidecarSet against its own rules and what else is there, and remembers one that is let through.
pub(crate) async fn validate(inner: &Inner, request: &Request) -> Answer {
    if let Some(obstacle) = inner.waiting.borrow().as_ref() {
        let warnings = vec![format!("not checked by Pillion, which stands by: {obstacle}")];
        return Answer { warnings, ..Answer::default() };
    }
    let set = match sidecarset::decode(request.object.clone()) {
        Ok(set) => Arc::new(set),
        Err(error) => return unreadable(&request.object, &error),
    };
    let whitelist = whitelist(inner, &set).await;
    let view = inner.views.borrow().clone();
    let revisions = revisions(inner, &set).await;
    let gates = inner.config.gates;
    let answer = decide(request, &set, &view, &revisions, &inner.pending.sets(), whitelist, gates);
    if answer.is_allowed() && !request.is_dry_run() {
        inner.pending.admitted(set);
    }
    answer
}

/// The revisions that are known, and the ones that the set pins if the watch has not reported them yet: whoever creates a
/// revision and then a set that pins it expects the set to be accepted.
async fn revisions(inner: &Inner, set: &SidecarSet) -> Revisions {
    let mut revisions = pinnable_by(set, &inner.caches.revisions, &inner.config.revisions_namespace);
    let Some(pinned) = set.spec.pinned_revision() else { return revisions };
    let is_pinned = |known: &Revision<'_>| match &pinned.revision_name {
        Some(name) => known.name == name,
        None => known.custom_version == pinned.custom_version.as_deref(),
    };
    if revisions.candidates(set).iter().any(is_pinned) {
        return revisions;
    }
    let resource = ApiResource::erase::<ControllerRevision>(&());
    let api: Api<DynamicObject> =
        Api::namespaced_with(inner.config.client.clone(), &inner.config.revisions_namespace, &resource);
    let listed = match &pinned.revision_name {
        Some(name) => ListParams::default().fields(&format!("metadata.name={name}")),
        None => ListParams::default().labels(&format!("{}={}", names::REVISION_OWNER, set.name())),
    };
    // If the API server cannot be asked, the set is checked against what is known.
    for stored in api.list(&listed).await.into_iter().flat_map(|list| list.items) {
        if let Ok(stored) = serde_json::to_value(stored) {
            revisions.insert(Arc::new(stored));
        }
    }
    revisions
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
    revisions: &Revisions,
    pending: &[Arc<SidecarSet>],
    whitelist: Result<Option<Whitelist>, String>,
    gates: Gates,
) -> Answer {
    let awaited: HashSet<&str> = pending.iter().map(|awaited| awaited.name()).collect();
    let neighbours = view.neighbours.of(set).into_iter().filter(|name| !awaited.contains(name));
    let known = neighbours.filter_map(|name| view.snapshot.catalog.get(name));
    let known: Vec<Arc<SidecarSet>> = known.collect();
    let sets: Vec<&SidecarSet> = known.iter().chain(pending).map(AsRef::as_ref).collect();
    let revisions = revisions.candidates(set);
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
    let warnings = unknown_fields.chain(not_in_force::warnings(set, gates)).collect();
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
    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::PostParams;
    use pillion_api::sidecarset::revision;
    use pillion_apiserver::ApiServer;
    use pillion_testkit::{mk_container, mk_set};
    use serde_json::json;

    use super::*;
    use crate::config::{Config, WebhookAddress};

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
        let set = sidecarset::decode(request.object.clone()).unwrap();
        decide(request, &set, view, &Revisions::default(), pending, Ok(None), Gates::default())
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
        json_patch::patch(&mut after, &prepare(&request("CREATE", object, Value::Null)).patch).unwrap();
        assert_eq!(
            after["spec"]["updateStrategy"],
            json!({"type": "RollingUpdate", "partition": 0, "maxUnavailable": 1})
        );
        assert_eq!(after["spec"]["containers"][0]["dreams"], json!({"of": ["sheep"]}));
        assert_eq!(after["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
        assert_eq!(after["spec"]["later"], 1);
        assert!(after["metadata"]["annotations"][names::HASH].is_string());
        let again = prepare(&request("UPDATE", after, Value::Null)).patch;
        assert_eq!(again.0, [], "defaulting twice is defaulting once");
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
        let defaults = prepare(&request("CREATE", new.clone(), Value::Null)).patch;
        json_patch::patch(&mut new, &defaults).unwrap();
        let other = Arc::new(mk_set("other", json!({"app": "web"}), json!({"containers": [mk_container("proxy")]})));
        let request = request("CREATE", new, Value::Null);
        let expected = [
            r#""spec.containers[0].name": "Invalid value: \"proxy\": container proxy already exist in sidecarset other, whose selectors can match the same pods""#,
        ];
        assert_eq!(causes(&decided(&request, &View::default(), &[Arc::clone(&other)])), expected);

        let view = View::of_sets([other]);
        assert_eq!(causes(&decided(&request, &view, &[])), expected);
        let changed = Arc::new(mk_set("other", json!({"app": "web"}), json!({"containers": [mk_container("agent")]})));
        assert!(decided(&request, &view, &[changed]).is_allowed(), "what comes counts, not what was");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pinned_revision_that_the_watch_has_not_reported_yet_is_asked_for() {
        let server = ApiServer::new(pillion_apiserver::Config::in_memory());
        server.bootstrap().await.unwrap();
        let (client, clock) = (kube::Client::new(server.router(), "default"), server.clock());
        let address = WebhookAddress::Url("https://pillion.invalid".to_owned());
        let inner = Inner::new(Config::new(client.clone(), Arc::new(move || clock.now()), address));
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(names::DEFAULT_SYSTEM_NAMESPACE.to_owned());
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
        let mut old =
            mk_set("mesh", json!({"app": "web"}), json!({"containers": [mk_container("old")], "customVersion": "v1"}));
        old.metadata.uid = Some("7d2c".to_owned());
        let stored = serde_json::from_value(revision::new(&old, 1, names::DEFAULT_SYSTEM_NAMESPACE)).unwrap();
        let stored: ControllerRevision = Api::namespaced(client, names::DEFAULT_SYSTEM_NAMESPACE)
            .create(&PostParams::default(), &stored)
            .await
            .unwrap();

        for pin in [json!({"revisionName": stored.metadata.name}), json!({"customVersion": "v1"})] {
            let mut spec = spec();
            spec["injectionStrategy"] = json!({"revision": pin});
            let request = request("CREATE", object(spec), Value::Null);
            let set = sidecarset::decode(request.object.clone()).unwrap();
            // A view from before the revision was created.
            let view = View::default();
            let known = revisions(&inner, &set).await;
            let pinning = |revisions: &Revisions| {
                let answer = decide(&request, &set, &view, revisions, &[], Ok(None), Gates::default());
                causes(&answer).into_iter().filter(|cause| cause.contains("revision")).collect::<Vec<_>>()
            };
            assert_eq!(pinning(&known), [""; 0], "{pin}");
            assert_eq!(pinning(&Revisions::default()).len(), 1, "{pin}");
        }
    }
}
