//! `ValidatingAdmissionPolicy`, and the `matchConditions` of policies and webhooks: expressions over a request.
//!
//! The caller decides which requests a policy is for, and brings the parameters; one evaluation is for one parameter.
//!
//! ```
//! use pillion_structural::policy::{Policy, Request, denial};
//! use serde_json::{Value, json};
//!
//! let policy = Policy::compile(&json!({"metadata": {"name": "few"}, "spec": {"validations": [{"expression": "object.spec.replicas <= 5"}]}}));
//! let object = json!({"spec": {"replicas": 6}});
//! let request = Request { object: &object, old_object: &Value::Null, request: &json!({}), namespace: &Value::Null, params: None };
//! let decisions = policy.evaluate(&request);
//! assert_eq!(
//!     denial("few", Some("few-all"), &decisions[0].message),
//!     "ValidatingAdmissionPolicy 'few' with binding 'few-all' denied request: failed expression: object.spec.replicas <= 5"
//! );
//! ```

mod environment;
mod expressions;

use std::cell::{Cell, OnceCell};

use serde_json::Value as Json;

use crate::cel::value::Value;
use crate::cel::{AUTHORIZER, Bindings, Evaluation, Fault, Program, RESOURCE_CHECK, no_composed};
use environment::{Allowed, REQUEST_RESOURCE};
pub use expressions::{validate_match_conditions, validate_policy};

/// What one evaluation may cost, all expressions of a policy for one request, and its conditions.
const CALL_LIMIT: u64 = 1_000_000;
const POLICY_BUDGET: u64 = 10_000_000;
const CONDITIONS_BUDGET: u64 = 2_500_000;
const MAX_MESSAGE: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// What expressions are evaluated on.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The object that is written; null when it is deleted.
    pub object: &'a Json,
    /// The object as it was; null when it is created.
    pub old_object: &'a Json,
    /// The `AdmissionRequest`, without its objects.
    pub request: &'a Json,
    /// The namespace of the object; null if it has none.
    pub namespace: &'a Json,
    /// The parameter, if the policy has a `paramKind`.
    pub params: Option<&'a Json>,
}

/// What a policy decides: one decision for each validation that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Why the request is refused.
    pub message: String,
    /// The reason of the status: `Invalid` unless the validation says another.
    pub reason: String,
    /// Which validation it was; `None` if the policy as a whole failed.
    pub validation: Option<usize>,
}

impl Decision {
    /// The HTTP status of the reason.
    pub fn code(&self) -> u16 {
        match self.reason.as_str() {
            "Forbidden" => 403,
            "Unauthorized" => 401,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        }
    }

    /// The warning of a binding with the action `Warn`.
    pub fn warning(&self, policy: &str, binding: &str) -> String {
        format!("Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {}", self.message)
    }
}

/// The message of a refusal.
pub fn denial(policy: &str, binding: Option<&str>, message: &str) -> String {
    match binding {
        Some(binding) => {
            format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}")
        }
        None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {message}"),
    }
}

/// An expression, and its program or what is wrong with it.
#[derive(Debug)]
struct Expression {
    name: String,
    source: String,
    program: Result<Program, String>,
}

/// Conditions under which something applies to a request, compiled.
#[derive(Debug, Default)]
pub struct MatchConditions {
    conditions: Vec<Expression>,
    fails_open: bool,
}

/// Whether conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// All do, or there are none.
    Yes,
    /// One does not; or one could not be evaluated, and failures are to be ignored.
    No,
    /// One could not be evaluated: the request is refused with this.
    Failed(String),
}

impl MatchConditions {
    /// Compiles `matchConditions` of a webhook; `failure_policy` is the webhook's.
    pub fn compile(conditions: &Json, failure_policy: &str) -> MatchConditions {
        MatchConditions::with(conditions, failure_policy, false)
    }

    fn with(conditions: &Json, failure_policy: &str, params: bool) -> MatchConditions {
        let environment = environment::of(params, true, Vec::new());
        let conditions = conditions.as_array().into_iter().flatten();
        let compile = |condition: &Json| {
            let source = text(condition, "expression");
            let program = environment::compile(&source, &environment, &[Allowed::Bool]);
            Expression { name: text(condition, "name"), source, program }
        };
        MatchConditions { conditions: conditions.map(compile).collect(), fails_open: failure_policy == "Ignore" }
    }

