//! Our own `CustomResourceDefinitions` are accepted, and do what they say.

use pillion_kinds::field::Path;
use pillion_structural::Structural;
use pillion_structural::crd::{self, Context};
use serde_json::{Value, json};

#[test]
fn the_sidecar_set_is_accepted_and_checks_its_objects() {
    let definition: Value =
        serde_saphyr::from_str(include_str!("../../../../deploy/crds/apps.kruise.io_sidecarsets.yaml")).unwrap();
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
