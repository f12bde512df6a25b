//! What admission makes of containers that are marked as sidecars, where the node does not know the mark.
//!
//! ```text
//!  SidecarSet: sidecar: true ──┐
//!  annotation, variables ──────┼─▶ marks ─▶ the node knows the field?  containers[].sidecar
//!  containers[].sidecar ───────┘            Native                     native: last in initContainers
//!                                           Strict, commands known     wrap: pillion-wrap around all commands
//!                                           Strict otherwise, Kruise   the manager writes the terminal phase
//! ```

mod admitted;
mod native;
pub(crate) mod table;
mod wrap;

use pillion_api::names;
use pillion_api::pod::{Container, Pod, name_of};
use pillion_api::record::sidecars::{Method, SidecarRecord};
use pillion_api::sidecarset::SidecarMode;
use pillion_gates::{Gate, Gates};
use pillion_note::{ContainerKey, ContainerList, Denied, Draft, Note, Reason, Subject};
use pillion_rules::pod::{SIDECAR_FIELD, endless_work};
use serde_json::{Value, json};

use table::{FAIL_POD, IGNORE_ERRORS, MARKS, MODE, listed};

pub use admitted::modes_of;
pub use table::{Place, is_variable, table};

/// Why the field, and what it keeps.
const BY_FIELD: &str = "the node honours containers[].sidecar: all rules of KEP-0008 hold";
/// The same of the wrapper.
const BY_WRAPPER: &str = "pillion-wrap runs all commands of the pod: all rules of KEP-0008 hold";
const BY_PHASE: &str = "the manager writes the pod's terminal phase";
const KEPT_BY_PHASE: &str = "all rules of KEP-0008 hold but the reason Completed";

/// What there is to honour marks with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Means {
    /// The API server has the field `containers[].sidecar`: the node does it.
    pub field: bool,
    /// The image with `pillion-wrap`; without one commands are not wrapped.
    pub wrap_image: Option<String>,
}

/// A container that ends when the work is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub key: ContainerKey,
    /// Who says so.
    pub source: Source,
    /// How it is to end, if that is said.
    pub mode: Option<SidecarMode>,
    /// Whether its error before the end of the work fails the pod.
    pub fail_pod: bool,
}

/// Who marks a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The pod itself, here.
    Pod(Place),
    SidecarSet(String),
}

impl Source {
    fn subject(&self) -> Subject {
        match self {
            Source::SidecarSet(name) => Subject::sidecar_set(name),
            Source::Pod(_) => Subject::Pod,
        }
    }

    fn is_field(&self) -> bool {
        matches!(self, Source::Pod(Place::Field(_)))
    }

    fn is_variable(&self) -> bool {
        matches!(self, Source::Pod(Place::Variable(_)))
    }

    /// How the mark of a container is taken back.
    fn remedy(&self, container: &str) -> String {
        match self {
            Source::SidecarSet(name) => format!("exclude the pod from SidecarSet {name:?}"),
            Source::Pod(Place::Annotation(name)) => format!("remove {container:?} from the annotation {name}"),
            Source::Pod(Place::Variable(name)) => format!("remove the variable {name} from {container:?}"),
            Source::Pod(place) => format!("remove the field {} from {container:?}", place.name()),
        }
    }

    fn words(&self) -> String {
        match self {
            Source::SidecarSet(name) => format!("SidecarSet {name:?}"),
            Source::Pod(Place::Annotation(name)) => format!("the annotation {name}"),
            Source::Pod(Place::Variable(name)) => format!("its variable {name}"),
            Source::Pod(place) => format!("its field {}", place.name()),
        }
    }
}

/// Whether a pod, as JSON, marks containers itself. Cheap: most pods do not.
pub fn has_own_marks(pod: &Value) -> bool {
    let annotations = &pod["metadata"]["annotations"];
    MARKS.iter().any(|mark| match mark.place {
        Place::Annotation(name) => annotations.get(name).is_some(),
        _ => containers_of(pod).any(|container| mark.is_on(container)),
    })
}

fn containers_of(pod: &Value) -> impl Iterator<Item = Container<'_>> {
    pod["spec"]["containers"].as_array().into_iter().flatten().filter_map(Value::as_object).map(Container)
}

