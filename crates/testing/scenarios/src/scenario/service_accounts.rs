//! The accounts of pods, and their tokens.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, PostParams};
use pillion_cluster::image::SCENARIOS;
use serde_json::json;

use super::{phase, shell};
use crate::{Namespace, wait};

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

/// A token that is bound to a pod names its account, and ends with the pod.
pub async fn a_token_ends_with_the_pod_that_it_is_bound_to(namespace: &Namespace) -> anyhow::Result<()> {
    // No node is called that, so the pod waits, and its deletion is at once.
    let pod = json!({"metadata": {"name": "app"}, "spec": {
        "nodeSelector": {"kubernetes.io/hostname": "nowhere"}, "containers": [shell("main", "true")]
    }});
    let pod = namespace.create::<Pod>(pod).await?;
    let request = json!({"metadata": {}, "spec": {
        "audiences": [], "expirationSeconds": 600,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "app", "uid": pod.metadata.uid}
    }});
    let accounts = namespace.api::<ServiceAccount>();
    let request = serde_json::from_value(request)?;
    let issued = accounts.create_token_request("default", &PostParams::default(), &request).await?;
    let token = issued.status.context("a token that was asked for is in the status")?.token;

    let status = review(namespace, &token).await?;
    let account = format!("system:serviceaccount:{}:default", namespace.name());
    let user = status.user.context("the token is nobody's")?;
    ensure!(user.username.as_deref() == Some(&account), "the token is of {:?}", user.username);
    let bound = user.extra.unwrap_or_default().remove("authentication.kubernetes.io/pod-name");
    ensure!(bound.as_deref() == Some(&["app".to_owned()]), "the token is bound to {bound:?}");

    namespace.api::<Pod>().delete("app", &DeleteParams::default().grace_period(0)).await?;
    // A real API server remembers for a while that a token was good.
    wait::until("the end of the token", async || {
        Ok((review(namespace, &token).await?.authenticated != Some(true)).then_some(()))
    })
    .await
}

async fn review(namespace: &Namespace, token: &str) -> anyhow::Result<TokenReviewStatus> {
    let reviews: Api<TokenReview> = Api::all(namespace.client());
    let review = TokenReview {
        spec: TokenReviewSpec { token: Some(token.to_owned()), audiences: None },
        ..TokenReview::default()
    };
    let reviewed = reviews.create(&PostParams::default(), &review).await?;
    reviewed.status.context("a review has a status")
}
