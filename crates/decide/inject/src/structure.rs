//! What is injected into one pod: containers, volumes, secrets and annotations.

use std::sync::Arc;

use jiff::Timestamp;
use pillion_api::pod::{Container, Object, name_of};
use pillion_api::record::hot_upgrade::pair as pair_names;
use pillion_api::sidecarset::{PodInjectPolicy, SidecarContainer};
use pillion_gates::{Gate, Gates};
use pillion_note::{ContainerList, Denied, Draft, Draw, Note, Position, Reason, Subject};
use serde_json::Value;

use crate::accounts::Accounts;
use crate::body::Body;
use crate::injected::{Injected, SetMark, Sidecar};
use crate::policy::Policy;
use crate::selection::Selection;
use crate::share::App;
use crate::{accounts, build, hot_upgrade, metadata, pod_fields, record, revision};

/// What injection is decided by.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The SidecarSets that the pod gets.
    pub selection: &'a Selection,
    /// The service accounts that may be injected.
    pub accounts: &'a Accounts,
    /// The random number and the quota grants.
    pub draw: &'a Draw,
    /// The feature gates.
    pub gates: Gates,
    /// The time of admission; the template of a workload has none, and gives the same result at any time.
    pub now: Option<Timestamp>,
}

/// Injects everything that the pod's SidecarSets say, except the resources that [`size`](crate::size) computes afterwards.
///
/// # Errors
/// A pinned revision is missing, an annotation of the pod cannot be read or merged, or the pod cannot get what a set requires of it.
pub fn inject(draft: &mut Draft<'_>, context: &Context<'_>) -> Result<Injected, Denied> {
    let mut bodies = Vec::new();
    for entry in &context.selection.sets {
        bodies.push(revision::choose(entry, draft, context.draw)?);
    }
    for body in &bodies {
        metadata::patch_pod_metadata(&body.set, draft)?;
    }
    let app = app(draft, &bodies);
    let mut plan = Plan::default();
    for body in &bodies {
        plan.add_set(body, &app, draft);
    }
    if plan.init_containers.is_empty() && plan.containers.is_empty() {
        return Ok(Injected::default());
    }
    // Init containers run one after the other: their order is by name, whatever set they come from.
    plan.init_containers.sort_by(|a, b| a.name().cmp(b.name()));
    if context.gates.is_enabled(Gate::EnableSortSidecarContainerByName) {
        plan.containers.sort_by(|a, b| a.name().cmp(b.name()));
    }
    let mut injected = Injected::default();
    for planned in plan.init_containers {
        injected.sidecars.push(place(planned, ContainerList::InitContainers, draft));
    }
    for planned in plan.containers {
        injected.sidecars.push(place(planned, ContainerList::Containers, draft));
    }
    draft.deduplicate_image_pull_secrets();
    for secret in plan.image_pull_secrets {
        draft.add_image_pull_secret(secret);
    }
    pod_fields::write(draft, &bodies)?;
    accounts::write(draft, &bodies, context.accounts)?;
    record::write(draft, &bodies, context.now)?;
    hot_upgrade::write(draft, &plan.hot_upgrades);
    Ok(injected)
}

/// The app's own containers. One that a sidecar of the same name replaces is not among them.
fn app<'a>(draft: &Draft<'a>, bodies: &[&Body]) -> App<'a> {
    let injected: Vec<String> =
        bodies.iter().flat_map(|body| body.set.spec.containers.iter().flat_map(names_in_pod)).collect();
    let own =
        |container: &Container<'_>| !container.is_injected() && !injected.iter().any(|name| name == container.name());
    App { containers: draft.pod().containers().filter(own).collect() }
}

/// The names that a sidecar's containers have in a pod.
fn names_in_pod(sidecar: &SidecarContainer) -> Vec<String> {
    if sidecar.is_hot_upgrade() { pair_names(sidecar.name()).to_vec() } else { vec![sidecar.name().to_owned()] }
}

/// The containers and secrets of all sets, before they are put in their places.
#[derive(Default)]
struct Plan {
    init_containers: Vec<Planned>,
    containers: Vec<Planned>,
    image_pull_secrets: Vec<Object>,
    /// The sidecars that are injected as a pair.
    hot_upgrades: Vec<String>,
}

/// One container that is to be injected.
struct Planned {
    set: String,
    container: Object,
    position: Position,
    policy: Option<Arc<Policy>>,
    mark: Option<SetMark>,
}

