//! ControllerRevisions of a SidecarSet, byte compatible with Kruise's.
//!
//! A revision holds what is injected: containers, init containers, volumes, secrets for images and annotations, and
//! Pillion's own `shareProcessNamespace` and `serviceAccount` when they are set. Who gets it, and how it is updated, is
//! always decided by the live object.

use pillion_rules::safe_encode;
use serde_json::{Map, Value, json};

use super::go_json::{self, Digested, Made};
use super::hash::{hash, hash_without_image};
use super::validation::Revision;
use super::{DecodeError, SidecarSet, decode};
use crate::digest::Digest;
use crate::names;

/// Why a ControllerRevision does not give a SidecarSet back.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It was not made from a SidecarSet.
    #[error("ControllerRevision {name:?} holds no SidecarSet: it has no data.spec with \"$patch\": \"replace\"")]
    NotASidecarSet {
        /// The ControllerRevision.
        name: String,
    },
    /// What it holds cannot be read.
    #[error("ControllerRevision {name:?} holds a SidecarSet that cannot be read")]
    Unreadable {
        /// The ControllerRevision.
        name: String,
        /// What is wrong with it.
        source: DecodeError,
    },
}

/// What a revision holds of a spec, absent or not.
const FIELDS: [&str; 5] = ["containers", "imagePullSecrets", "initContainers", "patchPodMetadata", "volumes"];
/// Fields of our own, which it holds only where they are set.
const OWN_FIELDS: [&str; 2] = ["serviceAccount", "shareProcessNamespace"];

/// The data of the set's ControllerRevision: a strategic merge patch that replaces the spec. Equal data is the same
/// revision.
pub fn data(set: &SidecarSet) -> String {
    let mut data: Value = content(set);
    data.sort_all_objects();
    go_json::round_numbers(&mut data);
    go_json::text(&data)
}

/// As [`data`], with its keys in any order.
fn content<M: Made>(set: &SidecarSet) -> M {
    let spec = &set.spec;
    let fields = [
        ("containers", go_json::field("containers", &spec.containers)),
        ("imagePullSecrets", go_json::field("imagePullSecrets", &spec.image_pull_secrets)),
        ("initContainers", go_json::field("initContainers", &spec.init_containers)),
        ("patchPodMetadata", go_json::field("patchPodMetadata", &spec.patch_pod_metadata)),
        ("volumes", go_json::field("volumes", &spec.volumes)),
    ];
    let fields = fields.map(|(name, value)| (name, value.unwrap_or_else(|| M::plain(&Value::Null))));
    // Fields of our own are there only where they are set.
    let own = [
        ("serviceAccount", go_json::field("serviceAccount", &spec.service_account)),
        ("shareProcessNamespace", go_json::field("shareProcessNamespace", &spec.share_process_namespace)),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let replaces = [("$patch", M::plain(&"replace".into()))];
    M::object([("spec", M::object(replaces.into_iter().chain(fields).chain(own)))].into_iter())
}

/// The digest of [`data`].
pub fn digest(set: &SidecarSet) -> Digest {
    content::<Digested>(set).digest
}

/// The name of the ControllerRevision with this data. `collision_count` tells revisions apart whose data differs and
/// whose hash does not.
pub fn name(set: &SidecarSet, data: &str, collision_count: i32) -> String {
    // Kubernetes' own limit, so that the name is never longer than 253 characters.
    const LONGEST_PREFIX: usize = 223;
    let (prefix, _) = set.name().split_at(set.name().floor_char_boundary(LONGEST_PREFIX));
    format!("{prefix}-{}", hash_of_data(data, collision_count))
}

/// The name of the ControllerRevision that the set's spec is: computed, because `status.latestRevision` lags behind it.
pub fn current_name(set: &SidecarSet) -> String {
    name(set, &data(set), collision_count(set))
}

/// How often a name of the set's revisions collided.
pub fn collision_count(set: &SidecarSet) -> i32 {
    set.status.as_ref().and_then(|status| status.collision_count).unwrap_or_default()
}

/// By which names a set may pin a ControllerRevision, unless it belongs to another set. One without an owner can be pinned by its own name
/// alone.
pub fn described<'a>(set: &str, revision: &'a Value) -> Revision<'a> {
    let metadata = &revision["metadata"];
    let label = |key| metadata["labels"].get(key).and_then(Value::as_str);
    let owner = label(names::REVISION_OWNER);
    Revision {
        name: metadata["name"].as_str().unwrap_or_default(),
        custom_version: owner.filter(|owner| *owner == set).and(label(names::CUSTOM_VERSION)),
        other_owner: owner.filter(|owner| *owner != set),
    }
}

