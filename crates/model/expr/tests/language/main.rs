//! The expression language from the outside.

#[cfg(test)]
mod errors;
#[cfg(test)]
mod evaluation;
#[cfg(test)]
mod explanation;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod upstream;

#[cfg(test)]
use pillion_expr::{Expr, Resource};

/// The outcome as text of an expression for a resource of which there is this much.
#[cfg(test)]
fn evaluate(source: &str, resource: Resource, amount: &str) -> String {
    let expr = Expr::parse(source, resource).unwrap_or_else(|error| panic!("{}", error.render()));
    expr.evaluate(amount.parse().unwrap(), resource).to_string()
}
