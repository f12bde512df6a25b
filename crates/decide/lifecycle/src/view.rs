//! The containers of a pod side by side with what became of them.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    Container, ContainerStatus, Lifecycle, PodSpec, PodStatus, ResourceRequirements, VolumeMount,
};

use crate::facts::{Attempt, ContainerFacts, Hook, Snapshot, State, Why};
use crate::role::{self, Role};

/// One container of the spec.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) role: Role,
    pub(crate) name: &'a str,
    pub(crate) image: &'a str,
    /// Absent in ephemeral containers, which have no policy, probes, hooks or resources.
    pub(crate) spec: Option<&'a Container>,
    pub(crate) mounts: Option<&'a [VolumeMount]>,
    pub(crate) facts: Option<&'a ContainerFacts>,
    /// What the pod's status said of it last.
    pub(crate) old: Option<&'a ContainerStatus>,
}

/// What the latest container that really came into being does. A refused start leaves none behind, and an init container of a sandbox
/// that is gone has to run again, as if it had never run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Latest<'a> {
    Never,
    Starting,
    Running(&'a Attempt),
    Exited(&'a Attempt, i32),
}

impl<'a> View<'a> {
    pub(crate) fn current(&self) -> Option<&'a Attempt> {
        self.facts?.current.as_ref()
    }

    pub(crate) fn previous(&self) -> Option<&'a Attempt> {
        self.facts?.previous.as_ref()
    }

    pub(crate) fn latest(&self) -> Latest<'a> {
        let refused = |attempt: &&Attempt| matches!(attempt.state, State::Refused { .. });
        let attempt = if self.current().as_ref().is_some_and(refused) { self.previous() } else { self.current() };
        let purged = |attempt: &Attempt| attempt.in_earlier_sandbox && self.role.is_init();
        match attempt.map(|attempt| (attempt, &attempt.state)) {
            Some((attempt, _)) if purged(attempt) => Latest::Never,
            Some((_, State::Starting)) => Latest::Starting,
            Some((attempt, State::Running { .. })) => Latest::Running(attempt),
            Some((attempt, State::Exited { code, .. })) => Latest::Exited(attempt, *code),
            Some((_, State::Refused { .. })) | None => Latest::Never,
        }
    }

    /// The attempt, if there is a process or soon will be.
    pub(crate) fn alive(&self) -> Option<&'a Attempt> {
        self.current().filter(|attempt| matches!(attempt.state, State::Starting | State::Running { .. }))
    }

    fn lifecycle(&self) -> Option<&'a Lifecycle> {
        self.spec?.lifecycle.as_ref()
    }

    pub(crate) fn has_post_start(&self) -> bool {
        self.lifecycle().is_some_and(|lifecycle| lifecycle.post_start.is_some())
    }

    pub(crate) fn has_pre_stop(&self) -> bool {
        self.lifecycle().is_some_and(|lifecycle| lifecycle.pre_stop.is_some())
    }

    /// The start is not over: the process runs, but its `postStart` hook has not succeeded.
    pub(crate) fn in_post_start(&self) -> bool {
        let succeeded = |hook: &Hook| matches!(hook, Hook::Done { .. });
        self.has_post_start()
            && self.current().is_some_and(
                |attempt| matches!(&attempt.state, State::Running { post_start, .. } if !succeeded(post_start)),
            )
    }

    /// A kubelet would do nothing else for the pod meanwhile: it starts and stops single containers one by one.
    pub(crate) fn occupies_the_node(&self) -> bool {
        self.alive().is_some_and(|attempt| {
            matches!(attempt.state, State::Starting)
                || self.in_post_start()
                || attempt.stopping.as_ref().is_some_and(|stopping| stopping.why != Why::Pod)
        })
    }

    pub(crate) fn resources(&self) -> ResourceRequirements {
        self.spec.and_then(|spec| spec.resources.clone()).unwrap_or_default()
    }

    pub(crate) fn field_path(&self) -> String {
        let field = match self.role {
            Role::Init | Role::NativeSidecar => "initContainers",
            Role::Work | Role::MarkedSidecar => "containers",
            Role::Ephemeral => "ephemeralContainers",
        };
        format!("spec.{field}{{{}}}", self.name)
    }
}