/// What Kruise's variables say of a pod, as JSON, that has no record: it came in while no webhook was there. In a pod with restartPolicy Always they
/// mean nothing.
pub fn record_of_kruise(pod: &Value) -> Option<SidecarRecord> {
    if !matches!(pod["spec"]["restartPolicy"].as_str(), Some("Never" | "OnFailure")) {
        return None;
    }
    let variables = || MARKS.iter().filter(|mark| matches!(mark.place, Place::Variable(_)));
    let marked: Vec<Container<'_>> =
        containers_of(pod).filter(|container| variables().any(|mark| mark.is_on(*container))).collect();
    let names =
        |containers: &mut dyn Iterator<Item = &Container<'_>>| containers.map(|one| one.name().to_owned()).collect();
    (!marked.is_empty()).then(|| SidecarRecord {
        method: Method::Phase,
        sidecars: names(&mut marked.iter()),
        fail_pod: Vec::new(),
        ignore_errors: names(&mut marked.iter().filter(|container| IGNORE_ERRORS.is_on(**container))),
    })
}

/// Honours the marks of a pod and those of the SidecarSets that were injected. Returns the containers whose place another one took.
///
/// # Errors
/// The annotations cannot be read, an init container is marked, or every container is.
pub fn apply(
    draft: &mut Draft<'_>,
    injected: Vec<Mark>,
    gates: Gates,
    means: &Means,
) -> Result<Vec<(ContainerKey, ContainerKey)>, Denied> {
    let mut marks = own_marks(draft)?;
    add(&mut marks, injected, draft);
    if marks.is_empty() {
        return Ok(Vec::new());
    }
    if !gates.is_enabled(Gate::SidecarField) {
        ignore(draft, &marks, means, "has no effect: the feature gate SidecarField is off");
        return Ok(Vec::new());
    }
    let policy = draft.field("restartPolicy").and_then(Value::as_str).unwrap_or("Always").to_owned();
    if let Some(why) = no_effect(draft, &marks, &policy) {
        ignore(draft, &marks, means, &why);
        return Ok(Vec::new());
    }
    let order: Vec<ContainerKey> = draft.containers(ContainerList::Containers).map(|(key, _)| key).collect();
    marks.sort_by_key(|mark| order.iter().position(|key| *key == mark.key));
    if order.iter().all(|key| marks.iter().any(|mark| mark.key == *key)) {
        // What the pod's author has written is what its author can change.
        let remedy = marks.iter().min_by_key(|mark| matches!(mark.source, Source::SidecarSet(_)));
        let remedy = remedy.map(|mark| mark.source.remedy(&name_in(draft, mark.key))).unwrap_or_default();
        return Err(Denied::Mark {
            path: "spec.containers".to_owned(),
            reason: format!(
                "every container is marked as a sidecar, and at least one must do the pod's work: {remedy}, for example"
            ),
        });
    }
    let by_field: Vec<Mark> =
        marks.extract_if(.., |mark| means.field && (mark.mode.is_none() || mark.source.is_field())).collect();
    for mark in &by_field {
        set_field(draft, mark, true);
    }
    if !by_field.is_empty() {
        say_mode(draft, &by_field, "field", BY_FIELD);
    }
    for mark in &marks {
        set_field(draft, mark, false);
    }
    let strict: Vec<Mark> = marks
        .extract_if(.., |mark| {
            mark.mode == Some(SidecarMode::Strict) || (mark.mode.is_none() && mark.source.is_variable())
        })
        .collect();
    let (moved, fail_pod) = native(draft, &marks);
    if !strict.is_empty() {
        strictly(draft, &strict, &marks, fail_pod, &policy, means);
    }
    Ok(moved)
}

/// Why the pods of a template would be refused for the marks of its author, with the path in the template. Containers that SidecarSets add do not do the
/// pod's work, so they do not matter.
pub fn refusal_of_template(template: &Value, gates: Gates) -> Option<String> {
    // Templates need no name.
    let pod = json!({"metadata": template["metadata"], "spec": template["spec"]});
    let pod = Pod::new(pod).ok()?;
    apply(&mut Draft::new(&pod), Vec::new(), gates, &Means::default()).err().map(|denied| denied.to_string())
}

/// Why marks have no effect, if that is so. Where all containers are marked, the work is that of all.
fn no_effect(draft: &Draft<'_>, marks: &[Mark], policy: &str) -> Option<String> {
    let containers = || draft.containers(ContainerList::Containers);
    let is_marked = |key: ContainerKey| marks.iter().any(|mark| mark.key == key);
    let has_work = containers().any(|(key, _)| !is_marked(key));
    let work = containers().filter(|(key, _)| !has_work || !is_marked(*key)).map(|(_, container)| container);
    let work = work.map(|Container(object)| {
        (name_of(object), object.get("restartPolicy").and_then(Value::as_str).unwrap_or_default())
    });
    endless_work(work, policy)
}