/// Whether a set may pin a ControllerRevision: it does not belong to another set.
pub fn is_pinnable(set: &str, revision: &Value) -> bool {
    described(set, revision).other_owner.is_none()
}

/// Whether a ControllerRevision holds a SidecarSet. That of a workload replaces a pod template, not the spec.
pub fn holds_a_sidecar_set(revision: &Value) -> bool {
    revision["data"]["spec"]["$patch"] == "replace"
}

/// The ControllerRevision of the set, to be created in `namespace` with this number.
pub fn new(set: &SidecarSet, revision: i64, namespace: &str) -> Value {
    with_collision_count(set, revision, namespace, collision_count(set))
}

/// As [`new`], with a name of its own where `status.collisionCount` gives one that another revision has. The label keeps the hash that it
/// would have had, as in Kruise.
pub fn with_collision_count(set: &SidecarSet, revision: i64, namespace: &str, name_count: i32) -> Value {
    let data = data(set);
    let collision_count = collision_count(set);
    let mut labels = set.metadata.labels.clone().unwrap_or_default();
    labels.insert(names::REVISION_HASH.to_owned(), hash_of_data(&data, collision_count));
    labels.insert(names::REVISION_OWNER.to_owned(), set.name().to_owned());
    if let Some(version) = set.spec.custom_version.as_ref().filter(|version| !version.is_empty()) {
        labels.insert(names::CUSTOM_VERSION.to_owned(), version.clone());
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name(set, &data, name_count),
            "namespace": namespace,
            "labels": labels,
            "annotations": set.metadata.annotations.clone().unwrap_or_default(),
            "ownerReferences": [{
                "apiVersion": names::V1BETA1,
                "kind": names::SIDECARSET_KIND,
                "name": set.name(),
                "uid": set.metadata.uid.as_deref().unwrap_or_default(),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "data": serde_json::from_str::<Value>(&data).unwrap_or_default(),
        "revision": revision,
    })
}

/// The set as it was in a revision: the live object's metadata, what the revision holds as its whole spec, the
/// revision's hashes, and its name as `status.latestRevision`.
///
/// # Errors
/// The ControllerRevision is not of a SidecarSet, or what it holds cannot be read.
pub fn restore(live: &SidecarSet, revision: &Value) -> Result<SidecarSet, RestoreError> {
    let metadata = |field: &str| revision.get("metadata").and_then(|metadata| metadata.get(field));
    let name = metadata("name").and_then(Value::as_str).unwrap_or_default();
    let spec = revision.get("data").and_then(|data| data.get("spec")).and_then(Value::as_object);
    let Some(spec) = spec.filter(|spec| spec.get("$patch").is_some_and(|patch| patch == "replace")) else {
        return Err(RestoreError::NotASidecarSet { name: name.to_owned() });
    };
    let mut spec = spec.clone();
    spec.shift_remove("$patch");

    let object = json!({"apiVersion": names::V1BETA1, "kind": names::SIDECARSET_KIND, "spec": spec});
    let restored = decode(object).map_err(|source| RestoreError::Unreadable { name: name.to_owned(), source })?;
    let mut restored = SidecarSet { spec: restored.spec, ..live.clone() };
    restored.status.get_or_insert_default().latest_revision = Some(name.to_owned());
    let recorded = |key| {
        let hash = metadata("annotations").and_then(|annotations| annotations.get(key)).and_then(Value::as_str);
        hash.filter(|hash| !hash.is_empty()).map(str::to_owned)
    };
    let hash = recorded(names::HASH).unwrap_or_else(|| hash(&restored));
    let without_image = recorded(names::HASH_WITHOUT_IMAGE).unwrap_or_else(|| hash_without_image(&restored));
    let hashes = [(names::HASH.to_owned(), hash), (names::HASH_WITHOUT_IMAGE.to_owned(), without_image)];
    restored.metadata.annotations.get_or_insert_default().extend(hashes);
    Ok(restored)
}

/// The merge patch that brings a set back to a revision: what the revision holds, and the name that the user gave this version. How pods
/// are selected and updated stays.
///
/// # Errors
/// The ControllerRevision is not of a SidecarSet.
pub fn undo_patch(revision: &Value) -> Result<Value, RestoreError> {
    if !holds_a_sidecar_set(revision) {
        let name = revision["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        return Err(RestoreError::NotASidecarSet { name });
    }
    let held = &revision["data"]["spec"];
    let fields = FIELDS.into_iter().chain(OWN_FIELDS);
    let mut spec: Map<String, Value> =
        fields.map(|name| (name.to_owned(), with_integers(held[name].clone()))).collect();
    // A revision that is brought back would otherwise get the name of the one that is left.
    spec.insert("customVersion".to_owned(), revision["metadata"]["labels"][names::CUSTOM_VERSION].clone());
    Ok(json!({"spec": spec}))
}

/// Go writes large numbers of a revision as `1e+06`; an API server reads no such number into an integer field.
fn with_integers(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(with_integers).collect(),
        Value::Object(object) => object.into_iter().map(|(key, value)| (key, with_integers(value))).collect(),
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0).map(|float| format!("{float:.0}"));
            whole.and_then(|text| text.parse::<i64>().ok()).map_or(Value::Number(number), Value::from)
        }
        other => other,
    }
}

