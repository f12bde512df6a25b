//! Images that fail, managers that are killed, and an API server that has a bad day.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::ensure;
use axum::http::{Method, Request, Response, StatusCode, header};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::ResourceExt as _;
use kube::client::Body;
use pillion_cluster::image::{PAUSE, SHELL, SHELL_TWO};
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::super::managed::{Replica, managed, with_webhooks};
use super::super::{UNTIL_TERM, is_ready, is_running, restarts, with};
use super::{change, condition_is, pods, rolled_out, set_image, status_has, with_image};
use crate::{Namespace, wait};

/// A sidecar that runs what its image says: where there is no such image, nothing runs.
fn of_image(image: &str) -> Value {
    json!([{"name": "proxy", "image": image, "imagePullPolicy": "Never"}])
}

const BAD: &str = "pillion.invalid/bad:1";
/// A registry at which nothing listens.
const NOWHERE: &str = "127.0.0.1:1/nothing:1";

/// An image that is not there stops the rollout by itself, which says so; the image before undoes it.
pub async fn a_bad_image_pauses_the_rollout_and_is_undone(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 3, json!({"containers": of_image(PAUSE), "updateStrategy": {"maxUnavailable": 1}}))
            .await?;
        change(namespace, json!({"containers": of_image(BAD)})).await?;
        let message = condition_is(namespace, "Blocked", "PausedOnFailure").await?;
        ensure!(message.contains("pillion.dev/resume"), "it does not say how to go on: {message}");
        let counts = (with_image(namespace, PAUSE).await?, with_image(namespace, BAD).await?);
        ensure!(counts == (2, 1), "{counts:?} pods have the good and the bad image");
        change(namespace, json!({"containers": of_image(PAUSE)})).await?;
        status_has(namespace, json!({"updatedPods": 3, "updatedReadyPods": 3})).await
    })
    .await
}

/// The kubelet keeps reporting the end of the old process, with code 0, of a native sidecar whose new image cannot be pulled: only events
/// name the image. The rollout stops nevertheless, and the image before undoes it.
pub async fn a_native_sidecar_that_cannot_be_pulled_pauses_the_rollout(namespace: &Namespace) -> anyhow::Result<()> {
    let native = |image: &str| {
        // Without a command it is the image that says what runs.
        let sidecar = json!({"name": "proxy", "image": image, "args": ["-c", UNTIL_TERM], "restartPolicy": "Always"});
        json!({"initContainers": [with(sidecar, json!({"imagePullPolicy": "IfNotPresent"}))]})
    };
    managed(namespace, async |namespace| {
        let more = json!({"containers": null, "updateStrategy": {"maxUnavailable": 1}});
        rolled_out(namespace, 2, with(native(SHELL), more)).await?;
        change(namespace, native(NOWHERE)).await?;
        let message = condition_is(namespace, "Blocked", "PausedOnFailure").await?;
        let reasons = if namespace.is_real() { &["ImagePullBackOff", "ErrImagePull"][..] } else { &["proxy: "] };
        ensure!(reasons.iter().any(|reason| message.contains(reason)), "it does not name the reason: {message}");
        change(namespace, native(SHELL)).await?;
        status_has(namespace, json!({"updatedPods": 2, "updatedReadyPods": 2})).await
    })
    .await
}

/// In a hot upgrade the other container of the pair gets the image, and when it is ready the one before gets the empty image. One whose
/// image is not there never is ready: the rollout stops, and with the image before the container that went on working is the one that
/// works again.
pub async fn a_hot_upgrade_hands_over_to_a_container_that_is_ready(namespace: &Namespace) -> anyhow::Result<()> {
    let hot = |image: &str| {
        let upgrade = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": PAUSE});
        // Without a command it is the image that says what runs.
        let arguments = json!(["-c", UNTIL_TERM]);
        json!([{"name": "proxy", "image": image, "imagePullPolicy": "Never", "args": arguments, "upgradeStrategy": upgrade}])
    };
    let pairs = async |namespace: &Namespace| -> anyhow::Result<Vec<[String; 2]>> {
        let image = |pod: &Pod, name: &str| {
            let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            containers.find(|container| container.name == name).and_then(|it| it.image.clone()).unwrap_or_default()
        };
        let mut pairs: Vec<_> =
            pods(namespace).await?.iter().map(|pod| ["proxy-1", "proxy-2"].map(|name| image(pod, name))).collect();
        pairs.sort();
        Ok(pairs)
    };
    // After the first upgrade the second container works.
    let pair = |idle: &str| [idle.to_owned(), SHELL_TWO.to_owned()];
    managed(namespace, async |namespace| {
        rolled_out(namespace, 2, json!({"containers": hot(SHELL), "updateStrategy": {"maxUnavailable": 1}})).await?;
        change(namespace, json!({"containers": hot(SHELL_TWO)})).await?;
        status_has(namespace, json!({"updatedPods": 2, "updatedReadyPods": 2})).await?;
        let seen = pairs(namespace).await?;
        ensure!(seen == [pair(PAUSE), pair(PAUSE)], "the first container was to be reset: {seen:?}");
        for pod in pods(namespace).await? {
            let working = pod.annotations().get("kruise.io/sidecarset-working-hotupgrade-container");
            ensure!(working.is_some_and(|text| text.contains("proxy-2")), "{working:?} works");
        }
        change(namespace, json!({"containers": hot(BAD)})).await?;
        condition_is(namespace, "Blocked", "PausedOnFailure").await?;
        let seen = pairs(namespace).await?;
        ensure!(
            seen == [pair(PAUSE), pair(BAD)],
            "one pod was to get the bad image beside the one that works: {seen:?}"
        );
        for pod in pods(namespace).await? {
            ensure!(is_running(&pod, "proxy-2"), "the container that works was stopped");
        }
        status_has(namespace, json!({"matchedPods": 2, "updatedPods": 1, "readyPods": 1, "updatedReadyPods": 0}))
            .await?;
        change(namespace, json!({"containers": hot(SHELL_TWO)})).await?;
        status_has(namespace, json!({"updatedPods": 2, "updatedReadyPods": 2})).await?;
        let seen = pairs(namespace).await?;
        ensure!(seen == [pair(PAUSE), pair(PAUSE)], "the other container was to be reset: {seen:?}");
        for pod in pods(namespace).await? {
            let counts = (restarts(&pod, "proxy-2"), restarts(&pod, "main"));
            ensure!(counts == (Some(1), Some(0)), "restarts are {counts:?}");
        }
        Ok(())
    })
    .await
}

