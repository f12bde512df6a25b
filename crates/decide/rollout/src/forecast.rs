//! A rollout played in virtual time over the pods as they are: waves, how long they take, and what would block.

mod pod;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use pillion_api::sidecarset::SidecarSetStatus;

use crate::amount;
use crate::images::ImageChange;
use crate::pace::Pace;
use crate::plan::{Snapshot, Step, plan};
use crate::target::Target;
use crate::text::Texts;
use crate::view::PodView;
use crate::workload::Workload;

/// So many looks at pods are enough to know how a rollout goes; the rest is reckoned.
const LOOKS: usize = 1_000_000;
/// More waves help nobody.
const WAVES: usize = 10_000;

/// How a rollout would go.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// The revision that is rolled out.
    pub revision: String,
    /// The pods that are updated, in the order of time.
    pub waves: Vec<Wave>,
    /// How long it takes until nothing happens any more.
    pub duration: SignedDuration,
    /// What was not played any more, because there is too much of it.
    pub rest: Option<Rest>,
    /// The status at the end; its condition `Blocked` says what would be in the way.
    pub status: SidecarSetStatus,
}

/// Pods that are updated at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wave {
    /// When, from now.
    pub at: SignedDuration,
    /// When the last of them is ready, from now.
    pub until: SignedDuration,
    pub pods: Vec<ForecastPod>,
}

/// A pod that is updated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForecastPod {
    pub namespace: String,
    pub name: String,
    pub workload: Workload,
    pub images: Vec<ImageChange>,
}

/// What was not played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// How many pods are left to update.
    pub pods: usize,
    /// How long they take at the pace of the others.
    pub takes: SignedDuration,
}

/// Plays the rollout. A pod that is updated is ready after what `pace` says, if the containers that are not the set's are ready.
///
/// `pods` are those that list the set as injected, as they are now. The plans are those of [`plan`], made again whenever a pod has
/// become ready, with the status that the plan before gave.
pub fn forecast(
    snapshot: &Snapshot<'_>,
    pods: impl IntoIterator<Item = PodView>,
    pace: &Pace,
    now: Timestamp,
) -> Forecast {
    let mut game = Game::new(pods);
    let mut target = snapshot.target.clone();
    let (mut time, mut waves, mut looks) = (now, Vec::new(), 0_usize);
    loop {
        let next = plan(&Snapshot { target: &target, ..*snapshot }, &game.pods, time);
        looks = looks.saturating_add(game.pods.len().max(1));
        Arc::make_mut(&mut target.set).status = Some(next.status.clone());
        let mut updated = Vec::new();
        for update in next.updates {
            let Some(&i) = game.by_uid.get(update.uid.as_str()) else { continue };
            let Some(pod) = game.pods.get_mut(i) else { continue };
            let workload = Workload::of(pod);
            let ready_at = later(time, pace.estimate(&workload).takes);
            match update.step {
                Step::Update { revision, images } => {
                    pod::update(&target, pod, &revision, &mut game.texts, time);
                    let (namespace, name) = (update.namespace, update.name);
                    updated.push((ready_at, ForecastPod { namespace, name, workload, images }));
                }
                Step::Reset { .. } => pod::reset(&target, pod, &mut game.texts),
                Step::SetUpgradable(is_upgradable) => {
                    pod::set_upgradable(&target, pod, is_upgradable);
                    continue;
                }
            }
            game.due.entry(ready_at).or_default().push(i);
        }
        let updated_now = updated.len();
        if let Some(until) = updated.iter().map(|(ready_at, _)| *ready_at).max() {
            let pods = updated.into_iter().map(|(_, pod)| pod).collect();
            waves.push(Wave { at: time.duration_since(now), until: until.duration_since(now), pods });
        }
        let kept =
            amount::partition(target.set().spec.update_strategy.partition.as_ref(), count(next.status.matched_pods));
        // The status is from before this wave.
        let left = count(next.status.matched_pods - next.status.updated_pods).saturating_sub(kept + updated_now);
        let rest = rest(left, &waves, time.duration_since(now));
        let is_enough = looks >= LOOKS || waves.len() >= WAVES;
        let due = game.due.pop_first().filter(|_| !is_enough);
        if let Some((at, ready)) = due {
            time = at;
            game.get_ready(&target, &ready);
            continue;
        }
        // Nothing becomes ready any more; a deadline may still pass.
        if let Some(wait) = next.requeue_after.filter(|wait| !is_enough && wait.is_positive()) {
            time = later(time, wait);
            continue;
        }
        let last = waves.last().map_or(SignedDuration::ZERO, |wave: &Wave| wave.until);
        let rest = rest.filter(|_| is_enough);
        let duration = last.checked_add(rest.map_or(SignedDuration::ZERO, |rest| rest.takes)).unwrap_or(last);
        let revision = next.status.latest_revision.clone().unwrap_or_default();
        return Forecast { revision, waves, duration, rest, status: next.status };
    }
}

/// The pods as they would be.
struct Game {
    pods: Vec<PodView>,
    by_uid: HashMap<Box<str>, usize>,
    /// Which pods are ready when.
    due: BTreeMap<Timestamp, Vec<usize>>,
    texts: Texts,
}

impl Game {
    fn new(pods: impl IntoIterator<Item = PodView>) -> Game {
        let pods: Vec<PodView> = pods.into_iter().collect();
        let by_uid = pods.iter().enumerate().map(|(i, pod)| (pod.uid.clone(), i)).collect();
        Game { pods, by_uid, due: BTreeMap::new(), texts: Texts::default() }
    }

    fn get_ready(&mut self, target: &Target, ready: &[usize]) {
        for i in ready {
            if let Some(pod) = self.pods.get_mut(*i) {
                pod::get_ready(target, pod);
            }
        }
    }
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn count(pods: i32) -> usize {
    usize::try_from(pods).unwrap_or_default()
}

/// What is left, at the pace of what was played.
fn rest(left: usize, waves: &[Wave], took: SignedDuration) -> Option<Rest> {
    let played = waves.iter().map(|wave| wave.pods.len()).sum::<usize>();
    let float = |pods: usize| f64::from(u32::try_from(pods).unwrap_or(u32::MAX));
    let takes = took.as_secs_f64() / float(played.max(1)) * float(left);
    let takes = SignedDuration::try_from_secs_f64(takes).unwrap_or(SignedDuration::MAX);
    (left > 0).then_some(Rest { pods: left, takes })
}
