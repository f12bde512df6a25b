//! The resource expression language: parse, check, evaluate, explain.
//!
//! An expression says what a sidecar should have in terms of what the application has, for example
//! `max(cpu*50%, 50m)`. The language is that of `OpenKruise` proposal 20250913: `+ - * /`, unary minus, parentheses,
//! `max` and `min` of two or more arguments, numbers (`2`, `.5`, `1e3`, `50%`), Kubernetes quantities (`100m`, `1.5Gi`)
//! and the variables `cpu` and `memory`. Names are case-insensitive, and white space is free.
//!
//! ```
//! use pillion_expr::{Amount, Expr, Outcome, Resource};
//!
//! let expr = Expr::parse("max(cpu*50%, 50m)", Resource::Cpu)?;
//! assert_eq!(expr.evaluate("200m".parse()?, Resource::Cpu), Outcome::Value("100m".parse()?));
//! assert_eq!(expr.evaluate(Amount::Unlimited, Resource::Cpu), Outcome::Unlimited);
//!
//! let error = Expr::parse("cpu*cpu", Resource::Cpu).unwrap_err();
//! assert_eq!(error.column(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  source text                                                      Amount of the variable
//!      │                                                                      │
//!      ▼                                                                      ▼
//!   token.rs ──▶ parse.rs ──▶ check.rs ──▶ linear.rs ──▶ Expr ──▶ program.rs ──▶ a·ω + b ──▶ rounded ──▶ Outcome
//!      tokens   operations     types     integer factors         └──▶ constant.rs    └──▶ explain.rs ──▶ Steps
//!         └───────────┴───────────┴──▶ ExprError (column, caret, help)
//! ```
//!
//! A number is dimensionless, and means whole units (cores, bytes) where it meets a quantity: `cpu - 4` is four cores
//! less. Two quantities cannot be multiplied and nothing can be divided by a quantity, so a checked expression is
//! piecewise linear in its variable. That is why an unlimited variable is simply an infinite quantity ω: every value
//! is a·ω + b, compared by a, then by b. `min(cpu, 2)` of unlimited is 2, and `cpu - cpu` is 0.
//!
//! **Invariants**
//! - An [`Expr`] exists only if it was parsed *and* checked: evaluating it is total, it neither fails nor panics.
//! - Arithmetic is exact. Rounding happens once, at the end, upwards: CPU to 1m, memory to 1 byte. A result above
//!   2⁶³−1 units becomes 2⁶³−1 units, as in Kubernetes.
//! - Length, nesting and digits are bounded ([`MAX_LENGTH`], [`MAX_DEPTH`], [`MAX_DIGITS`]), and nothing recurses
//!   deeper than the nesting: no input exhausts stack, memory or time.
#![forbid(unsafe_code)]

mod amount;
mod check;
mod constant;
mod error;
mod evaluate;
mod explain;
mod expr;
mod limits;
mod linear;
mod parse;
mod program;
mod rational;
mod suggest;
mod text;
mod token;
mod value;

pub use amount::{Amount, Resource, UnknownResource};
pub use constant::Implausible;
pub use error::{ExprError, ExprErrorKind};
pub use evaluate::Outcome;
pub use explain::Step;
pub use expr::Expr;
pub use limits::{MAX_DEPTH, MAX_DIGITS, MAX_LENGTH};