/// The replica that leads is killed in the middle; the other one goes on, and no pod is updated twice.
pub async fn a_manager_that_is_killed_is_replaced_in_the_middle(namespace: &Namespace) -> anyhow::Result<()> {
    with_webhooks(namespace, async |namespace| {
        let first = Replica::start(namespace, "first", namespace.client());
        rolled_out(namespace, 5, json!({"updateStrategy": {"maxUnavailable": 1}})).await?;
        let _second = Replica::start(namespace, "second", namespace.client());
        set_image(namespace, PAUSE).await?;
        wait::until("some pods are updated", async || Ok((with_image(namespace, PAUSE).await? >= 2).then_some(())))
            .await?;
        drop(first);
        status_has(namespace, json!({"updatedPods": 5, "updatedReadyPods": 5})).await?;
        once_each(&pods(namespace).await?)
    })
    .await
}

/// One write in five of the manager is answered with 409, 429 or 500, before or after it is done.
pub async fn an_api_server_that_fails_one_write_in_five_delays_a_rollout(namespace: &Namespace) -> anyhow::Result<()> {
    with_webhooks(namespace, async |namespace| {
        let faults = Arc::new(Mutex::new((fastrand::Rng::with_seed(1), 0)));
        let _replica = Replica::start(namespace, "only", faulty(namespace.client(), Arc::clone(&faults)));
        rolled_out(namespace, 5, json!({"updateStrategy": {"maxUnavailable": 2}})).await?;
        set_image(namespace, PAUSE).await?;
        status_has(namespace, json!({"updatedPods": 5, "updatedReadyPods": 5})).await?;
        ensure!(faults.lock().unwrap_or_else(PoisonError::into_inner).1 > 0, "nothing failed");
        once_each(&pods(namespace).await?)
    })
    .await
}

fn once_each(pods: &[Pod]) -> anyhow::Result<()> {
    for pod in pods {
        let counts = (restarts(pod, "proxy"), restarts(pod, "main"));
        ensure!(is_ready(pod) && counts == (Some(1), Some(0)), "restarts are {counts:?}");
    }
    Ok(())
}

/// A client whose writes fail now and then; those of Leases do not, so that it stays the leader.
fn faulty(client: Client, faults: Arc<Mutex<(fastrand::Rng, u32)>>) -> Client {
    let service = service_fn(move |request: Request<Body>| {
        let is_write = request.method() != Method::GET && !request.uri().path().contains("/leases");
        let fate = {
            let (random, count) = &mut *faults.lock().unwrap_or_else(PoisonError::into_inner);
            let fate = (is_write && random.u8(0..5) == 0).then(|| random.u8(0..4));
            *count += u32::from(fate.is_some());
            fate
        };
        let client = client.clone();
        async move {
            let status = match fate {
                None => return client.send(request).await.map_err(BoxError::from),
                Some(0) => StatusCode::CONFLICT,
                Some(1) => StatusCode::TOO_MANY_REQUESTS,
                Some(2) => StatusCode::INTERNAL_SERVER_ERROR,
                Some(_) => {
                    client.send(request).await?;
                    StatusCode::INTERNAL_SERVER_ERROR
                }
            };
            let reason = status.canonical_reason().unwrap_or_default().replace(' ', "");
            let body = with(
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "a bad day"}),
                json!({"reason": reason, "code": status.as_u16()}),
            );
            let mut response = Response::new(Body::from(body.to_string().into_bytes()));
            *response.status_mut() = status;
            let json = header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            Ok(response)
        }
    });
    Client::new(service, "default")
}
