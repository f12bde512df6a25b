//! Pods that talk to the API server.

use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use pillion_cluster::image::SCENARIOS;
use serde_json::json;

use super::phase;
use crate::Namespace;

/// A pod patches its own label with its own token, through the `kubernetes` Service.
pub async fn a_pod_labels_itself_with_its_own_token(namespace: &Namespace) -> anyhow::Result<()> {
    namespace.create::<ServiceAccount>(json!({"metadata": {"name": "labeller"}})).await?;
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}]);
    namespace.create::<Role>(json!({"metadata": {"name": "labeller"}, "rules": rules})).await?;
    let binding = json!({
        "metadata": {"name": "labeller"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "labeller"},
        "subjects": [{"kind": "ServiceAccount", "name": "labeller", "namespace": namespace.name()}]
    });
    namespace.create::<RoleBinding>(binding).await?;
    let pod = json!({"metadata": {"name": "app"}, "spec": {
        "serviceAccountName": "labeller", "restartPolicy": "OnFailure",
        "containers": [{
            "name": "client", "image": SCENARIOS, "imagePullPolicy": "Never", "args": ["label", "--pod", "$(POD_NAME)", "labelled-by", "itself"],
            "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
        }]
    }});
    namespace.create::<Pod>(pod).await?;
    let is_labelled = |pod: &Pod| {
        let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get("labelled-by"));
        label.is_some_and(|value| value == "itself") && phase(pod) == "Succeeded"
    };
    namespace.wait_for_pod("app", "labelled by itself", is_labelled).await?;
    Ok(())
}
