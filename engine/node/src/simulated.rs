//! Containers that are nothing but times and exit codes.

mod load;
mod script;

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use pillion_api::names::SIMULATE;
use pillion_clock::Clock;
use pillion_lifecycle::Marked;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

use crate::images::ImageMap;
use crate::runtime::{
    ContainerId, ContainerSpec, ExecError, ExecOutput, Exit, Limits, LogOptions, Refusal, Runtime, Sandbox, Signal,
    Started, Usage, Volume,
};
use load::Load;
use script::{Behaviour, Ends};

/// The first address that a simulated pod gets: 10.244.0.2.
const FIRST_ADDRESS: u32 = 0x0af4_0002;

/// Runs no processes. Containers of pods with `restartPolicy: Always`, native and marked sidecars run for ever, all others end well after a second;
/// the annotation `pillion.dev/simulate` says otherwise:
///
/// ```text
/// main: 30s exit 1, proxy: forever ignores TERM, worker: 5m OOMKilled, web: forever uses 250m 64Mi, proxy: 1s exit 1 with envoy:bad,
/// log: forever uses 50m..400m 64Mi..256Mi over 1h
/// ```
pub struct SimulatedRuntime {
    clock: Clock,
    images: ImageMap,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    exits: Option<UnboundedSender<Exit>>,
    addresses: u32,
    pods: HashMap<String, SimulatedPod>,
    running: HashMap<ContainerId, Running>,
}

/// What is kept of a pod: only what its containers are started by.
struct SimulatedPod {
    /// Containers that run for ever unless the script says otherwise.
    lasting: BTreeSet<String>,
    script: Option<Box<str>>,
}

struct Running {
    since: Timestamp,
    ignores_term: bool,
    load: Load,
    /// Ends it when its time has come; one that runs for ever has none.
    timer: Option<AbortHandle>,
}

impl SimulatedRuntime {
    /// A runtime whose containers end by this clock.
    pub fn new(clock: Clock) -> SimulatedRuntime {
        SimulatedRuntime { clock, images: ImageMap::default(), state: Arc::default() }
    }

