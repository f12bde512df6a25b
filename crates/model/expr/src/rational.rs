//! Exact fractions: fast while they fit 128 bits, unbounded when they do not.

use std::cmp::Ordering;
use std::fmt;

use num_bigint::BigInt;
use num_rational::{BigRational, Ratio};
use num_traits::ToPrimitive;

/// A fraction in lowest terms with a positive denominator. `Small` is used exactly when both parts fit, so equality of
/// the representation is equality of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rational {
    Small { numerator: i128, denominator: i128 },
    Big(Box<BigRational>),
}

impl Rational {
    pub(crate) const ZERO: Self = Self::integer(0);
    pub(crate) const ONE: Self = Self::integer(1);

    pub(crate) const fn integer(numerator: i128) -> Self {
        Self::Small { numerator, denominator: 1 }
    }

    /// `numerator / denominator` in lowest terms; the denominator is positive.
    pub(crate) fn new(numerator: i128, denominator: i128) -> Self {
        let divisor = gcd(numerator, denominator);
        Self::Small { numerator: without(numerator, divisor), denominator: without(denominator, divisor) }
    }

    /// The value of the ASCII digits `whole.fraction` times ten to the power of `exponent`.
    pub(crate) fn decimal(whole: &str, fraction: &str, exponent: i32) -> Self {
        let digits = || whole.bytes().chain(fraction.bytes()).map(|digit| digit.wrapping_sub(b'0'));
        let scale = exponent.saturating_sub(i32::try_from(fraction.len()).unwrap_or(i32::MAX));
        let small = || {
            let mantissa = digits().try_fold(0_i128, |sum, digit| sum.checked_mul(10)?.checked_add(digit.into()))?;
            let power = 10_i128.checked_pow(scale.unsigned_abs())?;
            if scale < 0 { Some(Self::new(mantissa, power)) } else { mantissa.checked_mul(power).map(Self::integer) }
        };
        small().unwrap_or_else(|| {
            let mantissa = digits().fold(BigInt::ZERO, |sum, digit| sum * 10 + digit);
            let power = BigInt::from(10).pow(scale.unsigned_abs());
            Self::from_big(if scale < 0 { Ratio::new(mantissa, power) } else { Ratio::from_integer(mantissa * power) })
        })
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.sign() == Ordering::Equal
    }

    /// This compared with zero.
    pub(crate) fn sign(&self) -> Ordering {
        match self {
            Self::Small { numerator, .. } => numerator.cmp(&0),
            Self::Big(ratio) => ratio.numer().cmp(&BigInt::ZERO),
        }
    }

    pub(crate) fn add(&self, other: &Self) -> Self {
        let (left, right, denominator) = self.over_common_denominator(other);
        let small = || Some(Self::new(left.to_i128()?.checked_add(right.to_i128()?)?, denominator.to_i128()?));
        small().unwrap_or_else(|| Self::from_big(self.to_big() + other.to_big()))
    }

    pub(crate) fn multiply(&self, other: &Self) -> Self {
        let small = || {
            let ((a, b), (c, d)) = (self.small()?, other.small()?);
            // Both are in lowest terms, so only a with d and c with b can have common divisors.
            let (across, back) = (gcd(a, d), gcd(c, b));
            let numerator = without(a, across).checked_mul(without(c, back))?;
            Some(Self::Small { numerator, denominator: without(b, back).checked_mul(without(d, across))? })
        };
        small().unwrap_or_else(|| Self::from_big(self.to_big() * other.to_big()))
    }

    pub(crate) fn negate(&self) -> Self {
        self.multiply(&Self::integer(-1))
    }

    /// One divided by this, unless this is zero.
    pub(crate) fn reciprocal(&self) -> Option<Self> {
        match self {
            Self::Small { numerator: 0, .. } => None,
            Self::Small { numerator: numerator @ 1.., denominator } => {
                Some(Self::Small { numerator: *denominator, denominator: *numerator })
            }
            _ => Some(Self::from_big(self.to_big().recip())),
        }
    }

