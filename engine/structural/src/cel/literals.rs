//! What is written in an expression is checked before it runs: durations, timestamps and patterns, and that lists and maps have elements of
//! one type.

use pillion_regexp::Regexp;

use super::ast::{Comprehension, Expr, Kind, Literal};
use super::issue::Issue;
use super::time::{parse_timestamp, timestamp_of};
use super::types::Type;
use super::{Node, Program};
use crate::go_duration;

/// What is wrong with the literals of an expression. What is made of them only is marked as constant.
pub(super) fn check(program: &mut Program) -> Vec<Issue> {
    let mut visitor = Visitor { nodes: &mut program.nodes, issues: Vec::new(), formats: 0 };
    visitor.visit(&program.root);
    visitor.issues
}

/// Conversions that are done once if what they convert is written in the expression.
const CONVERSIONS: [&str; 9] = ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "uint"];

struct Visitor<'a> {
    nodes: &'a mut Vec<Node>,
    issues: Vec<Issue>,
    /// How many calls of `format` are around, in which elements may be of any type.
    formats: usize,
}

impl Visitor<'_> {
    /// Whether the expression is constant.
    fn visit(&mut self, expr: &Expr) -> bool {
        let constant = match &expr.kind {
            Kind::Literal(_) => true,
            Kind::Select { operand, .. } => {
                self.visit(operand);
                false
            }
            Kind::Call { function, target, args } => {
                check_call(function, target.is_some(), args, &mut self.issues);
                let is_format = usize::from(function == "format");
                self.formats += is_format;
                if let Some(target) = target {
                    self.visit(target);
                }
                let constant = args.iter().filter(|arg| !self.visit(arg)).count() == 0;
                self.formats -= is_format;
                constant && target.is_none() && CONVERSIONS.contains(&function.as_str())
            }
            Kind::List(elements) => {
                self.check_types(elements.iter().map(|(element, optional)| (element, *optional)), true);
                elements.iter().filter(|(element, optional)| !self.visit(element) || *optional).count() == 0
            }
            Kind::Map(entries) => {
                self.check_types(entries.iter().map(|entry| (&entry.key, false)), false);
                self.check_types(entries.iter().map(|entry| (&entry.value, entry.optional)), false);
                let mut constant = true;
                for entry in entries {
                    let (key, value) = (self.visit(&entry.key), self.visit(&entry.value));
                    constant = constant && key && value && !entry.optional;
                }
                constant
            }
            Kind::Comprehension(comprehension) => {
                let Comprehension { range, init, condition, step, result, .. } = comprehension.as_ref();
                for part in [range, init, condition, step, result] {
                    self.visit(part);
                }
                false
            }
            Kind::Ident(_) | Kind::Accumulator { .. } | Kind::Composed(_) | Kind::Struct { .. } => false,
        };
        if let Some(node) = self.nodes.get_mut(expr.id) {
            node.constant = constant;
        }
        constant
    }

    /// Elements have the type of the first; of a list only the first that does not is reported.
    fn check_types<'e>(&mut self, elements: impl Iterator<Item = (&'e Expr, bool)>, once: bool) {
        if self.formats > 0 {
            return;
        }
        let mut wanted: Option<Type> = None;
        for (element, optional) in elements {
            let found = self.nodes.get(element.id).map(|node| node.type_of.clone()).unwrap_or_default();
            let found = if optional { found.unwrap_optional().cloned().unwrap_or_default() } else { found };
            match &wanted {
                None => wanted = Some(found),
                Some(wanted) if *wanted == found => {}
                Some(wanted) => {
                    self.issues.push(Issue::new(element.at, format!("expected type '{wanted}' but found '{found}'")));
                    if once {
                        return;
                    }
                }
            }
        }
    }
}

fn check_call(function: &str, is_member: bool, args: &[Expr], issues: &mut Vec<Issue>) {
    let arg = match (function, is_member) {
        ("duration" | "timestamp", false) | ("matches", true) => args.first(),
        ("matches", false) => args.get(1),
        _ => None,
    };
    let Some(Expr { at, kind: Kind::Literal(literal), .. }) = arg else { return };
    let fits = match (function, literal) {
        ("duration", Literal::String(text)) => go_duration::parse(text).is_some(),
        ("timestamp", Literal::String(text)) => parse_timestamp(text).is_some(),
        ("timestamp", Literal::Int(seconds)) => timestamp_of(*seconds).is_some(),
        ("matches", Literal::String(pattern)) => Regexp::new(pattern).is_ok(),
        _ => return,
    };
    if !fits {
        issues.push(Issue::new(*at, format!("invalid {function} argument")));
    }
}
