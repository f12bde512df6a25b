//! The most that an expression can cost, from the sizes that a schema allows. A rule that could cost too much is refused when the
//! `CustomResourceDefinition` is written; the numbers decide that, so they are those of cel-go and Kubernetes.

use std::collections::HashMap;

use super::Program;
use super::ast::{Comprehension, Expr, Kind, Literal};
use super::types::Type;

/// A size that nothing bounds.
const UNBOUNDED: u64 = u64::MAX;

/// How large what an expression reads can be.
pub(crate) trait Sizes {
    /// The largest size of what is at the path below the variable: fields, `@items`, `@keys` and `@values`.
    fn largest(&self, path: &[String]) -> Option<u64>;
}

pub(super) fn worst_cost(program: &Program, sizes: &dyn Sizes) -> u64 {
    let mut estimator = Estimator {
        program,
        sizes,
        paths: HashMap::new(),
        known: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
        accumulators: Vec::new(),
    };
    estimator.cost(&program.root).max
}

/// At least and at most: of a size, or of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    min: u64,
    max: u64,
}

const UNKNOWN: Range = Range { min: 0, max: UNBOUNDED };
const NOTHING: Range = Range::fixed(0);
const ONE: Range = Range::fixed(1);
/// A tenth: what a character costs to go over.
const TRAVERSAL: f64 = 0.1;
/// What a character of a pattern costs, for each time that one of the text costs 1.
const PATTERN: f64 = 0.25;

impl Range {
    const fn fixed(size: u64) -> Range {
        Range { min: size, max: size }
    }

