//! Our own `CustomResourceDefinitions` are accepted, and do what they say.

use pillion_rules::field::Path;
use pillion_structural::Structural;
use pillion_structural::crd::{self, Context};
use serde_json::{Value, json};

#[test]
fn the_sidecar_set_is_accepted_and_checks_its_objects() {
    let definition: Value =
        serde_saphyr::from_str(include_str!("../../../deploy/crds/apps.kruise.io_sidecarsets.yaml")).unwrap();
    for (index, version) in definition["spec"]["versions"].as_array().unwrap().iter().enumerate() {
        let schema = &version["schema"]["openAPIV3Schema"];
        let path = Path::new("spec").child("versions").index(index).child("schema");
        let context = Context { has_status: version["subresources"]["status"].is_object(), is_unchanged: false };
        assert_eq!(crd::validate_schema(schema, &path, context), Vec::new());

        let structural = Structural::compile(schema).unwrap();
        let mut set = json!({
            "apiVersion": format!("apps.kruise.io/{}", version["name"].as_str().unwrap()), "kind": "SidecarSet", "metadata": {"name": "s"},
            "spec": {"selector": {"matchLabels": {"app": "a"}}, "containers": [{"name": "c", "image": "i:1"}], "nonsense": 1},
        });
        assert_eq!(structural.coerce(&mut set).unwrap(), ["spec.nonsense"]);
        structural.apply_defaults(&mut set);
        assert_eq!(structural.validate(&set, None), Vec::new());
        set["spec"]["containers"] = json!("c");
        let errors: Vec<String> = structural.validate(&set, None).iter().map(ToString::to_string).collect();
        assert!(
            errors[0].starts_with(
                "spec.containers: Invalid value: \"string\": spec.containers in body must be of type array"
            ),
            "{errors:?}"
        );
    }
}

#[test]
fn the_autoscaler_and_its_checkpoints_are_accepted_and_check_their_objects() {
    let texts = [
        include_str!("../../../deploy/crds/autoscaling.k8s.io_verticalpodautoscalers.yaml"),
        include_str!("../../../deploy/crds/autoscaling.k8s.io_verticalpodautoscalercheckpoints.yaml"),
    ];
    let [autoscaler, checkpoint] = texts.map(|text| -> Structural {
        let definition: Value = serde_saphyr::from_str(text).unwrap();
        let version = &definition["spec"]["versions"][0];
        let schema = &version["schema"]["openAPIV3Schema"];
        let context = Context { has_status: version["subresources"]["status"].is_object(), is_unchanged: false };
        assert_eq!(crd::validate_schema(schema, &Path::new("schema"), context), Vec::new());
        Structural::compile(schema).unwrap()
    });
    let with = |boost: Value| {
        json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "v"},
            "spec": {
                "targetRef": {"kind": "Deployment", "name": "web"},
                "updatePolicy": {"updateMode": "InPlaceOrRecreate"},
                "resourcePolicy": {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": 2, "memory": "1Gi"}}]},
                "startupBoost": {"cpu": boost},
            },
        })
    };
    let errors =
        |object: &Value| -> Vec<String> { autoscaler.validate(object, None).iter().map(ToString::to_string).collect() };
    assert_eq!(errors(&with(json!({"type": "Factor", "factor": 2}))), [""; 0]);
    assert!(errors(&with(json!({"type": "Factor"})))[0].contains("factor is required when type is Factor"));
    let mut wrong = with(json!({"type": "Quantity", "quantity": "1"}));
    wrong["spec"]["updatePolicy"]["updateMode"] = json!("Sometimes");
    assert!(errors(&wrong)[0].contains("Unsupported value: \"Sometimes\""), "{:?}", errors(&wrong));

    let mut stored = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscalerCheckpoint", "metadata": {"name": "v-c"},
        "status": {"version": "v3", "lastUpdateTime": null, "cpuHistogram": {"bucketWeights": {"3": 10000}, "totalWeight": 0.1}},
    });
    assert!(checkpoint.coerce(&mut stored).unwrap().is_empty());
    assert_eq!(checkpoint.validate(&stored, None), Vec::new());
    assert_eq!(stored["status"]["cpuHistogram"]["bucketWeights"]["3"], 10000);
}