    /// The numerators of two fractions over their least common denominator, and that denominator: all integers.
    pub(crate) fn over_common_denominator(&self, other: &Self) -> (Self, Self, Self) {
        let small = || {
            let ((a, b), (c, d)) = (self.small()?, other.small()?);
            let divisor = gcd(b, d);
            let (left, right) = (d / divisor, b / divisor);
            let integers = (a.checked_mul(left)?, c.checked_mul(right)?, b.checked_mul(left)?);
            Some((Self::integer(integers.0), Self::integer(integers.1), Self::integer(integers.2)))
        };
        small().unwrap_or_else(|| {
            let (left, right) = (self.to_big(), other.to_big());
            // The quotient of the denominators, in lowest terms, is what each side lacks of the common one.
            let (right_lacks, left_lacks) = Ratio::new(left.denom().clone(), right.denom().clone()).into_raw();
            let denominator = left.denom() * &left_lacks;
            ((left.numer() * left_lacks).into(), (right.numer() * right_lacks).into(), denominator.into())
        })
    }

    /// This divided by a positive divisor, rounded up. What does not fit becomes the greatest or the least that does.
    pub(crate) fn ceil_quotient(&self, divisor: i128) -> i128 {
        let small = || {
            let (numerator, denominator) = self.small()?;
            let denominator = denominator.checked_mul(divisor)?;
            Some(numerator / denominator + i128::from(numerator % denominator > 0))
        };
        small().unwrap_or_else(|| {
            let bound = if self.sign() == Ordering::Less { i128::MIN } else { i128::MAX };
            (self.to_big() / BigInt::from(divisor)).ceil().to_integer().to_i128().unwrap_or(bound)
        })
    }

    /// This times `factor` as an integer, if it is one that fits.
    pub(crate) fn exact_multiple(&self, factor: i128) -> Option<i128> {
        self.multiply(&Self::integer(factor)).to_i128()
    }

    /// This as an integer, if it is one that fits.
    pub(crate) fn to_i128(&self) -> Option<i128> {
        match self {
            Self::Small { numerator, denominator: 1 } => Some(*numerator),
            _ => None,
        }
    }

    /// The integer that this is.
    pub(crate) fn to_bigint(&self) -> BigInt {
        self.to_big().to_integer()
    }

    fn small(&self) -> Option<(i128, i128)> {
        match self {
            Self::Small { numerator, denominator } => Some((*numerator, *denominator)),
            Self::Big(_) => None,
        }
    }

    fn to_big(&self) -> BigRational {
        match self {
            Self::Small { numerator, denominator } => Ratio::new_raw((*numerator).into(), (*denominator).into()),
            Self::Big(ratio) => ratio.as_ref().clone(),
        }
    }

    fn from_big(ratio: BigRational) -> Self {
        match (ratio.numer().to_i128(), ratio.denom().to_i128()) {
            (Some(numerator), Some(denominator)) => Self::Small { numerator, denominator },
            _ => Self::Big(Box::new(ratio)),
        }
    }
}

/// A number divided by one of its divisors, which is 1 most of the time.
fn without(number: i128, divisor: i128) -> i128 {
    if divisor == 1 { number } else { number / divisor }
}

/// The greatest common divisor of an integer and a positive one: at least 1.
fn gcd(number: i128, positive: i128) -> i128 {
    let (mut a, mut b) = (positive.unsigned_abs(), number.unsigned_abs());
    // Processors divide 64 bits much faster than 128.
    if let (Ok(mut a), Ok(mut b)) = (u64::try_from(a), u64::try_from(b)) {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        return a.into();
    }
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.cast_signed()
}

impl From<i128> for Rational {
    fn from(integer: i128) -> Self {
        Self::integer(integer)
    }
}

impl From<BigInt> for Rational {
    fn from(integer: BigInt) -> Self {
        Self::from_big(Ratio::from_integer(integer))
    }
}

impl Ord for Rational {
    fn cmp(&self, other: &Self) -> Ordering {
        let (left, right, _) = self.over_common_denominator(other);
        match (left.to_i128(), right.to_i128()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => left.to_big().cmp(&right.to_big()),
        }
    }
}

