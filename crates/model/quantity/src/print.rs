//! Quantity to text: the canonical form, which has no fraction and the largest suffix that allows it.

use std::fmt;

use crate::quantity::{Format, NANOS_PER_UNIT, Quantity};
use crate::suffix::{BINARY, DECIMAL};

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_none() {
            return write_canonical(*self, f);
        }
        let mut text = String::new();
        write_canonical(*self, &mut text)?;
        f.pad(&text)
    }
}

fn write_canonical(quantity: Quantity, out: &mut impl fmt::Write) -> fmt::Result {
    if quantity.is_zero() {
        return out.write_char('0');
    }
    if quantity.is_negative() {
        out.write_char('-')?;
    }
    let nanos = quantity.nanos().unsigned_abs();
    match quantity.format() {
        Format::BinarySi if nanos >= 1024 * NANOS_PER_UNIT && nanos.is_multiple_of(NANOS_PER_UNIT) => {
            let units = nanos / NANOS_PER_UNIT;
            let power = (units.trailing_zeros() as usize / 10).min(BINARY.len() - 1);
            write!(out, "{}{}", units >> (10 * power), BINARY[power])
        }
        // Small and fractional binary values are printed in decimal rather than rounded.
        Format::BinarySi | Format::DecimalSi => {
            let (number, power) = remove_thousands(nanos, DECIMAL.len() - 1);
            write!(out, "{number}{}", DECIMAL[power])
        }
        Format::DecimalExponent => match remove_thousands(nanos, usize::MAX) {
            (number, 3) => write!(out, "{number}"),
            (number, power) => write!(out, "{number}e{}", 3 * power.cast_signed() - 9),
        },
    }
}

