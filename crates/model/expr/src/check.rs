//! Types, without a pod: what passes here evaluates for every pod.

use crate::amount::Resource;
use crate::error::{ExprErrorKind, Fault};
use crate::linear::{Base, Combinator, Linear, Term};
use crate::parse::{Operation, Operator};
use crate::program::Program;
use crate::rational::Rational;
use crate::token::Span;
use crate::value::NANOS_PER_UNIT;

/// A value whose type is known.
#[derive(Clone, Debug)]
pub(crate) enum Typed {
    /// Dimensionless. No variable is, so the value is known too.
    Number(Rational),
    /// Cores or bytes.
    Quantity(Term<Rational>),
}

impl Typed {
    /// As a quantity: a number is whole units.
    fn into_term(self) -> Term<Rational> {
        match self {
            Self::Quantity(term) => term,
            Self::Number(number) => {
                Term { base: Base::Nano(None), factor: number.multiply(&Rational::integer(NANOS_PER_UNIT)) }
            }
        }
    }

    fn scale(self, number: &Rational) -> Self {
        match self {
            Self::Number(factor) => Self::Number(factor.multiply(number)),
            Self::Quantity(Term { base, factor }) => Self::Quantity(Term { base, factor: factor.multiply(number) }),
        }
    }
}

/// What checking yields.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) program: Program,
    pub(crate) result: Term<Rational>,
    pub(crate) variable: Option<Resource>,
    /// The value of each part of the source that is not a literal, in the order of evaluation.
    pub(crate) parts: Vec<(Span, Typed)>,
}

/// Checks operations in postfix order. Without a resource either variable is allowed, but not both.
pub(crate) fn check(operations: Vec<Operation>, resource: Option<Resource>) -> Result<Checked, Fault> {
    let mut checker = Checker { linear: Linear::default(), stack: Vec::new(), resource, variable: None };
    let mut parts = Vec::with_capacity(operations.len());
    for Operation { operator, span, at } in operations {
        let is_literal = matches!(operator, Operator::Literal(_));
        let typed = checker.typed(operator, at)?;
        if !is_literal {
            parts.push((span, typed.clone()));
        }
        checker.stack.push(typed);
    }
    let result = checker.pop().into_term();
    let Checker { linear, variable, .. } = checker;
    Ok(Checked { program: Program::new(&linear), result, variable, parts })
}

struct Checker {
    linear: Linear<Rational>,
    stack: Vec<Typed>,
    resource: Option<Resource>,
    variable: Option<Resource>,
}

impl Checker {
    fn typed(&mut self, operator: Operator, at: usize) -> Result<Typed, Fault> {
        Ok(match operator {
            Operator::Literal(literal) => match literal.format {
                None => Typed::Number(literal.value),
                format => Typed::Quantity(Term { base: Base::Nano(format), factor: literal.value }),
            },
            Operator::Variable(variable) => self.variable(variable, at)?,
            Operator::Negate => self.pop().scale(&Rational::integer(-1)),
            Operator::Add => self.fold(2, Combinator::Sum),
            Operator::Subtract => {
                let right = self.pop().scale(&Rational::integer(-1));
                self.stack.push(right);
                self.fold(2, Combinator::Sum)
            }
            Operator::Multiply => match (self.pop(), self.pop()) {
                (Typed::Number(number), typed) | (typed, Typed::Number(number)) => typed.scale(&number),
                _ => {
                    let fault = Fault::new(at, ExprErrorKind::QuantityTimesQuantity);
                    return Err(fault.help("one side must be a number, such as `2` or `50%`"));
                }
            },
            Operator::Divide => {
                let Typed::Number(divisor) = self.pop() else {
                    let fault = Fault::new(at, ExprErrorKind::DivisionByQuantity);
                    return Err(fault.help("divide by a number, such as `2`"));
                };
                let Some(factor) = divisor.reciprocal() else {
                    return Err(Fault::new(at, ExprErrorKind::DivisionByZero));
                };
                self.pop().scale(&factor)
            }
            Operator::Max(count) => self.fold(count, Combinator::Max),
            Operator::Min(count) => self.fold(count, Combinator::Min),
        })
    }

    fn variable(&mut self, variable: Resource, at: usize) -> Result<Typed, Fault> {
        match (self.resource, self.variable) {
            (Some(resource), _) if resource != variable => {
                let fault = Fault::new(at, ExprErrorKind::WrongVariable { variable, resource });
                Err(fault.help(format!("the variable of this expression is `{resource}`")))
            }
            (_, Some(other)) if other != variable => Err(Fault::new(at, ExprErrorKind::TwoVariables)),
            _ => {
                self.variable = Some(variable);
                Ok(Typed::Quantity(Term { base: Base::Variable, factor: Rational::ONE }))
            }
        }
    }

    /// Combines the last `count` values from the left. Numbers among themselves stay numbers.
    fn fold(&mut self, count: usize, combinator: Combinator) -> Typed {
        let Self { linear, stack, .. } = self;
        let operands = stack.drain(stack.len().saturating_sub(count)..);
        let combined = operands.reduce(|left, right| match (left, right) {
            (Typed::Number(left), Typed::Number(right)) => Typed::Number(match combinator {
                Combinator::Sum => left.add(&right),
                Combinator::Max => left.max(right),
                Combinator::Min => left.min(right),
            }),
            (left, right) => Typed::Quantity(linear.combine(combinator, &left.into_term(), &right.into_term())),
        });
        combined.unwrap_or(Typed::Number(Rational::ZERO))
    }

    /// The parser leaves every operator its operands, so the stack is never empty here.
    fn pop(&mut self) -> Typed {
        self.stack.pop().unwrap_or(Typed::Number(Rational::ZERO))
    }
}