impl PartialOrd for Rational {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Default for Rational {
    fn default() -> Self {
        Self::ZERO
    }
}

/// `3`, `-0.25`, or `1/3` where nine decimals are not enough.
impl fmt::Display for Rational {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const BILLION: i128 = 1_000_000_000;
        let Some(billionths) = self.exact_multiple(BILLION) else { return self.to_big().fmt(f) };
        let sign = if billionths < 0 { "-" } else { "" };
        let billionths = billionths.unsigned_abs();
        let (whole, fraction) = (billionths / BILLION.unsigned_abs(), billionths % BILLION.unsigned_abs());
        write!(f, "{sign}{whole}")?;
        match format!("{fraction:09}").trim_end_matches('0') {
            "" => Ok(()),
            fraction => write!(f, ".{fraction}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use num_traits::Signed;
    use proptest::prelude::*;

    use super::*;

    fn big(numerator: i128, denominator: i128) -> BigRational {
        Ratio::new(numerator.into(), denominator.into())
    }

    /// Around zero, and around the ends of what fits.
    fn integers() -> impl Strategy<Value = i128> {
        let near = |middle: i128| (-3..=3_i128).prop_map(move |offset| middle.saturating_add(offset));
        let powers = (0..127_u32).prop_map(|power| 1_i128 << power);
        prop_oneof![near(0), near(i128::MAX), near(i128::MIN), powers, any::<i128>(), any::<i32>().prop_map(i128::from)]
    }

    fn fractions() -> impl Strategy<Value = (i128, i128)> {
        (integers(), integers().prop_map(|denominator| denominator.saturating_abs().max(1)))
    }

    proptest! {
        #[test]
        fn arithmetic_agrees_with_unbounded_fractions((a, b) in fractions(), (c, d) in fractions()) {
            let (left, right) = (Rational::new(a, b), Rational::new(c, d));
            let (big_left, big_right) = (big(a, b), big(c, d));
            // Equality compares the representation: it is small exactly where it can be.
            prop_assert_eq!(left.add(&right), Rational::from_big(&big_left + &big_right));
            prop_assert_eq!(left.multiply(&right), Rational::from_big(&big_left * &big_right));
            prop_assert_eq!(left.negate(), Rational::from_big(-&big_left));
            prop_assert_eq!(left.cmp(&right), big_left.cmp(&big_right));
            prop_assert_eq!(left.sign(), big_left.cmp(&Ratio::from_integer(BigInt::ZERO)));
            let (left_part, right_part, denominator) = left.over_common_denominator(&right);
            prop_assert_eq!(left_part.to_big(), big_left * denominator.to_big());
            prop_assert_eq!(right_part.to_big(), big_right * denominator.to_big());
            prop_assert!(left_part.to_big().is_integer() && right_part.to_big().is_integer());
            prop_assert!(denominator.to_big().is_integer() && denominator.sign() == Ordering::Greater);
        }

        #[test]
        fn a_reciprocal_of_a_reciprocal_is_the_same((a, b) in fractions()) {
            let fraction = Rational::new(a, b);
            match fraction.reciprocal() {
                None => prop_assert!(fraction.is_zero()),
                Some(reciprocal) => {
                    prop_assert_eq!(reciprocal.multiply(&fraction), Rational::ONE);
                    prop_assert_eq!(reciprocal.reciprocal(), Some(fraction));
                }
            }
        }

        #[test]
        fn a_quotient_is_rounded_up((a, b) in fractions(), divisor in 1..=1_000_000_000_i128) {
            let quotient = (big(a, b) / BigInt::from(divisor)).ceil().to_integer();
            prop_assert_eq!(BigInt::from(Rational::new(a, b).ceil_quotient(divisor)), quotient);
        }

        #[test]
        fn a_decimal_is_what_its_digits_say(digits in 0..u64::MAX, fraction in "[0-9]{0,30}", exponent in -60..60_i32) {
            let text = format!("{digits}{fraction}").parse::<BigInt>().unwrap();
            let places = i32::try_from(fraction.len()).unwrap();
            let power = Ratio::from_integer(BigInt::from(10)).pow(exponent - places);
            let decimal = Rational::decimal(&digits.to_string(), &fraction, exponent);
            prop_assert_eq!(decimal, Rational::from_big(power * text));
        }
    }

    #[test]
    fn what_does_not_fit_is_held_at_the_ends() {
        let enormous = Rational::decimal("1", "", 60);
        assert_eq!(enormous.ceil_quotient(1), i128::MAX);
        assert_eq!(enormous.negate().ceil_quotient(1), i128::MIN);
        assert!(enormous.to_big().is_positive());
    }

    #[test]
    fn nine_decimals_are_printed_as_such_and_the_rest_as_a_fraction() {
        let rows = [
            (Rational::ZERO, "0"),
            (Rational::new(-5, 4), "-1.25"),
            (Rational::new(3, 1_000_000_000), "0.000000003"),
            (Rational::new(3, 10_000_000_000), "3/10000000000"),
            (Rational::new(-2, 3), "-2/3"),
            (Rational::integer(i128::MAX), "170141183460469231731687303715884105727"),
            (Rational::decimal("1", "", 40), "10000000000000000000000000000000000000000"),
        ];
        for (fraction, text) in rows {
            assert_eq!(fraction.to_string(), text);
        }
    }
}
