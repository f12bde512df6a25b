use std::collections::BTreeMap;

use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_api::sidecarset::{SidecarSet, revision};
use pillion_inject::{Catalog, Namespace, Selection};
use pillion_note::Draw;
use pillion_testkit::{mk_container, mk_pod, mk_set};
use serde_json::{Value, json};

use super::{container, inject_with};

/// A set whose latest image is `:new`, and its revision with `:old`.
fn rolling(strategies: Value) -> (SidecarSet, Value) {
    let spec = |image: &str| json!({"containers": [{"name": "c", "image": image}], "customVersion": image});
    let old = mk_set("s", json!({"app": "a"}), spec("old"));
    let stored = revision::new(&old, 1, "kruise-system");
    let mut latest = spec("new");
    latest.as_object_mut().unwrap().extend(strategies.as_object().unwrap().clone());
    let revision_name = stored["metadata"]["name"].as_str().unwrap().to_owned();
    let text = latest.to_string().replace("REVISION", &revision_name);
    (mk_set("s", json!({"app": "a"}), serde_json::from_str(&text).unwrap()), stored)
}

fn image_with(strategies: Value, labels: Value, random: u64) -> Result<String, String> {
    let (set, stored) = rolling(strategies);
    let pod = mk_pod("p", labels, [mk_container("app")]);
    injected_image(&pod, set, &[stored], random)
}

fn injected_image(pod: &Pod, set: SidecarSet, revisions: &[Value], random: u64) -> Result<String, String> {
    let catalog = Catalog::new([set], revisions).unwrap();
    let (pod, _) =
        inject_with(pod, &catalog, &Draw { random, ..Draw::default() }).map_err(|denied| denied.to_string())?;
    Ok(container(&pod, "c")["image"].as_str().unwrap().to_owned())
}

fn image(strategies: Value) -> String {
    image_with(strategies, json!({"app": "a"}), u64::MAX / 2).unwrap()
}

#[test]
fn without_a_pin_the_latest_is_injected() {
    assert_eq!(image(json!({})), "new");
    assert_eq!(
        image(json!({"injectionStrategy": {"revision": {"policy": "Always"}}})),
        "new",
        "a pin that names nothing pins nothing"
    );
}

#[test]
fn a_pinned_revision_is_injected_by_name_or_by_custom_version() {
    assert_eq!(image(json!({"injectionStrategy": {"revision": {"revisionName": "REVISION"}}})), "old");
    assert_eq!(image(json!({"injectionStrategy": {"revision": {"customVersion": "old"}}})), "old");
    assert_eq!(image(json!({"injectStrategy": {"controllerRevision": "REVISION"}})), "old");
}

