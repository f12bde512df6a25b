//! Evaluates a checked expression, and counts what it costs.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::ast::{Comprehension, Expr, Kind, Literal};
use super::fault::Fault;
use super::library::{self, Call};
use super::value::{Map, Text, Value};
use super::{Node, Program, declarations};

/// The cost of one evaluation, and its limit.
#[derive(Debug)]
pub(crate) struct Evaluation {
    cost: Cell<u64>,
    limit: u64,
}

impl Evaluation {
    pub(crate) fn with_limit(limit: u64) -> Evaluation {
        Evaluation { cost: Cell::new(0), limit }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost.get()
    }

    fn refund(&self, cost: u64) {
        self.cost.set(self.cost.get().saturating_sub(cost));
    }

    fn charge(&self, cost: u64) -> Result<(), Fault> {
        self.cost.set(self.cost.get().saturating_add(cost));
        if self.cost.get() > self.limit { Err(Fault::CostLimit) } else { Ok(()) }
    }
}

/// What the variables of an expression are.
pub(crate) struct Bindings<'a, 'c> {
    pub(crate) variables: Vec<(&'static str, Value<'a>)>,
    /// The variables of a policy, by their place.
    pub(crate) composed: &'c dyn Fn(usize) -> Result<Value<'a>, Fault>,
}

/// For expressions outside of policies.
pub(crate) fn no_composed<'a>(_: usize) -> Result<Value<'a>, Fault> {
    Err(Fault::error("no such attribute(s): variables"))
}

pub(super) fn evaluate<'a>(
    program: &'a Program,
    bindings: &Bindings<'a, '_>,
    evaluation: &Evaluation,
) -> Result<Value<'a>, Fault> {
    Interpreter { program, bindings, evaluation, scopes: Vec::new(), accumulators: Vec::new() }.value(&program.root)
}

struct Interpreter<'a, 'b> {
    program: &'a Program,
    bindings: &'b Bindings<'a, 'b>,
    evaluation: &'b Evaluation,
    scopes: Vec<(&'a str, Value<'a>)>,
    /// An accumulator can hold an error: `[1, 0].exists(x, 1 / x == 1)` is true.
    accumulators: Vec<Result<Value<'a>, Fault>>,
}

