//! Macros: calls that stand for loops and tests.

use super::{Parser, Stop};
use crate::cel::ast::{Comprehension, Expr, Kind, Literal};

type Expand<T> = Result<T, Stop>;

/// A call, or the macro `has`.
pub(super) fn global_call(parser: &mut Parser, at: usize, function: String, mut args: Vec<Expr>) -> Expand<Expr> {
    if function == "has" && args.len() == 1 {
        let Some(arg) = args.pop() else { return Err(Stop) };
        return match arg.kind {
            Kind::Select { operand, field, test: false } => {
                parser.node(at, Kind::Select { operand, field, test: true })
            }
            _ => parser.fail(arg.at, "invalid argument to has() macro"),
        };
    }
    parser.node(at, Kind::Call { function, target: None, args })
}

/// A call on a target, or one of the macros that loop over it.
pub(super) fn member_call(
    parser: &mut Parser,
    at: usize,
    target: Expr,
    function: String,
    args: Vec<Expr>,
) -> Expand<Expr> {
    let mut maker = Maker { parser, at };
    match (function.as_str(), args.len()) {
        ("all" | "exists" | "existsOne" | "exists_one", 2 | 3) => maker.quantifier(&function, target, args),
        ("map", 2 | 3) => maker.map(target, args),
        ("filter", 2) => maker.filter(target, args),
        ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => maker.transform(&function, target, args),
        ("optMap" | "optFlatMap", 2) => maker.optional_map(&function, target, args),
        ("sortBy", 2) => maker.sort_by(target, args),
        _ => parser.node(at, Kind::Call { function, target: Some(Box::new(target)), args }),
    }
}

/// Makes the nodes of one macro, all at its place.
struct Maker<'a> {
    parser: &'a mut Parser,
    at: usize,
}

