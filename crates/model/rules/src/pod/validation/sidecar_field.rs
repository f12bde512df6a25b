//! Where `containers[].sidecar` (KEP-0008) makes no sense.

use serde_json::Value;

use super::report::{Errors, Report};
use crate::field::Path;
use crate::pod::read::list;
use crate::pod::sidecar_field::SIDECAR_FIELD;

/// Checks the field: not all containers are sidecars, and none of the init containers is.
pub(super) fn validate(errors: &mut Errors, spec: &Value, path: &Path) {
    let is_marked = |container: &Value| container[SIDECAR_FIELD] == true;
    let regular = list(spec, "containers");
    if !regular.is_empty() && regular.iter().all(is_marked) {
        let rule = "at least one container must do the pod's work: remove `sidecar: true` from one of them";
        errors.forbidden(&path.child("containers"), rule);
    }
    for (i, container) in list(spec, "initContainers").iter().enumerate() {
        if is_marked(container) {
            let rule = "may not be set for init containers, which run one after the other; `restartPolicy: Always` makes a sidecar of one";
            errors.forbidden(&path.child("initContainers").index(i).child(SIDECAR_FIELD), rule);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_of_sidecars_alone_and_marked_init_containers_are_refused_with_the_path() {
        let errors = |spec: Value| -> Vec<String> {
            let mut pod = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": spec});
            crate::pod::apply_defaults(&mut pod);
            crate::pod::validate(&pod).iter().map(ToString::to_string).collect()
        };
        let side = json!({"name": "side", "image": "i", "sidecar": true});
        let main = json!({"name": "main", "image": "i"});
        assert_eq!(errors(json!({"containers": [main, side]})), [""; 0]);
        assert_eq!(
            errors(json!({"containers": [side]})),
            [
                "spec.containers: Forbidden: at least one container must do the pod's work: remove `sidecar: true` from one of them"
            ]
        );
        let refused = errors(json!({"initContainers": [side], "containers": [main]}));
        assert_eq!(refused.len(), 1);
        assert!(
            refused[0].starts_with("spec.initContainers[0].sidecar: Forbidden: may not be set for init containers")
        );
    }
}
