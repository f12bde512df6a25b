//! The annotations in which a pod carries what was injected into it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use pillion_api::names;
use pillion_api::record::{NewRecord, Records, injected_list, injected_sets};
use pillion_api::sidecarset::SidecarContainer;
use pillion_note::{Denied, Draft};

use crate::body::Body;

/// Records that `bodies` were injected; `now` is `None` for a template.
pub(crate) fn write(draft: &mut Draft<'_>, bodies: &[&Body], now: Option<Timestamp>) -> Result<(), Denied> {
    let mut with_image = read(draft, names::HASH)?;
    let mut without_image = read(draft, names::HASH_WITHOUT_IMAGE)?;
    let mut injected = injected_sets(draft.annotation(names::INJECTED_LIST).unwrap_or_default());
    for body in bodies {
        let set = body.set.name();
        injected.insert(set);
        let spec = &body.set.spec;
        if spec.init_containers.is_empty() && spec.containers.is_empty() {
            continue;
        }
        let sidecars: BTreeSet<&str> = body.set.sidecars().map(SidecarContainer::name).collect();
        let record = |hash, controller_revision| NewRecord {
            update_timestamp: now,
            hash,
            sidecar_set_name: set,
            sidecar_list: sidecars.clone(),
            controller_revision,
        };
        with_image.insert(&record(&body.hash, body.revision()));
        without_image.insert(&record(&body.hash_without_image, ""));
    }
    let injected = injected_list(&injected);
    draft.set_annotation(names::HASH, with_image.to_string());
    draft.set_annotation(names::HASH_WITHOUT_IMAGE, without_image.to_string());
    draft.set_annotation(names::INJECTED_LIST, injected);
    Ok(())
}

fn read(draft: &Draft<'_>, key: &str) -> Result<Records, Denied> {
    Records::parse(draft.annotation(key).unwrap_or_default()).map_err(|error| Denied::Record {
        pod: format!("{}/{}", draft.pod().namespace(), draft.pod().name()),
        key: key.to_owned(),
        reason: error.to_string(),
    })
}
