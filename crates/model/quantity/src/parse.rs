//! Text to quantity, in one pass over the digits.

use std::iter;
use std::str::FromStr;

use crate::error::ParseQuantityError;
use crate::quantity::{Format, NANOS_PER_UNIT, Quantity};
use crate::suffix;

/// Kubernetes caps binary quantities, and only these, at the largest signed 64-bit integer.
const MAX_BINARY_NANOS: u128 = i64::MAX.cast_unsigned() as u128 * NANOS_PER_UNIT;

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(ParseQuantityError::Empty);
        }
        let (negative, unsigned) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] | rest => (false, rest),
        };
        let (whole, rest) = split_digits(unsigned);
        let (fraction, rest) = match rest {
            [b'.', rest @ ..] => split_digits(rest),
            rest => (&[][..], rest),
        };
        let (_, suffix) = text.split_at(text.len() - rest.len());
        if whole.is_empty() && fraction.is_empty() {
            return Err(no_digits(text, suffix));
        }

        let (mut format, exponent, unit) = multiplier(text, suffix)?;
        let nanos = scale(whole, fraction, exponent, unit);
        let max = if format == Format::BinarySi { MAX_BINARY_NANOS } else { Self::MAX.nanos().unsigned_abs() };
        let nanos = nanos.min(max);
        if format == Format::BinarySi && (1..NANOS_PER_UNIT).contains(&nanos) {
            // As in Kubernetes: what is written as less than one byte counts as decimal, and so do sums on it.
            format = Format::DecimalSi;
        }
        let nanos = nanos.cast_signed();
        Ok(Self::from_nanos(if negative { -nanos } else { nanos }, format))
    }
}

/// What the text after the number multiplies it by: a power of ten and the nanos of a unit.
fn multiplier(text: &str, suffix: &str) -> Result<(Format, i32, u128), ParseQuantityError> {
    if let Some((format, unit)) = suffix::interpret(suffix) {
        return Ok((format, 0, unit));
    }
    let offset = text.len() - suffix.len();
    if let Some(space) = suffix.find(char::is_whitespace) {
        return Err(ParseQuantityError::WhiteSpace { offset: offset + space });
    }
    match suffix.strip_prefix(['e', 'E']) {
        Some(exponent) if !exponent.starts_with(char::is_alphabetic) => match exponent.parse() {
            Ok(exponent) => Ok((Format::DecimalExponent, exponent, NANOS_PER_UNIT)),
            Err(_) => Err(ParseQuantityError::BadExponent { offset: offset + 1 }),
        },
        _ => Err(bad_suffix(offset, suffix)),
    }
}

/// Splits the digits at the start from the rest.
fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.split_at(digits)
}

/// `whole.fraction` × 10^exponent × unit, rounded up. Saturates.
///
/// The integer part is read forwards. The fraction is read backwards, dividing by ten after each digit: since
/// ⌊(x + n) / 10⌋ = ⌊(⌊x⌋ + n) / 10⌋ for whole n, dropping a remainder loses nothing but whether there was one. So
/// the result is exact for any number of digits, in constant space.
fn scale(whole: &[u8], fraction: &[u8], exponent: i32, unit: u128) -> u128 {
    let point = i64::try_from(whole.len()).unwrap_or(i64::MAX).saturating_add(exponent.into());
    let integer_digits = usize::try_from(point).unwrap_or(0);
    let zeros_after = integer_digits.saturating_sub(whole.len() + fraction.len());
    let zeros_before = usize::try_from(point.saturating_neg()).unwrap_or(0);

    let mut digits = whole.iter().chain(fraction).map(|digit| u128::from(digit - b'0'));
    let integer = digits
        .by_ref()
        .take(integer_digits)
        .fold(0_u128, |integer, digit| integer.saturating_mul(10).saturating_add(digit))
        .saturating_mul(10_u128.saturating_pow(u32::try_from(zeros_after).unwrap_or(u32::MAX)));

    let (mut below, mut inexact) = (0, false);
    // No unit has as many digits as a u128: one zero more changes nothing.
    for digit in digits.rev().chain(iter::repeat_n(0, zeros_before.min(39))) {
        let sum = below + digit * unit;
        below = sum / 10;
        inexact |= !sum.is_multiple_of(10);
    }
    integer.saturating_mul(unit).saturating_add(below + u128::from(inexact))
}

fn no_digits(text: &str, rest: &str) -> ParseQuantityError {
    let offset = text.len() - rest.len();
    match rest.chars().next() {
        Some(found) if found.is_whitespace() => ParseQuantityError::WhiteSpace { offset },
        Some(found @ ('+' | '-' | '.' | ',')) => ParseQuantityError::BadNumber { offset, found },
        _ => ParseQuantityError::MissingDigits { offset },
    }
}