impl<'a> Interpreter<'a, '_> {
    fn value(&mut self, expr: &'a Expr) -> Result<Value<'a>, Fault> {
        match &expr.kind {
            Kind::Literal(literal) => Ok(literal_value(literal)),
            Kind::Ident(name) => {
                let value = self.ident(name)?;
                self.evaluation.charge(u64::from(!matches!(value, Value::Type(_))))?;
                Ok(value)
            }
            Kind::Accumulator { take } => {
                self.evaluation.charge(1)?;
                match self.accumulators.last_mut() {
                    Some(accumulator) if *take => std::mem::replace(accumulator, Ok(Value::Null)),
                    Some(accumulator) => accumulator.clone(),
                    None => Err(Fault::error("no such attribute(s): @result")),
                }
            }
            Kind::Composed(place) => {
                self.evaluation.charge(2)?;
                (self.bindings.composed)(*place)
            }
            Kind::Select { operand: source, field, test } => {
                let operand = self.value(source)?;
                if *test {
                    return present(&operand, field).map(Value::Bool);
                }
                self.evaluation.charge(1 + u64::from(!is_path(source)))?;
                select(operand, field)
            }
            Kind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            Kind::List(elements) => {
                let mut items = Vec::with_capacity(elements.len());
                for (element, optional) in elements {
                    match self.value(element)? {
                        Value::Optional(inner) if *optional => items.extend(inner.map(|inner| inner.as_ref().clone())),
                        _ if *optional => {
                            return Err(Fault::error(
                                "cannot initialize optional list element from non-optional value",
                            ));
                        }
                        item => items.push(item),
                    }
                }
                self.evaluation.charge(self.unless_constant(expr, 10))?;
                Ok(Value::list(items))
            }
            Kind::Map(entries) => {
                let mut map = BTreeMap::new();
                for entry in entries {
                    let key = self.value(&entry.key)?;
                    let value = match (self.value(&entry.value)?, entry.optional) {
                        (Value::Optional(None), true) => continue,
                        (Value::Optional(Some(value)), true) => value.as_ref().clone(),
                        (value, _) => value,
                    };
                    let place = key.key().ok_or_else(|| Fault::error("unsupported key type"))?;
                    map.insert(place, (key, value));
                }
                self.evaluation.charge(self.unless_constant(expr, 30))?;
                Ok(Value::Map(Map::Owned(Arc::new(map))))
            }
            Kind::Struct { name } => Err(Fault::error(format!("unknown type: {name}"))),
            Kind::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    /// What is constant costs nothing.
    fn unless_constant(&self, expr: &Expr, cost: u64) -> u64 {
        if self.program.node(expr).is_some_and(|node| node.constant) { 0 } else { cost }
    }

    fn ident(&self, name: &'a str) -> Result<Value<'a>, Fault> {
        if let Some((_, value)) = self.scopes.iter().rev().find(|(known, _)| *known == name) {
            return Ok(value.clone());
        }
        if let Some((_, value)) = self.bindings.variables.iter().find(|(known, _)| *known == name) {
            return Ok(value.clone());
        }
        match declarations::type_named(name) {
            Some(_) => Ok(Value::Type(library::type_name(name))),
            None => Err(Fault::error(format!("no such attribute(s): {name}"))),
        }
    }

    fn boolean(&mut self, expr: &'a Expr) -> Result<bool, Fault> {
        match self.value(expr)? {
            Value::Bool(bool) => Ok(bool),
            _ => Err(Fault::no_such_overload()),
        }
    }

    fn call(
        &mut self,
        expr: &'a Expr,
        function: &'a str,
        target: Option<&'a Expr>,
        args: &'a [Expr],
    ) -> Result<Value<'a>, Fault> {
        match (function, args) {
            ("_&&_", [left, right]) => return self.logical(left, right, false),
            ("_||_", [left, right]) => return self.logical(left, right, true),
            ("_?_:_", [condition, yes, no]) => {
                let branch = if self.boolean(condition)? { yes } else { no };
                return self.branch(branch);
            }
            ("@not_strictly_false", [arg]) => {
                let value = self.value(arg);
                self.evaluation.charge(1)?;
                return match value {
                    Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
                    Err(Fault::CostLimit) => Err(Fault::CostLimit),
                    _ => Ok(Value::Bool(true)),
                };
            }
            ("_?._", [operand, field]) => {
                let operand = self.value(operand)?;
                let Kind::Literal(Literal::String(field)) = &field.kind else { return Err(Fault::no_such_overload()) };
                let found = optional_select(operand, field)?;
                self.evaluation.charge(u64::from(!matches!(found, Value::Optional(None))))?;
                return Ok(found);
            }
            ("or" | "orValue", [other]) => {
                if let Some(target) = target {
                    return self.optional_or(target, other, function);
                }
            }
            _ => {}
        }
        let mut values = Vec::with_capacity(args.len() + 1);
        let mut fault = None;
        // All arguments are evaluated, whatever comes of the first.
        for arg in target.into_iter().chain(args) {
            match self.value(arg) {
                Ok(value) => values.push(value),
                Err(Fault::CostLimit) => return Err(Fault::CostLimit),
                Err(other) => fault = fault.or(Some(other)),
            }
        }
        if let Some(fault) = fault {
            self.evaluation.charge(1)?;
            return Err(fault);
        }
        let node = self.program.node(expr);
        let regex = node.and_then(|node| node.regex.as_deref());
        let declared = node.and_then(|node: &Node| node.function).ok_or_else(Fault::no_such_overload)?;
        let run = declared.run.ok_or_else(Fault::no_such_overload)?;
        // Charged in advance where the cost is known, so that nothing large is built in vain.
        let cost = match (function, args) {
            // Membership in a list that is written out is looked up.
            ("@in", [_, list]) => self.unless_constant(list, library::cost_before(function, &values)),
            // What an index reads is part of the path.
            ("_[_]", [container, key]) => 1 + u64::from(!is_path(container)) - u64::from(is_attribute(key)),
            _ => self.unless_constant(expr, library::cost_before(function, &values)),
        };
        self.evaluation.charge(cost)?;
        let result = run(Call { function: declared.name, args: values, regex, result: self.program.type_of(expr) })?;
        self.evaluation.charge(library::cost_after(function, &result))?;
        Ok(result)
    }

    /// A branch of `?:`. Reading a variable is part of the choice, and costs nothing.
    fn branch(&mut self, expr: &'a Expr) -> Result<Value<'a>, Fault> {
        let before = self.evaluation.cost();
        let value = self.value(expr);
        if is_attribute(expr) && self.evaluation.cost() > before {
            self.evaluation.refund(1);
        }
        value
    }

    /// An error on one side does not count if the other decides.
    fn logical(&mut self, left: &'a Expr, right: &'a Expr, decisive: bool) -> Result<Value<'a>, Fault> {
        let left = self.boolean(left);
        match left {
            Ok(left) if left == decisive => return Ok(Value::Bool(decisive)),
            Err(Fault::CostLimit) => return Err(Fault::CostLimit),
            _ => {}
        }
        match (left, self.boolean(right)) {
            (_, Err(Fault::CostLimit)) => Err(Fault::CostLimit),
            (_, Ok(right)) if right == decisive => Ok(Value::Bool(decisive)),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            (Ok(_), Ok(_)) => Ok(Value::Bool(!decisive)),
        }
    }

    fn optional_or(&mut self, target: &'a Expr, other: &'a Expr, function: &str) -> Result<Value<'a>, Fault> {
        match self.value(target)? {
            Value::Optional(Some(value)) if function == "orValue" => Ok(value.as_ref().clone()),
            some @ Value::Optional(Some(_)) => Ok(some),
            Value::Optional(None) => self.value(other),
            _ => Err(Fault::no_such_overload()),
        }
    }

    fn comprehension(&mut self, comprehension: &'a Comprehension) -> Result<Value<'a>, Fault> {
        let range = self.value(&comprehension.range)?;
        let init = self.value(&comprehension.init);
        let (outside, depth) = (self.scopes.len(), self.accumulators.len());
        let result = self.looped(comprehension, &range, init);
        self.scopes.truncate(outside);
        self.accumulators.truncate(depth);
        result
    }

    fn looped(
        &mut self,
        comprehension: &'a Comprehension,
        range: &Value<'a>,
        init: Result<Value<'a>, Fault>,
    ) -> Result<Value<'a>, Fault> {
        if let Some(name) = &comprehension.accumulator {
            self.scopes.push((name, init?));
            return self.value(&comprehension.result);
        }
        self.accumulators.push(init);
        let inside = self.scopes.len();
        // Loops that build something cannot recover from an error.
        let builds = matches!(&comprehension.condition.kind, Kind::Literal(Literal::Bool(true)));
        let pairs = match range {
            Value::Map(map) => Some(map.entries()?),
            Value::List(_) => None,
            _ => return Err(Fault::no_such_overload()),
        };
        let count = match range {
            Value::List(list) => list.len(),
            _ => pairs.as_ref().map_or(0, Vec::len),
        };
        for index in 0..count {
            if !self.boolean(&comprehension.condition)? {
                break;
            }
            let (first, second) = match (range, &pairs) {
                (Value::List(list), _) => {
                    let item = list.get(index)?.unwrap_or(Value::Null);
                    let place = Value::Int(i64::try_from(index).unwrap_or(i64::MAX));
                    if comprehension.second_variable.is_some() { (place, item) } else { (item, Value::Null) }
                }
                (_, pairs) => {
                    pairs.as_ref().and_then(|pairs| pairs.get(index)).cloned().unwrap_or((Value::Null, Value::Null))
                }
            };
            self.scopes.push((&comprehension.variable, first));
            self.scopes.extend(comprehension.second_variable.iter().map(|name| (name.as_str(), second.clone())));
            let step = self.value(&comprehension.step);
            self.scopes.truncate(inside);
            if matches!(step, Err(Fault::CostLimit)) || builds && step.is_err() {
                return step;
            }
            if let Some(accumulator) = self.accumulators.last_mut() {
                *accumulator = step;
            }
        }
        self.value(&comprehension.result)
    }
}

/// What a field or an element can be read of without another step.
fn is_path(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Ident(_) | Kind::Accumulator { .. } | Kind::Composed(_) | Kind::Select { .. } => true,
        Kind::Call { function, .. } => matches!(function.as_str(), "_[_]" | "_[?_]" | "_?._" | "_?_:_"),
        _ => false,
    }
}