/// Marks that the pod has itself: of each container the first one of the table.
fn own_marks(draft: &mut Draft<'_>) -> Result<Vec<Mark>, Denied> {
    let mode = annotated_mode(draft)?;
    let fail_pod = draft.annotation(FAIL_POD.place.name()).is_some_and(|text| FAIL_POD.values.accept(text));
    let mut marks: Vec<Mark> = Vec::new();
    for mark in &MARKS {
        let keys = if let Place::Annotation(annotation) = mark.place {
            annotated(draft, annotation)?
        } else {
            let containers = draft.containers(ContainerList::Containers);
            containers.filter(|(_, container)| mark.is_on(*container)).map(|(key, _)| key).collect()
        };
        let source = Source::Pod(mark.place);
        marks.extend(keys.into_iter().map(|key| Mark { key, source: source.clone(), mode: mode.clone(), fail_pod }));
    }
    marks.sort_by_key(|mark| mark.key);
    marks.dedup_by_key(|mark| mark.key);
    Ok(marks)
}

/// The containers that an annotation names.
fn annotated(draft: &mut Draft<'_>, annotation: &str) -> Result<Vec<ContainerKey>, Denied> {
    let Some(names) = draft.annotation(annotation).map(str::to_owned) else { return Ok(Vec::new()) };
    let mut keys = Vec::new();
    for name in listed(&names) {
        let named = |list| draft.containers(list).find(|(_, container)| container.name() == name);
        if let Some((key, _)) = named(ContainerList::Containers) {
            keys.push(key);
            continue;
        }
        match named(ContainerList::InitContainers) {
            // It is what the mark asks for: the pod was admitted before, or its author knows native sidecars.
            Some((_, container)) if container.is_native_sidecar() => {}
            Some(_) => {
                let reason = format!(
                    "{name:?} is an init container, which ends before the work begins: use restartPolicy: Always on it, or remove it from the list"
                );
                return Err(Denied::Mark { path: format!("metadata.annotations[{annotation}]"), reason });
            }
            None => {
                let message = format!("the annotation {annotation} names {name:?}, which is no container of the pod");
                draft.note(Note::warning(Subject::Pod, Reason::MarkIgnored, message));
            }
        }
    }
    Ok(keys)
}

fn annotated_mode(draft: &Draft<'_>) -> Result<Option<SidecarMode>, Denied> {
    let Some(text) = draft.annotation(MODE.place.name()) else { return Ok(None) };
    let modes = [SidecarMode::Native, SidecarMode::Strict];
    let mode = modes.into_iter().find(|mode| words_of(mode) == text);
    mode.map(Some).ok_or_else(|| Denied::Mark {
        path: format!("metadata.annotations[{}]", MODE.place.name()),
        reason: format!("{text:?} is not a mode: use {}", SidecarMode::NAMES.join(" or ")),
    })
}

/// Adds the marks of SidecarSets. What the pod's author says of a container wins.
fn add(marks: &mut Vec<Mark>, injected: Vec<Mark>, draft: &mut Draft<'_>) {
    for mark in injected {
        match marks.iter_mut().find(|known| known.key == mark.key) {
            None => marks.push(mark),
            Some(known) => {
                if let (Some(winner), Some(loser)) = (&known.mode, &mark.mode)
                    && winner != loser
                {
                    let name = name_in(draft, mark.key);
                    let message = format!(
                        "is marked by {} with the mode {}, which wins over the mode {} of this SidecarSet",
                        known.source.words(),
                        words_of(winner),
                        words_of(loser)
                    );
                    draft.note(Note::warning(mark.source.subject(), Reason::MarkIgnored, message).about(&name));
                }
                known.mode = known.mode.take().or(mark.mode);
                known.fail_pod |= mark.fail_pod;
            }
        }
    }
}

fn words_of(mode: &SidecarMode) -> &str {
    match mode {
        SidecarMode::Native => "Native",
        SidecarMode::Strict => "Strict",
        SidecarMode::Unknown(other) => other,
    }
}

fn ignore(draft: &mut Draft<'_>, marks: &[Mark], means: &Means, why: &str) {
    for mark in marks {
        let (name, message) =
            (name_in(draft, mark.key), format!("the mark as a sidecar by {} {why}", mark.source.words()));
        // An API server that has the field warns whoever sets it.
        let note = if means.field && mark.source.is_field() { Note::info } else { Note::warning };
        draft.note(note(mark.source.subject(), Reason::MarkIgnored, message).about(&name));
    }
}

