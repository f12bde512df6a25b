//! `pillion check`: reads a cluster; what it means is decided in `pillion-check`.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use kube::client::Body;
use kube::core::{ApiResource, Status};
use pillion_api::names;
use pillion_check::{Answer, Finding, MissedPods, Replica, Severity, Snapshot, certificate_secret, findings};
use pillion_gates::Gates;
use pillion_install::{ControllerName, HEALTH_PORT, MANAGER, Options, REPLICAS, Right, rights};
use pillion_manager::Kruise;
use pillion_note::Draw;
use serde_json::{Value, json};

use crate::args::{ClusterArgs, ClusterCheckArgs, Output};
use crate::cluster::known::{Known, Wanted};
use crate::cluster::read::{Parts, Reader};
use crate::connect::connect;
use crate::{Failure, block_on, chain, print, print_text, rendered};

/// How many questions about rights are on their way at once.
const AT_ONCE: usize = 8;

/// Checks a cluster and prints the findings.
pub(crate) fn run(args: &ClusterCheckArgs) -> Result<(), Failure> {
    let cluster = ClusterArgs::from(&args.cluster);
    let found = block_on(async {
        let reader = Reader::new(connect(&cluster).await?.client);
        let snapshot = read(&reader, &args.namespace, &args.revisions.revisions_namespace, Timestamp::now()).await?;
        Ok::<_, Failure>(findings(&snapshot))
    })??;
    if args.output == Output::Text {
        print_text(&text(&found))?;
    } else {
        print(&rendered(&json!({"findings": found}), args.output)?)?;
    }
    match found.iter().filter(|finding| finding.severity == Severity::Error).count() {
        0 => Ok(()),
        1 => Err(Failure::no("1 finding needs action")),
        errors => Err(Failure::no(format!("{errors} findings need action"))),
    }
}

fn text(findings: &[Finding]) -> String {
    let mut text = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    text.push('\n');
    text
}

/// Reads what the findings are about; `now` is the time of this machine, for a cluster that does not say its own. What may not be read is part of the answer; a cluster that cannot be reached at all is not.
async fn read(
    reader: &Reader,
    namespace: &str,
    revisions_namespace: &str,
    now: Timestamp,
) -> Result<Snapshot, Failure> {
    let client = reader.client();
    let version = client
        .apiserver_version()
        .await
        .map_err(|error| Failure::no(format!("cannot reach the cluster: {}", chain(&error))))?;
    let now = time_of_the_cluster(&client).await.unwrap_or(now);
    let mut snapshot = Snapshot {
        namespace: namespace.to_owned(),
        version: serde_json::to_value(version).map_err(|error| error.to_string()),
        mutating: list::<MutatingWebhookConfiguration>(reader).await,
        validating: list::<ValidatingWebhookConfiguration>(reader).await,
        kruise: Kruise::find(&client, revisions_namespace).await.map_err(|error| chain(&error)),
        vpa: pillion_rightsizer::Peer::find_all(&client, now).await.map_err(|error| chain(&error)),
        definition: get::<CustomResourceDefinition>(reader, None, &format!("sidecarsets.{}", names::GROUP)).await,
        deployment: get::<Deployment>(reader, Some(namespace), MANAGER).await,
        ..Snapshot::empty(now)
    };
    if snapshot.is_installed() {
        let deployment = snapshot.deployment.as_ref().ok().and_then(Option::as_ref);
        let secret = get::<Secret>(reader, Some(namespace), certificate_secret(deployment)).await;
        snapshot.secret = secret;
        snapshot.replicas = replicas(&client, namespace).await;
        snapshot.separate = separate(reader, namespace).await;
        snapshot.leases = leases(reader, namespace, &ControllerName::ALL.map(ControllerName::lease)).await;
        sidecar_sets(reader, revisions_namespace, &mut snapshot).await;
    } else {
        let options = Options {
            namespace: namespace.to_owned(),
            revisions_namespace: revisions_namespace.to_owned(),
            ..Options::default()
        };
        snapshot.rights = reviewed(&client, rights(&options)).await;
    }
    Ok(snapshot)
}

/// What time it is for the API server. Leases are renewed by the clocks of the cluster, and the one of this machine may differ from them by
/// more than a Lease is valid.
async fn time_of_the_cluster(client: &Client) -> Option<Timestamp> {
    let request = http::Request::get("/version").body(Body::empty()).ok()?;
    let answer = client.send(request).await.ok()?;
    rfc2822::DateTimeParser::new().parse_timestamp(answer.headers().get(http::header::DATE)?).ok()
}

