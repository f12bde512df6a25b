//! Garbage collection: objects whose owners are gone go too, before their owners or after them, or forget them.
//!
//! ```text
//!  metadata watches of all resources ─▶ Graph ─▶ Work ─▶ plan ─▶ delete, or change owners and finalizers
//!  Context.pods ────────────────────────┘  ▲                │
//!  CustomResourceDefinitions ─▶ discovery ─┘ (new watches)  └─▶ again, if refused
//! ```

mod collect;
mod graph;
mod plan;
pub(crate) mod resources;
#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use pillion_events::Recorder;
use pillion_informer::watch;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};

use self::graph::{Graph, Object, Work};
use self::resources::Served;
use crate::context::Context;

/// Work waits so long: other watches may be about to report dependents.
const REST: Duration = Duration::from_millis(20);
/// The first and the longest wait after a failure.
const RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_mins(1);
/// So much work is done at the same time.
const AT_ONCE: usize = 64;

/// What the watches and the workers share.
struct Collector {
    client: Client,
    recorder: Recorder,
    graph: Mutex<Graph>,
    served: Mutex<Vec<Arc<Served>>>,
    work: mpsc::UnboundedSender<Work>,
}

impl Collector {
    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn served(&self) -> MutexGuard<'_, Vec<Arc<Served>>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue(&self, work: Vec<Work>) {
        for one in work {
            // The receiver lives as long as the collector runs.
            let _ = self.work.send(one);
        }
    }

    fn observe(&self, object: Object) {
        let work = self.graph().observe(object);
        self.enqueue(work);
    }

    fn forget(&self, uid: &str) {
        let work = self.graph().forget(uid);
        self.enqueue(work);
    }
}

/// Collects until dropped.
pub(crate) async fn run(context: Context) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let collector = Arc::new(Collector {
        client: context.client.clone(),
        recorder: context.recorder("garbage-collector-controller"),
        graph: Mutex::default(),
        served: Mutex::default(),
        work: sender,
    });
    let mut watches = Watches { collector: Arc::clone(&collector), tasks: JoinSet::new(), running: HashMap::new() };
    while let Err(error) = watches.refresh(&context).await {
        tracing::debug!(%error, "discovery failed");
        tokio::time::sleep(RETRY).await;
    }
    tokio::join!(watches.follow_definitions(&context), perform(&collector, receiver));
}

/// One watch for each resource.
struct Watches {
    collector: Arc<Collector>,
    tasks: JoinSet<()>,
    running: HashMap<Arc<Served>, AbortHandle>,
}

impl Watches {
    /// Begins and ends watches as resources come and go. Returns when the new ones know what there is.
    async fn refresh(&mut self, context: &Context) -> kube::Result<()> {
        let served = resources::discover(&context.client).await?;
        let served: Vec<Arc<Served>> = served.into_iter().filter(is_collected).map(Arc::new).collect();
        let current: HashSet<&Arc<Served>> = served.iter().collect();
        self.running.retain(|known, task| {
            let stays = current.contains(known);
            if !stays {
                task.abort();
            }
            stays
        });
        self.collector.served().clone_from(&served);
        let (ready, mut all_ready) = mpsc::channel::<()>(1);
        for served in served.into_iter().filter(|served| !self.running.contains_key(served)).collect::<Vec<_>>() {
            let collector = Arc::clone(&self.collector);
            let ready = ready.clone();
            let task = if served.resource.group.is_empty() && served.resource.plural == "pods" {
                self.tasks.spawn(follow_pods(context.clone(), collector, Arc::clone(&served)))
            } else {
                self.tasks.spawn(follow(collector, Arc::clone(&served), ready))
            };
            self.running.insert(served, task);
        }
        drop(ready);
        // Closed when each watch has dropped its sender.
        all_ready.recv().await;
        Ok(())
    }

