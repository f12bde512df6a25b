use pillion_testkit::mk_set;
use serde_json::json;

use super::{base_pod, container, inject, names};

#[test]
fn a_hot_upgrade_sidecar_is_a_pair_of_which_the_first_works() {
    let hot = |name: &str| json!({"name": name, "image": "mesh:1", "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}});
    let mut native = hot("hot-init");
    native["restartPolicy"] = json!("Always");
    let set = mk_set(
        "s",
        json!({"app": "test"}),
        json!({"containers": [hot("mesh")], "initContainers": [native, {"name": "init-1", "image": "i", "restartPolicy": "Always"}]}),
    );
    let pod = inject(&base_pod(), [set]);

    assert_eq!(names(&pod["spec"]["containers"]), ["mesh-1", "mesh-2", "nginx"]);
    assert_eq!(names(&pod["spec"]["initContainers"]), ["init-0", "hot-init-1", "hot-init-2", "init-1"]);
    assert_eq!(container(&pod, "mesh-1")["image"], "mesh:1");
    assert_eq!(container(&pod, "mesh-2")["image"], "empty:1");
    assert_eq!(
        container(&pod, "mesh-2")["env"],
        json!([
            {"name": "IS_INJECTED", "value": "true"},
            {"name": "SIDECARSET_VERSION", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['version.sidecarset.kruise.io/mesh-2']"}}},
            {"name": "SIDECARSET_VERSION_ALT", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['versionalt.sidecarset.kruise.io/mesh-2']"}}}
        ])
    );
    let annotations = &pod["metadata"]["annotations"];
    for (key, value) in [
        ("version.sidecarset.kruise.io/mesh-1", "1"),
        ("versionalt.sidecarset.kruise.io/mesh-1", "0"),
        ("version.sidecarset.kruise.io/mesh-2", "0"),
        ("versionalt.sidecarset.kruise.io/mesh-2", "1"),
        ("version.sidecarset.kruise.io/hot-init-1", "1"),
        ("kruise.io/sidecarset-working-hotupgrade-container", r#"{"hot-init":"hot-init-1","mesh":"mesh-1"}"#),
    ] {
        assert_eq!(annotations[key], value, "{key}");
    }
    let record = annotations["kruise.io/sidecarset-hash"].as_str().unwrap();
    assert!(
        record.contains(r#""sidecarList":["hot-init","init-1","mesh"]"#),
        "the record has the declared names: {record}"
    );
}
