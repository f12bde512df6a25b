//! What the expressions of policies may refer to, and what they may give.

use serde_json::Value as Json;

use super::{Expression, text};
use crate::cel::types::Type;
use crate::cel::{AUTHORIZER, Environment, Program, RESOURCE_CHECK};

pub(super) const REQUEST_RESOURCE: &str = "authorizer.requestResource";

/// What an expression may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    Bool,
    String,
    Null,
}

impl Allowed {
    fn is(self, found: &Type) -> bool {
        matches!(
            (self, found),
            (Allowed::Bool, Type::Bool) | (Allowed::String, Type::String) | (Allowed::Null, Type::Null)
        )
    }

    fn name(self) -> &'static str {
        match self {
            Allowed::Bool => "bool",
            Allowed::String => "string",
            Allowed::Null => "null_type",
        }
    }
}

/// Compiles an expression that may give what is allowed; anything, if that is nothing.
pub(super) fn compile(source: &str, environment: &Environment, allowed: &[Allowed]) -> Result<Program, String> {
    let mut program =
        Program::compile(source, environment).map_err(|issues| format!("compilation failed: {issues}"))?;
    if allowed.is_empty() || allowed.iter().any(|allowed| allowed.is(&program.result)) {
        return match program.bad_pattern.take() {
            None => Ok(program),
            Some(reason) => Err(format!("program instantiation failed: {reason}")),
        };
    }
    let found = &program.result;
    Err(match allowed {
        [only] => format!("must evaluate to {} but got {found}", only.name()),
        several => {
            let names: Vec<&str> = several.iter().map(|allowed| allowed.name()).collect();
            format!("must evaluate to one of [{}] but got {found}", names.join(" "))
        }
    })
}

/// Compiles a variable of a policy, which may refer to those before it.
pub(super) fn variable(variable: &Json, params: bool, before: &[(String, Type)]) -> Expression {
    let source = text(variable, "expression");
    let program = compile(&source, &among_variables(params, before), &[]);
    Expression { name: text(variable, "name"), source, program }
}

/// What a variable may refer to. To the first there are variables too, but none of them is known.
pub(super) fn among_variables(params: bool, before: &[(String, Type)]) -> Environment {
    let mut environment = of(params, true, before.to_vec());
    environment.variables.insert("variables", Type::object_of("kubernetes.variables", before.to_vec()));
    environment
}

/// The type of a variable; one that does not compile could be anything.
pub(super) fn result_type(expression: &Expression) -> Type {
    expression.program.as_ref().map_or(Type::Dyn, |program| program.result.clone())
}

/// The variables of expressions. The parameters are there if the policy has a kind of them.
pub(super) fn of(params: bool, authorizer: bool, composed: Vec<(String, Type)>) -> Environment {
    let mut variables = std::collections::HashMap::from([
        ("object", Type::Dyn),
        ("oldObject", Type::Dyn),
        ("request", request()),
        ("namespaceObject", namespace()),
    ]);
    if !composed.is_empty() {
        variables.insert("variables", Type::object_of("kubernetes.variables", composed.clone()));
    }
    if params {
        variables.insert("params", Type::Dyn);
    }
    if authorizer {
        variables.insert("authorizer", Type::Opaque(AUTHORIZER, Vec::new()));
        variables.insert(REQUEST_RESOURCE, Type::Opaque(RESOURCE_CHECK, Vec::new()));
    }
    Environment { variables, composed }
}

fn record<const N: usize>(name: &str, fields: [(&str, Type); N]) -> Type {
    Type::object_of(name, fields.into_iter().map(|(name, field)| (name.to_owned(), field)))
}

fn texts<const N: usize>(name: &str, fields: [&str; N]) -> Type {
    record(name, fields.map(|field| (field, Type::String)))
}

fn request() -> Type {
    let kind = || texts("kubernetes.GroupVersionKind", ["group", "version", "kind"]);
    let resource = || texts("kubernetes.GroupVersionResource", ["group", "version", "resource"]);
    let user = record(
        "kubernetes.UserInfo",
        [
            ("username", Type::String),
            ("uid", Type::String),
            ("groups", Type::list(Type::String)),
            ("extra", Type::map(Type::String, Type::list(Type::String))),
        ],
    );
    record(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", Type::String),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", Type::String),
            ("name", Type::String),
            ("namespace", Type::String),
            ("operation", Type::String),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

fn namespace() -> Type {
    let condition = record(
        "kubernetes.NamespaceCondition",
        [
            ("status", Type::String),
            ("type", Type::String),
            ("lastTransitionTime", Type::Timestamp),
            ("message", Type::String),
            ("reason", Type::String),
        ],
    );
    let map = || Type::map(Type::String, Type::String);
    let metadata = record(
        "kubernetes.NamespaceMetadata",
        [
            ("name", Type::String),
            ("generateName", Type::String),
            ("namespace", Type::String),
            ("labels", map()),
            ("annotations", map()),
            ("UID", Type::String),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", Type::String),
            ("finalizers", Type::list(Type::String)),
        ],
    );
    record(
        "kubernetes.Namespace",
        [
            ("metadata", metadata),
            ("spec", record("kubernetes.NamespaceSpec", [("finalizers", Type::list(Type::String))])),
            (
                "status",
                record("kubernetes.NamespaceStatus", [("conditions", Type::list(condition)), ("phase", Type::String)]),
            ),
        ],
    )
}
