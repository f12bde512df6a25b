//! Pods as the controllers see them.

use std::sync::{LazyLock, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod as KubePod;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use pillion_api::pod::Pod;
use pillion_rollout::{PodView, Texts};

/// Texts that pods have in common are in memory once.
static TEXTS: LazyLock<Mutex<Texts>> = LazyLock::new(Mutex::default);

/// What is kept of a pod.
#[derive(Debug)]
pub(crate) struct CachedPod(pub(crate) PodView);

impl pillion_informer::View for CachedPod {
    type Object = DynamicObject;

    fn of(object: DynamicObject) -> Option<CachedPod> {
        let pod = Pod::new(serde_json::to_value(object).ok()?).ok()?;
        Some(CachedPod(PodView::new(&pod, &mut TEXTS.lock().unwrap_or_else(PoisonError::into_inner))))
    }
}

/// All pods.
pub(crate) fn api(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &ApiResource::erase::<KubePod>(&()))
}