/// A variable, or a field of one.
fn is_attribute(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Ident(_) | Kind::Accumulator { .. } => true,
        Kind::Select { operand, test: false, .. } => is_attribute(operand),
        _ => false,
    }
}

fn literal_value(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(bool) => Value::Bool(*bool),
        Literal::Int(int) => Value::Int(*int),
        Literal::Uint(uint) => Value::Uint(*uint),
        Literal::Double(double) => Value::Double(*double),
        Literal::String(text) => Value::String(Text::Borrowed(text)),
        Literal::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
    }
}

fn select<'a>(operand: Value<'a>, field: &str) -> Result<Value<'a>, Fault> {
    match operand {
        Value::Map(map) => map.field(field)?.ok_or_else(|| Fault::error(format!("no such key: {field}"))),
        Value::Optional(Some(inner)) => optional_select(inner.as_ref().clone(), field),
        Value::Optional(None) => Ok(Value::Optional(None)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn optional_select<'a>(operand: Value<'a>, field: &str) -> Result<Value<'a>, Fault> {
    match operand {
        Value::Map(map) => Ok(Value::Optional(map.field(field)?.map(Arc::new))),
        Value::Optional(Some(inner)) => optional_select(inner.as_ref().clone(), field),
        Value::Optional(None) => Ok(Value::Optional(None)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn present(operand: &Value<'_>, field: &str) -> Result<bool, Fault> {
    match operand {
        Value::Map(map) => Ok(map.field(field)?.is_some()),
        Value::Optional(Some(inner)) => present(inner, field),
        Value::Optional(None) => Ok(false),
        _ => Err(Fault::no_such_overload()),
    }
}
