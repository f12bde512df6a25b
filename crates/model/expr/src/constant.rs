//! Constant results that no container can work with, which are nearly always a wrong unit.

use std::fmt;

use pillion_quantity::{Format, Quantity};

use crate::amount::{Amount, Resource};
use crate::evaluate::Outcome;
use crate::expr::Expr;
use crate::token::{Lexer, Token};
use crate::value::NANOS_PER_UNIT;

/// The least memory that a container can be meant to have: 1Mi, in nanos.
const LEAST_MEMORY: i128 = (1 << 20) * NANOS_PER_UNIT;

/// The most CPU that a container can be meant to have, in nanos.
const MOST_CPU: i128 = 10_000 * NANOS_PER_UNIT;

/// Why the result of an expression is not plausible for any container, and what was probably meant.
///
/// `Display` says both in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Implausible {
    reason: String,
    intention: Option<String>,
}

impl Implausible {
    /// What the author probably meant, if the expression is a single quantity.
    pub fn intention(&self) -> Option<&str> {
        self.intention.as_deref()
    }
}

impl fmt::Display for Implausible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        self.intention.as_ref().map_or(Ok(()), |intention| write!(f, "; did you mean `{intention}`?"))
    }
}

/// A quantity or a number as it is written: `100` and `m`.
struct Written<'a> {
    number: &'a str,
    unit: &'a str,
}

impl Expr {
    /// Returns the result, if it does not depend on the variable.
    pub fn constant(&self, resource: Resource) -> Option<Outcome> {
        let none = self.evaluate(Amount::Finite(Quantity::ZERO), resource);
        if self.variable().is_none() {
            return Some(none);
        }
        // The variable may cancel out, as in `cpu*0 + 100m`. A function that has several pieces differs between powers of two, too.
        let powers = (0..100).map(|power| Amount::Finite(Quantity::from_nanos(1 << power, Format::DecimalSi)));
        let mut amounts = powers.chain([Amount::Unlimited]);
        amounts.all(|amount| self.evaluate(amount, resource) == none).then_some(none)
    }

    /// Why a constant result is not plausible for any container. `None` if the result depends on the variable, is 0, or is plausible.
    ///
    /// ```
    /// use pillion_expr::{Expr, Resource};
    ///
    /// let slip = Expr::parse("100m", Resource::Memory)?.implausible(Resource::Memory).unwrap();
    /// assert_eq!(slip.to_string(), "`m` is a thousandth of a byte; did you mean `100M`?");
    /// assert_eq!(Expr::parse("memory-512Ki", Resource::Memory)?.implausible(Resource::Memory), None);
    /// # Ok::<(), pillion_expr::ExprError>(())
    /// ```
    pub fn implausible(&self, resource: Resource) -> Option<Implausible> {
        let Some(Outcome::Value(result)) = self.constant(resource) else { return None };
        if result.is_zero() {
            return None;
        }
        let written = self.written();
        let reason = match resource {
            Resource::Memory => implausible_memory(result, &written)?,
            Resource::Cpu => implausible_cpu(result, &written)?,
        };
        let intention = match written.as_slice() {
            [one] if self.is_literal(one) => intention(one, resource),
            _ => None,
        };
        Some(Implausible { reason, intention })
    }

    /// The quantities and numbers of the source.
    fn written(&self) -> Vec<Written<'_>> {
        let mut lexer = Lexer::new(self.source());
        let mut written = Vec::new();
        while let Ok(Some((token, span))) = lexer.next() {
            if matches!(token, Token::Literal(_)) {
                let text = span.of(self.source());
                let number = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
                written.push(Written { number, unit: text.get(number.len()..).unwrap_or_default() });
            }
        }
        written
    }

    /// Whether the expression is nothing but this.
    fn is_literal(&self, written: &Written<'_>) -> bool {
        self.source().trim() == format!("{}{}", written.number, written.unit)
    }
}

