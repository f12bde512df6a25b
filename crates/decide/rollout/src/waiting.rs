//! Whether the kubelet has done what was written into a pod.

use pillion_api::names;

use crate::image;
use crate::view::{ContainerView, InPlaceView, PodView};

/// Whether a container runs the image of its spec, as far as an update in place is concerned.
///
/// A runtime may report another name than the one in the spec, so the image ID is compared with the one before the update. Where it is the
/// same, one image has two names: containerd reports the first of them in alphabetical order, whichever was asked for, and only the number
/// of restarts shows that the update is done.
pub(crate) fn is_done(container: &ContainerView, pod: &PodView, in_place: Option<&InPlaceView>) -> bool {
    let (Some(reported), Some(image_id)) = (&container.reported_image, &container.image_id) else { return false };
    let before = in_place.and_then(|update| update.before.iter().find(|before| before.container == container.name));
    let is_same_id = before.is_some_and(|before| before.image_id == *image_id && !image_id.is_empty());
    let is_restarted = pod.is_observed
        && before.and_then(|before| before.restarts).is_some_and(|restarts| restarts != container.restarts);
    // Every change of the image restarts the container, except that back to what it never stopped running.
    if is_same_id && before.is_some_and(|before| before.superseded.is_none() && before.restarts.is_some()) {
        return is_restarted;
    }
    if let Some(has_digest) = image::has_digest(&container.image, image_id) {
        return has_digest;
    }
    if pod.unreadable.contains(&names::IN_PLACE_UPDATE_STATE) {
        return false;
    }
    let Some(before) = before else { return true };
    if image::is_same(&container.image, reported) {
        return true;
    }
    let is_superseded = before.superseded.as_ref().is_some_and(|image| image::is_same(image, reported));
    (before.image_id != *image_id || is_restarted) && !is_superseded
}
