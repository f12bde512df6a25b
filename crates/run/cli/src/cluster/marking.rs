//! What the manager of a cluster decides with, as far as it shows: in its arguments, in the version of its API server, and in the schema of pods.

use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::ListParams;
use kube::core::ApiResource;
use pillion_gates::{Gates, Settings};
use pillion_lifecycle::marks::Means;
use pillion_manager::{NAMESPACE, sidecar_field_is_served};
use serde_json::Value;

use super::read::{Parts, Reader};
use crate::args::UP_GATES;

/// How the version of the embedded API server ends.
const EMBEDDED: &str = "+pillion";

/// The gates over `defaults`, and what marks of sidecars are honoured with: as the manager has them, and then as the user says.
pub(crate) async fn marking(
    reader: &Reader,
    defaults: Gates,
    user: &Settings,
    wrap_image: Option<&str>,
) -> (Gates, Means) {
    let client = reader.client();
    let (field, arguments) = futures::join!(sidecar_field_is_served(&client), arguments(reader));
    // Whoever may not see either is asked to say it: the flags of the manager are flags of the command, too.
    let field = field.unwrap_or(false);
    let values = |flag: &'static str| {
        let arguments = arguments.iter().flatten();
        arguments.filter_map(move |argument| argument.strip_prefix(flag)?.strip_prefix('='))
    };
    let of_manager = if arguments.is_some() {
        let settings = values("--feature-gates").filter_map(|text| text.parse::<Settings>().ok());
        settings.fold(Settings::default(), |all, one| all.and(&one))
    } else if is_up(&client).await {
        // Its API server has the same gates, and shows one of them.
        parsed(UP_GATES).and(&parsed(&format!("SidecarField={field}")))
    } else {
        parsed(if field { "SidecarField=true" } else { "" })
    };
    let wrap_image = wrap_image.or_else(|| values("--wrap-image").next_back()).map(str::to_owned);
    (defaults.with(&of_manager).with(user), Means { field, wrap_image })
}

fn parsed(settings: &str) -> Settings {
    settings.parse().unwrap_or_default()
}

/// Whether this is the cluster of `pillion up`: its manager is part of that program, and has no Deployment.
async fn is_up(client: &Client) -> bool {
    client.apiserver_version().await.is_ok_and(|version| version.git_version.ends_with(EMBEDDED))
}

/// The arguments of the manager that serves the webhook; `None` if there is no Deployment of it, or if it may not be read.
async fn arguments(reader: &Reader) -> Option<Vec<String>> {
    let of_manager = |deployment: Value| -> Option<Vec<String>> {
        let containers = deployment["spec"]["template"]["spec"]["containers"].as_array()?;
        let arguments = containers.iter().find(|container| container["name"] == "manager")?["args"].as_array()?;
        Some(arguments.iter().filter_map(|argument| argument.as_str().map(str::to_owned)).collect())
    };
    let resource = ApiResource::erase::<Deployment>(&());
    let all = reader.list(&resource, Some(NAMESPACE), Parts::All, &ListParams::default(), of_manager).await.ok()?;
    (!all.is_empty()).then(|| all.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use pillion_gates::Gate;
    use serde_json::json;

    use super::*;
    use crate::cluster::testing::TestCluster;

    async fn enabled(cluster: &TestCluster, user: &str) -> Vec<Gate> {
        let (gates, _) = marking(&cluster.reader(), Gates::default(), &parsed(user), None).await;
        Gate::ALL.into_iter().filter(|gate| gates.is_enabled(*gate)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_gates_are_those_of_the_manager_and_what_the_user_says_comes_last() {
        let cluster = TestCluster::bare().await;
        cluster.namespace("pillion-system").await;
        let args = json!([
            "--feature-gates=SidecarField=true,NativeSidecar=true",
            "--feature-gates=EnableSortSidecarContainerByName=true,NativeSidecar=false",
        ]);
        let labels = json!({"app": "pillion"});
        let spec = json!({"containers": [{"name": "manager", "image": "pillion:1", "args": args}]});
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        let deployment = json!({"metadata": {"name": "pillion"}, "spec": {"selector": {"matchLabels": labels}, "template": template}});
        cluster.create("/apis/apps/v1/namespaces/pillion-system/deployments", deployment).await;
        assert_eq!(enabled(&cluster, "").await, [Gate::EnableSortSidecarContainerByName, Gate::SidecarField]);
        let user = "SidecarField=false,InPlace=true";
        assert_eq!(enabled(&cluster, user).await, [Gate::EnableSortSidecarContainerByName, Gate::InPlace]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_manager_of_pillion_up_has_the_gates_of_that() {
        let cluster = TestCluster::managed_with(Gates::default().with(&parsed(UP_GATES))).await;
        assert_eq!(enabled(&cluster, "").await, [Gate::NativeSidecar, Gate::SidecarField]);
        assert_eq!(enabled(&cluster, "NativeSidecar=false").await, [Gate::SidecarField]);
        // `pillion up --feature-gates=SidecarField=false`
        let cluster = TestCluster::managed().await;
        assert_eq!(enabled(&cluster, "").await, [Gate::NativeSidecar]);
    }
}
