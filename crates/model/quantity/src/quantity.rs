//! The value itself: whole nanos and the format it prints in; order and arithmetic.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// Nanos in one unit: one core, one byte.
pub(crate) const NANOS_PER_UNIT: u128 = 1_000_000_000;

/// The suffix family a quantity was written in, and is printed in again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `n`, `u`, `m`, none, `k`, `M`, `G`, `T`, `P`, `E`: powers of 1000.
    DecimalSi,
    /// `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `Ei`: powers of 1024.
    BinarySi,
    /// `e` and a power of ten, such as `12e6`.
    DecimalExponent,
}

/// What [`Quantity::round_up`] rounds to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scale {
    /// Thousandths: how CPU is rounded.
    Milli,
    /// Whole units: how memory is rounded.
    One,
}

impl Scale {
    const fn nanos(self) -> i128 {
        match self {
            Self::Milli => 1_000_000,
            Self::One => NANOS_PER_UNIT.cast_signed(),
        }
    }
}

/// An exact Kubernetes quantity.
///
/// Two quantities are equal when their values are, whatever their formats: `1Gi` is `1024Mi`.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    /// Never beyond [`Quantity::MAX`] on either side, so negation and rounding cannot overflow.
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// Nothing at all, in decimal format.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// The largest quantity, 10²⁹ units. It is ten orders of magnitude above the largest byte count of Kubernetes
    /// (2⁶³-1), and all that is larger is held as this, with either sign.
    pub const MAX: Self = Self { nanos: 10_i128.pow(38), format: Format::DecimalSi };

    /// A quantity of so many billionths, held at [`Quantity::MAX`] (with its sign) if it is beyond that.
    pub const fn from_nanos(nanos: i128, format: Format) -> Self {
        let max = Self::MAX.nanos;
        let nanos = if nanos > max {
            max
        } else if nanos < -max {
            -max
        } else {
            nanos
        };
        Self { nanos, format }
    }

    /// The value in billionths: exact, since no quantity is finer.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// The suffix family it prints in.
    pub const fn format(self) -> Format {
        self.format
    }

    /// The same value, printed in another format.
    #[must_use]
    pub const fn with_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// Whole units, rounded away from zero.
    pub const fn value(self) -> i128 {
        self.scaled_value(Scale::One)
    }

    /// Thousandths, rounded away from zero.
    pub const fn milli_value(self) -> i128 {
        self.scaled_value(Scale::Milli)
    }

    /// The next multiple of the scale away from zero, or the quantity itself if it is one. The format stays.
    #[must_use]
    pub const fn round_up(self, scale: Scale) -> Self {
        Self::from_nanos(self.scaled_value(scale) * scale.nanos(), self.format)
    }

    const fn scaled_value(self, scale: Scale) -> i128 {
        let truncated = self.nanos / scale.nanos();
        if self.nanos % scale.nanos() == 0 { truncated } else { truncated + self.nanos.signum() }
    }

    /// The sum, or none if it is beyond [`Quantity::MAX`]. It has the format of `self`, or that of `other` where
    /// `self` is zero: a sum that starts at zero takes the format of what is added first.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        self.combine(self.nanos.checked_add(other.nanos), other)
    }

    /// The difference, by the rules of [`Quantity::checked_add`].
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        self.combine(self.nanos.checked_sub(other.nanos), other)
    }

    const fn combine(self, nanos: Option<i128>, other: Self) -> Option<Self> {
        let format = if self.is_zero() { other.format } else { self.format };
        match nanos {
            Some(nanos) if nanos.unsigned_abs() <= Self::MAX.nanos.unsigned_abs() => Some(Self { nanos, format }),
            _ => None,
        }
    }

    /// Whether it is nothing at all.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is below zero.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether it is above zero.
    pub const fn is_positive(self) -> bool {
        self.nanos > 0
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn equality_order_and_hash_go_by_value_alone() {
        use std::collections::HashSet;
        assert_eq!(quantity("1Gi"), quantity("1024Mi"));
        assert_eq!(quantity("1000m"), quantity("1e0"));
        assert_eq!(HashSet::from([quantity("1Ki"), quantity("1024"), quantity("1.024e3")]).len(), 1);
        // `TestQuantityCmp` in kubernetes apimachinery `quantity_test.go`.
        assert!(quantity("100m") > quantity("50m"));
        assert!(quantity("10000T") > quantity("100Gi"));
        assert!(quantity("-1") < quantity("-999m"));
    }

    /// The table of `TestQuantityRoundUp`, for the scales there are here.
    #[test]
    fn rounding_goes_away_from_zero() {
        for (text, milli, one) in [
            ("9.01", "9010m", "10"),
            ("-9.01", "-9010m", "-10"),
            ("1n", "1m", "1"),
            ("-1n", "-1m", "-1"),
            ("1000001u", "1001m", "2"),
            ("3", "3", "3"),
            ("0", "0", "0"),
        ] {
            assert_eq!(quantity(text).round_up(Scale::Milli).to_string(), milli, "{text}");
            assert_eq!(quantity(text).round_up(Scale::One).to_string(), one, "{text}");
        }
        assert_eq!(Quantity::MAX.round_up(Scale::One), Quantity::MAX);
    }

    #[test]
    fn value_and_milli_value_round_away_from_zero() {
        for (text, value, milli_value) in
            [("1500m", 2, 1500), ("-1500m", -2, -1500), ("1n", 1, 1), ("1Ki", 1024, 1_024_000), ("0", 0, 0)]
        {
            assert_eq!((quantity(text).value(), quantity(text).milli_value()), (value, milli_value), "{text}");
        }
        // Larger than what a 64-bit Value() can say.
        assert_eq!(quantity("100E").value(), 100_000_000_000_000_000_000);
    }

    /// `TestQuantityAddZeroPreservesSuffix` and `TestQuantitySubZeroPreservesSuffix`.
    #[test]
    fn a_sum_that_starts_at_zero_takes_the_format_of_what_is_added() {
        for text in ["100m", "1Gi", "1e3"] {
            let value = quantity(text);
            assert_eq!(value.checked_add(Quantity::ZERO).unwrap().to_string(), text);
            assert_eq!(value.checked_sub(Quantity::ZERO).unwrap().to_string(), text);
            assert_eq!(Quantity::ZERO.checked_add(value).unwrap().to_string(), text);
            assert_eq!(Quantity::ZERO.checked_sub(value).unwrap().to_string(), format!("-{text}"));
        }
    }

    #[test]
    fn a_sum_has_the_format_of_its_left_side() {
        let (binary, decimal) = (quantity("1Ki"), quantity("1k"));
        assert_eq!(binary.checked_add(decimal).unwrap().format(), Format::BinarySi);
        assert_eq!(decimal.checked_sub(binary).unwrap().format(), Format::DecimalSi);
        // Even when the left side is a zero of its own format and so is the right one.
        assert_eq!(quantity("0Ki").checked_add(quantity("0e0")).unwrap().format(), Format::DecimalExponent);
    }

    #[test]
    fn a_sum_beyond_the_largest_quantity_is_none() {
        let least = Quantity::from_nanos(i128::MIN, Format::DecimalSi);
        assert_eq!(least.nanos(), -Quantity::MAX.nanos());
        assert_eq!(Quantity::from_nanos(i128::MAX, Format::DecimalSi), Quantity::MAX);
        assert_eq!(Quantity::MAX.checked_add(quantity("1n")), None);
        assert_eq!(least.checked_sub(quantity("1n")), None);
        assert_eq!(least.checked_add(Quantity::MAX), Some(Quantity::ZERO));
    }

    #[test]
    fn another_format_is_the_same_quantity() {
        let memory = quantity("2097152");
        assert_eq!(memory.with_format(Format::BinarySi).to_string(), "2Mi");
        assert_eq!(memory.with_format(Format::BinarySi), memory);
    }

    #[test]
    fn the_sign_is_one_of_three() {
        for (text, negative, zero, positive) in
            [("-1n", true, false, false), ("0Gi", false, true, false), ("1n", false, false, true)]
        {
            let it = quantity(text);
            assert_eq!((it.is_negative(), it.is_zero(), it.is_positive()), (negative, zero, positive), "{text}");
        }
    }
}
