//! What is done for a pod: each thing in a task of its own, whose outcome is news.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Lifecycle, LifecycleHandler, Pod};
use pillion_lifecycle::{Action, Hook};
use pillion_probe::Outcome;
use serde_json::Value;

use super::Worker;
use crate::facts::Fact;
use crate::news::{News, Unprepared};
use crate::pods::{Record, Sandbox};
use crate::probe::Kind;
use crate::probe::check;
use crate::runtime::{self, ContainerId, Runtime, Signal};
use crate::state::Inner;
use crate::volumes::{self, Mounted};
use crate::{container, events, hooks, resize, status};

/// So many writes to the API server are under way at once.
pub(super) const WRITES: usize = 128;

/// What most actions need to know.
struct Scene {
    pod: Arc<Pod>,
    id: ContainerId,
    pod_ip: String,
}

impl<R: Runtime> Worker<R> {
    fn spawn<F, T>(&mut self, task: impl FnOnce(Arc<Inner<R>>) -> F, reported: impl FnOnce(T) -> News + Send + 'static)
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let (task, news) = (task(Arc::clone(&self.inner)), self.news.clone());
        self.tasks.spawn(async move {
            // The worker is gone when the node is.
            let _ = news.send(reported(task.await));
        });
    }

    pub(super) fn act(&mut self, uid: &str, record: &Record, action: Action) {
        let attempt = record.facts.get(action.container()).and_then(|facts| facts.current.as_ref());
        let Some(attempt) = attempt.map(|attempt| attempt.number) else { return };
        let id = ContainerId { pod_uid: uid.to_owned(), container: action.container().to_owned(), attempt };
        let scene = Scene { pod: Arc::clone(&record.pod), id, pod_ip: record.pod_ip() };
        match action {
            Action::Start { .. } => self.start(scene),
            Action::PostStart { .. } => self.post_start(scene),
            Action::PreStop { until, .. } => {
                let left = until.duration_since(self.inner.config.clock.now());
                self.pre_stop(scene, left.try_into().unwrap_or_default());
            }
            Action::Terminate { .. } => self.signal(scene.id, Signal::Term),
            Action::Kill { .. } => self.signal(scene.id, Signal::Kill),
            Action::Resize { resources, .. } => self.resize(scene, container::limits(Some(&resources))),
            // A start cannot be taken back; what comes of it is known soon.
            Action::Cancel { .. } | Action::Stop { .. } | Action::Hold { .. } => {}
        }
    }

    fn start(&mut self, scene: Scene) {
        let id = scene.id.clone();
        let resources = container::find(&scene.pod, &id.container).map(|one| one.resources.clone().unwrap_or_default());
        let started = move |outcome| match outcome {
            Ok(started) => News::Container(id, Fact::Started(started, resources)),
            Err(refusal) => News::Container(id, Fact::Refused(refusal)),
        };
        let start = |inner: Arc<Inner<R>>| async move {
            container::start(&inner.config, &inner.runtime, &scene.pod, scene.id, &scene.pod_ip).await
        };
        self.spawn(start, started);
    }

    fn post_start(&mut self, scene: Scene) {
        let id = scene.id.clone();
        let run = |inner: Arc<Inner<R>>| async move {
            inner
                .hook(&scene, |lifecycle| lifecycle.post_start.as_ref(), "FailedPostStartHook", "PostStartHook failed")
                .await
        };
        self.spawn(run, |hook| News::Container(id, Fact::PostStart(hook)));
    }

    fn pre_stop(&mut self, scene: Scene, within: std::time::Duration) {
        let id = scene.id.clone();
        let run = move |inner: Arc<Inner<R>>| async move {
            let hook =
                inner.hook(&scene, |lifecycle| lifecycle.pre_stop.as_ref(), "FailedPreStopHook", "PreStopHook failed");
            // A hook that has used up all the time is left alone, as the kubelet does it.
            let gave_up = |_| Hook::Done { at: inner.config.clock.now() };
            tokio::time::timeout(within, hook).await.unwrap_or_else(gave_up)
        };
        self.spawn(run, |hook| News::Container(id, Fact::PreStop(hook)));
    }

    fn signal(&mut self, id: ContainerId, signal: Signal) {
        let inner = Arc::clone(&self.inner);
        self.tasks.spawn(async move { inner.runtime.signal(&id, signal).await });
    }

    fn resize(&mut self, scene: Scene, limits: runtime::Limits) {
        let inner = Arc::clone(&self.inner);
        self.tasks.spawn(async move {
            if let Err(refusal) = inner.runtime.resize(&scene.id, limits).await {
                let generation = scene.pod.metadata.generation.unwrap_or_default();
                let message = resize::message("Pod resize error", &scene.pod, generation, Some(&refusal.message));
                inner.config.recorder.warning(&events::pod(&scene.pod), "ResizeError", message);
            }
        });
    }