/// Divides a number other than zero by 1000 while that is exact, `most` times at most; also says how often.
fn remove_thousands(mut number: u128, most: usize) -> (u128, usize) {
    let mut times = 0;
    // A multiple of 1000 ends in three zero bits: most numbers need no division to be told apart.
    while times < most && number.trailing_zeros() >= 3 {
        let quotient = number / 1000;
        if quotient * 1000 != number {
            break;
        }
        number = quotient;
        times += 1;
    }
    (number, times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Format::{BinarySi, DecimalExponent, DecimalSi};

    /// Mantissa, power of ten, format, canonical form, another text of the same quantity: the tables of
    /// `TestQuantityString`, `TestMilliNewSet` and `TestNewSet` in kubernetes apimachinery `quantity_test.go`.
    const UPSTREAM: &[(i128, i32, Format, &str, &str)] = &[
        (1024 * 1024 * 1024, 0, BinarySi, "1Gi", "1024Mi"),
        (300 * 1024 * 1024, 0, BinarySi, "300Mi", "307200Ki"),
        (6 * 1024, 0, BinarySi, "6Ki", ""),
        (1001 * 1024 * 1024 * 1024, 0, BinarySi, "1001Gi", "1025024Mi"),
        (1024 * 1024 * 1024 * 1024, 0, BinarySi, "1Ti", "1024Gi"),
        (5, 0, BinarySi, "5", "5000m"),
        (500, -3, BinarySi, "500m", "0.5"),
        (1, 9, DecimalSi, "1G", "1000M"),
        (1000, 6, DecimalSi, "1G", "0.001T"),
        (1, -3, DecimalSi, "1m", "1000u"),
        (80, -3, DecimalSi, "80m", ""),
        (1080, -3, DecimalSi, "1080m", "1.08"),
        (108, -2, DecimalSi, "1080m", "1080000000n"),
        (300, 6, DecimalSi, "300M", ""),
        (1, 12, DecimalSi, "1T", ""),
        (1_234_567, 6, DecimalSi, "1234567M", ""),
        (1_234_567, -3, BinarySi, "1234567m", ""),
        (3, 3, DecimalSi, "3k", ""),
        (1025, 0, BinarySi, "1025", ""),
        (0, 0, DecimalSi, "0", ""),
        (0, 0, BinarySi, "0", ""),
        (1, 9, DecimalExponent, "1e9", ".001e12"),
        (1, -3, DecimalExponent, "1e-3", "0.001e0"),
        (1, -9, DecimalExponent, "1e-9", "1000e-12"),
        (80, -3, DecimalExponent, "80e-3", ""),
        (300, 6, DecimalExponent, "300e6", ""),
        (1, 12, DecimalExponent, "1e12", ""),
        (1, 3, DecimalExponent, "1e3", ""),
        (3, 3, DecimalExponent, "3e3", ""),
        (0, 0, DecimalExponent, "0", "00"),
        (1, -9, DecimalSi, "1n", ""),
        (80, -9, DecimalSi, "80n", ""),
        (1080, -9, DecimalSi, "1080n", ""),
        (108, -8, DecimalSi, "1080n", ""),
        (1, -6, DecimalSi, "1u", ""),
        (80, -6, DecimalSi, "80u", ""),
        (1080, -6, DecimalSi, "1080u", ""),
        (1024, -3, BinarySi, "1024m", ""),
        (1_000_000, -3, DecimalExponent, "1e3", ""),
        (1024 * 1024, -3, BinarySi, "1048576m", ""),
        (1_234_000, 0, DecimalSi, "1234k", ""),
        (1024, 0, BinarySi, "1Ki", ""),
        (1024 * 1024, 0, BinarySi, "1Mi", ""),
    ];

    #[test]
    fn the_upstream_table_prints_with_either_sign() {
        for &(mantissa, exponent, format, canonical, alternate) in UPSTREAM {
            let nanos = mantissa * 10_i128.pow(u32::try_from(exponent + 9).unwrap());
            assert_eq!(Quantity::from_nanos(nanos, format).to_string(), canonical);
            if mantissa != 0 {
                assert_eq!(Quantity::from_nanos(-nanos, format).to_string(), format!("-{canonical}"));
            }
            if !alternate.is_empty() {
                assert_eq!(alternate.parse::<Quantity>().unwrap().to_string(), canonical, "{alternate}");
            }
        }
    }

    /// The table of `TestQuantityParseEmit`, and what upstream prints for texts near the edges.
    #[test]
    fn parsed_text_prints_in_canonical_form() {
        for (text, canonical) in [
            ("1024Mi", "1Gi"),
            ("1000M", "1G"),
            (".001Ki", "1024m"),
            (".000001Ki", "1024u"),
            (".000000001Ki", "1024n"),
            (".000000000001Ki", "2n"),
            ("0.5Ki", "512"),
            ("1.5Ki", "1536"),
            ("1.1Ki", "1126400m"),
            ("1.953125Ki", "2000"),
            ("1023.5Mi", "1048064Ki"),
            ("1024Ki", "1Mi"),
            ("8Ei", "9223372036854775807"),
            ("1e1", "10"),
            ("1e2", "100"),
            ("1e4", "10e3"),
            ("1.5e-4", "150e-6"),
            ("100E", "100E"),
        ] {
            assert_eq!(text.parse::<Quantity>().unwrap().to_string(), canonical, "{text}");
            assert_eq!(format!("-{text}").parse::<Quantity>().unwrap().to_string(), format!("-{canonical}"), "-{text}");
        }
    }

    #[test]
    fn minus_zero_is_zero() {
        assert_eq!("-0".parse::<Quantity>().unwrap().to_string(), "0");
    }

    #[test]
    fn beyond_the_largest_suffix_the_number_grows() {
        assert_eq!("1000E".parse::<Quantity>().unwrap().to_string(), "1000E");
        assert_eq!("1e21".parse::<Quantity>().unwrap().to_string(), "1e21");
        assert_eq!(Quantity::MAX.to_string(), "100000000000E");
        let exbi = "1Ei".parse::<Quantity>().unwrap();
        assert_eq!(Quantity::from_nanos(exbi.nanos() * 1024, BinarySi).to_string(), "1024Ei");
    }

    #[test]
    fn a_width_pads_number_and_suffix_together() {
        let quantity: Quantity = "-1536Mi".parse().unwrap();
        assert_eq!(format!("[{quantity:>10}] [{quantity:<10}]"), "[   -1536Mi] [-1536Mi   ]");
    }
}