/// The replicas that serve webhooks, and what they answer through the API server.
async fn replicas(client: &Client, namespace: &str) -> Answer<Vec<Replica>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let of_manager = ListParams::default().labels(REPLICAS);
    let found = pods.list(&of_manager).await.map_err(|error| chain(&error))?;
    let mut replicas = Vec::new();
    for pod in &found.items {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let is_ready = conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True");
        let ask = async |path: &str| {
            let path = format!("/api/v1/namespaces/{namespace}/pods/{name}:{HEALTH_PORT}/proxy/{path}");
            answer(client, &path).await
        };
        let readiness = ask("readyz").await;
        let certificate = ask("metrics").await.ok().and_then(|metrics| certificate_expiry(&metrics));
        replicas.push(Replica { name, is_ready, readiness, certificate });
    }
    Ok(replicas)
}

/// Returns what a replica answers through the API server, with any status, or the `Status` in which the API server says why it does not ask the replica.
async fn answer(client: &Client, path: &str) -> Answer<String> {
    let request = http::Request::get(path).body(Body::empty()).map_err(|error| error.to_string())?;
    let answer = client.send(request).await.map_err(|error| chain(&error))?;
    let is_success = answer.status().is_success();
    let body = answer.into_body().collect_bytes().await.map_err(|error| chain(&error))?;
    let text = String::from_utf8_lossy(&body).trim().to_owned();
    match serde_json::from_str::<Status>(&text) {
        Ok(status) if !is_success => Err(status.message),
        _ => Ok(text),
    }
}

/// When the certificate expires that a replica serves, by its metrics. Zero is that of a replica that has none yet.
fn certificate_expiry(metrics: &str) -> Option<Timestamp> {
    let mut lines = metrics.lines();
    let seconds = lines.find_map(|line| line.strip_prefix("pillion_certificate_expiry_timestamp_seconds "))?;
    let seconds = seconds.trim().parse().ok().filter(|seconds| *seconds > 0)?;
    Timestamp::from_second(seconds).ok()
}

/// The Deployments of parts that run apart.
async fn separate(reader: &Reader, namespace: &str) -> Answer<Vec<Value>> {
    let mut found = Vec::new();
    for part in ControllerName::ALL.into_iter().filter(|part| *part != ControllerName::Webhook) {
        found.extend(get::<Deployment>(reader, Some(namespace), &format!("pillion-{part}")).await?);
    }
    Ok(found)
}

async fn get<K>(reader: &Reader, namespace: Option<&str>, name: &str) -> Answer<Option<Value>>
where
    K: kube::Resource<DynamicType = ()>,
{
    reader.get(&ApiResource::erase::<K>(&()), namespace, name).await.map_err(|error| error.to_string())
}

async fn list<K>(reader: &Reader) -> Answer<Vec<Value>>
where
    K: kube::Resource<DynamicType = ()>,
{
    let listed = reader.list(&ApiResource::erase::<K>(&()), None, Parts::All, &ListParams::default(), Some).await;
    listed.map_err(|error| error.to_string())
}

async fn leases(reader: &Reader, namespace: &str, names: &[&str]) -> Answer<BTreeMap<String, Lease>> {
    let mut leases = BTreeMap::new();
    for name in names {
        let lease = get::<Lease>(reader, Some(namespace), name).await?;
        if let Some(lease) = lease.and_then(|lease| serde_json::from_value(lease).ok()) {
            leases.insert((*name).to_owned(), lease);
        }
    }
    Ok(leases)
}

/// Asks the API server about each right.
async fn reviewed(client: &Client, rights: Vec<Right>) -> Answer<Vec<(Right, bool)>> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = |right: Right| {
        let reviews = reviews.clone();
        async move {
            let attributes = ResourceAttributes {
                group: Some(right.group.clone()),
                resource: Some(right.resource.clone()),
                namespace: right.namespace.clone(),
                verb: Some(right.verb.to_owned()),
                ..ResourceAttributes::default()
            };
            let spec = SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            };
            let question = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
            let answer = reviews.create(&PostParams::default(), &question).await.map_err(|error| chain(&error))?;
            Ok((right, answer.status.is_some_and(|status| status.allowed)))
        }
    };
    let answers: Vec<Answer<(Right, bool)>> =
        futures::stream::iter(rights).map(review).buffered(AT_ONCE).collect().await;
    answers.into_iter().collect()
}

