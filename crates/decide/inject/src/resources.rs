//! `resourcesPolicy`: a sidecar's resources from those of the app's containers (OpenKruise proposal 20250913).

use pillion_api::pod::{Container, Object};
use pillion_expr::{Amount, Expr, Outcome, Resource};
use pillion_note::{ContainerKey, ContainerList, Denied, Draft, Note, Reason, Subject};
use pillion_quantity::Quantity;
use serde_json::{Map, Value};

use crate::injected::{Injected, Sidecar};
use crate::policy::{Mode, Policy, RESOURCES};

/// Sizes the injected sidecars that have a `resourcesPolicy` from the resources that the pod's own containers have now.
///
/// # Errors
/// No container of the pod is a target, or a result is negative.
pub fn size(draft: &mut Draft<'_>, injected: &Injected) -> Result<(), Denied> {
    let mut notes = Vec::new();
    let sized = sized(draft, injected, &mut notes);
    for note in notes {
        draft.note(note);
    }
    for (key, resources) in sized? {
        let Some(container) = draft.container_mut(key) else { continue };
        if resources.is_empty() {
            container.shift_remove("resources");
        } else {
            container.insert("resources".to_owned(), Value::Object(resources));
        }
    }
    Ok(())
}

/// The `resources` of each sidecar that has a policy.
fn sized(draft: &Draft<'_>, injected: &Injected, notes: &mut Vec<Note>) -> Result<Vec<(ContainerKey, Object)>, Denied> {
    if injected.sidecars.iter().all(|sidecar| sidecar.policy.is_none()) {
        return Ok(Vec::new());
    }
    let own = own_containers(draft);
    let mut sized = Vec::new();
    for sidecar in &injected.sidecars {
        let Some(policy) = &sidecar.policy else { continue };
        let Some(container) = draft.container(sidecar.key) else { continue };
        sized.push((sidecar.key, resources(sidecar, container, policy, (draft, &own), notes)?));
    }
    Ok(sized)
}

fn resources(
    sidecar: &Sidecar,
    container: Container<'_>,
    policy: &Policy,
    (draft, own): (&Draft<'_>, &[Target<'_>]),
    notes: &mut Vec<Note>,
) -> Result<Object, Denied> {
    let targets: Vec<&Target<'_>> =
        own.iter().filter(|target| policy.regex.is_match(target.container.name())).collect();
    if targets.is_empty() {
        return Err(Denied::NoTarget {
            set: sidecar.set.clone(),
            container: container.name().to_owned(),
            regex: policy.regex.to_string(),
            candidates: names(own.iter()),
            expression: policy.first_expression().to_owned(),
        });
    }
    let before = container.0.get("resources").and_then(Value::as_object);
    let wants_details = draft.wants_details();
    Sizing { policy, targets: &targets, set: &sidecar.set, container: container.name(), before, wants_details, notes }
        .resources()
}

/// A container that a policy may compute from, and what it has of each of [`RESOURCES`].
struct Target<'a> {
    container: Container<'a>,
    limits: [Amount; RESOURCES.len()],
    requests: [Amount; RESOURCES.len()],
}

impl<'a> Target<'a> {
    fn new(container: Container<'a>) -> Target<'a> {
        // Without a limit it is unlimited; without a request it counts as 0.
        let limit = |resource: Resource| container.limit(resource.name()).map_or(Amount::Unlimited, Amount::Finite);
        let request = |resource: Resource| Amount::Finite(container.request(resource.name()).unwrap_or(Quantity::ZERO));
        Target { container, limits: RESOURCES.map(limit), requests: RESOURCES.map(request) }
    }
}

/// What a policy may compute from: the pod's own containers, native sidecars among them.
fn own_containers<'d>(draft: &'d Draft<'_>) -> Vec<Target<'d>> {
    let native = draft.containers(ContainerList::InitContainers).filter(|(_, container)| container.is_native_sidecar());
    native
        .chain(draft.containers(ContainerList::Containers))
        .filter(|(key, _)| draft.is_own(*key))
        .map(|(_, container)| Target::new(container))
        .collect()
}

struct Sizing<'a> {
    policy: &'a Policy,
    targets: &'a [&'a Target<'a>],
    set: &'a str,
    container: &'a str,
    /// What the sidecar's own `resources` say.
    before: Option<&'a Object>,
    /// Whether each value is explained.
    wants_details: bool,
    notes: &'a mut Vec<Note>,
}