    /// Evaluates the conditions.
    pub fn evaluate(&self, request: &Request<'_>) -> Match {
        let request = Request { namespace: &Json::Null, ..*request };
        let Ok(variables) = variables(&request) else { return Match::Yes };
        let bindings = Bindings { variables, composed: &no_composed };
        let mut budget = CONDITIONS_BUDGET;
        let mut failures = Vec::new();
        for condition in &self.conditions {
            match evaluate(condition, &bindings, &mut budget, &Cell::new(0)) {
                Ok(Value::Bool(false)) => return Match::No,
                Ok(_) => {}
                Err(Failure::Expression(message)) => failures.push(message),
                Err(Failure::OutOfBudget) => {
                    failures = vec![OUT_OF_BUDGET.to_owned()];
                    break;
                }
            }
        }
        match failures.as_slice() {
            [] => Match::Yes,
            _ if self.fails_open => Match::No,
            [failure] => Match::Failed(failure.clone()),
            failures => Match::Failed(format!("[{}]", failures.join(", "))),
        }
    }
}

/// A compiled `ValidatingAdmissionPolicy`.
#[derive(Debug)]
pub struct Policy {
    conditions: MatchConditions,
    variables: Vec<Expression>,
    validations: Vec<Validation>,
    annotations: Vec<Expression>,
    fails_open: bool,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: String,
}

/// Why an expression has no value.
enum Failure {
    Expression(String),
    OutOfBudget,
}

impl Policy {
    /// Compiles a policy. An expression that does not compile fails whenever it is evaluated; [`validate_policy`] refuses it before.
    pub fn compile(policy: &Json) -> Policy {
        let spec = &policy["spec"];
        let params = spec["paramKind"].is_object();
        let failure_policy = spec["failurePolicy"].as_str().unwrap_or("Fail");
        let mut variables: Vec<Expression> = Vec::new();
        let mut composed = Vec::new();
        for variable in spec["variables"].as_array().into_iter().flatten() {
            let expression = environment::variable(variable, params, &composed);
            composed.push((expression.name.clone(), environment::result_type(&expression)));
            variables.push(expression);
        }
        let environment = environment::of(params, true, composed.clone());
        let for_messages = environment::of(params, false, composed);
        let validation = |validation: &Json| {
            let source = text(validation, "expression");
            let message_source = text(validation, "messageExpression");
            let message_expression = (!message_source.trim().is_empty()).then(|| Expression {
                name: String::new(),
                program: environment::compile(&message_source, &for_messages, &[Allowed::String]),
                source: message_source,
            });
            let program = environment::compile(&source, &environment, &[Allowed::Bool]);
            Validation {
                expression: Expression { name: String::new(), source, program },
                message: text(validation, "message"),
                message_expression,
                reason: validation["reason"].as_str().unwrap_or("Invalid").to_owned(),
            }
        };
        let annotation = |annotation: &Json| {
            let source = text(annotation, "valueExpression");
            let program = environment::compile(source.trim(), &environment, &[Allowed::String, Allowed::Null]);
            Expression { name: text(annotation, "key"), source, program }
        };
        Policy {
            conditions: MatchConditions::with(&spec["matchConditions"], failure_policy, params),
            variables,
            validations: spec["validations"].as_array().into_iter().flatten().map(validation).collect(),
            annotations: spec["auditAnnotations"].as_array().into_iter().flatten().map(annotation).collect(),
            fails_open: failure_policy == "Ignore",
        }
    }

    /// Evaluates the policy on a request, with one parameter. No decision: the request may pass.
    pub fn evaluate(&self, request: &Request<'_>) -> Vec<Decision> {
        match self.conditions.evaluate(request) {
            Match::Yes => {}
            Match::No => return Vec::new(),
            Match::Failed(message) => return self.failed(message, None),
        }
        let Ok(variables) = variables(request) else { return Vec::new() };
        let composer = Composer::new(&self.variables, variables);
        let composed = |place: usize| composer.value(place);
        let bindings = Bindings { variables: composer.variables.clone(), composed: &composed };
        let mut budget = POLICY_BUDGET;
        let mut results = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            match evaluate(&validation.expression, &bindings, &mut budget, &composer.cost) {
                Err(Failure::OutOfBudget) => return self.failed(OUT_OF_BUDGET.to_owned(), None),
                Err(Failure::Expression(message)) => results.push(Err(message)),
                Ok(value) => results.push(Ok(matches!(value, Value::Bool(true)))),
            }
        }
        let mut decisions = Vec::new();
        for (index, (validation, result)) in self.validations.iter().zip(results).enumerate() {
            match result {
                Ok(true) => {}
                Ok(false) => decisions.push(Decision {
                    message: validation.message(&bindings, &mut budget, &composer.cost),
                    reason: validation.reason.clone(),
                    validation: Some(index),
                }),
                Err(message) => decisions.extend(self.failed(message, Some(index))),
            }
        }
        decisions.extend(self.annotation_failures(&bindings, &composer.cost));
        decisions
    }

    /// Annotations are for the audit log, which there is none of; but that one fails refuses the request.
    fn annotation_failures<'a>(&'a self, bindings: &Bindings<'a, '_>, composed_cost: &Cell<u64>) -> Vec<Decision> {
        let mut budget = POLICY_BUDGET;
        let mut decisions = Vec::new();
        for annotation in &self.annotations {
            match evaluate(annotation, bindings, &mut budget, composed_cost) {
                Ok(_) => {}
                Err(Failure::Expression(message)) => decisions.extend(self.failed(message, None)),
                Err(Failure::OutOfBudget) => return self.failed(OUT_OF_BUDGET.to_owned(), None),
            }
        }
        decisions
    }

    fn failed(&self, message: String, validation: Option<usize>) -> Vec<Decision> {
        if self.fails_open { Vec::new() } else { vec![Decision { message, reason: "Invalid".to_owned(), validation }] }
    }
}