impl Planned {
    fn name(&self) -> &str {
        name_of(&self.container)
    }
}

impl Plan {
    fn add_set<'a>(&mut self, body: &Body, app: &App<'a>, draft: &mut Draft<'a>) {
        let spec = &body.set.spec;
        for (sidecar, policy) in spec.init_containers.iter().zip(&body.init_containers) {
            // A plain init container ends before there is anything to hand over.
            let is_pair = sidecar.is_hot_upgrade() && sidecar.is_native_sidecar();
            let planned = self.planned(sidecar, policy.as_ref(), body, app, is_pair, draft);
            self.init_containers.extend(planned);
        }
        for (sidecar, policy) in spec.containers.iter().zip(&body.containers) {
            let planned = self.planned(sidecar, policy.as_ref(), body, app, sidecar.is_hot_upgrade(), draft);
            self.containers.extend(planned);
        }
        for secret in &spec.image_pull_secrets {
            let is_meant = |known: &Object| name_of(known) == secret.name;
            if !draft.image_pull_secrets().chain(&self.image_pull_secrets).any(is_meant) {
                self.image_pull_secrets
                    .push(Object::from_iter([("name".to_owned(), Value::String(secret.name.clone()))]));
            }
        }
        if !spec.init_containers.is_empty() || !spec.containers.is_empty() {
            let all = spec.init_containers.iter().chain(&spec.containers).map(SidecarContainer::name);
            let message = format!("injects {}", all.collect::<Vec<_>>().join(", "));
            draft.note(Note::info(Subject::sidecar_set(body.set.name()), Reason::Injected, message));
        }
    }

    fn planned<'a>(
        &mut self,
        sidecar: &SidecarContainer,
        policy: Option<&Arc<Policy>>,
        body: &Body,
        app: &App<'a>,
        is_pair: bool,
        draft: &mut Draft<'a>,
    ) -> Vec<Planned> {
        let set = body.set.name();
        let shared = app.shared_with(sidecar, set, draft);
        let container = build::container(sidecar, &shared);
        add_volumes(sidecar, body, draft);
        let position = match sidecar.pod_inject_policy {
            Some(PodInjectPolicy::BeforeAppContainer) => Position::First,
            _ => Position::Last,
        };
        let mark = SetMark::of(sidecar);
        let planned = |container| Planned {
            set: set.to_owned(),
            container,
            position,
            policy: policy.cloned(),
            mark: mark.clone(),
        };
        if is_pair {
            self.hot_upgrades.push(sidecar.name().to_owned());
            hot_upgrade::pair(sidecar, &container).into_iter().map(planned).collect()
        } else {
            vec![planned(container)]
        }
    }
}

/// Adds the volumes that the sidecar itself mounts. Of volumes with the same name the pod's own wins, then the first set's.
fn add_volumes(sidecar: &SidecarContainer, body: &Body, draft: &mut Draft<'_>) {
    let own = Container(&sidecar.container);
    for mount in own.volume_mounts().chain(own.volume_devices()) {
        let name = name_of(mount);
        let Some(volume) = body.set.spec.volumes.iter().find(|volume| name_of(volume) == name) else { continue };
        let is_same = draft.volumes().find(|known| name_of(known) == name).map(|known| known == volume);
        match is_same {
            None => draft.add_volume(volume.clone()),
            Some(true) => {}
            Some(false) => {
                let message = format!("mounts the volume {name:?} that the pod has already, not the SidecarSet's own");
                let subject = Subject::sidecar_set(body.set.name());
                draft.note(Note::info(subject, Reason::VolumeKept, message).about(sidecar.name()));
            }
        }
    }
}

/// Puts a container in its place: that of the pod's container of the same name, if there is one.
fn place(planned: Planned, list: ContainerList, draft: &mut Draft<'_>) -> Sidecar {
    let Planned { set, container, position, policy, mark } = planned;
    let key = match draft.original(list, name_of(&container)) {
        Some(key) => {
            if draft.is_own(key) {
                let message =
                    "replaces the pod's own container of the same name; rename one of them if that is not intended";
                let note = Note::warning(Subject::sidecar_set(&set), Reason::ContainerReplaced, message);
                draft.note(note.about(name_of(&container)));
            }
            draft.replace(key, container);
            key
        }
        None => draft.insert(list, position, container),
    };
    Sidecar { key, set, policy, mark }
}