/// SidecarSets, and the pods that should have their sidecars.
async fn sidecar_sets(reader: &Reader, revisions_namespace: &str, snapshot: &mut Snapshot) {
    let (gates, draw) = (Gates::default(), Draw::default());
    let wanted = Wanted { namespace: None, revisions_namespace, gates, wrap_image: None, draw };
    let known = match Known::read(reader, wanted).await {
        Ok(known) => known,
        Err(error) => {
            (snapshot.sets, snapshot.missed) = (Err(error.to_string()), Err("SidecarSets are not known".to_owned()));
            return;
        }
    };
    let mut missed = MissedPods::default();
    let look = |pod: Value| -> Option<()> {
        missed.look_at(pod, &known.offline.snapshot, &known.offline.excluded_namespaces);
        None
    };
    let pods = ApiResource::erase::<Pod>(&());
    let looked = reader.list(&pods, None, Parts::All, &ListParams::default(), look).await;
    snapshot.missed = looked.map(|_| missed).map_err(|error| error.to_string());
    (snapshot.sets, snapshot.unusable) = (Ok(known.sets), known.warnings);
}

#[cfg(test)]
mod tests {
    use axum::extract::Request;
    use axum::http::StatusCode;
    use axum::response::IntoResponse as _;

    use super::*;
    use crate::cluster::testing::{SIDECARSETS, TestCluster, pod, proxy, sidecarset};

    const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

