use futures::{FutureExt as _, StreamExt as _};
use kube::core::DynamicObject;
use pillion_api::sidecarset::revision;
use pillion_informer::{Cache, NamespacedName, Watched};
use pillion_testkit::{mk_container, mk_set};
use serde_json::json;

use super::*;

fn set(name: &str, version: u32, image: &str) -> DynamicObject {
    let container = json!({"name": "proxy", "image": image});
    let set = mk_set(name, json!({"app": "web"}), json!({"containers": [container]}));
    let mut object: DynamicObject = serde_json::from_value(serde_json::to_value(set).unwrap()).unwrap();
    object.metadata.resource_version = Some(version.to_string());
    object
}

fn created<V: pillion_informer::View>(object: DynamicObject) -> Change<V> {
    let object: V::Object = serde_json::from_str(&serde_json::to_string(&object).unwrap()).unwrap();
    Change { name: NamespacedName::of(&object), old: None, new: V::of(object).map(Arc::new) }
}

#[test]
fn what_admission_does_not_look_at_makes_no_other_view() {
    let (cache, mut objects) = (Cache::<SetView>::new(), Objects::default());
    let mut changes = Box::pin(cache.changes());
    let mut is_reported = |object: DynamicObject| {
        cache.written(Watched::of(&object).unwrap());
        changes.next().now_or_never().flatten().is_some_and(|it| objects.apply([AnyChange::SidecarSet(it)]))
    };
    assert!(is_reported(set("a", 1, "proxy:1")));
    let mut counted = set("a", 2, "proxy:1");
    counted.data["status"] = json!({"matchedPods": 5, "updatedPods": 3});
    // A status without a revision is the same as none to those who read it, but not the same object.
    is_reported(counted.clone());
    counted.metadata.resource_version = Some("3".to_owned());
    counted.data["status"]["matchedPods"] = json!(6);
    assert!(!is_reported(counted.clone()));
    counted.metadata.resource_version = Some("4".to_owned());
    counted.data["status"]["latestRevision"] = json!("a-1");
    assert!(!is_reported(counted.clone()), "the revision is computed from the spec");
    counted.metadata.resource_version = Some("5".to_owned());
    counted.data["status"]["collisionCount"] = json!(1);
    assert!(is_reported(counted));
    assert!(is_reported(set("a", 6, "proxy:2")));
}

