//! What a rollout reads of a container.

use std::fmt;

use jiff::SignedDuration;

use super::lenient::List;
use super::parts::{Container, ContainerStatus, PodParts, Terminated, Waiting};
use super::time;
use crate::text::{Text, Texts};

/// A container or native sidecar of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerView {
    pub name: Text,
    /// The image in the spec.
    pub image: Text,
    /// The image that the kubelet reports; `None` if it has not reported on the container.
    pub reported_image: Option<Text>,
    /// The image ID that the kubelet reports.
    pub image_id: Option<Text>,
    /// How often it was restarted.
    pub restarts: u32,
    /// Whether it is a native sidecar.
    pub is_native: bool,
    /// Whether it is ready.
    pub is_ready: bool,
    /// Why it does not run.
    pub trouble: Option<Trouble>,
    /// Set if its process has ended and the kubelet reports nothing about the next one.
    pub ended: Option<Ended>,
}

/// How long the last process of a container ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Less than ten minutes. If the container was restarted before, the kubelet puts the next start off.
    Early,
    /// So long that the kubelet starts the container again at once, or for an unknown time.
    Late,
}

/// A kubelet forgets the restarts of a container that has run for this long.
const BACK_OFF_RESETS_AFTER: SignedDuration = SignedDuration::from_mins(10);

impl Ended {
    fn of(terminated: &Terminated<'_>) -> Option<Ended> {
        terminated.exit_code.integer()?;
        let ran = time(&terminated.started_at).zip(time(&terminated.finished_at));
        let is_early = ran.is_some_and(|(from, to)| to.duration_since(from) < BACK_OFF_RESETS_AFTER);
        Some(if is_early { Ended::Early } else { Ended::Late })
    }
}

/// Why a container does not run. States that usually last only seconds, such as `ErrImagePull`, are not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// It ended again and again.
    CrashLoopBackOff,
    /// Its image could not be pulled more than once.
    ImagePullBackOff,
    /// Its image is not a valid reference.
    InvalidImageName,
    /// Its image is not on the node and must not be pulled.
    ErrImageNeverPull,
    /// What it refers to does not exist.
    CreateContainerConfigError,
    /// The runtime could not create it.
    CreateContainerError,
    /// The runtime could not start it.
    RunContainerError,
}

impl Trouble {
    /// The trouble with an image. The kubelet reports why it could not pull an image until it has pulled another, so a message that
    /// does not name `image` is about one before.
    fn of(waiting: &Waiting<'_>, image: &str) -> Option<Trouble> {
        let message = waiting.message.text();
        let is_about_image = message.is_empty() || message.contains(image);
        let trouble = Trouble::of_reason(waiting.reason.text())?;
        (is_about_image || !trouble.is_about_pulling()).then_some(trouble)
    }

    fn is_about_pulling(self) -> bool {
        matches!(self, Trouble::ImagePullBackOff | Trouble::InvalidImageName | Trouble::ErrImageNeverPull)
    }

    pub(crate) fn of_reason(reason: &str) -> Option<Trouble> {
        Some(match reason {
            "CrashLoopBackOff" => Trouble::CrashLoopBackOff,
            "ImagePullBackOff" => Trouble::ImagePullBackOff,
            "InvalidImageName" => Trouble::InvalidImageName,
            "ErrImageNeverPull" => Trouble::ErrImageNeverPull,
            "CreateContainerConfigError" => Trouble::CreateContainerConfigError,
            "CreateContainerError" => Trouble::CreateContainerError,
            "RunContainerError" => Trouble::RunContainerError,
            _ => return None,
        })
    }
}

/// The kubelet's own word.
impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The containers and native sidecars of a pod, and whether the kubelet has reported on each of them.
pub(super) fn read(pod: &PodParts<'_>, texts: &mut Texts) -> (Box<[ContainerView]>, bool) {
    let (spec, status) = (&pod.spec, &pod.status);
    let native = spec.init_containers.iter().filter(|container| container.is_native_sidecar());
    let native = native.map(|container| (container, &status.init_container_statuses, true));
    let regular = spec.containers.iter().map(|container| (container, &status.container_statuses, false));
    let containers: Box<[ContainerView]> = native
        .chain(regular)
        .map(|(container, statuses, is_native)| view(container, statuses, is_native, texts))
        .collect();
    let is_reported = containers.iter().all(|container| container.reported_image.is_some())
        && spec.containers.len() == status.container_statuses.len();
    (containers, is_reported)
}

fn view(
    container: &Container<'_>,
    statuses: &List<ContainerStatus<'_>>,
    is_native: bool,
    texts: &mut Texts,
) -> ContainerView {
    let (name, image) = (container.name.text(), container.image.text());
    let status = statuses.iter().find(|status| status.name.text() == name);
    ContainerView {
        reported_image: status.map(|status| texts.get(status.image.text())),
        image_id: status.map(|status| texts.get(status.image_id.text())),
        restarts: status.and_then(|status| status.restart_count.integer()?.try_into().ok()).unwrap_or_default(),
        is_native,
        is_ready: status.is_some_and(|status| status.ready.is_true()),
        trouble: status.and_then(|status| Trouble::of(&status.state.waiting, image)),
        ended: status.and_then(|status| Ended::of(&status.state.terminated)),
        image: texts.get(image),
        name: texts.get(name),
    }
}
