//! What a rollout is about: the pods of a SidecarSet and its ControllerRevisions, read once.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Event, Pod as KubernetesPod};
use kube::api::ListParams;
use kube::core::ApiResource;
use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_api::sidecarset::SidecarSet;
use pillion_rollout::{PodView, Target, Texts, history};
use pillion_selector::Selector;
use serde_json::{Value, json};

use crate::cluster::fleet::selector;
use crate::cluster::known;
use crate::cluster::read::{Parts, ReadError, Reader};

/// More pods are not asked about: with so many there is one reason for all.
const MOST_EXPLAINED: usize = 20;

/// The pods and the revisions of a set.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    /// Pods that list the set as injected, in namespaces that it selects.
    pub(crate) pods: Vec<PodView>,
    /// Its ControllerRevisions, from the oldest to the newest.
    pub(crate) revisions: Vec<Value>,
}

impl Fleet {
    pub(crate) async fn read(reader: &Reader, set: &SidecarSet, revisions_namespace: &str) -> Result<Fleet, ReadError> {
        let (pods, revisions) = futures::try_join!(pods(reader, set), revisions(reader, set, revisions_namespace))?;
        Ok(Fleet { pods, revisions })
    }
}

/// The pods of a set, as far as a rollout is concerned.
pub(crate) async fn pods(reader: &Reader, set: &SidecarSet) -> Result<Vec<PodView>, ReadError> {
    let scope = Scope::read(reader, set).await?;
    let mut texts = Texts::default();
    let keep = |object: Value| view(object, set.name(), &scope, &mut texts);
    reader.list(&pod_resource(), None, Parts::All, &pod_selector(set), keep).await
}

pub(crate) fn pod_resource() -> ApiResource {
    ApiResource::erase::<KubernetesPod>(&())
}

/// Asks only for pods that the set may match.
pub(crate) fn pod_selector(set: &SidecarSet) -> ListParams {
    selector(&json!({"spec": {"selector": set.spec.selector}}))
}

/// The view of a pod, if the set was injected into it and selects its namespace.
pub(crate) fn view(object: Value, set: &str, scope: &Scope, texts: &mut Texts) -> Option<PodView> {
    let pod = Pod::new(object).ok()?;
    let view = PodView::new(&pod, texts);
    (view.injected(set).is_some() && scope.includes(&view.namespace)).then_some(view)
}

/// Has the events of pods say why a sidecar does not start, where the pod's status does not. If they may not be read, it counts as starting. Returns
/// whether they say anything.
pub(crate) async fn explain<'p>(reader: &Reader, target: &Target, pods: impl Iterator<Item = &'p mut PodView>) -> bool {
    let resource = ApiResource::erase::<Event>(&());
    let mut is_news = false;
    for pod in pods.filter(|pod| target.is_unexplained(pod)).take(MOST_EXPLAINED) {
        let of_pod = ListParams::default().fields(&format!("involvedObject.uid={}", pod.uid));
        let keep = |event: Value| serde_json::from_value(event).ok();
        let events = reader.list(&resource, Some(&pod.namespace), Parts::All, &of_pod, keep).await.unwrap_or_default();
        if let Some(explained) = target.explained(pod, &events) {
            *pod = explained;
            is_news = true;
        }
    }
    is_news
}

/// The ControllerRevisions of a set, from the oldest to the newest.
pub(crate) async fn revisions(reader: &Reader, set: &SidecarSet, namespace: &str) -> Result<Vec<Value>, ReadError> {
    let of_set = ListParams::default().labels(&format!("{}={}", names::REVISION_OWNER, set.name()));
    let resource = ApiResource::erase::<ControllerRevision>(&());
    let all = reader.list(&resource, Some(namespace), Parts::All, &of_set, Some).await?;
    Ok(history(set, &all).into_iter().cloned().collect())
}

/// The namespaces that a set selects.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    /// It has no `namespaceSelector`.
    All,
    /// These.
    Namespaces(Vec<String>),
}

impl Scope {
    pub(crate) async fn read(reader: &Reader, set: &SidecarSet) -> Result<Scope, ReadError> {
        let Some(selector) = &set.spec.namespace_selector else { return Ok(Scope::All) };
        // A selector that validation would refuse selects nothing.
        let Ok(selector) = Selector::from_label_selector(selector) else { return Ok(Scope::Namespaces(Vec::new())) };
        let (namespaces, _) = known::namespaces(reader, None).await?;
        let matching =
            namespaces.into_iter().filter(|(_, labels)| selector.matches(|key| labels.get(key).map(String::as_str)));
        Ok(Scope::Namespaces(matching.map(|(name, _)| name).collect()))
    }

    fn includes(&self, namespace: &str) -> bool {
        match self {
            Scope::All => true,
            Scope::Namespaces(names) => names.iter().any(|name| name == namespace),
        }
    }
}