fn hash_of_data(data: &str, collision_count: i32) -> String {
    safe_encode(&fnv1(data.bytes().chain(collision_count.to_string().bytes())).to_string())
}

/// FNV-1 with 32 bits: multiply, then exclusive or.
fn fnv1(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash: u32, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> SidecarSet {
        decode(json!({
            "apiVersion": names::V1BETA1, "kind": "SidecarSet",
            "metadata": {
                "name": "mesh", "uid": "7d2c", "labels": {"team": "net"}, "annotations": {names::HASH: "h1", "note": "n"}
            },
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "customVersion": "v1",
                "containers": [{"name": "proxy", "image": "envoy:1.30", "securityContext": {"runAsUser": 0}}],
                "volumes": [{"name": "tmp", "emptyDir": {}}],
            }
        }))
        .unwrap()
    }

    /// Name and data as Kruise writes them for this set.
    #[test]
    fn data_and_name_are_those_of_kruise() {
        insta::assert_snapshot!(data(&set()), @r#"{"spec":{"$patch":"replace","containers":[{"image":"envoy:1.30","name":"proxy","resources":{},"securityContext":{"runAsUser":0},"shareVolumePolicy":{},"upgradeStrategy":{}}],"imagePullSecrets":null,"initContainers":null,"patchPodMetadata":null,"volumes":[{"emptyDir":{},"name":"tmp"}]}}"#);
        insta::assert_snapshot!(name(&set(), &data(&set()), 0), @"mesh-645b96b498");
        assert_ne!(name(&set(), &data(&set()), 1), name(&set(), &data(&set()), 0));
    }

    #[test]
    fn the_digest_is_that_of_the_text_whatever_is_in_it() {
        let mut object = json!({"apiVersion": names::V1BETA1, "kind": "SidecarSet", "metadata": {"name": "odd"}});
        object["spec"]["containers"] = json!([{
            "name": "c", "args": ["a<b> && c\u{2028}\"é"],
            "x-future": [1, -1, 1.0, -0.0, 2.5, 1e300, 9_007_199_254_740_993_i64, u64::MAX, i64::MIN, null, {"b": 1, "a": {}}],
        }]);
        for set in [set(), decode(object).unwrap()] {
            assert_eq!(digest(&set), serde_json::from_str(&data(&set)).unwrap());
        }
    }

    #[test]
    fn fields_of_our_own_are_in_the_data_when_they_are_set() {
        let mut set = set();
        set.spec.share_process_namespace = Some(true);
        assert!(data(&set).contains(r#""patchPodMetadata":null,"shareProcessNamespace":true,"volumes""#));
        assert_eq!(restore(&set, &new(&set, 1, "x")).unwrap().spec.share_process_namespace, Some(true));
    }

    #[test]
    fn a_revision_carries_the_labels_and_annotations_of_the_set() {
        let mut revision = new(&set(), 3, "kruise-system");
        revision.as_object_mut().unwrap().shift_remove("data");
        insta::assert_json_snapshot!(revision, @r#"
            {
              "apiVersion": "apps/v1",
              "kind": "ControllerRevision",
              "metadata": {
                "name": "mesh-645b96b498",
                "namespace": "kruise-system",
                "labels": {
                  "apps.kruise.io/sidecarset-custom-version": "v1",
                  "controller.kubernetes.io/hash": "645b96b498",
                  "kruise.io/sidecarset-name": "mesh",
                  "team": "net"
                },
                "annotations": {
                  "kruise.io/sidecarset-hash": "h1",
                  "note": "n"
                },
                "ownerReferences": [
                  {
                    "apiVersion": "apps.kruise.io/v1beta1",
                    "kind": "SidecarSet",
                    "name": "mesh",
                    "uid": "7d2c",
                    "controller": true,
                    "blockOwnerDeletion": true
                  }
                ]
              },
              "revision": 3
            }
            "#);
    }

    #[test]
    fn a_long_name_is_cut_so_that_the_hash_fits() {
        let mut set = set();
        set.metadata.name = Some("ä".repeat(200));
        assert_eq!(name(&set, "", 0).find('-'), Some(222));
    }

    #[test]
    fn a_restored_set_has_the_live_metadata_and_only_what_the_revision_holds() {
        let old = new(&set(), 1, "kruise-system");
        let mut live = set();
        live.spec.containers[0].container.insert("image".into(), "envoy:1.31".into());
        live.metadata.labels.get_or_insert_default().insert("new".into(), "label".into());
        let restored = restore(&live, &old).unwrap();

        assert_eq!(restored.spec.containers[0].container["image"], "envoy:1.30");
        assert_eq!(restored.spec.selector, None);
        assert_eq!(restored.metadata.labels, live.metadata.labels);
        assert_eq!(restored.annotation(names::HASH), Some("h1"));
        assert_eq!(restored.annotation(names::HASH_WITHOUT_IMAGE), Some(hash_without_image(&set()).as_str()));
        assert_eq!(restored.status.as_ref().unwrap().latest_revision.as_deref(), old["metadata"]["name"].as_str());
        assert_eq!(data(&restored), data(&set()));
    }

    #[test]
    fn a_revision_of_something_else_is_refused() {
        let other = json!({"metadata": {"name": "web-6f5"}, "data": {"spec": {"template": {}}}});
        insta::assert_snapshot!(restore(&set(), &other).unwrap_err(), @r#"ControllerRevision "web-6f5" holds no SidecarSet: it has no data.spec with "$patch": "replace""#);
        let broken = json!({"metadata": {"name": "mesh-1"}, "data": {"spec": {"$patch": "replace", "containers": 5}}});
        let error = restore(&set(), &broken).unwrap_err();
        insta::assert_snapshot!(error, @r#"ControllerRevision "mesh-1" holds a SidecarSet that cannot be read"#);
        insta::assert_snapshot!(std::error::Error::source(&error).unwrap(), @"spec.containers: Invalid value: 5: must be a list");
    }

    #[test]
    fn an_undo_brings_back_what_a_revision_holds_and_nothing_else() {
        let mut set = set();
        set.spec.containers[0].container.insert("securityContext".into(), json!({"runAsUser": 10_000_000}));
        let old = new(&set, 1, "kruise-system");
        let patch = undo_patch(&old).unwrap();
        let keys: Vec<&str> = patch["spec"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "containers",
                "imagePullSecrets",
                "initContainers",
                "patchPodMetadata",
                "volumes",
                "serviceAccount",
                "shareProcessNamespace",
                "customVersion"
            ]
        );
        assert_eq!(patch["spec"]["customVersion"], "v1");
        assert_eq!(patch["spec"]["serviceAccount"], Value::Null, "what the revision did not have is taken away");
        assert_eq!(patch["spec"]["containers"][0]["securityContext"]["runAsUser"].to_string(), "10000000");
        // The set is that revision again.
        let mut live = serde_json::to_value(&set).unwrap();
        live["spec"]["containers"][0]["image"] = json!("envoy:1.31");
        for (key, value) in patch["spec"].as_object().unwrap() {
            live["spec"][key] = value.clone();
        }
        assert_eq!(data(&decode(live).unwrap()), data(&set));
        assert!(undo_patch(&json!({"metadata": {"name": "web-1"}, "data": {"spec": {"template": {}}}})).is_err());
    }

    #[test]
    fn fnv1_is_that_of_its_authors() {
        assert_eq!(fnv1("".bytes()), 0x811c_9dc5);
        assert_eq!(fnv1("a".bytes()), 0x050c_5d7e);
        assert_eq!(fnv1("foobar".bytes()), 0x31f0_b262);
    }
}
