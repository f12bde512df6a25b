//! A compiled `resourcesPolicy`.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use pillion_api::sidecarset::{ResourceExpressions, ResourcesPolicy, TargetContainersMode};
use pillion_expr::{Expr, ExprError, Resource};
use pillion_regexp::Regexp;

/// The resources that a policy sizes.
pub(crate) const RESOURCES: [Resource; 2] = [Resource::Cpu, Resource::Memory];

/// A `resourcesPolicy`, compiled.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) mode: Mode,
    pub(crate) regex: Regexp,
    pub(crate) limits: Expressions,
    pub(crate) requests: Expressions,
}

/// An expression for each of [`RESOURCES`].
pub(crate) type Expressions = [Option<Expr>; 2];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
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
        expression: String,
        /// What is wrong with it.
        #[source]
        error: ExprError,
    },
}

/// How many policies are remembered.
const REMEMBERED: usize = 256;

/// Policies that were compiled last, by their text. Most sets of a cluster have one of a few, and a regular expression takes long to
/// compile and much memory.
static COMPILED: LazyLock<Mutex<HashMap<String, Arc<Policy>>>> = LazyLock::new(Mutex::default);

impl Policy {
    /// The compiled policy, which sets with the same one share.
    pub(crate) fn shared(policy: &ResourcesPolicy) -> Result<Arc<Policy>, PolicyError> {
        let Ok(text) = serde_json::to_string(policy) else { return Policy::compile(policy).map(Arc::new) };
        let compiled = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled().get(&text) {
            return Ok(Arc::clone(known));
        }
        let new = Arc::new(Policy::compile(policy)?);
        let mut compiled = compiled();
        if compiled.len() >= REMEMBERED {
            compiled.clear();
        }
        compiled.insert(text, Arc::clone(&new));
        Ok(new)
    }

    fn compile(policy: &ResourcesPolicy) -> Result<Policy, PolicyError> {
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
    pub(crate) fn first_expression(&self) -> &str {
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
