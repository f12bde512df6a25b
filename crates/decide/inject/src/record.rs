//! The annotations in which a pod carries what was injected into it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use pillion_api::names;
use pillion_api::record::{NewRecord, Records, first_records, go_time, injected_list, injected_sets};
use pillion_api::sidecarset::SidecarContainer;
use pillion_note::{Denied, Draft};

use crate::body::Body;

/// Records that `bodies` were injected; `now` is `None` for a template.
pub(crate) fn write(draft: &mut Draft<'_>, bodies: &[&Body], now: Option<Timestamp>) -> Result<(), Denied> {
    let mut injected = injected_sets(draft.annotation(names::INJECTED_LIST).unwrap_or_default());
    let now = now.map(go_time);
    let (mut with_image, mut without_image) = (Vec::new(), Vec::new());
    for body in bodies {
        let set = body.set.name();
        injected.insert(set);
        let spec = &body.set.spec;
        if spec.init_containers.is_empty() && spec.containers.is_empty() {
            continue;
        }
        let sidecars: BTreeSet<&str> = body.set.sidecars().map(SidecarContainer::name).collect();
        let record = |hash, sidecar_list, controller_revision| NewRecord {
            update_timestamp: now.as_deref(),
            hash,
            sidecar_set_name: set,
            sidecar_list,
            controller_revision,
        };
        with_image.push(record(&body.hash, sidecars.clone(), body.revision()));
        without_image.push(record(&body.hash_without_image, sidecars, ""));
    }
    let injected = injected_list(&injected);
    let with_image = text(draft, names::HASH, &with_image)?;
    let without_image = text(draft, names::HASH_WITHOUT_IMAGE, &without_image)?;
    draft.set_annotation(names::HASH, with_image);
    draft.set_annotation(names::HASH_WITHOUT_IMAGE, without_image);
    draft.set_annotation(names::INJECTED_LIST, injected);
    Ok(())
}

/// The value of an annotation with these records over those that it has.
fn text(draft: &Draft<'_>, key: &str, new: &[NewRecord<'_>]) -> Result<String, Denied> {
    // Nearly every new pod has none.
    if draft.annotation(key).is_none_or(str::is_empty) {
        return Ok(first_records(new));
    }
    let mut records = read(draft, key)?;
    for record in new {
        records.insert(record);
    }
    Ok(records.to_string())
}

fn read(draft: &Draft<'_>, key: &str) -> Result<Records, Denied> {
    Records::parse(draft.annotation(key).unwrap_or_default()).map_err(|error| Denied::Record {
        pod: format!("{}/{}", draft.pod().namespace(), draft.pod().name()),
        key: key.to_owned(),
        reason: error.to_string(),
    })
}
