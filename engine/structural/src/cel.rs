//! The Common Expression Language as Kubernetes has it: parsed, checked against types, estimated, and evaluated under a cost limit.
//!
//! ```text
//!  text ──lexer──▶ tokens ──parser, macros──▶ Expr ──checker(types, declarations)──▶ Program ──interpreter(library)──▶ Value
//!                                                                               └──estimate──▶ worst cost
//! ```
//! Messages for what is wrong in an expression, and for what goes wrong in evaluating it, are those of cel-go.

mod ast;
mod base64;
mod checker;
mod cidr;
mod declarations;
mod estimate;
mod fault;
mod index;
mod interpreter;
mod issue;
mod lexer;
mod library;
mod literals;
mod named_format;
mod parser;
mod semver;
mod shown;
mod time;
pub(crate) mod types;
pub(crate) mod value;

use std::collections::HashMap;
use std::sync::Arc;

use ast::Expr;
use declarations::Function;
pub(crate) use estimate::Sizes;
pub(crate) use fault::Fault;
pub(crate) use interpreter::{Bindings, Evaluation, no_composed};
pub(crate) use library::{AUTHORIZER, RESOURCE_CHECK};
use pillion_regexp::Regexp;
use types::Type;
use value::Value;

/// What an expression may refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    pub(crate) variables: HashMap<&'static str, Type>,
    /// The fields of `variables`, by name: those of a policy. Their order is that in which they were declared.
    pub(crate) composed: Vec<(String, Type)>,
}

/// A checked expression.
#[derive(Debug)]
pub(crate) struct Program {
    root: Expr,
    /// By the id of an expression.
    nodes: Vec<Node>,
    pub(crate) result: Type,
    /// Names of variables that the expression refers to.
    pub(crate) references: Vec<String>,
    /// Why a pattern that is written in it cannot be compiled.
    pub(crate) bad_pattern: Option<String>,
}

/// What the checker found out about one expression.
#[derive(Clone, Debug, Default)]
struct Node {
    type_of: Type,
    function: Option<&'static Function>,
    /// Ids of the overloads that may be meant.
    overloads: Vec<&'static str>,
    /// The pattern of `matches`, `find` and `findAll`, where it is written in the expression.
    regex: Option<Arc<Regexp>>,
    /// Made of literals only, so that it costs nothing to evaluate.
    constant: bool,
}

impl Program {
    /// Parses and checks an expression.
    ///
    /// # Errors
    /// Everything that is wrong, as cel-go displays it.
    pub(crate) fn compile(source: &str, environment: &Environment) -> Result<Program, String> {
        let parsed = parser::parse(source).map_err(|issues| issue::display(source, issues))?;
        let mut program = checker::check(parsed, environment).map_err(|issues| issue::display(source, issues))?;
        let issues = literals::check(&mut program);
        if issues.is_empty() { Ok(program) } else { Err(issue::display(source, issues)) }
    }

    /// The most that an evaluation can cost, given the sizes of what it reads.
    pub(crate) fn worst_cost(&self, sizes: &dyn Sizes) -> u64 {
        estimate::worst_cost(self, sizes)
    }

    /// Evaluates. The cost is counted into `evaluation`.
    ///
    /// # Errors
    /// What went wrong, in cel-go's words.
    pub(crate) fn evaluate<'a>(
        &'a self,
        bindings: &Bindings<'a, '_>,
        evaluation: &Evaluation,
    ) -> Result<Value<'a>, Fault> {
        interpreter::evaluate(self, bindings, evaluation)
    }

    fn node(&self, expr: &Expr) -> Option<&Node> {
        self.nodes.get(expr.id)
    }

    fn type_of(&self, expr: &Expr) -> &Type {
        self.node(expr).map_or(&Type::Dyn, |node| &node.type_of)
    }
}
