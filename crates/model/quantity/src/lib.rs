//! Exact Kubernetes quantities: parse, canonical form, order, arithmetic.
//!
//! ```
//! use pillion_quantity::{Quantity, Scale};
//!
//! let request: Quantity = "1.5Gi".parse()?;
//! assert_eq!(request.to_string(), "1536Mi");
//! assert_eq!(request, "1572864Ki".parse()?);
//!
//! let cpu: Quantity = "0.1234".parse()?;
//! assert_eq!(cpu.to_string(), "123400u");
//! assert_eq!(cpu.round_up(Scale::Milli).to_string(), "124m");
//!
//! let mistake = "100mi".parse::<Quantity>().unwrap_err();
//! assert_eq!(
//!     mistake.to_string(),
//!     "unknown suffix `mi` at byte 3: did you mean `Mi` (mebi, 2^20) or `m` (milli, 1/1000)?"
//! );
//! # Ok::<(), pillion_quantity::ParseQuantityError>(())
//! ```
//!
//! ```text
//! "1.5Gi" ──parse──▶ Quantity { nanos, format } ──print──▶ "1536Mi"
//!                      │ order, equality: nanos alone
//!                      └ arithmetic: nanos; the format of the left side, unless that is zero
//! ```
//!
//! # Syntax
//!
//! A quantity is one word: an optional sign, a number, an optional suffix. The number is digits with at most one
//! point before, among or after them: `5`, `0.5`, `.5`, `5.`. The suffix decides the [`Format`]:
//!
//! | format | suffixes | means times |
//! |---|---|---|
//! | [`Format::DecimalSi`] | `n` `u` `m` (none) `k` `M` `G` `T` `P` `E` | 1000⁻³ … 1000⁶ |
//! | [`Format::BinarySi`] | `Ki` `Mi` `Gi` `Ti` `Pi` `Ei` | 1024¹ … 1024⁶ |
//! | [`Format::DecimalExponent`] | `e` or `E`, an optional sign, digits | that power of ten |
//!
//! What is finer than one nano is rounded away from zero. Binary quantities are capped at 2⁶³-1 on either side.
//!
//! The canonical form has no fraction, no needless sign or zero, and the largest suffix of its format that allows
//! that: `1500m`, `1536Mi`, `12e6`. A binary quantity below 1024 or with a fraction prints in decimal.
//!
//! # Invariants
//!
//! - There is no floating point, and nothing is rounded but what the syntax and [`Quantity::round_up`] say.
//! - A printed quantity parses to the same value, unless it is binary and arithmetic took it beyond the cap.
//! - Parsing takes time linear in the text and constant space, and refuses or answers every text without panic.
//! - No quantity is beyond [`Quantity::MAX`] on either side.
//!
//! # Where this differs from `k8s.io/apimachinery`
//!
//! Values, formats, canonical forms, sums and order were compared with its `resource.Quantity` (v0.35) over
//! generated texts. They differ where the original contradicts its own documentation:
//!
//! - A decimal quantity has no bound there; here it stops at [`Quantity::MAX`], 10²⁹ units.
//! - From `1000E` on, and from `1024Ei` in sums, it prints the number and loses the suffix. Here `1000E` is `1000E`.
//! - It takes some texts without a digit (`m`, `Ki`, `.`, `-`) for zero and refuses others (`Ei`). Here all are refused.
//! - An exponent beyond 32 bits wraps around there (`1e4294967296` is 1). Here it is refused.
//! - Its `String()` may repeat the parsed text where that is not canonical (`1.500`, `+5`). Here the canonical form is
//!   all that prints.
#![forbid(unsafe_code)]

mod error;
mod json;
mod parse;
mod print;
#[cfg(test)]
mod properties;
mod quantity;
mod suffix;

pub use error::ParseQuantityError;
pub use quantity::{Format, Quantity, Scale};