    /// Custom resources come and go with their definitions.
    async fn follow_definitions(mut self, context: &Context) {
        let definitions: Api<CustomResourceDefinition> = Api::all(context.client.clone());
        let mut changes = std::pin::pin!(watch(definitions, watcher::Config::default()));
        while changes.next().await.is_some() {
            if let Err(error) = self.refresh(context).await {
                tracing::debug!(%error, "discovery failed");
            }
        }
    }
}

/// Events have no owners, and are many.
fn is_collected(served: &Served) -> bool {
    served.resource.plural != "events"
}

/// Keeps the graph as the API server has the objects of a resource.
async fn follow(collector: Arc<Collector>, served: Arc<Served>, ready: mpsc::Sender<()>) {
    let mut ready = Some(ready);
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(collector.client.clone(), &served.resource);
    let mut events = watch(api, watcher::Config::default()).boxed();
    let (mut known, mut listed) = (HashSet::new(), HashSet::new());
    while let Some(event) = events.next().await {
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(object) => {
                listed.insert(object.uid().unwrap_or_default());
                collector.observe(Object::new(&served, &object.metadata));
            }
            watcher::Event::InitDone => {
                for gone in known.difference(&listed) {
                    collector.forget(gone);
                }
                known = std::mem::take(&mut listed);
                drop(ready.take());
            }
            watcher::Event::Apply(object) => {
                known.insert(object.uid().unwrap_or_default());
                collector.observe(Object::new(&served, &object.metadata));
            }
            watcher::Event::Delete(object) => {
                let uid = object.uid().unwrap_or_default();
                known.remove(&uid);
                collector.forget(&uid);
            }
        }
    }
}

/// Pods are watched already.
async fn follow_pods(context: Context, collector: Arc<Collector>, served: Arc<Served>) {
    let mut changes = std::pin::pin!(context.pods.changes());
    while let Some(change) = changes.next().await {
        // The name may belong to another pod now.
        if let Some(old) = &change.old
            && change.new.as_ref().is_none_or(|new| new.metadata.uid != old.metadata.uid)
        {
            collector.forget(old.metadata.uid.as_deref().unwrap_or_default());
        }
        if let Some(new) = &change.new {
            collector.observe(Object::new(&served, &new.metadata));
        }
    }
}

/// Does the work that comes, each piece once at a time: again where it failed, and where it came again meanwhile.
async fn perform(collector: &Collector, mut receiver: mpsc::UnboundedReceiver<Work>) {
    let places = Semaphore::new(AT_ONCE);
    let mut running = FuturesUnordered::new();
    let mut again: HashMap<Work, bool> = HashMap::new();
    loop {
        tokio::select! {
            Some(work) = receiver.recv() => match again.entry(work.clone()) {
                Entry::Occupied(mut running) => drop(running.insert(true)),
                Entry::Vacant(new) => {
                    new.insert(false);
                    running.push(attempt(collector, &places, work, REST, 0));
                }
            },
            Some((work, failures)) = running.next(), if !running.is_empty() => {
                let came_again = again.remove(&work).unwrap_or(false);
                if failures > 0 || came_again {
                    let wait = if failures == 0 { REST } else { RETRY.saturating_mul(1 << failures.min(10)).min(LONGEST_RETRY) };
                    again.insert(work.clone(), false);
                    running.push(attempt(collector, &places, work, wait, failures));
                }
            }
            else => return,
        }
    }
}

/// Answers how often the work has failed in a row; 0 when it is done.
async fn attempt(collector: &Collector, places: &Semaphore, work: Work, wait: Duration, failures: u32) -> (Work, u32) {
    tokio::time::sleep(wait).await;
    // The semaphore is never closed.
    let _place = places.acquire().await;
    let outcome = match &work {
        Work::Delete(uid) => collect::delete(collector, uid).await,
        Work::Orphan(uid) => collect::orphan(collector, uid).await,
    };
    match outcome {
        Ok(()) => (work, 0),
        Err(error) => {
            tracing::debug!(error = error.message(), ?work, "garbage collection is tried again");
            (work, failures + 1)
        }
    }
}
