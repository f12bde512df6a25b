//! Which containers of a pod get which image.

use crate::hot_upgrade::{self, Upgrade};
use crate::target::{Hot, Sidecar, Target};
use crate::view::{ContainerView, InPlaceView, PodView};

/// One container that gets another image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageChange {
    pub container: String,
    /// The image that it has.
    pub from: String,
    /// The image that it gets.
    pub to: String,
}

impl ImageChange {
    fn new(container: &ContainerView, to: &str) -> ImageChange {
        ImageChange { container: container.name.to_string(), from: container.image.to_string(), to: to.to_owned() }
    }
}

/// What becomes of a hot-upgrade pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PairChange {
    /// `working` works from now on.
    Upgrade { sidecar: String, working: String, other: String, sets_image: bool },
    /// `idle` gets the empty image.
    Reset { working: String, idle: String },
}

/// The images that bring a pod to the latest revision, and what becomes of its hot-upgrade pairs.
pub(crate) fn update(
    target: &Target,
    pod: &PodView,
    in_place: Option<&InPlaceView>,
) -> (Vec<ImageChange>, Vec<PairChange>) {
    let mut images = Vec::new();
    let mut pairs = Vec::new();
    for sidecar in &target.sidecars {
        let Some(hot) = &sidecar.hot else {
            let container = pod.container(&sidecar.name).filter(|container| *container.image != *sidecar.image);
            images.extend(container.map(|container| ImageChange::new(container, &sidecar.image)));
            continue;
        };
        let Some(upgrade) = upgrade(sidecar, hot, pod, in_place) else { continue };
        if upgrade.sets_image {
            images.push(ImageChange::new(upgrade.working, &sidecar.image));
        }
        if upgrade.sets_image || upgrade.switches {
            pairs.push(PairChange::Upgrade {
                sidecar: sidecar.name.clone(),
                working: upgrade.working.name.to_string(),
                other: upgrade.other.name.to_string(),
                sets_image: upgrade.sets_image,
            });
        }
    }
    (images, pairs)
}

fn upgrade<'p>(sidecar: &Sidecar, hot: &Hot, pod: &'p PodView, in_place: Option<&InPlaceView>) -> Option<Upgrade<'p>> {
    Some(hot_upgrade::Pair::of(sidecar, hot, pod)?.upgrade(sidecar, hot, pod, in_place))
}

/// The images that finish the hot upgrades of a pod.
pub(crate) fn reset(
    target: &Target,
    pod: &PodView,
    in_place: Option<&InPlaceView>,
) -> (Vec<ImageChange>, Vec<PairChange>) {
    let pairs = hot_upgrade::resettable(&target.sidecars, pod, in_place);
    let image = |(hot, pair): &(&Hot, hot_upgrade::Pair<'_>)| ImageChange::new(pair.idle, &hot.empty_image);
    let change = |(_, pair): &(&Hot, hot_upgrade::Pair<'_>)| PairChange::Reset {
        working: pair.working.name.to_string(),
        idle: pair.idle.name.to_string(),
    };
    (pairs.iter().map(image).collect(), pairs.iter().map(change).collect())
}
