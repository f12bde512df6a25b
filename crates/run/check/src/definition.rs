//! The definition of SidecarSet: a field that it does not have is dropped by the API server without a word.

use pillion_api::sidecarset::crd;
use serde_json::Value;

use crate::finding::Finding;
use crate::snapshot::Snapshot;

const CHECK: &str = "definition";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

pub(crate) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let live = match &snapshot.definition {
        Ok(Some(live)) => live,
        Ok(None) if snapshot.is_installed() => {
            return vec![Finding::error(CHECK, "SidecarSet is not defined", "run `pillion install` again")];
        }
        Ok(None) => return vec![Finding::ok(CHECK, "SidecarSet is not defined yet; `pillion install` defines it")],
        Err(why) => return vec![Finding::unread(CHECK, why)],
    };
    let ours = crd::sidecarset();
    let found: Vec<Finding> = versions(&ours).filter_map(|version| compare(snapshot, version, live)).collect();
    if found.is_empty() { vec![Finding::ok(CHECK, "the definition of SidecarSet has every field")] } else { found }
}

fn compare(snapshot: &Snapshot, ours: &Value, live: &Value) -> Option<Finding> {
    let version = ours["name"].as_str().unwrap_or_default();
    let remedy = "`pillion install --take-over=kruise` replaces a definition of OpenKruise, `pillion install` one of an older Pillion";
    let finding = |message: String| {
        if snapshot.is_installed() {
            Finding::error(CHECK, message, remedy)
        } else {
            Finding::warning(CHECK, message).with_remedy(remedy)
        }
    };
    let served = versions(live).find(|other| other["name"] == version && other["served"] != false);
    let Some(served) = served else {
        return Some(finding(format!("the definition of SidecarSet does not serve {version}")));
    };
    let mut dropped = Vec::new();
    let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
    if live["spec"]["preserveUnknownFields"] != true {
        compare_schemas(&schema(ours), &schema(served), "", &mut dropped);
    }
    let message = format!("the definition of SidecarSet {version} drops these fields");
    (!dropped.is_empty()).then(|| finding(message).with_details(dropped))
}

fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition["spec"]["versions"].as_array().into_iter().flatten()
}

/// The paths of our fields that the API server would prune by the live schema. Of an object that is dropped only the object itself is listed.
fn compare_schemas(ours: &Value, live: &Value, path: &str, dropped: &mut Vec<String>) {
    let keeps_others = live[PRESERVE] == true || live.get("additionalProperties").is_some_and(|more| *more != false);
    for (name, field) in ours["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match live["properties"].get(name) {
            Some(other) => compare_schemas(field, other, &path, dropped),
            // These three are part of every object.
            None if keeps_others || matches!(path.as_str(), "apiVersion" | "kind" | "metadata") => {}
            None => dropped.push(path),
        }
    }
    for (key, suffix) in [("items", "[]"), ("additionalProperties", ".*")] {
        if let (Some(field), Some(other)) = (ours.get(key), live.get(key)) {
            compare_schemas(field, other, &format!("{path}{suffix}"), dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::finding::Severity;

    fn snapshot(definition: Value) -> Snapshot {
        Snapshot { definition: Ok(Some(definition)), ..Snapshot::empty("2026-01-01T00:00:00Z".parse().unwrap()) }
    }

    #[test]
    fn our_own_definition_drops_nothing() {
        let found = findings(&snapshot(crd::sidecarset()));
        assert_eq!(found.iter().map(|finding| finding.severity).collect::<Vec<_>>(), [Severity::Ok]);
    }

    #[test]
    fn fields_that_another_definition_drops_are_listed_with_their_paths() {
        let mut definition = crd::sidecarset();
        definition["spec"]["versions"].as_array_mut().unwrap().retain(|version| version["name"] == "v1beta1");
        let spec =
            definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties").unwrap();
        let strategy = spec["injectionStrategy"]["properties"].as_object_mut().unwrap();
        strategy.shift_remove("failurePolicy").unwrap();
        strategy.shift_remove("repair").unwrap();
        // Containers keep what their schema does not know.
        spec["containers"]["items"]["properties"].as_object_mut().unwrap().shift_remove("resourcesPolicy").unwrap();
        let found: Vec<String> = findings(&snapshot(definition)).iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(found.join("\n"), @"
        warning  the definition of SidecarSet does not serve v1alpha1; `pillion install --take-over=kruise` replaces a definition of OpenKruise, `pillion install` one of an older Pillion
        warning  the definition of SidecarSet v1beta1 drops these fields: spec.injectionStrategy.failurePolicy, spec.injectionStrategy.repair; `pillion install --take-over=kruise` replaces a definition of OpenKruise, `pillion install` one of an older Pillion
        ");
    }

    #[test]
    fn schemas_are_compared_through_lists_and_maps() {
        let ours = json!({"properties": {"a": {"items": {"properties": {"b": {}, "c": {}}}}, "m": {"additionalProperties": {"properties": {"x": {}}}}}});
        let rows = [
            (json!({"properties": {"a": {"items": {"properties": {"b": {}}}}}}), vec!["a[].c", "m"]),
            (json!({"properties": {"a": {PRESERVE: true}}, PRESERVE: true}), vec![]),
            (
                json!({"properties": {"a": {"items": {PRESERVE: true}}, "m": {"additionalProperties": {"properties": {}}}}}),
                vec!["m.*.x"],
            ),
        ];
        for (live, expected) in rows {
            let mut dropped = Vec::new();
            compare_schemas(&ours, &live, "", &mut dropped);
            assert_eq!(dropped, expected, "{live}");
        }
    }
}