    /// The same with images, some of which cannot be pulled. What they run does not matter here.
    #[must_use]
    pub fn with_images(self, images: ImageMap) -> SimulatedRuntime {
        SimulatedRuntime { images, ..self }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Ends a container when its time has come.
    fn timer(&self, id: &ContainerId, ends: Ends) -> Option<AbortHandle> {
        let Ends::After { duration, code, oom_killed } = ends else { return None };
        let (clock, state, id) = (self.clock, Arc::clone(&self.state), id.clone());
        let task = tokio::spawn(async move {
            tokio::time::sleep(duration).await;
            lock(&state).end(&id, code, oom_killed, clock.now());
        });
        Some(task.abort_handle())
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn end(&mut self, id: &ContainerId, code: i32, oom_killed: bool, at: Timestamp) {
        let Some(running) = self.running.remove(id) else { return };
        if let Some(timer) = running.timer {
            timer.abort();
        }
        if let Some(exits) = &self.exits {
            // The node may be gone already: nobody wants to know then.
            let _ = exits.send(Exit { id: id.clone(), code, oom_killed, message: None, at });
        }
    }
}

impl Runtime for SimulatedRuntime {
    const SIMULATED: bool = true;

    fn version(&self) -> String {
        concat!("pillion-simulated://", env!("CARGO_PKG_VERSION")).to_owned()
    }

    fn pull_error(&self, image: &str) -> Option<String> {
        self.images.pull_error(image)
    }

    fn report_exits(&self, exits: UnboundedSender<Exit>) {
        self.state().exits = Some(exits);
    }

    async fn prepare(&self, sandbox: Sandbox) -> Result<IpAddr, Refusal> {
        let uid = sandbox.pod.metadata.uid.clone().unwrap_or_default();
        let mut state = self.state();
        state.pods.insert(uid, SimulatedPod::of(&sandbox.pod, &sandbox.marked));
        state.addresses += 1;
        Ok(Ipv4Addr::from_bits(FIRST_ADDRESS + state.addresses - 1).into())
    }

    async fn update_volume(&self, _pod_uid: &str, _volume: Volume) -> Result<(), Refusal> {
        Ok(())
    }

    async fn start(&self, container: ContainerSpec) -> Result<Started, Refusal> {
        let id = container.id;
        let mut state = self.state();
        let behaviour = state
            .pods
            .get(&id.pod_uid)
            .map_or(Ok(Behaviour::default()), |pod| pod.behaviour(&id.container, &container.image));
        let behaviour =
            behaviour.map_err(|error| Refusal { reason: "CreateContainerError".into(), message: error.to_string() })?;
        let timer = self.timer(&id, behaviour.ends);
        let running =
            Running { since: self.clock.now(), ignores_term: behaviour.ignores_term, load: behaviour.load, timer };
        let name = format!("pillion://{}/{}/{}", id.pod_uid, id.container, id.attempt);
        state.running.insert(id, running);
        Ok(Started { id: name, image_id: format!("pillion://{}", container.image) })
    }

    async fn signal(&self, container: &ContainerId, signal: Signal) {
        let now = self.clock.now();
        let mut state = self.state();
        let ignored = state.running.get(container).is_none_or(|running| running.ignores_term);
        match signal {
            Signal::Term if ignored => {}
            Signal::Term => state.end(container, 143, false, now),
            Signal::Kill => state.end(container, 137, false, now),
        }
    }

    async fn exec(
        &self,
        _container: &ContainerId,
        _command: &[String],
        _timeout: Option<Duration>,
    ) -> Result<ExecOutput, ExecError> {
        Ok(ExecOutput::default())
    }

    async fn resize(&self, _container: &ContainerId, _limits: Limits) -> Result<(), Refusal> {
        Ok(())
    }

    async fn usage(&self, container: &ContainerId) -> Option<Usage> {
        let now = self.clock.now();
        let state = self.state();
        let running = state.running.get(container)?;
        let ran = Duration::try_from(now.duration_since(running.since)).unwrap_or_default();
        let load = &running.load;
        Some(Usage { cpu: load.cpu(ran), working_set: load.memory(ran), since: running.since, at: now })
    }

    async fn logs(&self, _container: &ContainerId, _options: LogOptions) -> Result<BoxStream<'static, Bytes>, Refusal> {
        Ok(stream::empty().boxed())
    }

    async fn release(&self, pod_uid: &str) {
        self.state().pods.remove(pod_uid);
    }

    async fn tear_down(&self, pod_uid: &str) {
        let now = self.clock.now();
        let mut state = self.state();
        if state.pods.remove(pod_uid).is_some() {
            let left: Vec<ContainerId> = state.running.keys().filter(|id| id.pod_uid == pod_uid).cloned().collect();
            for id in left {
                state.end(&id, 137, false, now);
            }
        }
    }
}

impl SimulatedPod {
    fn of(pod: &Pod, marked: &Marked) -> SimulatedPod {
        let spec = pod.spec.as_ref();
        let always = spec.is_some_and(|spec| matches!(spec.restart_policy.as_deref(), None | Some("Always")));
        let lasts = |container: &&Container| always || marked.contains(&container.name);
        let regular = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default().iter().filter(lasts);
        let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
        let sidecars = init.iter().filter(|container| container.restart_policy.as_deref() == Some("Always"));
        let script = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(SIMULATE));
        SimulatedPod {
            lasting: regular.chain(sidecars).map(|container| container.name.clone()).collect(),
            script: script.map(|script| script.as_str().into()),
        }
    }

    fn behaviour(&self, container: &str, image: &str) -> Result<Behaviour, script::ScriptError> {
        let default = if self.lasting.contains(container) { Ends::Never } else { Ends::default() };
        script::behaviour(self.script.as_deref().unwrap_or_default(), container, image, default)
    }
}