    fn add(self, other: Range) -> Range {
        Range { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Range) -> Range {
        Range { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "the cast saturates, as wanted"
    )]
    fn scale(self, factor: f64) -> Range {
        let scaled = |size: u64| (size as f64 * factor).ceil() as u64;
        Range { min: scaled(self.min), max: scaled(self.max) }
    }

    fn union(self, other: Range) -> Range {
        Range { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// Sizes of the keys and values of a container.
#[derive(Clone, Copy, Debug)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

impl Entries {
    fn union(self, other: Entries) -> Entries {
        Entries { key: self.key.union(other.key), value: self.value.union(other.value), ..self }
    }
}

#[derive(Clone, Debug, Default)]
struct Local {
    path: Vec<String>,
    size: Option<Range>,
    entries: Option<Entries>,
}

struct Estimator<'a> {
    program: &'a Program,
    sizes: &'a dyn Sizes,
    /// By the id of an expression.
    paths: HashMap<usize, Vec<String>>,
    known: HashMap<usize, Range>,
    entries: HashMap<usize, Entries>,
    locals: Vec<(&'a str, Local)>,
    accumulators: Vec<Local>,
}

impl<'a> Estimator<'a> {
    fn cost(&mut self, expr: &'a Expr) -> Range {
        match &expr.kind {
            Kind::Literal(_) => NOTHING,
            Kind::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(expr.id, path);
                ONE
            }
            Kind::Accumulator { .. } | Kind::Composed(_) => ONE,
            Kind::Select { operand, test: true, .. } => self.cost(operand),
            Kind::Select { operand, field, .. } => {
                let cost = self.cost(operand);
                let mut path = self.path(operand);
                path.push(field.clone());
                self.paths.insert(expr.id, path);
                match self.program.type_of(operand) {
                    Type::Map(..) | Type::Object(_) => cost.add(ONE),
                    _ => cost,
                }
            }
            Kind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            Kind::List(elements) => {
                let mut cost = Range::fixed(10);
                let mut value: Option<Range> = None;
                for (element, _) in elements {
                    cost = cost.add(self.cost(element));
                    let size = self.size_or_unknown(element);
                    value = Some(value.map_or(size, |value| value.union(size)));
                }
                let value = value.unwrap_or(NOTHING);
                self.entries.insert(expr.id, Entries { is_list: true, key: ONE, value });
                cost
            }
            Kind::Map(entries) => {
                let mut cost = Range::fixed(30);
                let mut sizes: Option<(Range, Range)> = None;
                for entry in entries {
                    cost = cost.add(self.cost(&entry.key)).add(self.cost(&entry.value));
                    let (key, value) = (self.size_or_unknown(&entry.key), self.size_or_unknown(&entry.value));
                    sizes = Some(sizes.map_or((key, value), |(k, v)| (k.union(key), v.union(value))));
                }
                let (key, value) = sizes.unwrap_or((NOTHING, NOTHING));
                self.entries.insert(expr.id, Entries { is_list: false, key, value });
                cost
            }
            Kind::Struct { .. } => Range::fixed(40),
            Kind::Comprehension(comprehension) => self.comprehension(expr, comprehension),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|(known, _)| *known == name).map(|(_, local)| local)
    }

    fn path(&self, expr: &Expr) -> Vec<String> {
        if let Kind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    /// The size of what an expression gives, if anything is known of it.
    fn size(&mut self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.known.get(&expr.id) {
            return Some(*size);
        }
        match &expr.kind {
            Kind::Literal(Literal::String(text)) => return Some(Range::fixed(length(text.chars().count()))),
            Kind::Literal(Literal::Bytes(bytes)) => return Some(Range::fixed(length(bytes.len()))),
            Kind::Literal(_) => return Some(ONE),
            Kind::List(elements) => return Some(Range::fixed(length(elements.len()))),
            Kind::Map(entries) => return Some(Range::fixed(length(entries.len()))),
            _ => {}
        }
        if let Some(size) = self.size_at(&self.path(expr)) {
            self.known.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.program.type_of(expr)) {
            return Some(ONE);
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.size),
            Kind::Accumulator { .. } => self.accumulators.last().and_then(|local| local.size),
            _ => None,
        }
    }

    fn size_at(&self, path: &[String]) -> Option<Range> {
        let (_, below) = path.split_first()?;
        self.sizes.largest(below).map(|max| Range { min: 0, max })
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(UNKNOWN)
    }

    fn entries_of(&self, expr: &Expr) -> Option<Entries> {
        self.entries.get(&expr.id).copied().or_else(|| match &expr.kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.entries),
            Kind::Accumulator { .. } => self.accumulators.last().and_then(|local| local.entries),
            _ => None,
        })
    }

    fn call(&mut self, expr: &'a Expr, function: &str, target: Option<&'a Expr>, args: &'a [Expr]) -> Range {
        if let ("dyn", [arg]) = (function, args) {
            let cost = self.cost(arg).add(ONE);
            if let Some(size) = self.size(arg) {
                self.known.insert(expr.id, size);
            }
            self.entries.extend(self.entries_of(arg).map(|entries| (expr.id, entries)));
            return cost;
        }
        let costs: Vec<Range> = args.iter().map(|arg| self.cost(arg)).collect();
        let target_cost = target.map_or(NOTHING, |target| self.cost(target));
        let overloads = self.program.node(expr).map(|node| node.overloads.clone()).unwrap_or_default();
        let mut cost: Option<Range> = None;
        let mut size: Option<Range> = None;
        for overload in overloads {
            let (call_cost, result) = self.overload(expr, function, overload, target, args, &costs);
            cost = Some(cost.map_or(call_cost, |cost| cost.union(call_cost)));
            size = match (size, result) {
                (Some(a), Some(b)) => Some(a.union(b)),
                (a, b) => a.or(b),
            };
            if let (Some(container), Some(step)) = (
                args.first(),
                match overload {
                    "index_list" => Some("@items"),
                    "index_map" => Some("@values"),
                    _ => None,
                },
            ) {
                size = self.entries_of(container).map(|entries| entries.value);
                let mut path = self.path(container);
                path.push(step.to_owned());
                self.paths.insert(expr.id, path);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if let Some(size) = size {
            self.known.insert(expr.id, size);
        }
        target_cost.add(cost.unwrap_or(NOTHING))
    }

    /// What a call of one overload costs, with its arguments; and the size of its result.
    fn overload(
        &mut self,
        expr: &Expr,
        function: &str,
        overload: &str,
        target: Option<&Expr>,
        args: &[Expr],
        costs: &[Range],
    ) -> (Range, Option<Range>) {
        let sum = costs.iter().fold(NOTHING, |sum, cost| sum.add(*cost));
        if let Some((cost, size)) = self.kubernetes(function, overload, target, args) {
            return (cost.add(sum), size);
        }
        let first = args.first().map_or(UNKNOWN, |arg| self.size_or_unknown(arg));
        let second = args.get(1).map_or(UNKNOWN, |arg| self.size_or_unknown(arg));
        let target = target.map_or(UNKNOWN, |target| self.size_or_unknown(target));
        match (overload, costs, args) {
            ("string_format", ..) => (target.scale(TRAVERSAL).add(sum), None),
            ("string_to_bytes", ..) => {
                (first.scale(TRAVERSAL).add(sum), Some(Range { min: first.min, max: first.max.saturating_mul(4) }))
            }
            ("bytes_to_string", ..) => {
                (first.scale(TRAVERSAL).add(sum), Some(Range { min: first.min / 4, max: first.max }))
            }
            ("strings_quote", ..) => {
                let most = first.max.saturating_mul(2).saturating_add(2);
                (first.scale(TRAVERSAL).add(sum), Some(Range { min: first.min.saturating_add(2), max: most }))
            }
            ("starts_with_string" | "ends_with_string", ..) => (first.scale(TRAVERSAL).add(sum), None),
            ("in_list", ..) => (second.add(sum), None),
            ("matches_string", ..) => (target.add(ONE).scale(TRAVERSAL).times(first.scale(PATTERN)).add(sum), None),
            ("contains_string", ..) => (target.scale(TRAVERSAL).times(first.scale(TRAVERSAL)).add(sum), None),
            ("logical_or" | "logical_and", [left, right], _) => {
                (Range { min: left.min, max: left.add(*right).max }, None)
            }
            ("conditional", [condition, yes, no], [_, if_true, if_false]) => {
                let size = self.size_or_unknown(if_true).union(self.size_or_unknown(if_false));
                if let (Some(a), Some(b)) = (self.entries_of(if_true), self.entries_of(if_false)) {
                    self.entries.insert(expr.id, a.union(b));
                }
                (condition.add(yes.union(*no)), Some(size))
            }
            ("add_string" | "add_bytes" | "add_list", _, [left, right]) => {
                if let (Some(a), Some(b)) = (self.entries_of(left), self.entries_of(right)) {
                    self.entries.insert(expr.id, a.union(b));
                }
                let size = first.add(second);
                let cost = if overload == "add_list" { ONE } else { size.scale(TRAVERSAL) };
                (cost.add(sum), Some(size))
            }
            ("less_string" | "equals" | "not_equals", ..) => {
                let max = first.max.min(second.max);
                (Range { min: u64::from(max > 0), max }.scale(TRAVERSAL).add(sum), None)
            }
            _ => (ONE.add(sum), None),
        }
    }

    /// What Kubernetes says of the functions that it adds, and of those of cel-go's extensions.
    fn kubernetes(
        &mut self,
        function: &str,
        overload: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Option<(Range, Option<Range>)> {
        let on = target.map(|target| self.size_or_unknown(target));
        let first = args.first().map(|arg| self.size_or_unknown(arg));
        Some(match function {
            "check" => (Range::fixed(350_000), None),
            "serviceAccount"
            | "path"
            | "group"
            | "resource"
            | "subresource"
            | "namespace"
            | "name"
            | "allowed"
            | "reason"
            | "error"
            | "errored"
            | "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery" => (ONE, None),
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match self.element(target?) {
                Some((is_text, size)) => {
                    let element = if is_text { ONE.add(size.scale(TRAVERSAL)) } else { ONE };
                    (on?.times(element), None)
                }
                None => (on?.scale(TRAVERSAL), None),
            },
            "url" => (first?.scale(TRAVERSAL), first),
            "lowerAscii" | "upperAscii" | "substring" | "trim" => (on?.scale(TRAVERSAL), on),
            "replace" => {
                let with = args.get(1).map(|arg| self.size_or_unknown(arg))?;
                (on?.scale(2.0 * TRAVERSAL), Some(replaced(on?, first?, with)))
            }
            "split" => {
                let limit = match args.get(1).map(|limit| &limit.kind) {
                    Some(Kind::Literal(Literal::Int(limit))) => u64::try_from(*limit).unwrap_or(UNBOUNDED),
                    _ => on?.max,
                };
                (on?.scale(2.0 * TRAVERSAL), Some(Range { min: 0, max: limit }))
            }
            "join" => {
                let list = on?;
                let mut size = self.element(target?).map_or(NOTHING, |(_, element)| list.times(element));
                if let Some(separator) = first {
                    let separators = Range { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
                    size = size.add(separator.times(separators));
                }
                (size.scale(TRAVERSAL), Some(size))
            }
            "find" | "findAll" => {
                let cost = on?.add(ONE).scale(TRAVERSAL).times(first?.scale(PATTERN));
                (cost, Some(Range { min: 0, max: on?.max }))
            }
            "ip" if overload == "cidr_ip" => (ONE, None),
            "ip" | "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                (first?.scale(TRAVERSAL), None)
            }
            "ip.isCanonical" => (first?.scale(2.0 * TRAVERSAL), None),
            "containsIP" | "containsCIDR" => {
                let address = Range { min: 4, max: 16 };
                let mut cost = address.add(address).scale(TRAVERSAL);
                if function == "containsCIDR" {
                    cost = cost.add(address.scale(TRAVERSAL)).add(ONE);
                }
                if overload.ends_with("_string") {
                    cost = cost.add(first?.scale(TRAVERSAL));
                }
                (cost, None)
            }
            "validate" => (first?.scale(TRAVERSAL).scale(128.0 * PATTERN), None),
            "lists.range" => allocating(1.0, Range::fixed(literal(args.first()).unwrap_or(UNBOUNDED))),
            "reverse" if overload == "list_reverse" => allocating(1.0, on?),
            "slice" => {
                let (start, end) = (literal(args.first()).unwrap_or(0), literal(args.get(1)).unwrap_or(on?.max));
                // As in cel-go, where the difference wraps.
                allocating(1.0, Range::fixed(end.wrapping_sub(start)))
            }
            #[allow(clippy::cast_precision_loss, reason = "a factor")]
            "flatten" => {
                let levels = if args.is_empty() { 1 } else { literal(args.first()).unwrap_or(UNBOUNDED) };
                allocating(levels as f64, on?)
            }
            "distinct" => allocating(2.0, on?.times(on?)),
            "sort" | "@sortByAssociatedKeys" => {
                let keys = if function == "sort" { target? } else { args.first()? };
                let is_text = self.element(keys).is_some_and(|(is_text, _)| is_text);
                let size = self.size_or_unknown(keys);
                allocating(if is_text { 2.0 + TRAVERSAL } else { 2.0 }, size.times(size))
            }
            "sets.contains" | "sets.intersects" | "sets.equivalent" => {
                let second = args.get(1).map(|arg| self.size_or_unknown(arg))?;
                let factor = if function == "sets.equivalent" { 2.0 } else { 1.0 };
                (first?.times(second).scale(factor).add(ONE), None)
            }
            "_==_" => match args.first().map(|arg| self.program.type_of(arg)) {
                Some(Type::Opaque(name, _)) if *name != super::types::OPTIONAL => (ONE, None),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Of a list: whether its elements are text, and their size.
    fn element(&mut self, list: &Expr) -> Option<(bool, Range)> {
        let Type::List(element) = self.program.type_of(list) else { return None };
        let mut path = self.path(list);
        if !path.is_empty() {
            path.push("@items".to_owned());
        }
        let size = self.size_at(&path).unwrap_or(UNKNOWN);
        Some((matches!(**element, Type::String | Type::Bytes), size))
    }

    fn comprehension(&mut self, expr: &'a Expr, comprehension: &'a Comprehension) -> Range {
        let mut cost = self.cost(&comprehension.range).add(self.cost(&comprehension.init));
        let accumulator = Local {
            path: self.path(&comprehension.init),
            size: self.size(&comprehension.init),
            entries: self.entries_of(&comprehension.init),
        };
        let outside = self.locals.len();
        if let Some(name) = &comprehension.accumulator {
            self.locals.push((name, accumulator));
            cost = cost.add(self.cost(&comprehension.result));
            let (size, entries) = (self.size(&comprehension.result), self.entries_of(&comprehension.result));
            self.locals.truncate(outside);
            self.known.extend(size.map(|size| (expr.id, size)));
            self.entries.extend(entries.map(|entries| (expr.id, entries)));
            return cost;
        }
        self.accumulators.push(accumulator);
        self.push_variables(comprehension);
        let each = self.cost(&comprehension.condition).add(self.cost(&comprehension.step));
        self.locals.truncate(outside);
        cost = cost.add(self.cost(&comprehension.result));
        self.accumulators.pop();
        let count = self.size_or_unknown(&comprehension.range);
        match &comprehension.init.kind {
            Kind::Literal(_) => {
                let size = self.size(&comprehension.init);
                self.known.extend(size.map(|size| (expr.id, size)));
            }
            Kind::List(_) | Kind::Map(_) => {
                self.known.insert(expr.id, count);
                self.entries.extend(self.entries_of(&comprehension.step).map(|entries| (expr.id, entries)));
            }
            _ => {}
        }
        cost.add(count.times(each))
    }

    fn push_variables(&mut self, comprehension: &'a Comprehension) {
        let entries = self.entries_of(&comprehension.range);
        let is_list = entries.map_or_else(
            || matches!(self.program.type_of(&comprehension.range), Type::List(_)),
            |entries| entries.is_list,
        );
        let path = self.path(&comprehension.range);
        let below = |step: &str, size: Option<Range>| {
            let mut path = path.clone();
            path.push(step.to_owned());
            Local { path, size, entries: None }
        };
        let (key, value) = (entries.map(|entries| entries.key), entries.map(|entries| entries.value));
        let keys = below(if is_list { "@indices" } else { "@keys" }, key);
        let values = below(if is_list { "@items" } else { "@values" }, value);
        match &comprehension.second_variable {
            Some(second) => {
                self.locals.push((&comprehension.variable, keys));
                self.locals.push((second, values));
            }
            None => self.locals.push((&comprehension.variable, if is_list { values } else { keys })),
        }
    }
}

/// A call that makes a list.
fn allocating(factor: f64, size: Range) -> (Range, Option<Range>) {
    (size.scale(factor).add(Range::fixed(11)), Some(size))
}

/// A number that is written out; below zero it counts as zero.
fn literal(arg: Option<&Expr>) -> Option<u64> {
    match arg.map(|arg| &arg.kind) {
        Some(Kind::Literal(Literal::Int(int))) => Some(u64::try_from(*int).unwrap_or_default()),
        _ => None,
    }
}

/// The size of text in which something was replaced.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the cast saturates, as wanted"
)]
fn replaced(text: Range, from: Range, with: Range) -> Range {
    let share = |size: u64, part: u64| (size as f64 / part as f64).ceil() as u64;
    let (most, kept_most) = match (from.min, with.max) {
        (0, _) => (text.max.saturating_add(1), text.max),
        (least, with) if with <= least => (0, text.max),
        (least, _) => (share(text.max, least), 0),
    };
    let (fewest, kept_least) = match (from.max, with.min) {
        (0, _) => (text.min.saturating_add(1), text.min),
        (most, with) if most <= with => (0, text.min),
        (most, _) => (share(text.min, most), 0),
    };
    Range { min: fewest, max: most }.times(with).add(Range { min: kept_least, max: kept_most })
}

fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        _ => of.unwrap_optional().is_some_and(is_scalar),
    }
}

fn length(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}