fn implausible_memory(result: Quantity, written: &[Written<'_>]) -> Option<String> {
    let fraction = written.iter().find_map(|written| match written.unit {
        "m" => Some("`m` is a thousandth of a byte"),
        "u" => Some("`u` is a millionth of a byte"),
        "n" => Some("`n` is a billionth of a byte"),
        _ => None,
    });
    let too_little = || (result.nanos() < LEAST_MEMORY).then(|| format!("{result} of memory is less than 1Mi"));
    fraction.map(str::to_owned).or_else(too_little)
}

fn implausible_cpu(result: Quantity, written: &[Written<'_>]) -> Option<String> {
    let binary = written.iter().find(|written| written.unit.ends_with('i'));
    let binary = binary.map(|written| format!("`{}` is a unit of memory", written.unit));
    binary.or_else(|| (result.nanos() > MOST_CPU).then(|| format!("{result} of CPU is more than 10000 cores")))
}

/// The first of the likely units with which the number is plausible.
fn intention(written: &Written<'_>, resource: Resource) -> Option<String> {
    if resource == Resource::Memory && written.number.ends_with('%') {
        return Some(format!("memory*{}", written.number));
    }
    let units: &[&str] = match (resource, written.unit) {
        (Resource::Memory, "" | "Ki") => &["Mi", "Gi"],
        (Resource::Memory, _) => &["M", "G"],
        (Resource::Cpu, _) => &["m", ""],
    };
    // Less than 10m of CPU is possible, but a small number more often means cores.
    let likely = match resource {
        Resource::Memory => LEAST_MEMORY..=i128::MAX,
        Resource::Cpu => 10_000_000..=MOST_CPU,
    };
    let plausible = |text: &String| text.parse::<Quantity>().is_ok_and(|it| likely.contains(&it.nanos()));
    units.iter().map(|unit| format!("{}{unit}", written.number)).find(plausible)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn implausible(resource: Resource, source: &str) -> String {
        let expr = Expr::parse(source, resource).unwrap();
        expr.implausible(resource).map_or("fine".to_owned(), |it| it.to_string())
    }

    #[test]
    fn a_constant_with_the_unit_of_the_other_resource_is_implausible() {
        let rows = [
            (Resource::Memory, "100m", "`m` is a thousandth of a byte; did you mean `100M`?"),
            (Resource::Memory, "2000000000m", "`m` is a thousandth of a byte; did you mean `2000000000M`?"),
            (Resource::Memory, "max(100m, 50m)", "`m` is a thousandth of a byte"),
            (Resource::Memory, "memory*0 + 100m", "`m` is a thousandth of a byte"),
            (Resource::Memory, "512", "512 of memory is less than 1Mi; did you mean `512Mi`?"),
            (Resource::Memory, "0.5", "1 of memory is less than 1Mi; did you mean `0.5Gi`?"),
            (Resource::Memory, "512Ki", "512Ki of memory is less than 1Mi; did you mean `512Mi`?"),
            (Resource::Memory, "100k", "100k of memory is less than 1Mi; did you mean `100M`?"),
            (Resource::Memory, "50%", "1 of memory is less than 1Mi; did you mean `memory*50%`?"),
            (Resource::Cpu, "100Mi", "`Mi` is a unit of memory; did you mean `100m`?"),
            (Resource::Cpu, "1Ki", "`Ki` is a unit of memory; did you mean `1`?"),
            (Resource::Cpu, "100M", "100M of CPU is more than 10000 cores; did you mean `100m`?"),
            (Resource::Cpu, "10001", "10001 of CPU is more than 10000 cores; did you mean `10001m`?"),
        ];
        for (resource, source, expected) in rows {
            assert_eq!(implausible(resource, source), expected, "{source}");
        }
    }

    #[test]
    fn constants_inside_of_larger_expressions_and_plausible_ones_are_fine() {
        let memory =
            ["memory-512Ki", "max(memory*50%, 100m)", "min(memory, 512Ki)", "0", "0m", "1Mi", "100M", "memory-memory"];
        let cpu = ["max(cpu*50%, 50m)", "cpu + 100Mi", "0", "1u", "100m", "2", "10000", "10k", "cpu"];
        for (resource, sources) in [(Resource::Memory, memory.as_slice()), (Resource::Cpu, &cpu)] {
            for source in sources {
                assert_eq!(implausible(resource, source), "fine", "{source}");
            }
        }
    }
}