impl Maker<'_> {
    fn node(&mut self, kind: Kind) -> Expand<Expr> {
        self.parser.node(self.at, kind)
    }

    fn literal(&mut self, literal: Literal) -> Expand<Expr> {
        self.node(Kind::Literal(literal))
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expand<Expr> {
        self.parser.call(self.at, function, args)
    }

    fn member(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expand<Expr> {
        self.node(Kind::Call { function: function.to_owned(), target: Some(Box::new(target)), args })
    }

    fn accumulator(&mut self, take: bool) -> Expand<Expr> {
        self.node(Kind::Accumulator { take })
    }

    fn variable(&mut self, arg: &Expr, otherwise: &str) -> Expand<String> {
        match &arg.kind {
            Kind::Ident(name) if name == "__result__" => {
                self.parser.fail(arg.at, "iteration variable overwrites accumulator variable")
            }
            Kind::Ident(name) => Ok(name.clone()),
            _ => self.parser.fail(arg.at, otherwise),
        }
    }

    /// One or two variables, of the arguments before the last `count`.
    fn variables(&mut self, args: &mut Vec<Expr>, count: usize) -> Expand<(String, Option<String>)> {
        let names: Vec<Expr> = args.drain(..args.len().saturating_sub(count)).collect();
        let (Some(first), second) = (names.first(), names.get(1)) else { return Err(Stop) };
        let variable = self.variable(first, "argument must be a simple name")?;
        let second_variable = match second {
            Some(second) => Some(self.variable(second, "argument must be a simple name")?),
            None => None,
        };
        if let Some(second) = second
            && second_variable.as_ref() == Some(&variable)
        {
            return self.parser.fail(second.at, format!("duplicate variable name: {variable}"));
        }
        Ok((variable, second_variable))
    }

    fn quantifier(&mut self, function: &str, range: Expr, mut args: Vec<Expr>) -> Expand<Expr> {
        let (variable, second_variable) = self.variables(&mut args, 1)?;
        let Some(predicate) = args.pop() else { return Err(Stop) };
        let read = self.accumulator(false)?;
        let taken = self.accumulator(true)?;
        let shown = self.accumulator(true)?;
        let (init, condition, step, result) = match function {
            "all" => (
                self.literal(Literal::Bool(true))?,
                self.call("@not_strictly_false", vec![read])?,
                self.call("_&&_", vec![taken, predicate])?,
                shown,
            ),
            "exists" => {
                let negated = self.call("!_", vec![read])?;
                (
                    self.literal(Literal::Bool(false))?,
                    self.call("@not_strictly_false", vec![negated])?,
                    self.call("_||_", vec![taken, predicate])?,
                    shown,
                )
            }
            _ => {
                let one = self.literal(Literal::Int(1))?;
                let more = self.call("_+_", vec![taken, one])?;
                let same = self.accumulator(true)?;
                let one = self.literal(Literal::Int(1))?;
                (
                    self.literal(Literal::Int(0))?,
                    self.literal(Literal::Bool(true))?,
                    self.call("_?_:_", vec![predicate, more, same])?,
                    self.call("_==_", vec![shown, one])?,
                )
            }
        };
        self.comprehension(Comprehension {
            range,
            variable,
            second_variable,
            accumulator: None,
            init,
            condition,
            step,
            result,
        })
    }

    fn comprehension(&mut self, comprehension: Comprehension) -> Expand<Expr> {
        self.node(Kind::Comprehension(Box::new(comprehension)))
    }

    /// A step that is taken only where `filter` holds.
    fn filtered(&mut self, filter: Option<Expr>, step: Expr) -> Expand<Expr> {
        match filter {
            None => Ok(step),
            Some(filter) => {
                let same = self.accumulator(true)?;
                self.call("_?_:_", vec![filter, step, same])
            }
        }
    }

    fn append(&mut self, element: Expr) -> Expand<Expr> {
        let taken = self.accumulator(true)?;
        let element = self.node(Kind::List(vec![(element, false)]))?;
        self.call("_+_", vec![taken, element])
    }

    /// A loop that builds `init` up step by step.
    fn build(&mut self, range: Expr, variables: (String, Option<String>), init: Expr, step: Expr) -> Expand<Expr> {
        let (variable, second_variable) = variables;
        let condition = self.literal(Literal::Bool(true))?;
        let result = self.accumulator(true)?;
        self.comprehension(Comprehension {
            range,
            variable,
            second_variable,
            accumulator: None,
            init,
            condition,
            step,
            result,
        })
    }

    fn map(&mut self, range: Expr, mut args: Vec<Expr>) -> Expand<Expr> {
        let transform = args.pop();
        let filter = if args.len() == 2 { args.pop() } else { None };
        let (Some(name), Some(transform)) = (args.pop(), transform) else { return Err(Stop) };
        let variable = self.variable(&name, "argument is not an identifier")?;
        let init = self.node(Kind::List(Vec::new()))?;
        let step = self.append(transform)?;
        let step = self.filtered(filter, step)?;
        self.build(range, (variable, None), init, step)
    }

    fn filter(&mut self, range: Expr, mut args: Vec<Expr>) -> Expand<Expr> {
        let (Some(predicate), Some(name)) = (args.pop(), args.pop()) else { return Err(Stop) };
        let variable = self.variable(&name, "argument is not an identifier")?;
        let init = self.node(Kind::List(Vec::new()))?;
        let step = self.append(name)?;
        let step = self.filtered(Some(predicate), step)?;
        self.build(range, (variable, None), init, step)
    }

    fn transform(&mut self, function: &str, range: Expr, mut args: Vec<Expr>) -> Expand<Expr> {
        let transform = args.pop();
        let filter = if args.len() == 3 { args.pop() } else { None };
        let Some(transform) = transform else { return Err(Stop) };
        let variables = self.variables(&mut args, 0)?;
        let (init, step) = if function == "transformList" {
            (self.node(Kind::List(Vec::new()))?, self.append(transform)?)
        } else {
            let mut inserted = vec![self.accumulator(true)?];
            if function == "transformMap" {
                inserted.push(self.node(Kind::Ident(variables.0.clone()))?);
            }
            inserted.push(transform);
            (self.node(Kind::Map(Vec::new()))?, self.call("cel.@mapInsert", inserted)?)
        };
        let step = self.filtered(filter, step)?;
        self.build(range, variables, init, step)
    }

    /// Binds `name` to `init` in `result`: a loop over nothing.
    fn bind(&mut self, name: String, init: Expr, result: Expr) -> Expand<Expr> {
        let range = self.node(Kind::List(Vec::new()))?;
        let condition = self.literal(Literal::Bool(false))?;
        let step = self.node(Kind::Ident(name.clone()))?;
        self.comprehension(Comprehension {
            range,
            variable: "#unused".to_owned(),
            second_variable: None,
            accumulator: Some(name),
            init,
            condition,
            step,
            result,
        })
    }

    fn optional_map(&mut self, function: &str, target: Expr, mut args: Vec<Expr>) -> Expand<Expr> {
        let (Some(transform), Some(name)) = (args.pop(), args.pop()) else { return Err(Stop) };
        let variable = self.variable(&name, &format!("{function}() variable name must be a simple identifier"))?;
        let again = self.copy(&target)?;
        let has = self.member("hasValue", target, Vec::new())?;
        let value = self.member("value", again, Vec::new())?;
        let mut mapped = self.bind(variable, value, transform)?;
        if function == "optMap" {
            mapped = self.call("optional.of", vec![mapped])?;
        }
        let none = self.call("optional.none", Vec::new())?;
        self.call("_?_:_", vec![has, mapped, none])
    }

    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Expand<Expr> {
        if !matches!(
            target.kind,
            Kind::List(_) | Kind::Select { .. } | Kind::Ident(_) | Kind::Comprehension(_) | Kind::Call { .. }
        ) {
            let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return self.parser.fail(target.at, message);
        }
        let input = "@__sortBy_input__".to_owned();
        let range = self.node(Kind::Ident(input.clone()))?;
        let keys = self.map(range, args)?;
        let list = self.node(Kind::Ident(input.clone()))?;
        let sorted = self.member("@sortByAssociatedKeys", list, vec![keys])?;
        self.bind(input, target, sorted)
    }

    /// A second tree like the first, with ids of its own.
    fn copy(&mut self, expr: &Expr) -> Expand<Expr> {
        let mut copy = expr.clone();
        renumber(self.parser, &mut copy)?;
        Ok(copy)
    }
}

fn renumber(parser: &mut Parser, expr: &mut Expr) -> Expand<()> {
    expr.id = parser.node(expr.at, Kind::Literal(Literal::Null))?.id;
    match &mut expr.kind {
        Kind::Select { operand, .. } => renumber(parser, operand)?,
        Kind::Call { target, args, .. } => {
            for child in target.iter_mut().map(AsMut::as_mut).chain(args) {
                renumber(parser, child)?;
            }
        }
        Kind::List(elements) => {
            for (element, _) in elements {
                renumber(parser, element)?;
            }
        }
        Kind::Map(entries) => {
            for entry in entries {
                renumber(parser, &mut entry.key)?;
                renumber(parser, &mut entry.value)?;
            }
        }
        Kind::Comprehension(loop_) => {
            let Comprehension { range, init, condition, step, result, .. } = loop_.as_mut();
            for child in [range, init, condition, step, result] {
                renumber(parser, child)?;
            }
        }
        _ => {}
    }
    Ok(())
}