fn name_in(draft: &Draft<'_>, key: ContainerKey) -> String {
    draft.container(key).map(|container| container.name().to_owned()).unwrap_or_default()
}

/// A field that the API server does not know would have the pod refused.
fn set_field(draft: &mut Draft<'_>, mark: &Mark, is_known: bool) {
    let Some(container) = draft.container(mark.key) else { return };
    let has = container.0.contains_key(SIDECAR_FIELD);
    if is_known && container.0.get(SIDECAR_FIELD) != Some(&json!(true)) {
        if let Some(container) = draft.container_mut(mark.key) {
            container.insert(SIDECAR_FIELD.to_owned(), json!(true));
        }
    } else if !is_known
        && has
        && let Some(container) = draft.container_mut(mark.key)
    {
        container.shift_remove(SIDECAR_FIELD);
    }
}

fn say_mode<'m>(draft: &mut Draft<'_>, marks: impl IntoIterator<Item = &'m Mark>, mode: &str, why: &str) {
    for mark in marks {
        let name = name_in(draft, mark.key);
        let message = format!("ends when the work is done, as {} says; mode {mode}: {why}", mark.source.words());
        draft.note(Note::info(mark.source.subject(), Reason::SidecarMode, message).about(&name));
    }
}

/// Makes native sidecars. Returns the containers whose place another one took, and the sidecars whose error fails the pod.
fn native(draft: &mut Draft<'_>, marks: &[Mark]) -> (Vec<(ContainerKey, ContainerKey)>, Vec<String>) {
    for mark in marks {
        let row = if mark.fail_pod {
            "an error of it before the end of the work fails the pod"
        } else {
            "an error of it does not fail the pod"
        };
        let why = format!(
            "a native sidecar, last in initContainers: it starts before the work, ends after it, and is restarted whatever its exit code is; {row}"
        );
        say_mode(draft, [mark], "Native", &why);
    }
    let mut moved = Vec::new();
    let mut made = Vec::new();
    for mark in marks {
        let key = native::make(draft, mark);
        if key != mark.key {
            moved.push((mark.key, key));
        }
        made.push(key);
    }
    let fail_pod: Vec<String> =
        marks.iter().zip(&made).filter(|(mark, _)| mark.fail_pod).map(|(_, key)| name_in(draft, *key)).collect();
    if !fail_pod.is_empty() {
        let sidecars = made.iter().map(|key| name_in(draft, *key)).collect();
        let fail_pod = fail_pod.clone();
        record(draft, &SidecarRecord { method: Method::Native, sidecars, fail_pod, ignore_errors: Vec::new() });
    }
    (moved, fail_pod)
}

/// Wraps commands, or leaves the end to the manager. The pod may have native sidecars too, and `fail_pod` are those whose error fails it.
fn strictly(
    draft: &mut Draft<'_>,
    marks: &[Mark],
    native: &[Mark],
    fail_pod: Vec<String>,
    policy: &str,
    means: &Means,
) {
    let sidecars: Vec<String> = marks.iter().map(|mark| name_in(draft, mark.key)).collect();
    let is_variable = |mark: &Mark| mark.mode.is_none();
    let obstacle = if marks.iter().all(is_variable) {
        Some("Kruise's variables ask for it".to_owned())
    } else {
        wrap::obstacle(draft, marks, means)
    };
    let method = match obstacle {
        None => {
            say_mode(draft, marks, "Strict", BY_WRAPPER);
            wrap::make(draft, marks, native, policy, means.wrap_image.as_deref().unwrap_or_default());
            Method::Wrap
        }
        Some(obstacle) => {
            let why = format!("{BY_PHASE}, because {obstacle}: {KEPT_BY_PHASE}");
            say_mode(draft, marks, "Strict", &why);
            Method::Phase
        }
    };
    let ignoring =
        marks.iter().filter(|mark| draft.container(mark.key).is_some_and(|container| IGNORE_ERRORS.is_on(container)));
    let ignore_errors = ignoring.map(|mark| name_in(draft, mark.key)).collect();
    record(draft, &SidecarRecord { method, sidecars, fail_pod, ignore_errors });
}

fn record(draft: &mut Draft<'_>, record: &SidecarRecord) {
    draft.set_annotation(names::SIDECAR_RECORD, record.to_string());
}

fn names_of(draft: &Draft<'_>, list: ContainerList) -> Vec<String> {
    draft.containers(list).map(|(_, container)| name_of(container.0).to_owned()).collect()
}

#[cfg(test)]
mod tests;
