//! How the marked sidecars of a pod that is there end: what admission made of them.

use pillion_api::names;
use pillion_api::pod::Container;
use pillion_api::record::sidecars::{Method, SidecarRecord};
use serde_json::Value;

use super::table::MARKS;
use super::{BY_FIELD, BY_PHASE, BY_WRAPPER, KEPT_BY_PHASE, table};

/// How the marked sidecars of a pod, as JSON, end: a line for each mode. Nothing of a pod without any.
///
/// ```
/// let pod = serde_json::json!({
///     "metadata": {"annotations": {"pillion.dev/sidecars": "log"}},
///     "spec": {"initContainers": [{"name": "log", "restartPolicy": "Always"}], "containers": [{"name": "main"}]},
/// });
/// assert_eq!(pillion_lifecycle::marks::modes_of(&pod), ["sidecar log: mode Native: it is a native sidecar, and the kubelet ends it after the work"]);
/// ```
pub fn modes_of(pod: &Value) -> Vec<String> {
    let annotation = |key| pod["metadata"]["annotations"].get(key).and_then(Value::as_str);
    let record = annotation(names::SIDECAR_RECORD).and_then(|text| text.parse::<SidecarRecord>().ok());
    let listed = |list: &str| {
        let containers = pod["spec"][list].as_array().into_iter().flatten().filter_map(Value::as_object);
        containers.map(Container).collect::<Vec<_>>()
    };
    let names = |containers: &[Container<'_>]| containers.iter().map(|one| one.name().to_owned()).collect::<Vec<_>>();
    let mut modes = Vec::new();
    let mut say = |sidecars: &[String], mode: &str| {
        if let [first, more @ ..] = sidecars {
            let plural = if more.is_empty() { "" } else { "s" };
            let sidecars = more.iter().fold(first.clone(), |all, name| format!("{all}, {name}"));
            modes.push(format!("sidecar{plural} {sidecars}: mode {mode}"));
        }
    };
    let mut by_field = listed("containers");
    by_field.retain(|container| MARKS[0].is_on(*container));
    say(&names(&by_field), &format!("field: {BY_FIELD}"));
    // Of native sidecars there is a record only where one of them may fail the pod.
    let marked: Vec<&str> = table::listed(annotation(names::SIDECARS).unwrap_or_default()).collect();
    let recorded = record.as_ref().filter(|record| record.method == Method::Native);
    let is_recorded = |name: &str| recorded.is_some_and(|record| record.sidecars.iter().any(|one| one == name));
    let mut native = listed("initContainers");
    native.retain(|container| {
        container.is_native_sidecar() && (marked.contains(&container.name()) || is_recorded(container.name()))
    });
    let fail_pod = record.as_ref().map(|record| record.fail_pod.join(", ")).unwrap_or_default();
    let fails =
        if fail_pod.is_empty() { fail_pod } else { format!("; an error of {fail_pod} before that fails the pod") };
    say(&names(&native), &format!("Native: it is a native sidecar, and the kubelet ends it after the work{fails}"));
    if let Some(record) = &record {
        match record.method {
            Method::Native => {}
            Method::Wrap => say(&record.sidecars, &format!("Strict: {BY_WRAPPER}")),
            Method::Phase => say(&record.sidecars, &format!("Strict: {BY_PHASE}: {KEPT_BY_PHASE}")),
        }
    }
    modes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_record_says_what_the_spec_does_not() {
        let of = |record: &str| {
            modes_of(&json!({
                "metadata": {"annotations": {names::SIDECAR_RECORD: record}},
                "spec": {"containers": [{"name": "main"}, {"name": "log"}, {"name": "web"}]},
            }))
        };
        let phase = r#"{"method":"Phase","sidecars":["log","web"]}"#;
        assert_eq!(
            of(phase),
            [
                "sidecars log, web: mode Strict: the manager writes the pod's terminal phase: all rules of KEP-0008 hold but the reason Completed"
            ]
        );
        let wrap = r#"{"method":"Wrap","sidecars":["log"]}"#;
        assert_eq!(
            of(wrap),
            ["sidecar log: mode Strict: pillion-wrap runs all commands of the pod: all rules of KEP-0008 hold"]
        );
        assert_eq!(of("nonsense"), [""; 0]);
        let native = json!({
            "metadata": {"annotations": {names::SIDECAR_RECORD: r#"{"method":"Native","sidecars":["log"],"failPod":["log"]}"#}},
            "spec": {"initContainers": [{"name": "log", "restartPolicy": "Always"}], "containers": [{"name": "main"}]},
        });
        assert!(modes_of(&native)[0].ends_with("; an error of log before that fails the pod"));
        let field = json!({"spec": {"containers": [{"name": "main"}, {"name": "log", "sidecar": true}]}});
        assert_eq!(
            modes_of(&field),
            ["sidecar log: mode field: the node honours containers[].sidecar: all rules of KEP-0008 hold"]
        );
    }
}