#[test]
fn a_pin_that_cannot_be_had_refuses_the_pod_and_says_what_is_missing() {
    let refused =
        |pin: Value| image_with(json!({"injectionStrategy": {"revision": pin}}), json!({"app": "a"}), 0).unwrap_err();
    assert_eq!(
        refused(json!({"revisionName": "gone"})),
        r#"SidecarSet "s": ControllerRevision "gone" is pinned for new pods and does not exist; pin a revision of this SidecarSet, or remove the pin"#
    );
    assert!(refused(json!({"customVersion": "v9"})).contains(r#"customVersion "v9" is pinned"#));
    let (set, mut stored) = rolling(json!({"injectionStrategy": {"revision": {"revisionName": "REVISION"}}}));
    stored["metadata"]["labels"]["kruise.io/sidecarset-name"] = json!("other");
    let pod = mk_pod("p", json!({"app": "a"}), [mk_container("app")]);
    let refused = injected_image(&pod, set, &[stored], 0).unwrap_err();
    assert!(refused.contains(r#"belongs to SidecarSet "other""#), "{refused}");
}

#[test]
fn a_missing_revision_gives_the_latest_one_only_if_the_set_says_so() {
    let pinned = |on_missing: &str| {
        let pin = json!({"revisionName": "gone", "onMissing": on_missing});
        image_with(json!({"injectionStrategy": {"revision": pin}}), json!({"app": "a"}), 0)
    };
    assert_eq!(pinned("Latest").as_deref(), Ok("new"));
    assert!(pinned("Refuse").is_err());
    // One that is there and cannot be read is not missing.
    let (set, mut stored) =
        rolling(json!({"injectionStrategy": {"revision": {"revisionName": "REVISION", "onMissing": "Latest"}}}));
    stored["data"]["spec"] = json!(5);
    let pod = mk_pod("p", json!({"app": "a"}), [mk_container("app")]);
    let refused = injected_image(&pod, set, &[stored], 0).unwrap_err();
    assert!(refused.contains("the pinned revision cannot be used"), "{refused}");
}

#[test]
fn partial_follows_the_selector_the_partition_and_the_draw() {
    let partial = |update: Value, labels: Value, random: u64| {
        let strategies = json!({"injectionStrategy": {"revision": {"revisionName": "REVISION", "policy": "Partial"}}, "updateStrategy": update});
        image_with(strategies, labels, random).unwrap()
    };
    let selector = json!({"matchLabels": {"canary": "true"}});
    let plain = || json!({"app": "a"});
    let canary = || json!({"app": "a", "canary": "true"});
    let (low, high) = (0, u64::MAX);
    assert_eq!(
        partial(json!({"selector": selector}), plain(), high),
        "old",
        "pods that the update does not select keep the old"
    );
    assert_eq!(partial(json!({"selector": selector}), canary(), low), "new", "no partition keeps nothing back");
    assert_eq!(partial(json!({"partition": "100%"}), plain(), high), "old");
    assert_eq!(partial(json!({"partition": "0%"}), plain(), low), "new");
    assert_eq!(partial(json!({"partition": "50%"}), plain(), u64::MAX / 4), "old");
    assert_eq!(partial(json!({"partition": "50%"}), plain(), u64::MAX / 4 * 3), "new");
    assert_eq!(partial(json!({"partition": 10}), plain(), high), "old", "an integer counts, unlike in Kruise");
    assert_eq!(partial(json!({"paused": true, "partition": "0%"}), plain(), high), "old");
}

#[test]
fn quota_gives_the_pinned_revision_while_a_place_is_free() {
    let quota_of = |granted: Option<bool>, strategy: Value| {
        let (set, stored) = rolling(json!({"injectStrategy": {"revision": "REVISION"}, "updateStrategy": strategy}));
        let quota = granted.map(|granted| ("s".to_owned(), granted)).into_iter().collect();
        let catalog = Catalog::new([set], &[stored]).unwrap();
        let pod = mk_pod("p", json!({"app": "a"}), [mk_container("app")]);
        let draw = Draw { random: 0, quota, place: Some("id".to_owned()), ..Draw::default() };
        let (pod, _) = inject_with(&pod, &catalog, &draw).unwrap();
        let has_place = pod["metadata"]["annotations"][names::QUOTA_PLACE] == "id";
        assert_eq!(has_place, granted.is_some(), "a pod that was counted carries its id");
        container(&pod, "c")["image"].as_str().unwrap().to_owned()
    };
    let quota = |granted: Option<bool>, partition: Value| quota_of(granted, json!({"partition": partition}));
    assert_eq!(quota(Some(true), json!(1)), "old");
    assert_eq!(quota(Some(false), json!(1)), "new");
    assert_eq!(quota(None, json!(1)), "old");
    assert_eq!(quota(None, json!(0)), "new");
    // These pods ask for no place.
    assert_eq!(quota_of(None, json!({"partition": 0, "paused": true})), "old");
    let selector = |value: &str| json!({"partition": 0, "selector": {"matchLabels": {"app": value}}});
    assert_eq!(quota_of(None, selector("b")), "old", "the update does not select the pod");
    assert_eq!(quota_of(Some(false), selector("a")), "new");
}

#[test]
fn a_pod_that_gets_the_pinned_revision_anyway_asks_for_no_place() {
    for (strategy, asks) in [
        (json!({"partition": 1}), true),
        (json!({"partition": 1, "paused": true}), false),
        (json!({"partition": 1, "selector": {"matchLabels": {"app": "a"}}}), true),
        (json!({"partition": 1, "selector": {"matchLabels": {"app": "b"}}}), false),
    ] {
        let (set, stored) = rolling(json!({"injectStrategy": {"revision": "REVISION"}, "updateStrategy": strategy}));
        let catalog = Catalog::new([set], &[stored]).unwrap();
        let pod = mk_pod("p", json!({"app": "a"}), [mk_container("app")]);
        let selection = Selection::of(&pod, &Namespace::new("default", BTreeMap::new()), &catalog);
        assert_eq!(!selection.quotas(&pod).is_empty(), asks, "{strategy}");
    }
}