#[test]
fn a_set_that_cannot_be_used_does_not_stop_the_others() {
    let mut objects = Objects::default();
    let mut bad = set("bad", 1, "proxy:1");
    bad.data["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    objects.apply([bad, set("good", 2, "proxy:1")].map(created).map(AnyChange::SidecarSet));
    let view = objects.view();
    assert!(view.snapshot.catalog.get("bad").is_none());
    assert!(view.has(&mk_set(
        "good",
        json!({"app": "web"}),
        json!({"containers": [{"name": "proxy", "image": "proxy:1"}]})
    )));
    assert!(!view.has(&mk_set("good", json!({"app": "web"}), json!({"containers": [mk_container("proxy")]}))));
}

#[test]
fn a_namespace_has_its_labels() {
    let mut objects = Objects::default();
    objects.apply([AnyChange::SidecarSet(created(set("a", 1, "proxy:1")))]);
    let namespace: DynamicObject =
        serde_json::from_value(json!({"metadata": {"name": "shop", "labels": {"tier": "gold"}}})).unwrap();
    objects.apply([AnyChange::Namespace(created(namespace))]);
    let view = objects.view();
    assert_eq!(
        view.snapshot.namespaces["shop"],
        Namespace::new("shop", [("tier".to_owned(), "gold".to_owned())].into())
    );
    assert_eq!(view.snapshot.catalog.len(), 1);
}

#[test]
fn what_is_gone_is_in_no_view() {
    let mut objects = Objects::default();
    objects.apply([AnyChange::SidecarSet(created(set("a", 1, "proxy:1")))]);
    objects.apply([AnyChange::SidecarSet(Change { name: NamespacedName::cluster_scoped("a"), old: None, new: None })]);
    assert!(objects.view().snapshot.catalog.is_empty());
}

fn pinning(name: &str, version: u32, pin: serde_json::Value) -> DynamicObject {
    let spec = json!({"containers": [mk_container("proxy")], "injectionStrategy": {"revision": pin}});
    let set = mk_set(name, json!({"app": "web"}), spec);
    let mut object: DynamicObject = serde_json::from_value(serde_json::to_value(set).unwrap()).unwrap();
    object.metadata.resource_version = Some(version.to_string());
    object
}

fn stored(set: &str) -> DynamicObject {
    let set = mk_set(set, json!({"app": "web"}), json!({"containers": [mk_container("old")], "customVersion": "v1"}));
    serde_json::from_value(revision::new(&set, 1, "kruise-system")).unwrap()
}

/// The revisions come into their cache, and then the objects hear of it.
fn come(objects: &mut Objects, stored: &DynamicObject) -> bool {
    let mut changes = Box::pin(objects.revisions.updates());
    objects.revisions.written(Watched::of(stored).unwrap());
    let change = changes.next().now_or_never().flatten().unwrap();
    objects.apply([AnyChange::Revision(change)])
}

fn read(objects: &mut Objects, stored: &[DynamicObject]) {
    objects.supply(stored.iter().map(|stored| serde_json::to_value(stored).unwrap()).collect());
}

#[test]
fn a_set_is_compiled_again_when_the_revision_that_it_pins_comes_or_goes() {
    let mut objects = Objects::new(Means::default(), Cache::new(), "kruise-system".to_owned());
    let (mut one, mut two) = (stored("a"), stored("b"));
    one.metadata.resource_version = Some("1".to_owned());
    two.metadata.resource_version = Some("2".to_owned());
    objects.apply(
        [pinning("a", 1, json!({"revisionName": one.name_any()})), pinning("b", 2, json!({"customVersion": "v1"}))]
            .map(created)
            .map(AnyChange::SidecarSet),
    );
    let resolved = |objects: &Objects| ["a", "b"].map(|name| objects.view().snapshot.catalog.is_pin_resolved(name));
    assert_eq!(resolved(&objects), [false, false]);
    assert!(objects.unread().is_empty(), "what is not there cannot be read");
    assert!(come(&mut objects, &one));
    assert_eq!(objects.unread(), BTreeSet::from([one.name_any()]));
    read(&mut objects, std::slice::from_ref(&one));
    assert_eq!(resolved(&objects), [true, false]);
    assert!(come(&mut objects, &two));
    read(&mut objects, &[two.clone()]);
    assert_eq!(resolved(&objects), [true, true]);
    assert!(objects.unread().is_empty());

    let gone = created::<RevisionView>(two);
    objects.revisions = Cache::new();
    objects.revisions.written(Watched::of(&one).unwrap());
    objects.apply([AnyChange::Revision(Change { name: gone.name, old: gone.new, new: None })]);
    assert_eq!(resolved(&objects), [true, false]);
    assert_eq!(objects.pins.whole.len(), 1, "what nobody pins is not kept whole");
}

#[test]
fn revisions_that_nobody_pins_are_not_read_and_change_no_view() {
    let mut objects = Objects::new(Means::default(), Cache::new(), "kruise-system".to_owned());
    objects.apply([AnyChange::SidecarSet(created(set("a", 1, "proxy:1")))]);
    let mut stored = stored("a");
    stored.metadata.resource_version = Some("1".to_owned());
    assert!(!come(&mut objects, &stored));
    assert!(objects.unread().is_empty());
}

#[test]
fn a_pinned_revision_that_holds_something_else_now_is_read_again() {
    let mut objects = Objects::new(Means::default(), Cache::new(), "kruise-system".to_owned());
    let mut one = stored("a");
    one.metadata.resource_version = Some("1".to_owned());
    objects.apply([AnyChange::SidecarSet(created(pinning("a", 1, json!({"revisionName": one.name_any()}))))]);
    come(&mut objects, &one);
    read(&mut objects, std::slice::from_ref(&one));
    one.metadata.resource_version = Some("2".to_owned());
    one.data["revision"] = json!(2);
    come(&mut objects, &one);
    assert!(objects.unread().is_empty(), "only its number is another one");
    one.metadata.resource_version = Some("3".to_owned());
    one.data["data"]["spec"]["containers"][0]["image"] = json!("other:1");
    come(&mut objects, &one);
    assert_eq!(objects.unread(), BTreeSet::from([one.name_any()]));
}