    pub(super) fn probe(&mut self, uid: &str, record: &Record, container: String, attempt: u32, kind: Kind) {
        let (pod, pod_ip) = (Arc::clone(&record.pod), record.pod_ip());
        let id = ContainerId { pod_uid: uid.to_owned(), container, attempt };
        let of = id.clone();
        let run = move |inner: Arc<Inner<R>>| async move {
            let container = container::find(&pod, &id.container)?;
            let spec = kind.spec(container)?;
            let outcome = check::check(&inner.runtime, &id, container, spec, &pod_ip).await;
            let about = events::container(&pod, &id.container);
            let (name, recorder) = (kind.name(), &inner.config.recorder);
            match outcome {
                Outcome::Success => Some(true),
                Outcome::Warning(what) => {
                    recorder.warning(&about, "ProbeWarning", format!("{name} probe warning: {what}"));
                    Some(true)
                }
                Outcome::Failure(what) => {
                    recorder.warning(&about, "Unhealthy", format!("{name} probe failed: {what}"));
                    Some(false)
                }
                Outcome::Error(what) => {
                    let message = format!("{name} probe errored and resulted in unknown state: {what}");
                    recorder.warning(&about, "Unhealthy", message);
                    None
                }
            }
        };
        self.spawn(run, move |passed| News::Probed(of, kind, passed));
    }

    pub(super) fn prepare(&mut self, uid: &str, record: &mut Record, tries: u32) {
        record.sandbox = Sandbox::Preparing { tries };
        if tries == 1 && !record.facts.is_empty() {
            let message = "Pod sandbox changed, it will be killed and re-created.";
            self.inner.config.recorder.normal(&events::pod(&record.pod), "SandboxChanged", message);
        }
        let (pod, marked, uid) = (Arc::clone(&record.pod), record.marked.clone(), uid.to_owned());
        let prepare = |inner: Arc<Inner<R>>| async move {
            let mounted = volumes::mount(&inner.config, &pod, &Mounted::default(), !R::SIMULATED).await;
            let mounted = mounted.map_err(Unprepared::Volumes)?;
            let sandbox = runtime::Sandbox { pod, volumes: mounted.volumes.clone(), marked };
            let address = inner.runtime.prepare(sandbox).await.map_err(Unprepared::Runtime)?;
            Ok((address, mounted))
        };
        self.spawn(prepare, |outcome| News::Sandbox(uid, outcome));
    }

    pub(super) fn release(&mut self, uid: &str) {
        let (inner, uid) = (Arc::clone(&self.inner), uid.to_owned());
        self.tasks.spawn(async move { inner.runtime.release(&uid).await });
    }

    pub(super) fn tear_down(&mut self, uid: &str) {
        let (inner, uid) = (Arc::clone(&self.inner), uid.to_owned());
        self.tasks.spawn(async move { inner.runtime.tear_down(&uid).await });
    }

    pub(super) fn keep_only(&mut self, uids: BTreeSet<String>) {
        let inner = Arc::clone(&self.inner);
        self.tasks.spawn(async move { inner.runtime.keep_only(uids).await });
    }

    pub(super) fn write(&mut self, uid: &str, pod: Arc<Pod>, change: Value) {
        let (uid, writes) = (uid.to_owned(), Arc::clone(&self.writes));
        let write = |inner: Arc<Inner<R>>| async move {
            // The semaphore is never closed.
            let _permit = writes.acquire_owned().await;
            Box::new(status::write(&inner.config.client, &pod, change).await)
        };
        self.spawn(write, |outcome| News::Written(uid, outcome));
    }

    pub(super) fn delete(&mut self, uid: &str, pod: Arc<Pod>) {
        let (reported, uid, writes) = (uid.to_owned(), uid.to_owned(), Arc::clone(&self.writes));
        let delete = |inner: Arc<Inner<R>>| async move {
            inner.runtime.tear_down(&uid).await;
            let _permit = writes.acquire_owned().await;
            let outcome = status::delete(&inner.config.client, &pod).await;
            outcome.inspect_err(|error| tracing::debug!(%error, "an ended pod was not deleted")).is_ok()
        };
        self.spawn(delete, |done| News::Deleted(reported, done));
    }
}

impl Record {
    /// The pod's address; one on the host's network has that of the node.
    fn pod_ip(&self) -> String {
        self.place.pod_ips.first().or(self.place.host_ips.first()).cloned().unwrap_or_default()
    }
}

impl<R: Runtime> Inner<R> {
    /// Runs a hook of a container. Its words may hold secrets, so an event only says that it failed.
    async fn hook(
        &self,
        scene: &Scene,
        choose: impl Fn(&Lifecycle) -> Option<&LifecycleHandler>,
        reason: &str,
        message: &str,
    ) -> Hook {
        let found = container::find(&scene.pod, &scene.id.container);
        let handler = found.and_then(|one| one.lifecycle.as_ref()).and_then(choose);
        let Some((container, handler)) = found.zip(handler) else { return Hook::Done { at: self.config.clock.now() } };
        match hooks::run(&self.runtime, &scene.id, &scene.pod, container, &scene.pod_ip, handler).await {
            Ok(()) => Hook::Done { at: self.config.clock.now() },
            Err(error) => {
                tracing::debug!(%error, "a hook failed");
                self.config.recorder.warning(&events::container(&scene.pod, &container.name), reason, message);
                Hook::Failed { at: self.config.clock.now(), message: error }
            }
        }
    }
}
