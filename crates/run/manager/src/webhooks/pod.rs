//! A new pod gets its sidecars.

mod places;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use pillion_admission::{Decision, Snapshot, admit_tersely};
use pillion_api::field::{Error, Path};
use pillion_api::pod::Pod;
use pillion_gates::Gates;
use pillion_inject::{Catalog, Matching, Selection};
use pillion_lifecycle::marks::has_own_marks;
use pillion_note::{Denied, Draw, Note, Reason, Severity};
use serde_json::Value;

use crate::caches::cluster::View;
use crate::serving::budget::Refused;
use crate::state::Inner;
use crate::webhooks::question::{Decoded, Question};
use crate::webhooks::review::{Answer, Request};

/// While the watch of SidecarSets is interrupted, a pod waits until this time after the interruption began; then it gets the SidecarSets that are
/// known. When the definition of SidecarSets has changed, an API server answers a watch a second late. It gives the webhook three seconds.
const LONGEST_INTERRUPTION: Duration = Duration::from_millis(1500);

/// Answers for a pod, with the view that has every SidecarSet that came before it.
pub(crate) async fn mutate(inner: &Inner, question: Question) -> Result<(String, Answer), Refused> {
    let mut decoded = decode(inner, &question).await?;
    let uid = decoded.request.uid.clone();
    if !decoded.request.is("CREATE") {
        return Ok((uid, Answer::default()));
    }
    let namespace = decoded.request.namespace.as_deref().unwrap_or("default").to_owned();
    let mut awaited = pin!(async {
        // Both at once, so that a pod does not wait for one after the other.
        let interruption = inner.caches.sets.uninterrupted(LONGEST_INTERRUPTION);
        tokio::join!(interruption, inner.pending.view(&inner.views, &namespace));
        inner.views.borrow().clone()
    });
    let view = if let Some(view) = awaited.as_mut().now_or_never() {
        view
    } else {
        // A pod that waits is text: it leaves the room for decoded ones to those that can be decided.
        drop(decoded);
        let view = awaited.await;
        decoded = decode(inner, &question).await?;
        view
    };
    let answer = admit(inner, decoded.request, &namespace, view).await;
    Ok((uid, answer))
}

async fn decode(inner: &Inner, question: &Question) -> Result<Decoded, Refused> {
    let transferred = Arc::clone(inner.views.borrow().snapshot.catalog.transferred_variables());
    question.decode(1, move |body| Request::read_new_pod(body, &transferred)).await
}

async fn admit(inner: &Inner, request: Request, namespace: &str, mut view: Arc<View>) -> Answer {
    if !inner.is_alone() {
        // Somebody else injects the SidecarSets; marks and autoscalers are still ours.
        let snapshot = Snapshot { catalog: Catalog::default(), ..view.snapshot.clone() };
        view = Arc::new(View { snapshot, ..View::default() });
    }
    let request = match request.with_variables(view.snapshot.catalog.transferred_variables()) {
        Ok(request) => request,
        Err(reason) => return Answer::bad_request(reason),
    };
    let autoscalers = inner.rightsizing.of_pod(namespace, &request.object).await;
    let (id, is_dry_run) = (request.uid.clone(), request.is_dry_run());
    let is_sized = autoscalers.as_ref().is_some_and(|(_, workload)| workload.is_some());
    let (pod, selection) = match read(request, &view.snapshot, is_sized) {
        Ok(Some(read)) => read,
        Ok(None) => return Answer::default(),
        Err(answer) => return answer,
    };
    let places = places::ask(inner, &view.snapshot, (&pod, &selection), &id, is_dry_run).await;
    let (random, quota, place) = (fastrand::u64(..), places.granted.clone(), places.id.clone());
    let (gates, now) = (inner.config.gates, (inner.config.now)());
    let mut answer = match autoscalers {
        None => decide((&pod, &selection), &view.snapshot, gates, &Draw { random, quota, place, workload: None }, now),
        Some((autoscalers, workload)) => {
            let draw = Draw { random, quota, place, workload };
            let snapshot = Snapshot { autoscalers, ..view.snapshot.clone() };
            decide((&pod, &selection), &snapshot, gates, &draw, now)
        }
    };
    if answer.is_allowed() {
        answer.warnings.extend(places.warnings);
    } else {
        places.give_back(inner, &view.snapshot);
    }
    answer
}

/// The pod of a request with the SidecarSets that it gets; `None` if there is nothing to decide about it. A pod that nothing matches is
/// admitted whatever else is in it: refusing what is malformed is the API server's part.
fn read(request: Request, snapshot: &Snapshot, is_sized: bool) -> Result<Option<(Pod, Selection)>, Answer> {
    let object = in_its_namespace(request.object, request.namespace.as_deref());
    let matching = matching(&object, snapshot);
    if !is_sized && matching.is_empty() && !has_own_marks(&object) {
        return Ok(None);
    }
    let pod = Pod::new(object).map_err(|error| Answer::bad_request(format!("this is not a Pod: {error}")))?;
    let selection = Selection::among(matching, &pod, &snapshot.catalog);
    Ok(Some((pod, selection)))
}

