//! Values a·ω + b, where ω is the infinite quantity that stands for "unlimited".

use std::cmp::Ordering;

use num_traits::{CheckedAdd, CheckedMul, One, Zero};
use pillion_quantity::{Format, Quantity};

use crate::amount::{Amount, Resource, UNLIMITED};
use crate::rational::Rational;

pub(crate) const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// 2⁶³−1 units: Kubernetes holds quantities at this when it parses them.
const GREATEST_NANOS: i128 = i64::MAX as i128 * NANOS_PER_UNIT;

/// What a and b are while an expression runs: machine integers, which may overflow, or unbounded ones.
pub(crate) trait Integer:
    Clone + Ord + Zero + One + CheckedAdd + CheckedMul + From<i128> + Into<Rational>
{
}

impl<T: Clone + Ord + Zero + One + CheckedAdd + CheckedMul + From<i128> + Into<Rational>> Integer for T {}

/// The value of an expression or of a part of one, exactly. In nanos, as quantities are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Value<T> {
    /// The coefficient of ω; zero for everything that is finite.
    pub(crate) unlimited: T,
    pub(crate) finite: T,
    /// How the quantities that decided this value were written. Plain numbers leave it open.
    pub(crate) format: Option<Format>,
}

impl<T: Integer> Value<T> {
    pub(crate) fn of(amount: Amount) -> Self {
        match amount {
            Amount::Unlimited => Self { unlimited: T::one(), finite: T::zero(), format: None },
            Amount::Finite(quantity) => Self::finite(quantity.nanos().into(), Some(quantity.format())),
        }
    }

    pub(crate) fn finite(finite: T, format: Option<Format>) -> Self {
        Self { unlimited: T::zero(), finite, format }
    }

    /// By value alone: how it was written does not count.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        self.unlimited.cmp(&other.unlimited).then_with(|| self.finite.cmp(&other.finite))
    }

    /// Like Kubernetes quantities, a sum looks like its left side, unless that is zero (or a plain number).
    pub(crate) fn add(&self, other: &Self) -> Option<Self> {
        let is_zero = self.unlimited.is_zero() && self.finite.is_zero();
        Some(Self {
            unlimited: self.unlimited.checked_add(&other.unlimited)?,
            finite: self.finite.checked_add(&other.finite)?,
            format: if is_zero { other.format.or(self.format) } else { self.format.or(other.format) },
        })
    }

    pub(crate) fn scale(&self, factor: &T) -> Option<Self> {
        Some(Self {
            unlimited: self.unlimited.checked_mul(factor)?,
            finite: self.finite.checked_mul(factor)?,
            format: self.format,
        })
    }

    /// This times a fraction.
    pub(crate) fn exact(self, factor: &Rational) -> Value<Rational> {
        let Self { unlimited, finite, format } = self;
        let times = |coefficient: T| coefficient.into().multiply(factor);
        Value { unlimited: times(unlimited), finite: times(finite), format }
    }
}

impl Value<Rational> {
    /// The exact value as text: a quantity where it is a whole number of steps of the resource, else a decimal or a
    /// fraction of units; multiples of ω are spelled out.
    pub(crate) fn describe(&self, resource: Resource) -> String {
        if self.unlimited.is_zero() {
            return self.describe_finite(&self.finite, resource);
        }
        let unlimited = if self.unlimited == Rational::ONE {
            UNLIMITED.to_owned()
        } else if self.unlimited == Rational::integer(-1) {
            format!("-{UNLIMITED}")
        } else {
            format!("{}·{UNLIMITED}", self.unlimited)
        };
        match self.finite.sign() {
            Ordering::Less => format!("{unlimited} - {}", self.describe_finite(&self.finite.negate(), resource)),
            Ordering::Equal => unlimited,
            Ordering::Greater => format!("{unlimited} + {}", self.describe_finite(&self.finite, resource)),
        }
    }

    fn describe_finite(&self, nanos: &Rational, resource: Resource) -> String {
        let whole_steps = nanos.to_i128().filter(|nanos| nanos % resource.nanos_per_step() == 0);
        match whole_steps.map(|nanos| (nanos, Quantity::from_nanos(nanos, self.written_format()))) {
            Some((nanos, quantity)) if quantity.nanos() == nanos => quantity.to_string(),
            // Too fine for the resource, or beyond all quantities.
            _ => nanos.multiply(&Rational::new(1, NANOS_PER_UNIT)).to_string(),
        }
    }

    /// Rounded up to a whole number of steps, and lowered to the greatest quantity that Kubernetes has.
    pub(crate) fn round_up(&self, resource: Resource) -> Quantity {
        let per_step = resource.nanos_per_step();
        let nanos = self.finite.ceil_quotient(per_step).saturating_mul(per_step);
        Quantity::from_nanos(nanos.min(GREATEST_NANOS), self.written_format())
    }

    pub(crate) fn is_beyond_kubernetes(&self) -> bool {
        self.finite > Rational::integer(GREATEST_NANOS)
    }

    fn written_format(&self) -> Format {
        self.format.unwrap_or(Format::DecimalSi)
    }
}
