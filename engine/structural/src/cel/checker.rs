//! Checks an expression against the types of what it refers to.

use std::collections::HashMap;
use std::sync::Arc;

use pillion_regexp::Regexp;

use super::ast::{Comprehension, Expr, Kind, Literal};
use super::declarations::{self, Function};
use super::issue::Issue;
use super::parser::Parsed;
use super::types::{self, Bindings, Type};
use super::{Environment, Node, Program};

/// Checks a parsed expression.
///
/// # Errors
/// What does not fit.
pub(super) fn check(parsed: Parsed, environment: &Environment) -> Result<Program, Vec<Issue>> {
    let Parsed { mut root, ids } = parsed;
    let mut checker = Checker {
        environment,
        nodes: vec![Node::default(); ids],
        bindings: Bindings::default(),
        scopes: Vec::new(),
        accumulators: Vec::new(),
        references: Vec::new(),
        bad_pattern: None,
        issues: Vec::new(),
    };
    let result = checker.check(&mut root);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let Checker { mut nodes, bindings, references, bad_pattern, .. } = checker;
    for node in &mut nodes {
        node.type_of = bindings.resolve(&node.type_of, true);
    }
    Ok(Program { result: bindings.resolve(&result, true), root, nodes, references, bad_pattern })
}

struct Checker<'a> {
    environment: &'a Environment,
    nodes: Vec<Node>,
    bindings: Bindings,
    /// Variables of the loops around, the innermost last.
    scopes: Vec<(String, Type)>,
    accumulators: Vec<Type>,
    references: Vec<String>,
    bad_pattern: Option<String>,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn complain(&mut self, at: usize, message: impl Into<String>) -> Type {
        self.issues.push(Issue::new(at, message));
        Type::Error
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Type {
        self.complain(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn shown(&self, of: &Type) -> Type {
        self.bindings.resolve(of, true)
    }

    fn check(&mut self, expr: &mut Expr) -> Type {
        let found = self.type_of(expr);
        if let Some(node) = self.nodes.get_mut(expr.id) {
            node.type_of = found.clone();
        }
        found
    }

    fn type_of(&mut self, expr: &mut Expr) -> Type {
        let at = expr.at;
        match &mut expr.kind {
            Kind::Literal(literal) => match literal {
                Literal::Null => Type::Null,
                Literal::Bool(_) => Type::Bool,
                Literal::Int(_) => Type::Int,
                Literal::Uint(_) => Type::Uint,
                Literal::Double(_) => Type::Double,
                Literal::String(_) => Type::String,
                Literal::Bytes(_) => Type::Bytes,
            },
            Kind::Ident(name) => {
                let name = name.clone();
                self.ident(&name).unwrap_or_else(|| self.undeclared(at, &name))
            }
            Kind::Accumulator { .. } => self.accumulators.last().cloned().unwrap_or_default(),
            Kind::Composed(place) => {
                self.environment.composed.get(*place).map(|(_, found)| found.clone()).unwrap_or_default()
            }
            Kind::Select { .. } => self.select(expr),
            Kind::Call { .. } => self.call(expr),
            Kind::List(elements) => {
                let mut element_type = None;
                for (element, optional) in elements {
                    let found = self.check(element);
                    let found = if *optional { self.unwrapped(element.at, found) } else { found };
                    element_type = Some(self.join(element_type, found));
                }
                Type::list(element_type.unwrap_or_else(|| self.bindings.fresh()))
            }
            Kind::Map(entries) => {
                let (mut keys, mut values) = (None, None);
                for entry in entries {
                    let key = self.check(&mut entry.key);
                    keys = Some(self.join(keys, key));
                    let value = self.check(&mut entry.value);
                    let value = if entry.optional { self.unwrapped(entry.value.at, value) } else { value };
                    values = Some(self.join(values, value));
                }
                let key = keys.unwrap_or_else(|| self.bindings.fresh());
                let value = values.unwrap_or_else(|| self.bindings.fresh());
                Type::map(key, value)
            }
            Kind::Struct { name } => {
                let name = name.clone();
                match declarations::type_named(&name) {
                    Some(found) => self.complain(at, format!("'{found}' is not a message type")),
                    None => self.undeclared(at, &name),
                }
            }
            Kind::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn ident(&mut self, name: &str) -> Option<Type> {
        if let Some((_, found)) = self.scopes.iter().rev().find(|(known, _)| known == name) {
            return Some(found.clone());
        }
        if let Some(found) = self.environment.variables.get(name) {
            if !self.references.iter().any(|known| known == name) {
                self.references.push(name.to_owned());
            }
            return Some(found.clone());
        }
        declarations::type_named(name).map(Type::type_of)
    }

    fn is_shadowed(&self, name: &str) -> bool {
        self.scopes.iter().any(|(known, _)| known == name)
    }

    fn select(&mut self, expr: &mut Expr) -> Type {
        // A name with dots may be one name.
        if let Some(name) = expr.qualified_name()
            && !self.is_shadowed(name.split('.').next().unwrap_or_default())
            && let Some(found) = self.ident(&name)
        {
            expr.kind = Kind::Ident(name);
            return found;
        }
        if let Some(found) = self.composed(expr) {
            return found;
        }
        let at = expr.at;
        let Kind::Select { operand, field, test } = &mut expr.kind else { return Type::Error };
        let (field, test) = (field.clone(), *test);
        let operand_type = self.check(operand);
        let found = self.field(at, &operand_type, &field, false);
        if test { Type::Bool } else { found }
    }

    /// `variables.name` of a policy.
    fn composed(&mut self, expr: &mut Expr) -> Option<Type> {
        let Kind::Select { operand, field, test: false } = &expr.kind else { return None };
        let Kind::Ident(name) = &operand.kind else { return None };
        if name != "variables" || self.is_shadowed(name) {
            return None;
        }
        let place = self.environment.composed.iter().position(|(known, _)| known == field)?;
        expr.kind = Kind::Composed(place);
        self.environment.composed.get(place).map(|(_, found)| found.clone())
    }

    fn field(&mut self, at: usize, operand: &Type, field: &str, optional: bool) -> Type {
        let operand = self.bindings.resolve(operand, false);
        let (target, was_optional) = match operand.unwrap_optional() {
            Some(inner) => (inner.clone(), true),
            None => (operand, false),
        };
        let found = match &target {
            Type::Map(_, value) => value.as_ref().clone(),
            Type::Object(object) => match object.field(field) {
                Some(found) => found.clone(),
                None => self.complain(at, format!("undefined field '{field}'")),
            },
            Type::Parameter(_) => {
                self.bindings.assign(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            _ => {
                let shown = self.shown(&target);
                self.complain(at, format!("type '{shown}' does not support field selection"));
                Type::Dyn
            }
        };
        if optional || was_optional { Type::optional(found) } else { found }
    }

    fn unwrapped(&mut self, at: usize, found: Type) -> Type {
        let found = self.bindings.resolve(&found, false);
        match found.unwrap_optional() {
            Some(inner) => inner.clone(),
            None if found.is_dyn_or_error() => found,
            None => {
                let (wanted, shown) = (self.shown(&Type::optional(found.clone())), self.shown(&found));
                self.complain(at, format!("expected type '{wanted}' but found '{shown}'"));
                found
            }
        }
    }

    /// The type of the elements of a literal. That they have one is checked later, where it is wanted.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.bindings.assign(&previous, &current) {
            return types::most_general(&previous, &current).clone();
        }
        Type::Dyn
    }

    fn mismatch(&mut self, at: usize, wanted: &Type, found: &Type) -> Type {
        let (wanted, found) = (self.shown(wanted), self.shown(found));
        self.complain(at, format!("expected type '{wanted}' but found '{found}'"))
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let (id, at) = (expr.id, expr.at);
        let Kind::Call { function, target, args } = &mut expr.kind else { return Type::Error };
        if function == "_?._" {
            return self.optional_select(id, at, args);
        }
        let mut arg_types: Vec<Type> = args.iter_mut().map(|arg| self.check(arg)).collect();
        // Given a.b.c(), either a.b.c is a function, or c is one that is called on a.b.
        if let Some(name) = target.as_ref().and_then(|target| target.qualified_name()) {
            let qualified = format!("{name}.{function}");
            let root = name.split('.').next().unwrap_or_default();
            if !self.is_shadowed(root)
                && let Some(found) = declarations::function(&qualified)
            {
                *function = qualified;
                *target = None;
                return self.resolve(id, at, found, args, &arg_types, false);
            }
        }
        let is_member = target.is_some();
        if let Some(target) = target {
            let found = self.check(target);
            arg_types.insert(0, found);
        }
        let Some(found) = declarations::function(function) else {
            let name = function.clone();
            return self.undeclared(at, &name);
        };
        self.keep_regex(id, function, is_member, args);
        self.resolve(id, at, found, args, &arg_types, is_member)
    }

    /// A pattern that is written in the expression is compiled once.
    fn keep_regex(&mut self, id: usize, function: &str, is_member: bool, args: &[Expr]) {
        let pattern = match (function, is_member) {
            ("matches" | "find" | "findAll", true) => args.first(),
            ("matches", false) => args.get(1),
            _ => None,
        };
        if let Some(Expr { kind: Kind::Literal(Literal::String(pattern)), .. }) = pattern
            && let Some(node) = self.nodes.get_mut(id)
        {
            match Regexp::new(pattern) {
                Ok(regex) => node.regex = Some(Arc::new(regex)),
                Err(reason) => self.bad_pattern = Some(reason.to_string()),
            }
        }
    }

    fn optional_select(&mut self, id: usize, at: usize, args: &mut [Expr]) -> Type {
        let [operand, field] = args else { return Type::Error };
        let operand_type = self.check(operand);
        self.check(field);
        let Kind::Literal(Literal::String(name)) = &field.kind else { return Type::Error };
        let name = name.clone();
        if let Some(node) = self.nodes.get_mut(id) {
            node.function = declarations::function("_?._");
            node.overloads = vec!["select_optional_field"];
        }
        self.field(at, &operand_type, &name, true)
    }

    fn resolve(
        &mut self,
        id: usize,
        at: usize,
        function: &'static Function,
        args: &[Expr],
        arg_types: &[Type],
        is_member: bool,
    ) -> Type {
        if matches!(function.name, "_&&_" | "_||_") {
            return self.logical(id, function, args, arg_types);
        }
        let mut result: Option<Type> = None;
        let mut overloads = Vec::new();
        for overload in function.overloads.iter().filter(|overload| overload.member == is_member) {
            let fresh = HashMap::from([(0, self.bindings.fresh()), (1, self.bindings.fresh())]);
            let parameters: Vec<Type> = overload.parameters.iter().map(|of| types::instantiate(of, &fresh)).collect();
            let from: Vec<&Type> = arg_types.iter().collect();
            if !self.bindings.assign_all(&from, &parameters.iter().collect::<Vec<_>>()) {
                continue;
            }
            overloads.push(overload.id);
            let found = self.bindings.resolve(&types::instantiate(&overload.result, &fresh), false);
            result = Some(match result {
                None => found,
                Some(earlier) if earlier == Type::Dyn || earlier == found => earlier,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let shown: Vec<String> = arg_types.iter().map(|of| self.shown(of).to_string()).collect();
            let signature = match shown.split_first() {
                Some((target, rest)) if is_member => format!("{target}.({})", rest.join(", ")),
                _ => format!("({})", shown.join(", ")),
            };
            let name = function.name;
            return self.complain(at, format!("found no matching overload for '{name}' applied to '{signature}'"));
        };
        if let Some(node) = self.nodes.get_mut(id) {
            node.function = Some(function);
            node.overloads = overloads;
        }
        result
    }

    fn logical(&mut self, id: usize, function: &'static Function, args: &[Expr], arg_types: &[Type]) -> Type {
        let mut fits = true;
        for (arg, found) in args.iter().zip(arg_types) {
            if !self.bindings.assign(found, &Type::Bool) {
                self.mismatch(arg.at, &Type::Bool, found);
                fits = false;
            }
        }
        if let Some(node) = self.nodes.get_mut(id) {
            node.function = Some(function);
            node.overloads = function.overloads.iter().map(|overload| overload.id).collect();
        }
        if fits { Type::Bool } else { Type::Error }
    }

    fn comprehension(&mut self, comprehension: &mut Comprehension) -> Type {
        let range = self.check(&mut comprehension.range);
        let accumulator = self.check(&mut comprehension.init);
        let range = self.bindings.resolve(&range, false);
        let (first, second) = match &range {
            Type::List(element) if comprehension.second_variable.is_some() => (Type::Int, element.as_ref().clone()),
            Type::List(element) => (element.as_ref().clone(), Type::Dyn),
            Type::Map(key, value) => (key.as_ref().clone(), value.as_ref().clone()),
            Type::Dyn | Type::Error | Type::Parameter(_) => {
                self.bindings.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            _ => {
                let shown = self.shown(&range);
                let message = format!(
                    "expression of type '{shown}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.complain(comprehension.range.at, message);
                (Type::Error, Type::Error)
            }
        };
        let outside = self.scopes.len();
        self.accumulators.push(accumulator.clone());
        self.scopes.extend(comprehension.accumulator.iter().map(|name| (name.clone(), accumulator.clone())));
        let accumulating = self.scopes.len();
        self.scopes.push((comprehension.variable.clone(), first));
        self.scopes.extend(comprehension.second_variable.iter().map(|name| (name.clone(), second.clone())));
        let condition = self.check(&mut comprehension.condition);
        self.expect(comprehension.condition.at, &Type::Bool, &condition);
        let step = self.check(&mut comprehension.step);
        self.expect(comprehension.step.at, &accumulator, &step);
        self.scopes.truncate(accumulating);
        let result = self.check(&mut comprehension.result);
        self.scopes.truncate(outside);
        self.accumulators.pop();
        self.bindings.resolve(&result, false)
    }

    fn expect(&mut self, at: usize, wanted: &Type, found: &Type) {
        if !self.bindings.assign(wanted, found) {
            self.mismatch(at, wanted, found);
        }
    }
}
