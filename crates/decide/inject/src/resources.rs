//! `resourcesPolicy`: a sidecar's resources from those of the app's containers (OpenKruise proposal 20250913).

use pillion_api::pod::{Container, Object, Pod};
use pillion_api::sidecarset::{ResourceExpressions, ResourcesPolicy, TargetContainersMode};
use pillion_expr::{Amount, Expr, ExprError, Outcome, Resource};
use pillion_quantity::Quantity;
use pillion_regexp::Regexp;
use serde_json::{Map, Value};

use crate::note::{Denied, Note};
use crate::plan::{Injection, Placed};

const RESOURCES: [Resource; 2] = [Resource::Cpu, Resource::Memory];

/// A `resourcesPolicy`, compiled.
#[derive(Debug)]
pub(crate) struct Policy {
    mode: Mode,
    regex: Regexp,
    limits: Expressions,
    requests: Expressions,
}

/// An expression for each of [`RESOURCES`].
type Expressions = [Option<Expr>; 2];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Sum,
    Max,
}

/// A `resourcesPolicy` that validation should have refused.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The mode is missing or unknown.
    #[error("the mode must be sum or max")]
    Mode,
    /// There are no expressions.
    #[error("resourcesExpr is missing")]
    NoExpressions,
    /// The pattern for container names is malformed.
    #[error("targetContainersNameRegex is malformed")]
    Regex(#[from] pillion_regexp::Error),
    /// An expression is malformed.
    #[error("the expression {expression:?} is malformed")]
    Expression {
        /// The expression.
        expression: String,
        /// What is wrong with it.
        #[source]
        error: ExprError,
    },
}

impl Policy {
    pub(crate) fn compile(policy: &ResourcesPolicy) -> Result<Policy, PolicyError> {
        let mode = match policy.mode() {
            Some(TargetContainersMode::Sum) => Mode::Sum,
            Some(TargetContainersMode::Max) => Mode::Max,
            Some(TargetContainersMode::Unknown(_)) | None => return Err(PolicyError::Mode),
        };
        let expressions = policy.expressions().ok_or(PolicyError::NoExpressions)?;
        Ok(Policy {
            mode,
            regex: policy.compile_regex()?,
            limits: parse(expressions.limits.as_ref())?,
            requests: parse(expressions.requests.as_ref())?,
        })
    }

    /// The first expression, to name the policy by.
    fn first_expression(&self) -> &str {
        self.limits.iter().chain(&self.requests).flatten().next().map_or("", Expr::source)
    }
}

/// An empty expression is the same as none.
fn parse(expressions: Option<&ResourceExpressions>) -> Result<Expressions, PolicyError> {
    let Some(expressions) = expressions else { return Ok([None, None]) };
    let one = |source: Option<&String>, resource| {
        let parse = |source: &String| {
            Expr::parse(source, resource).map_err(|error| PolicyError::Expression { expression: source.clone(), error })
        };
        source.filter(|source| !source.trim().is_empty()).map(parse).transpose()
    };
    Ok([one(expressions.cpu.as_ref(), Resource::Cpu)?, one(expressions.memory.as_ref(), Resource::Memory)?])
}

impl Injection {
    /// Sizes the sidecars that have a `resourcesPolicy` from the final resources of `pod`'s own containers.
    ///
    /// # Errors
    /// No container of the pod is meant, or a result is negative.
    pub fn size(&mut self, pod: &Pod) -> Result<(), Denied> {
        let injected: Vec<String> =
            self.init_containers.iter().chain(&self.containers).map(|p| p.name().to_owned()).collect();
        let native = pod.init_containers().filter(|container| container.is_native_sidecar());
        let own: Vec<Container<'_>> = native
            .chain(pod.containers())
            .filter(|container| !container.is_injected() && !injected.iter().any(|name| name == container.name()))
            .collect();
        for placed in self.init_containers.iter_mut().chain(&mut self.containers) {
            size(placed, &own, &mut self.notes)?;
        }
        Ok(())
    }
}

fn size(placed: &mut Placed, own: &[Container<'_>], notes: &mut Vec<Note>) -> Result<(), Denied> {
    let Some(policy) = placed.policy.clone() else { return Ok(()) };
    let targets: Vec<Container<'_>> =
        own.iter().copied().filter(|target| policy.regex.is_match(target.name())).collect();
    if targets.is_empty() {
        return Err(Denied::NoTarget {
            set: placed.sidecar_set.clone(),
            container: placed.name().to_owned(),
            regex: policy.regex.to_string(),
            candidates: names(own),
            expression: policy.first_expression().to_owned(),
        });
    }
    let sizing = Sizing { policy: &policy, targets: &targets, placed, notes };
    let resources = sizing.resources()?;
    if resources.is_empty() {
        placed.container.shift_remove("resources");
    } else {
        placed.container.insert("resources".to_owned(), Value::Object(resources));
    }
    Ok(())
}

struct Sizing<'a> {
    policy: &'a Policy,
    targets: &'a [Container<'a>],
    placed: &'a Placed,
    notes: &'a mut Vec<Note>,
}