impl Validation {
    /// What is said of a validation that does not hold.
    fn message<'a>(&'a self, bindings: &Bindings<'a, '_>, budget: &mut u64, composed_cost: &Cell<u64>) -> String {
        if let Some(expression) = &self.message_expression
            && let Ok(Value::String(text)) = evaluate(expression, bindings, budget, composed_cost)
        {
            let text = text.trim();
            if !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n') {
                return text.to_owned();
            }
        }
        match self.message.trim() {
            "" => format!("failed expression: {}", self.expression.source.trim()),
            message => message.to_owned(),
        }
    }
}

/// Evaluates within a budget; what variables of the policy cost on the way counts.
fn evaluate<'a>(
    expression: &'a Expression,
    bindings: &Bindings<'a, '_>,
    budget: &mut u64,
    composed_cost: &Cell<u64>,
) -> Result<Value<'a>, Failure> {
    let program = match &expression.program {
        Ok(program) => program,
        Err(reason) => return Err(Failure::Expression(format!("compilation error: {reason}"))),
    };
    let evaluation = Evaluation::with_limit(CALL_LIMIT);
    let result = program.evaluate(bindings, &evaluation);
    let cost = evaluation.cost().saturating_add(composed_cost.take());
    *budget = budget.checked_sub(cost).ok_or(Failure::OutOfBudget)?;
    result.map_err(|fault| {
        Failure::Expression(format!("expression '{}' resulted in error: {}", expression.source, fault.message()))
    })
}

/// The variables of a policy: each is evaluated once, when it is first read.
struct Composer<'a> {
    expressions: &'a [Expression],
    variables: Vec<(&'static str, Value<'a>)>,
    values: Vec<OnceCell<Result<Value<'a>, Fault>>>,
    cost: Cell<u64>,
}

impl<'a> Composer<'a> {
    fn new(expressions: &'a [Expression], variables: Vec<(&'static str, Value<'a>)>) -> Composer<'a> {
        let values = expressions.iter().map(|_| OnceCell::new()).collect();
        Composer { expressions, variables, values, cost: Cell::new(0) }
    }

    fn value(&self, place: usize) -> Result<Value<'a>, Fault> {
        let (Some(expression), Some(value)) = (self.expressions.get(place), self.values.get(place)) else {
            return no_composed(place);
        };
        value.get_or_init(|| self.evaluate(expression)).clone()
    }

    /// A variable reads only those before it, so this ends.
    fn evaluate(&self, expression: &'a Expression) -> Result<Value<'a>, Fault> {
        let name = pillion_rules::field::quoted(&expression.name);
        let program = match &expression.program {
            Ok(program) => program,
            Err(reason) => return Err(Fault::error(format!("composited variable {name} fails to compile: {reason}"))),
        };
        let composed = |place: usize| self.value(place);
        let bindings = Bindings { variables: self.variables.clone(), composed: &composed };
        let evaluation = Evaluation::with_limit(CALL_LIMIT);
        let result = program.evaluate(&bindings, &evaluation);
        self.cost.set(self.cost.get().saturating_add(evaluation.cost()));
        result
            .map_err(|fault| Fault::error(format!("composited variable {name} fails to evaluate: {}", fault.message())))
    }
}

fn variables<'a>(request: &Request<'a>) -> Result<Vec<(&'static str, Value<'a>)>, Fault> {
    let mut variables = vec![
        ("object", Value::of(request.object, None)?),
        ("oldObject", Value::of(request.old_object, None)?),
        ("request", Value::of(request.request, None)?),
        ("namespaceObject", Value::of(request.namespace, None)?),
        ("authorizer", Value::Authorization(AUTHORIZER)),
        (REQUEST_RESOURCE, Value::Authorization(RESOURCE_CHECK)),
    ];
    if let Some(params) = request.params {
        variables.push(("params", Value::of(params, None)?));
    }
    Ok(variables)
}

fn text(value: &Json, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}
