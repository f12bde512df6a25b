//! Fields of the pod itself that a set asks for: `shareProcessNamespace`.

use pillion_api::sidecarset::ServiceAccountPolicy;
use pillion_note::{Denied, Draft, Note, Reason, Subject};
use serde_json::Value;

use crate::body::Body;

const FIELD: &str = "shareProcessNamespace";

/// Shares the process namespace where a set asks for it. The pod's own word counts more than a set's, and the first set's more than
/// another's; whoever does not get its way is warned of it.
///
/// # Errors
/// The set requires what it asks of the pod, and the pod has it otherwise.
pub(crate) fn write(draft: &mut Draft<'_>, bodies: &[&Body]) -> Result<(), Denied> {
    let asks = |body: &&&Body| body.set.spec.share_process_namespace.is_some();
    let asked: Vec<&&Body> = bodies.iter().filter(asks).collect();
    let Some(first) = asked.first() else { return Ok(()) };
    let wanted = first.set.spec.share_process_namespace.unwrap_or_default();
    for other in asked.iter().filter(|other| other.set.spec.share_process_namespace != Some(wanted)) {
        let name = first.set.name();
        let message =
            format!("{FIELD} is {wanted}, as SidecarSet {name:?} has it: two sets that select a pod must agree");
        draft.note(Note::warning(Subject::sidecar_set(other.set.name()), Reason::PodField, message));
    }
    let is_set = |name: &str| draft.field(name).and_then(Value::as_bool);
    let subject = Subject::sidecar_set(first.set.name());
    let reason = match (wanted, is_set(FIELD), is_set("hostPID")) {
        (true, _, Some(true)) => "the pod has hostPID: true".to_owned(),
        (wanted, Some(own), _) if own != wanted => format!("the pod itself has {FIELD}: {own}"),
        (true, None, _) => {
            draft.set_field(FIELD, Value::Bool(true));
            let message = format!("sets {FIELD}: containers of the pod see each other's processes");
            draft.note(Note::info(subject, Reason::PodField, message));
            return Ok(());
        }
        // What the pod has already, and what is the default.
        _ => return Ok(()),
    };
    let account = first.set.spec.service_account.as_ref();
    if account.is_some_and(|account| account.policy == Some(ServiceAccountPolicy::Required)) {
        return Err(Denied::ProcessNamespace { set: first.set.name().to_owned(), reason });
    }
    let message = format!("{FIELD} is left as it is: {reason}");
    draft.note(Note::warning(subject, Reason::PodField, message));
    Ok(())
}