    async fn checked(cluster: &TestCluster, forbidden: &'static [&'static str]) -> String {
        let reader = cluster.reader_without(forbidden);
        let snapshot = read(&reader, "pillion-system", "kruise-system", cluster.now()).await.unwrap();
        text(&findings(&snapshot))
    }

    #[test]
    fn the_certificate_of_a_replica_is_read_from_its_metrics() {
        let expiry =
            |value: &str| certificate_expiry(&format!("# EOF\npillion_certificate_expiry_timestamp_seconds {value}\n"));
        assert_eq!(expiry("1767225600"), "2026-01-01T00:00:00Z".parse().ok());
        for value in ["0", "", "soon", "99999999999999999999", "999999999999999"] {
            assert_eq!(expiry(value), None, "{value}");
        }
        assert_eq!(certificate_expiry(""), None);
    }

    /// The API server is on a network of its own: it asks no pod, and says so in a Status. What a replica says itself has any status.
    #[tokio::test]
    async fn a_replica_that_the_api_server_cannot_ask_is_told_from_one_that_answers() {
        let replica = |(name, ready): (&str, &str)| json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        let pods = [("asked", "True"), ("ill", "False"), ("hidden", "True"), ("hidden-ill", "False")].map(replica);
        let answer = move |request: Request| async move {
            let path = request.uri().path();
            if path.ends_with("/pods") {
                let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": pods});
                return axum::Json(list).into_response();
            }
            let refusal = json!({
                "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "reason": "BadRequest", "code": 400,
                "message": "address not allowed",
            });
            match path {
                _ if path.contains("/hidden") => (StatusCode::BAD_REQUEST, axum::Json(refusal)).into_response(),
                _ if path.contains("/ill:") => {
                    (StatusCode::SERVICE_UNAVAILABLE, "the caches are not synced\n").into_response()
                }
                _ => "ok".into_response(),
            }
        };
        let client = Client::new(axum::Router::new().fallback(answer), "default");
        let snapshot = Snapshot {
            deployment: Ok(Some(Value::Null)),
            replicas: replicas(&client, "pillion-system").await,
            ..Snapshot::empty(Timestamp::UNIX_EPOCH)
        };
        let found: Vec<Finding> = findings(&snapshot).into_iter().filter(|finding| finding.check == "caches").collect();
        insta::assert_snapshot!(text(&found), @"
        ok       the caches of replica asked are synced
        warning  replica ill: the caches are not synced; see `kubectl --namespace=pillion-system logs ill`
        ok       the caches of replica hidden are synced: it is Ready (the API server cannot ask it for details: address not allowed)
        warning  replica hidden-ill is not Ready, and the API server cannot ask it why: address not allowed; see `kubectl --namespace=pillion-system logs hidden-ill`
        ");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_without_pillion_is_ready_for_it_and_nothing_is_written() {
        let cluster = TestCluster::bare().await;
        insta::assert_snapshot!(checked(&cluster, &[]).await, @"
        ok       Kubernetes v1.35.8+pillion is supported
        ok       you have the 94 rights that an installation needs
        ok       no OpenKruise serves SidecarSets
        ok       no other webhook changes new pods
        ok       SidecarSet is not defined yet; `pillion install` defines it
        ok       Pillion is not installed in namespace pillion-system
        ");
        let writes = cluster.requests().into_iter().filter(|request| !request.starts_with("GET"));
        assert!(writes.into_iter().all(|request| request.contains("selfsubjectaccessreviews")));
    }

    /// A cluster with an OpenKruise that runs.
    async fn with_kruise() -> TestCluster {
        let cluster = TestCluster::bare().await;
        cluster.namespace("kruise-system").await;
        let lease = json!({"metadata": {"name": "kruise-manager"}, "spec": {
            "holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}});
        cluster.create("/apis/coordination.k8s.io/v1/namespaces/kruise-system/leases", lease).await;
        let webhook = |name: &str, group: &str, resource: &str| {
            json!({
                "name": name, "clientConfig": {"service": {"namespace": "kruise-system", "name": "kruise-webhook-service"}},
                "rules": [{"apiGroups": [group], "apiVersions": ["*"], "resources": [resource], "operations": ["CREATE"]}],
                "sideEffects": "None", "admissionReviewVersions": ["v1"],
            })
        };
        let webhooks =
            [webhook("mpod.kb.io", "", "pods"), webhook("msidecarset.kb.io", "apps.kruise.io", "sidecarsets")];
        let configuration =
            json!({"metadata": {"name": "kruise-mutating-webhook-configuration"}, "webhooks": webhooks});
        cluster.create(CONFIGURATIONS, configuration).await;
        cluster
    }

    #[tokio::test(start_paused = true)]
    async fn an_installed_kruise_is_found_with_its_definition_and_its_webhooks() {
        let text = checked(&with_kruise().await, &[]).await;
        assert!(text.contains("error    OpenKruise serves SidecarSets; to take them over, stop it"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_runs_does_not_look_dead_where_the_clock_of_this_machine_is_ahead() {
        let cluster = with_kruise().await;
        let ahead = cluster.now() + jiff::SignedDuration::from_mins(1);
        let rows = [
            (cluster.reader_with_dates(), "OpenKruise serves SidecarSets"),
            // A cluster that does not say what time it is.
            (cluster.reader(), "OpenKruise does not run"),
        ];
        for (reader, expected) in rows {
            let snapshot = read(&reader, "pillion-system", "kruise-system", ahead).await.unwrap();
            let text = text(&findings(&snapshot));
            assert!(text.contains(expected), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pods_without_their_sidecars_are_counted_and_named() {
        let cluster = TestCluster::managed().await;
        cluster.create(SIDECARSETS, sidecarset("mesh", json!([proxy("envoy:1")]))).await;
        cluster.create("/api/v1/namespaces/default/pods", pod("web-0")).await;
        assert!(checked(&cluster, &[]).await.contains("ok       no pod lacks its sidecars; checked: 1"));
        cluster.delete(&format!("{CONFIGURATIONS}/pillion")).await;
        cluster.create("/api/v1/namespaces/default/pods", pod("web-1")).await;
        cluster.create(CONFIGURATIONS, json!({"metadata": {"name": "pillion"}, "webhooks": [{
            "name": "pods.pillion.dev", "clientConfig": {"url": "https://pillion.invalid/mutate-pod"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }]})).await;
        insta::assert_snapshot!(checked(&cluster, &["secrets/pillion-webhook-certificate"]).await, @r#"
        ok       Kubernetes v1.35.8+pillion is supported
        ok       no OpenKruise serves SidecarSets
        ok       no other webhook changes new pods
        ok       the definition of SidecarSet has every field
        warning  there is no Deployment pillion-system/pillion-manager: the webhooks are served at https://pillion.invalid/mutate-pod by a manager elsewhere; if Pillion is installed in another namespace, give --namespace
        error    MutatingWebhookConfiguration "pillion" lacks webhooks: sidecarsets.pillion.dev; the manager's leader registers them, and its log says why it does not; if the configuration is gone, `pillion install` creates it
        ok       ValidatingWebhookConfiguration "pillion" has the manager's webhooks
        ok       SidecarSets are converted between versions by the manager
        warning  not checked: cannot get secrets "pillion-webhook-certificate" in namespace "pillion-system": the right to get secrets is missing: pillion-webhook-certificate is forbidden: User "jane" cannot list resource "pillion-webhook-certificate"
        ok       SidecarSets report no problem; checked: 1
        error    1 pod lacks the sidecars of SidecarSet "mesh": default/web-1; recreate the pods
        "#);
    }
}
