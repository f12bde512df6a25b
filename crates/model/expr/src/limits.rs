//! How large an expression may be.

/// The most bytes an expression may have.
pub const MAX_LENGTH: usize = 1024;

/// The most parentheses, function calls and minus signs that may be nested.
pub const MAX_DEPTH: usize = 64;

/// The most digits that all numbers of an expression may have together, written out without exponents (`1e3` counts
/// four). Kubernetes quantities have at most 28. The limit keeps exact arithmetic cheap on hostile input.
pub const MAX_DIGITS: usize = 128;