/// A pod and its containers: init containers, regular ones, ephemeral ones, each in the order of the spec.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) snapshot: &'a Snapshot<'a>,
    pub(crate) views: Vec<View<'a>>,
    /// When the work was done, in a pod whose marked sidecars are to end then.
    pub(crate) work_done_at: Option<Timestamp>,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot<'a>) -> Self {
        let mut views = Vec::new();
        let status = snapshot.pod.status.as_ref();
        if let Some(spec) = snapshot.pod.spec.as_ref() {
            let old = status.and_then(|status| status.init_container_statuses.as_deref());
            let init = |container| view(role::of_init(container), container, old, snapshot);
            views.extend(spec.init_containers.iter().flatten().map(init));
            let old = status.and_then(|status| status.container_statuses.as_deref());
            let regular =
                |container| view(role::of_regular(container, spec, snapshot.marked), container, old, snapshot);
            views.extend(spec.containers.iter().map(regular));
            let old = status.and_then(|status| status.ephemeral_container_statuses.as_deref());
            views.extend(spec.ephemeral_containers.iter().flatten().map(|ephemeral| View {
                role: Role::Ephemeral,
                name: &ephemeral.name,
                image: ephemeral.image.as_deref().unwrap_or_default(),
                spec: None,
                mounts: ephemeral.volume_mounts.as_deref(),
                facts: snapshot.containers.get(&ephemeral.name),
                old: find(old, &ephemeral.name),
            }));
        }
        Self { snapshot, views, work_done_at: None }
    }

    pub(crate) fn of(&self, roles: &'static [Role]) -> impl DoubleEndedIterator<Item = &View<'a>> {
        self.views.iter().filter(|view| roles.contains(&view.role))
    }

    pub(crate) fn init(&self) -> impl DoubleEndedIterator<Item = &View<'a>> {
        self.of(&[Role::Init, Role::NativeSidecar])
    }

    pub(crate) fn regular(&self) -> impl DoubleEndedIterator<Item = &View<'a>> {
        self.of(&[Role::Work, Role::MarkedSidecar])
    }

    pub(crate) fn any_alive(&self) -> bool {
        self.views.iter().any(|view| view.alive().is_some())
    }

    pub(crate) fn spec(&self) -> Option<&'a PodSpec> {
        self.snapshot.pod.spec.as_ref()
    }

    pub(crate) fn old(&self) -> Option<&'a PodStatus> {
        self.snapshot.pod.status.as_ref()
    }

    pub(crate) fn deleted(&self) -> bool {
        self.snapshot.pod.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.snapshot.now
    }

    /// The pod as kubelets write it into messages: `name_namespace(uid)`.
    pub(crate) fn full_name(&self) -> String {
        let metadata = &self.snapshot.pod.metadata;
        let part = |part: &'a Option<String>| part.as_deref().unwrap_or_default();
        format!("{}_{}({})", part(&metadata.name), part(&metadata.namespace), part(&metadata.uid))
    }
}

fn view<'a>(
    role: Role,
    spec: &'a Container,
    old: Option<&'a [ContainerStatus]>,
    snapshot: &'a Snapshot<'a>,
) -> View<'a> {
    View {
        role,
        name: &spec.name,
        image: spec.image.as_deref().unwrap_or_default(),
        spec: Some(spec),
        mounts: spec.volume_mounts.as_deref(),
        facts: snapshot.containers.get(&spec.name),
        old: find(old, &spec.name),
    }
}

fn find<'a>(statuses: Option<&'a [ContainerStatus]>, name: &str) -> Option<&'a ContainerStatus> {
    statuses?.iter().find(|status| status.name == name)
}

/// So many seconds later.
pub(crate) fn after(moment: Timestamp, seconds: i64) -> Timestamp {
    moment.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// The whole seconds that have passed.
pub(crate) fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs().max(0)
}