fn decide(
    (pod, selection): (&Pod, &Selection),
    snapshot: &Snapshot,
    gates: Gates,
    draw: &Draw,
    now: Timestamp,
) -> Answer {
    let Decision { outcome, notes } = admit_tersely(pod, selection, snapshot, gates, draw, Some(now));
    match outcome {
        Ok(patch) => {
            Answer { patch, warnings: warnings(&notes), audit_annotations: audit_annotations(&notes), refusal: None }
        }
        Err(denied) => refusal(pod, &denied),
    }
}

/// The SidecarSets that match what may be a pod.
fn matching<'s>(pod: &Value, snapshot: &'s Snapshot) -> Matching<'s> {
    let metadata = &pod["metadata"];
    let labels = metadata["labels"].as_object().into_iter().flatten();
    let labels: Vec<(&str, &str)> = labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect();
    let namespace = metadata["namespace"].as_str().filter(|name| !name.is_empty()).unwrap_or("default");
    snapshot.catalog.matching(&snapshot.namespace(namespace), &labels)
}

/// The namespace of the request is that of the pod, whether the pod says it or not.
fn in_its_namespace(mut pod: Value, namespace: Option<&str>) -> Value {
    let metadata = pod.get_mut("metadata").and_then(Value::as_object_mut);
    if let (Some(metadata), Some(namespace)) = (metadata, namespace.filter(|namespace| !namespace.is_empty())) {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    pod
}

fn warnings(notes: &[Note]) -> Vec<String> {
    notes.iter().filter(|note| note.severity == Severity::Warning).map(ToString::to_string).collect()
}

/// The SidecarSets that have a note for this reason.
fn sets(notes: &[Note], reason: Reason) -> impl Iterator<Item = &str> {
    let of_reason = notes.iter().filter(move |note| note.reason == reason);
    of_reason.filter_map(|note| note.subject.as_sidecar_set())
}

/// Which SidecarSets had a part in it. The API server writes the name of the webhook in front of the key.
fn audit_annotations(notes: &[Note]) -> BTreeMap<String, String> {
    let injected: Vec<&str> = sets(notes, Reason::Injected).collect();
    if injected.is_empty() { BTreeMap::new() } else { BTreeMap::from([("injected".to_owned(), injected.join(","))]) }
}

/// What is wrong with an annotation of the pod is said of that field; everything else is between the pod and a SidecarSet.
fn refusal(pod: &Pod, denied: &Denied) -> Answer {
    match denied {
        Denied::Metadata { key, .. } | Denied::Record { key, .. } => {
            let path = Path::new("metadata").child("annotations").key(key);
            let value = pod.annotation(key).unwrap_or_default();
            Answer::invalid(("", "Pod"), pod.name(), &[Error::invalid(&path, value, denied.to_string())])
        }
        _ => Answer::forbidden(denied.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use pillion_api::names;
    use pillion_inject::Namespace;
    use pillion_testkit::{mk_container, mk_set, mk_sized};
    use serde_json::json;

    use super::*;

    fn view(specs: &[(&str, Value)]) -> View {
        let sets: Vec<_> = specs.iter().map(|(name, spec)| mk_set(name, json!({"app": "web"}), spec.clone())).collect();
        let shop = Namespace::new("shop", [("tier".to_owned(), "gold".to_owned())].into());
        let namespaces = [("shop".to_owned(), shop)].into_iter().collect();
        let catalog = Catalog::new(sets, &[]).unwrap();
        View { snapshot: Snapshot { catalog, namespaces, ..Snapshot::default() }, ..View::default() }
    }

    fn answer(pod: Value, namespace: &str, view: &View) -> Answer {
        decided(Request { object: pod, namespace: Some(namespace.to_owned()), ..Request::default() }, view)
    }

    fn decided(request: Request, view: &View) -> Answer {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        match read(request, &view.snapshot, false) {
            Ok(Some((pod, selection))) => {
                decide((&pod, &selection), &view.snapshot, Gates::default(), &Draw::default(), now)
            }
            Ok(None) => Answer::default(),
            Err(answer) => answer,
        }
    }

    fn pod(container: Value) -> Value {
        json!({"metadata": {"name": "web-0", "labels": {"app": "web"}}, "spec": {"containers": [container], "future": 1}})
    }

    #[test]
    fn the_patch_injects_and_leaves_what_it_does_not_know() {
        let view = view(&[("mesh", json!({"containers": [mk_container("proxy")]}))]);
        let answer = answer(pod(mk_container("app")), "default", &view);
        let mut injected = pod(mk_container("app"));
        json_patch::patch(&mut injected, &answer.patch).unwrap();
        assert_eq!(injected["spec"]["future"], 1);
        assert_eq!(injected["spec"]["containers"].as_array().unwrap().len(), 2);
        assert_eq!(answer.audit_annotations, BTreeMap::from([("injected".to_owned(), "mesh".to_owned())]));
        assert!(injected["metadata"].get("namespace").is_none(), "the namespace is the API server's to write");
    }

    #[test]
    fn the_namespace_of_the_request_decides() {
        let spec =
            json!({"containers": [mk_container("proxy")], "namespaceSelector": {"matchLabels": {"tier": "gold"}}});
        let view = view(&[("mesh", spec)]);
        assert!(!answer(pod(mk_container("app")), "shop", &view).patch.0.is_empty());
        assert!(answer(pod(mk_container("app")), "default", &view).patch.0.is_empty());
    }

    #[test]
    fn a_pod_that_opts_out_is_left_alone() {
        let view = view(&[("mesh", json!({"containers": [mk_container("proxy")]}))]);
        let mut pod = pod(mk_container("app"));
        pod["metadata"]["annotations"] = json!({names::INJECT: "false"});
        let answer = answer(pod, "default", &view);
        assert!(answer.patch.0.is_empty() && answer.warnings.is_empty() && answer.is_allowed());
    }

    #[test]
    fn a_refusal_says_what_about_the_pod_it_is() {
        let policy = json!({"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu - 1"}}});
        let proxy = json!({"name": "proxy", "image": "proxy:1", "resourcesPolicy": policy});
        let view = view(&[("mesh", json!({"containers": [proxy]}))]);
        let small = answer(pod(mk_sized("app", ("500m", ""), ("", ""))), "default", &view).refusal.unwrap();
        assert_eq!((&small["code"], &small["reason"]), (&json!(403), &json!("Forbidden")));
        insta::assert_snapshot!(small["message"].as_str().unwrap(), @r#"SidecarSet "mesh", container "proxy": calculation result is negative: limits.cpu = cpu - 1 is -500m for cpu = 500m"#);

        let mut record = pod(mk_sized("app", ("2", ""), ("", "")));
        record["metadata"]["annotations"] = json!({names::HASH: "nonsense"});
        let record = answer(record, "default", &view).refusal.unwrap();
        assert_eq!(
            (&record["code"], &record["details"]["causes"][0]["field"]),
            (&json!(422), &json!("metadata.annotations[kruise.io/sidecarset-hash]"))
        );

        let mut malformed = pod(mk_container("app"));
        malformed["spec"]["containers"] = json!(5);
        assert_eq!(answer(malformed, "default", &view).refusal.unwrap()["code"], 400);
    }

    #[test]
    fn a_pod_that_no_sidecarset_matches_is_admitted_whatever_is_in_it() {
        let view = view(&[("mesh", json!({"containers": [mk_container("proxy")]}))]);
        for pod in [
            json!({"spec": {"containers": 5}}),
            json!({"metadata": {"labels": {"app": 5}, "annotations": []}}),
            json!({"metadata": {"labels": {"app": "other"}, "annotations": {"a": true}}}),
        ] {
            let answer = answer(pod.clone(), "default", &view);
            assert!(answer.is_allowed() && answer.patch.0.is_empty(), "{pod}");
        }
    }

    #[test]
    fn a_pod_that_was_read_in_part_gets_the_patch_of_the_whole() {
        let transfer = json!([{"sourceContainerName": "app", "envNames": ["B", "NONE"]}]);
        let proxy = json!({"name": "proxy", "image": "proxy:1", "transferEnv": transfer, "shareVolumePolicy": {"type": "enabled"}});
        let view = view(&[("mesh", json!({"containers": [proxy, mk_container("replaced")]}))]);
        let names = view.snapshot.catalog.transferred_variables();
        let env = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"value": "3", "name": "B"}, {"name": "C"}]);
        let mut patches = Vec::new();
        for changes in [
            json!({}),
            json!({"volumeMounts": [{"name": "data", "mountPath": "/data", "subPathExpr": "$(A)"}]}),
            json!({"sidecar": true}),
            json!({"env": [{"name": "A"}, {"name": names::KRUISE_TERMINATE, "value": "true"}]}),
            json!({"env": [{"name": names::IS_INJECTED, "value": "true"}, {"name": "B", "value": "2"}]}),
        ] {
            let mut app = json!({"name": "app", "image": "app:1", "env": env});
            json_patch::merge(&mut app, &changes);
            let mut whole = pod(app);
            whole["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "replaced", "env": env}));
            let body = json!({"request": {"operation": "CREATE", "namespace": "default", "object": whole}}).to_string();
            let in_part = Request::read_new_pod(&body.into(), names).unwrap().with_variables(names).unwrap();
            let expected = answer(whole, "default", &view).patch;
            assert_eq!(decided(in_part, &view).patch, expected, "{changes}");
            patches.push(expected.to_string());
        }
        patches.sort();
        patches.dedup();
        assert_eq!(patches.len(), 3, "what is transferred depends on the variables: {patches:#?}");
    }

    #[test]
    fn warnings_are_those_for_the_author_of_the_pod() {
        let spec = json!({"containers": [mk_container("app")]});
        let answer = answer(pod(mk_container("app")), "default", &view(&[("mesh", spec)]));
        insta::assert_snapshot!(answer.warnings.join("\n"), @r#"SidecarSet "mesh", container "app": replaces the pod's own container of the same name; rename one of them if that is not intended"#);
    }
}
