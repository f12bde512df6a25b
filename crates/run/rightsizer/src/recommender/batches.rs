//! When the recommender learns: in each pass, and at once from OOM kills and evictions for memory.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{FutureExt as _, Stream, StreamExt as _, future, stream};
use pillion_informer::{Cache, Outcome, Reconciler};
use pillion_pods::{CachedPod, SizedPod};
use pillion_rightsize::{MemoryEviction, new_ooms};
use tokio::time::{MissedTickBehavior, interval};

use super::{Recommender, evictions};
use crate::config::Config;

/// What is learned in one go. One batch follows the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Batch {
    /// The usage of all workloads.
    Pass,
    /// OOM kills.
    Kills,
    /// Evictions for memory.
    Evictions,
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Batch::Pass => "all workloads",
            Batch::Kills => "OOM kills",
            Batch::Evictions => "evictions for memory",
        })
    }
}

/// What has happened and is not learned yet.
#[derive(Default)]
struct Happened {
    /// Pods with containers that were OOM killed, as they were then: they may be gone soon.
    killed: Vec<Arc<SizedPod>>,
    evicted: Vec<MemoryEviction>,
}

/// Learns until dropped.
pub(super) async fn run(recommender: &tokio::sync::Mutex<Recommender<'_>>, pods: &Cache<CachedPod>, config: &Config) {
    let happened = &Mutex::new(Happened::default());
    let reconciler = Reconciler::new("recommender").on(passes(config)).concurrency(1);
    let reconciler = reconciler.on(kills(pods, config, happened)).on(evicted(config, happened));
    let reconciler = reconciler.observed_by((config.observers)("recommender"));
    let learn = |batch| {
        let learning = async move {
            let mut recommender = recommender.lock().await;
            match batch {
                Batch::Pass => recommender.pass().await,
                Batch::Kills => {
                    let killed = std::mem::take(&mut lock(happened).killed);
                    recommender.follow(&killed).await;
                }
                Batch::Evictions => {
                    let evicted = std::mem::take(&mut lock(happened).evicted);
                    recommender.learn(&evicted).await;
                }
            }
            Outcome::Done(None)
        };
        learning.boxed()
    };
    reconciler.run(learn).await;
}

fn passes(config: &Config) -> impl Stream<Item = Batch> + Send + use<> {
    let mut passes = interval(config.recommender_interval);
    passes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    stream::unfold(passes, async |mut passes| {
        passes.tick().await;
        Some((Batch::Pass, passes))
    })
}

/// OOM kills are looked at when they are reported; everything else waits for the next pass.
fn kills<'a>(
    pods: &Cache<CachedPod>,
    config: &'a Config,
    happened: &'a Mutex<Happened>,
) -> impl Stream<Item = Batch> + Send + use<'a> {
    pods.updates().filter_map(move |change| {
        let (old, new) = CachedPod::sized_before_and_after(&change);
        let kill = old.zip(new).filter(|(old, new)| {
            let kills = new_ooms(Some(&old.view), &new.view, config.gates, |_| None);
            !kills.is_empty()
        });
        future::ready(kill.map(|(_, pod)| {
            lock(happened).killed.push(pod);
            Batch::Kills
        }))
    })
}

fn evicted<'a>(config: &Config, happened: &'a Mutex<Happened>) -> impl Stream<Item = Batch> + Send + use<'a> {
    evictions::evictions(&config.client).map(move |evicted| {
        lock(happened).evicted.extend(evicted);
        Batch::Evictions
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