impl Sizing<'_> {
    fn resources(mut self) -> Result<Object, Denied> {
        let policy = self.policy;
        let mut limits = Map::with_capacity(RESOURCES.len());
        let mut requests = Map::with_capacity(RESOURCES.len());
        for (i, resource) in RESOURCES.into_iter().enumerate() {
            let limit = match policy.limits.get(i).and_then(Option::as_ref) {
                Some(expression) => {
                    let limits = self.targets.iter().map(|target| target.limits[i]);
                    self.evaluate("limits", expression, resource, aggregate(policy.mode, limits))?
                }
                None => None,
            };
            let request = match policy.requests.get(i).and_then(Option::as_ref) {
                Some(expression) => {
                    let requests = self.targets.iter().map(|target| target.requests[i]);
                    self.evaluate("requests", expression, resource, aggregate(policy.mode, requests))?
                }
                // No expression means 0. It has to be written beside a limit: the API server would copy the limit otherwise.
                None => limit.map(|_| self.zero_request(resource)),
            };
            if let Some(limit) = limit {
                limits.insert(resource.to_string(), Value::String(limit.to_string()));
            }
            if let Some(request) = self.within(request, limit, resource) {
                requests.insert(resource.to_string(), Value::String(request.to_string()));
            }
        }
        // Whatever else `resources` had (claims) is not the policy's to decide.
        let mut resources = self.before.cloned().unwrap_or_default();
        for (list, values) in [("limits", limits), ("requests", requests)] {
            if values.is_empty() {
                resources.shift_remove(list);
            } else {
                resources.insert(list.to_owned(), Value::Object(values));
            }
        }
        Ok(resources)
    }

    fn zero_request(&mut self, resource: Resource) -> Quantity {
        if self.wants_details {
            let message = format!(
                "requests.{resource} = 0: the policy has no expression for it, and the API server would copy the limit if it were absent"
            );
            let note = Note::info(Subject::sidecar_set(self.set), Reason::Sized, message);
            self.notes.push(note.about(self.container));
        }
        Quantity::ZERO
    }

    fn evaluate(
        &mut self,
        list: &'static str,
        expression: &Expr,
        resource: Resource,
        variable: Amount,
    ) -> Result<Option<Quantity>, Denied> {
        let value = match expression.evaluate(variable, resource) {
            Outcome::Unlimited => None,
            Outcome::Value(value) => Some(value),
            Outcome::Negative(value) => {
                return Err(Denied::Negative {
                    set: self.set.to_owned(),
                    container: self.container.to_owned(),
                    list,
                    resource: resource.name(),
                    expression: expression.source().to_owned(),
                    value,
                    variable: variable.to_string(),
                });
            }
        };
        if self.wants_details {
            let note = self.explain(list, expression, resource, variable, value);
            self.notes.push(note);
        }
        Ok(value)
    }

    /// How a value was reached.
    fn explain(
        &self,
        list: &str,
        expression: &Expr,
        resource: Resource,
        variable: Amount,
        value: Option<Quantity>,
    ) -> Note {
        let said = value.map_or_else(|| "unlimited, so it is not set".to_owned(), |value| value.to_string());
        let mut message = format!("{list}.{resource} = {expression}");
        if said != expression.source() {
            message = format!("{message} = {said}");
        }
        if expression.variable().is_some() {
            let mode = if self.policy.mode == Mode::Sum { "sum" } else { "max" };
            message = format!(
                "{message}, with {resource} = {variable}, the {mode} of the {list} of {}",
                names(self.targets.iter().copied())
            );
        }
        Note::info(Subject::sidecar_set(self.set), Reason::Sized, message).about(self.container)
    }

    /// A request above its limit would be refused by the API server: it is lowered.
    fn within(&mut self, request: Option<Quantity>, limit: Option<Quantity>, resource: Resource) -> Option<Quantity> {
        match (request, limit) {
            (Some(request), Some(limit)) if request > limit => {
                let message = format!("requests.{resource} {request} is above the limit {limit} and was lowered to it");
                let note = Note::warning(Subject::sidecar_set(self.set), Reason::RequestLowered, message);
                self.notes.push(note.about(self.container));
                Some(limit)
            }
            (request, _) => request,
        }
    }
}

/// One number out of several; unlimited swallows the others.
fn aggregate(mode: Mode, amounts: impl Iterator<Item = Amount>) -> Amount {
    let mut total = Quantity::ZERO;
    for amount in amounts {
        let Amount::Finite(quantity) = amount else { return Amount::Unlimited };
        match mode {
            // Quantities are at most 2^63 and pods hold few containers: the sum is far from the edge of 2^127 nano.
            Mode::Sum => total = total.checked_add(quantity).unwrap_or(total.max(quantity)),
            Mode::Max => {
                if quantity > total {
                    total = quantity;
                }
            }
        }
    }
    Amount::Finite(total)
}

fn names<'a>(targets: impl Iterator<Item = &'a Target<'a>>) -> String {
    let names: Vec<&str> = targets.map(|target| target.container.name()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
