//! The pair of containers of a hot upgrade: which one works, which one gets the new image, and when the old one is reset to the empty image.
//!
//! ```text
//!            working W: v1, idle O: empty image
//!                 │  upgrade: O gets v2 and is now the one that works
//!                 ▼
//!            working O: v2, idle W: v1          another image, or a rollback, is possible here too
//!                 │  reset: O is ready, W gets the empty image
//!                 ▼
//!            working O: v2, idle W: empty image
//! ```

use crate::target::{Hot, Sidecar};
use crate::view::{ContainerView, InPlaceView, PodView};
use crate::waiting;

/// The two containers of a sidecar in one pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'p> {
    pub(crate) working: &'p ContainerView,
    pub(crate) idle: &'p ContainerView,
    /// Whether the pod records that the idle one has the empty image. That may be another one than today's.
    is_idle_empty: bool,
}

/// How a pair gets the image that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Upgrade<'p> {
    /// The container that works from now on.
    pub(crate) working: &'p ContainerView,
    pub(crate) other: &'p ContainerView,
    /// Whether the working container gets the image; otherwise it has it.
    pub(crate) sets_image: bool,
    /// Whether another container worked before.
    pub(crate) switches: bool,
}

impl<'p> Pair<'p> {
    /// The pair in a pod. Without a record the second container works, as in Kruise.
    pub(crate) fn of(sidecar: &Sidecar, hot: &Hot, pod: &'p PodView) -> Option<Pair<'p>> {
        let [first, second] = &hot.pair;
        let (first_view, second_view) = (pod.container(first)?, pod.container(second)?);
        let works = pod.working.iter().find(|working| *working.sidecar == *sidecar.name);
        let is_idle_empty = works.is_some_and(|works| works.is_other_empty);
        Some(if works.is_some_and(|works| *works.container == **first) {
            Pair { working: first_view, idle: second_view, is_idle_empty }
        } else {
            Pair { working: second_view, idle: first_view, is_idle_empty }
        })
    }

    /// Whether the idle container still has to be reset. Without an empty image nothing is reset.
    pub(crate) fn is_unfinished(&self, hot: &Hot) -> bool {
        !hot.empty_image.is_empty() && *self.idle.image != *hot.empty_image && !self.is_idle_empty
    }

    /// How the pair gets the image of `sidecar`.
    pub(crate) fn upgrade(
        &self,
        sidecar: &Sidecar,
        hot: &Hot,
        pod: &PodView,
        in_place: Option<&InPlaceView>,
    ) -> Upgrade<'p> {
        let is_good = |container: &ContainerView| container.is_ready && waiting::is_done(container, pod, in_place);
        let is_empty = |container: &ContainerView| *container.image == *hot.empty_image;
        let is_working_worse = is_empty(self.working) || is_good(self.idle) && !is_good(self.working);
        let next = if !is_empty(self.idle) && is_working_worse { self.working } else { self.idle };
        let other = if std::ptr::eq(next, self.idle) { self.working } else { self.idle };
        if *other.image == *sidecar.image {
            // The image that is wanted still runs: its container becomes the working one again, and the other is reset.
            return Upgrade {
                working: other,
                other: next,
                sets_image: false,
                switches: !std::ptr::eq(other, self.working),
            };
        }
        let switches = !std::ptr::eq(next, self.working);
        Upgrade { working: next, other, sets_image: *next.image != *sidecar.image, switches }
    }
}

/// The containers of a sidecar that do its work: of a pair whose upgrade is not finished, only the working one.
pub(crate) fn in_service<'p>(sidecar: &Sidecar, pod: &'p PodView) -> impl Iterator<Item = &'p ContainerView> {
    let pair = sidecar.hot.as_ref().and_then(|hot| Some((hot, Pair::of(sidecar, hot, pod)?)));
    let leaving = pair.filter(|(hot, pair)| pair.is_unfinished(hot)).map(|(_, pair)| &pair.idle.name);
    sidecar.containers().filter_map(|name| pod.container(name)).filter(move |it| Some(&it.name) != leaving)
}

/// The pairs whose idle container can be reset now: everything else in the pod is updated and ready.
pub(crate) fn resettable<'p, 's>(
    sidecars: &'s [Sidecar],
    pod: &'p PodView,
    in_place: Option<&InPlaceView>,
) -> Vec<(&'s Hot, Pair<'p>)> {
    if !sidecars.iter().any(|sidecar| sidecar.hot.is_some()) {
        return Vec::new();
    }
    let pairs = || {
        sidecars.iter().filter_map(|sidecar| {
            let hot = sidecar.hot.as_ref()?;
            Some((hot, Pair::of(sidecar, hot, pod)?))
        })
    };
    let unfinished: Vec<(&Hot, Pair<'p>)> = pairs().filter(|(hot, pair)| pair.is_unfinished(hot)).collect();
    if unfinished.is_empty() || !pod.is_reported {
        return Vec::new();
    }
    let is_idle = |container: &ContainerView| pairs().any(|(_, pair)| pair.idle.name == container.name);
    let names: Vec<&str> = sidecars.iter().flat_map(Sidecar::containers).collect();
    let mut ours = pod.containers.iter().filter(|container| names.contains(&&*container.name) && !is_idle(container));
    let is_done = ours.all(|container| waiting::is_done(container, pod, in_place));
    let is_ready = || {
        let mut others = pod.containers.iter().filter(|container| !is_idle(container));
        pod.is_running_and_ready() || others.all(|container| container.is_ready)
    };
    if is_done && is_ready() { unfinished } else { Vec::new() }
}
