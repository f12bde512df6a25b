//! Fields of the pod itself that a set asks for: `shareProcessNamespace`.

use pillion_note::{Draft, Note, Reason, Subject};
use serde_json::Value;

use crate::body::Body;

const FIELD: &str = "shareProcessNamespace";

/// Shares the process namespace where a set asks for it. The pod's own word counts more than a set's, and the first set's more than
/// another's; whoever does not get its way is warned of it.
pub(crate) fn write(draft: &mut Draft<'_>, bodies: &[&Body]) {
    let asked = bodies.iter().filter_map(|body| Some((body.set.name(), body.set.spec.share_process_namespace?)));
    let asked: Vec<(&str, bool)> = asked.collect();
    let Some((first, wanted)) = asked.first().copied() else { return };
    for (other, _) in asked.iter().filter(|(_, other)| *other != wanted) {
        let message =
            format!("{FIELD} is {wanted}, as SidecarSet {first:?} has it: two sets that select a pod must agree");
        draft.note(Note::warning(Subject::sidecar_set(other), Reason::PodField, message));
    }
    let subject = Subject::sidecar_set(first);
    let is_set = |name: &str| draft.field(name).and_then(Value::as_bool);
    let note = match (wanted, is_set(FIELD), is_set("hostPID")) {
        (true, _, Some(true)) => {
            let message = format!("{FIELD} is left alone, because the pod has hostPID: true");
            Note::warning(subject, Reason::PodField, message)
        }
        (wanted, Some(own), _) if own != wanted => {
            let message = format!("{FIELD} stays {own}, as the pod itself has it");
            Note::warning(subject, Reason::PodField, message)
        }
        (true, None, _) => {
            draft.set_field(FIELD, Value::Bool(true));
            Note::info(
                subject,
                Reason::PodField,
                format!("sets {FIELD}: containers of the pod see each other's processes"),
            )
        }
        // What the pod has already, and what is the default.
        _ => return,
    };
    draft.note(note);
}