fn bad_suffix(offset: usize, suffix: &str) -> ParseQuantityError {
    match suffix.chars().next() {
        Some(found @ ('+' | '-' | '.' | ',' | '_')) => ParseQuantityError::BadNumber { offset, found },
        _ => ParseQuantityError::UnknownSuffix { offset, suffix: suffix.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Format::{BinarySi, DecimalExponent, DecimalSi};

    const KI: i128 = 1 << 10;
    const MI: i128 = 1 << 20;
    const GI: i128 = 1 << 30;
    const TI: i128 = 1 << 40;
    const PI: i128 = 1 << 50;
    const EI: i128 = 1 << 60;

    /// Text, mantissa, power of ten, format: the table of `TestQuantityParse` in kubernetes apimachinery
    /// `quantity_test.go`.
    const UPSTREAM: &[(&str, i128, i32, Format)] = &[
        ("0", 0, 0, DecimalSi),
        ("0n", 0, 0, DecimalSi),
        ("0u", 0, 0, DecimalSi),
        ("0m", 0, 0, DecimalSi),
        ("0Ki", 0, 0, BinarySi),
        ("0k", 0, 0, DecimalSi),
        ("0Mi", 0, 0, BinarySi),
        ("0M", 0, 0, DecimalSi),
        ("0Gi", 0, 0, BinarySi),
        ("0G", 0, 0, DecimalSi),
        ("0Ti", 0, 0, BinarySi),
        ("0T", 0, 0, DecimalSi),
        ("1", 1, 0, DecimalSi),
        ("1Ki", KI, 0, BinarySi),
        ("8Ki", 8 * KI, 0, BinarySi),
        ("7Mi", 7 * MI, 0, BinarySi),
        ("6Gi", 6 * GI, 0, BinarySi),
        ("5Ti", 5 * TI, 0, BinarySi),
        ("4Pi", 4 * PI, 0, BinarySi),
        ("3Ei", 3 * EI, 0, BinarySi),
        ("10Ti", 10 * TI, 0, BinarySi),
        ("100Ti", 100 * TI, 0, BinarySi),
        ("5n", 5, -9, DecimalSi),
        ("4u", 4, -6, DecimalSi),
        ("3m", 3, -3, DecimalSi),
        ("9", 9, 0, DecimalSi),
        ("8k", 8, 3, DecimalSi),
        ("50k", 5, 4, DecimalSi),
        ("7M", 7, 6, DecimalSi),
        ("6G", 6, 9, DecimalSi),
        ("5T", 5, 12, DecimalSi),
        ("40T", 4, 13, DecimalSi),
        ("300T", 3, 14, DecimalSi),
        ("2P", 2, 15, DecimalSi),
        ("1E", 1, 18, DecimalSi),
        ("1E-3", 1, -3, DecimalExponent),
        ("1e3", 1, 3, DecimalExponent),
        ("1E6", 1, 6, DecimalExponent),
        ("1e9", 1, 9, DecimalExponent),
        ("1E12", 1, 12, DecimalExponent),
        ("1e15", 1, 15, DecimalExponent),
        ("1E18", 1, 18, DecimalExponent),
        ("1e14", 1, 14, DecimalExponent),
        ("1e13", 1, 13, DecimalExponent),
        ("100.035k", 100_035, 0, DecimalSi),
        ("0.001", 1, -3, DecimalSi),
        ("0.0005k", 5, -1, DecimalSi),
        ("0.005", 5, -3, DecimalSi),
        ("0.05", 5, -2, DecimalSi),
        ("0.5", 5, -1, DecimalSi),
        ("0.00050k", 5, -1, DecimalSi),
        ("0.00500", 5, -3, DecimalSi),
        ("0.05000", 5, -2, DecimalSi),
        ("0.50000", 5, -1, DecimalSi),
        ("0.5e0", 5, -1, DecimalExponent),
        ("0.5e-1", 5, -2, DecimalExponent),
        ("0.5e-2", 5, -3, DecimalExponent),
        ("10.035M", 10_035, 3, DecimalSi),
        ("1.2e3", 12, 2, DecimalExponent),
        ("1.3E+6", 13, 5, DecimalExponent),
        ("1.40e9", 14, 8, DecimalExponent),
        ("1.53E12", 153, 10, DecimalExponent),
        ("1.6e15", 16, 14, DecimalExponent),
        ("1.7E18", 17, 17, DecimalExponent),
        ("9.01", 901, -2, DecimalSi),
        ("8.1k", 81, 2, DecimalSi),
        ("7.123456M", 7_123_456, 0, DecimalSi),
        ("6.987654321G", 6_987_654_321, 0, DecimalSi),
        ("5.444T", 5444, 9, DecimalSi),
        ("40.1T", 401, 11, DecimalSi),
        ("300.2T", 3002, 11, DecimalSi),
        ("2.5P", 25, 14, DecimalSi),
        ("1.01E", 101, 16, DecimalSi),
        ("3.001n", 4, -9, DecimalSi),
        ("1.1E-9", 2, -9, DecimalExponent),
        ("0.0000000001", 1, -9, DecimalSi),
        ("0.0000000005", 1, -9, DecimalSi),
        ("0.00000000050", 1, -9, DecimalSi),
        ("0.5e-9", 1, -9, DecimalExponent),
        ("0.9n", 1, -9, DecimalSi),
        ("0.00000012345", 124, -9, DecimalSi),
        ("0.00000012354", 124, -9, DecimalSi),
        ("9Ei", i64::MAX as i128, 0, BinarySi),
        ("9223372036854775807Ki", i64::MAX as i128, 0, BinarySi),
        ("12E", 12, 18, DecimalSi),
        ("100.035Ki", 10_243_584, -2, BinarySi),
        ("0.5Mi", MI / 2, 0, BinarySi),
        ("0.05Gi", 536_870_912, -1, BinarySi),
        ("0.025Ti", 274_877_906_944, -1, BinarySi),
        ("0.000000000001Ki", 2, -9, DecimalSi),
        (".001", 1, -3, DecimalSi),
        (".0001k", 100, -3, DecimalSi),
        ("1.", 1, 0, DecimalSi),
        ("1.G", 1, 9, DecimalSi),
    ];

    fn parse(text: &str) -> (i128, Format) {
        let quantity: Quantity = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        (quantity.nanos(), quantity.format())
    }

    #[test]
    fn the_upstream_table_parses_with_every_sign() {
        for &(text, mantissa, exponent, format) in UPSTREAM {
            let nanos = mantissa * 10_i128.pow(u32::try_from(exponent + 9).unwrap());
            assert_eq!(parse(text), (nanos, format), "{text}");
            assert_eq!(parse(&format!("+{text}")), (nanos, format), "+{text}");
            assert_eq!(parse(&format!("-{text}")), (-nanos, format), "-{text}");
        }
    }

    #[test]
    fn what_upstream_refuses_is_refused() {
        for text in [
            "",
            "1.1.M",
            "1+1.0M",
            "0.1mi",
            "0.1am",
            "aoeu",
            ".5i",
            "1i",
            "-3.01i",
            "-3.01e-",
            " 1",
            "1 ",
            "Non-Numeric",
        ] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_binary_fraction_rounds_up_however_late_its_last_digit_is() {
        // 2^-60 Ei is one byte, and 2^-60 has sixty decimals.
        let exact = "0.000000000000000000867361737988403547205962240695953369140625";
        assert_eq!(parse(&format!("{exact}Ei")), (1_000_000_000, BinarySi));
        assert_eq!(parse(&format!("{exact}{}Ei", "0".repeat(500))), (1_000_000_000, BinarySi));
        assert_eq!(parse(&format!("{exact}{}1Ei", "0".repeat(500))), (1_000_000_001, BinarySi));
    }

    #[test]
    fn a_part_of_a_byte_is_decimal() {
        assert_eq!(parse("0.5e0"), (500_000_000, DecimalExponent));
        assert_eq!(parse("0.0005Ki"), (512_000_000, DecimalSi));
        assert_eq!(parse("-0.0005Ki"), (-512_000_000, DecimalSi));
        assert_eq!(parse("0.0009765625Ki"), (1_000_000_000, BinarySi));
        assert_eq!(parse("0.000Ki"), (0, BinarySi));
    }

    #[test]
    fn a_binary_quantity_stops_at_the_largest_64_bit_integer_and_a_decimal_one_at_max() {
        let binary = i128::from(i64::MAX) * 1_000_000_000;
        let max = Quantity::MAX.nanos();
        assert_eq!(parse("8Ei"), (binary, BinarySi));
        assert_eq!(parse("-8Ei"), (-binary, BinarySi));
        assert_eq!(parse("9223372036854775808"), (binary + 1_000_000_000, DecimalSi));
        assert_eq!(parse("1000E"), (10_i128.pow(30), DecimalSi));
        assert_eq!(parse("99999999999999999999999999999999999999n"), (max - 1, DecimalSi));
        for text in ["1e29", "1e100", "1e2147483647", "100000000000E", "1000000000000E"] {
            assert_eq!(parse(text).0, max, "{text}");
            assert_eq!(parse(&format!("-{text}")).0, -max, "-{text}");
        }
    }

    #[test]
    fn a_tiny_quantity_is_one_nano_and_a_zero_stays_zero() {
        for text in ["1e-100", "1e-2147483648", "0.0001e-40", "1234567890e-20"] {
            assert_eq!(parse(text), (1, DecimalExponent), "{text}");
            assert_eq!(parse(&format!("-{text}")), (-1, DecimalExponent), "-{text}");
        }
        for text in ["0e-2147483648", "0e2147483647", "0.0e100", "-0e0"] {
            assert_eq!(parse(text), (0, DecimalExponent), "{text}");
        }
    }

    #[test]
    fn an_exponent_moves_the_point_either_way() {
        assert_eq!(parse("1234.5678e2").0, 123_456_780_000_000);
        assert_eq!(parse("1234.5678e-2").0, 12_345_678_000);
        assert_eq!(parse("1234.5678e-6").0, 1_234_568);
        assert_eq!(parse("1234.5678e+007").0, 12_345_678_000_000_000_000);
    }

    #[test]
    fn a_megabyte_of_anything_is_answered() {
        let long = 1 << 20;
        let (zeros, nines) = ("0".repeat(long), "9".repeat(long));
        assert_eq!(parse(&zeros), (0, DecimalSi));
        assert_eq!(parse(&nines), (Quantity::MAX.nanos(), DecimalSi));
        assert_eq!(parse(&format!("-{nines}")), (-Quantity::MAX.nanos(), DecimalSi));
        assert_eq!(parse(&format!("{zeros}7")), (7_000_000_000, DecimalSi));
        assert_eq!(parse(&format!("0.{nines}Ki")), (KI * 1_000_000_000, BinarySi));
        assert_eq!(parse(&format!("0.{zeros}1")), (1, DecimalSi));
        assert_eq!(parse(&format!("1e{zeros}3")), (1_000_000_000_000, DecimalExponent));
        assert_eq!(parse(&format!("{nines}e-{}", long - 1)), (10_000_000_000, DecimalExponent));
        assert_eq!(format!("1e{nines}").parse::<Quantity>(), Err(ParseQuantityError::BadExponent { offset: 2 }));
        assert!("M".repeat(long).parse::<Quantity>().is_err());
        assert!(format!("1{}", "M".repeat(long)).parse::<Quantity>().is_err());
    }

    #[test]
    fn an_error_says_what_is_wrong_and_where() {
        use ParseQuantityError::{BadExponent, BadNumber, Empty, MissingDigits, UnknownSuffix, WhiteSpace};
        let unknown = |offset, suffix: &str| UnknownSuffix { offset, suffix: suffix.to_owned() };
        for (text, error) in [
            ("", Empty),
            (" 1", WhiteSpace { offset: 0 }),
            ("1 Gi", WhiteSpace { offset: 1 }),
            ("1Gi\n", WhiteSpace { offset: 3 }),
            ("1e3 ", WhiteSpace { offset: 3 }),
            ("-", MissingDigits { offset: 1 }),
            (".", MissingDigits { offset: 1 }),
            ("m", MissingDigits { offset: 0 }),
            ("+.Ki", MissingDigits { offset: 2 }),
            ("٣", MissingDigits { offset: 0 }),
            ("--1", BadNumber { offset: 1, found: '-' }),
            ("..5", BadNumber { offset: 1, found: '.' }),
            ("1.2.3", BadNumber { offset: 3, found: '.' }),
            ("1,5", BadNumber { offset: 1, found: ',' }),
            ("1_000", BadNumber { offset: 1, found: '_' }),
            ("1-2", BadNumber { offset: 1, found: '-' }),
            ("100mi", unknown(3, "mi")),
            ("1.5Ki5", unknown(3, "Ki5")),
            ("1ee5", unknown(1, "ee5")),
            ("50%", unknown(2, "%")),
            ("1e", BadExponent { offset: 2 }),
            ("1e+", BadExponent { offset: 2 }),
            ("1e5.5", BadExponent { offset: 2 }),
            ("1E3k", BadExponent { offset: 2 }),
            ("1e4294967296", BadExponent { offset: 2 }),
        ] {
            assert_eq!(text.parse::<Quantity>(), Err(error), "{text:?}");
        }
    }
}