impl Sizing<'_> {
    fn resources(mut self) -> Result<Object, Denied> {
        let policy = self.policy;
        let mut limits = Map::new();
        let mut requests = Map::new();
        for (i, resource) in RESOURCES.into_iter().enumerate() {
            let limit = match policy.limits.get(i).and_then(Option::as_ref) {
                Some(expression) => {
                    self.evaluate("limits", expression, resource, aggregate(policy.mode, self.limits(resource)))?
                }
                None => None,
            };
            let request = match policy.requests.get(i).and_then(Option::as_ref) {
                Some(expression) => {
                    self.evaluate("requests", expression, resource, aggregate(policy.mode, self.requests(resource)))?
                }
                // No expression means 0. It has to be written beside a limit: the API server would copy the limit otherwise.
                None => limit.map(|_| Quantity::ZERO),
            };
            if let Some(limit) = limit {
                limits.insert(resource.to_string(), Value::String(limit.to_string()));
            }
            if let Some(request) = self.within(request, limit, resource) {
                requests.insert(resource.to_string(), Value::String(request.to_string()));
            }
        }
        // Whatever else `resources` had (claims) is not the policy's to decide.
        let mut resources =
            self.placed.container.get("resources").and_then(Value::as_object).cloned().unwrap_or_default();
        for (list, values) in [("limits", limits), ("requests", requests)] {
            if values.is_empty() {
                resources.shift_remove(list);
            } else {
                resources.insert(list.to_owned(), Value::Object(values));
            }
        }
        Ok(resources)
    }

    /// A target without a limit is unlimited.
    fn limits(&self, resource: Resource) -> impl Iterator<Item = Amount> {
        self.targets.iter().map(move |target| target.limit(resource.name()).map_or(Amount::Unlimited, Amount::Finite))
    }

    /// A target without a request counts as 0.
    fn requests(&self, resource: Resource) -> impl Iterator<Item = Amount> {
        self.targets.iter().map(move |target| Amount::Finite(target.request(resource.name()).unwrap_or(Quantity::ZERO)))
    }

    fn evaluate(
        &mut self,
        list: &'static str,
        expression: &Expr,
        resource: Resource,
        variable: Amount,
    ) -> Result<Option<Quantity>, Denied> {
        let (value, said) = match expression.evaluate(variable, resource) {
            Outcome::Unlimited => (None, "unlimited, so it is not set".to_owned()),
            Outcome::Value(value) => (Some(value), value.to_string()),
            Outcome::Negative(value) => {
                return Err(Denied::Negative {
                    set: self.placed.sidecar_set.clone(),
                    container: self.placed.name().to_owned(),
                    list,
                    resource: resource.name(),
                    expression: expression.source().to_owned(),
                    value,
                    variable: variable.to_string(),
                });
            }
        };
        let mut message = format!("{list}.{resource} = {expression}");
        if said != expression.source() {
            message = format!("{message} = {said}");
        }
        if expression.variable().is_some() {
            let mode = if self.policy.mode == Mode::Sum { "sum" } else { "max" };
            message =
                format!("{message}, with {resource} = {variable}, the {mode} of the {list} of {}", names(self.targets));
        }
        self.note("Sized", message);
        Ok(value)
    }

    /// A request above its limit would be refused by the API server: it is lowered.
    fn within(&mut self, request: Option<Quantity>, limit: Option<Quantity>, resource: Resource) -> Option<Quantity> {
        match (request, limit) {
            (Some(request), Some(limit)) if request > limit => {
                let message = format!("requests.{resource} {request} is above the limit {limit} and was lowered to it");
                self.notes
                    .push(Note::warning(&self.placed.sidecar_set, "RequestLowered", message).about(self.placed.name()));
                Some(limit)
            }
            (request, _) => request,
        }
    }

    fn note(&mut self, reason: &'static str, message: String) {
        self.notes.push(Note::info(&self.placed.sidecar_set, reason, message).about(self.placed.name()));
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

fn names(containers: &[Container<'_>]) -> String {
    if containers.is_empty() {
        return "none".to_owned();
    }
    containers.iter().map(|container| container.name()).collect::<Vec<_>>().join(", ")
}
