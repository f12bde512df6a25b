//! Quantities as `resource.Quantity` reads and writes them, oddities included: users see them in what the server answers.

use pillion_quantity::{Format, Quantity};

const FORMAT: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NUMERIC: &str = "unable to parse numeric part of quantity";
const SUFFIX: &str = "unable to parse quantity's suffix";

/// How many decimal digits surely fit into 64 bits.
const DIGITS: usize = 18;

/// The text as Go writes it after having read it.
///
/// # Errors
/// In the words of Go.
pub(super) fn canonical(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err(FORMAT);
    }
    let Parts { whole, fraction, suffix } = split(text)?;
    let no_digits = whole.is_empty() && fraction.is_empty() && !text.contains('0');
    let sign = if text.starts_with('-') { "-" } else { "" };
    let read = if no_digits { format!("0{suffix}") } else { format!("{sign}0{whole}.{fraction}{suffix}") };
    let quantity: Quantity = read.parse().map_err(|_| SUFFIX)?;
    let small = is_small(&quantity, whole, fraction, suffix);
    if no_digits && !small {
        return Err(NUMERIC);
    }
    // Go keeps the text where it takes it for the canonical form, which it does by the number of digits alone.
    Ok(if small && looks_canonical(whole, fraction, suffix) { text.to_owned() } else { quantity.to_string() })
}

struct Parts<'a> {
    /// Without leading zeros.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

fn split(text: &str) -> Result<Parts<'_>, &'static str> {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text).trim_start_matches('0');
    let (whole, rest) = digits(rest);
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
    let letters = suffix.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
    let exponent = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    if exponent.bytes().all(|byte| byte.is_ascii_digit()) { Ok(Parts { whole, fraction, suffix }) } else { Err(FORMAT) }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// The power of ten, or of two, that the suffix stands for.
fn exponent(suffix: &str) -> i64 {
    match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "" => 0,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        "Ki" => 10,
        "Mi" => 20,
        "Gi" => 30,
        "Ti" => 40,
        "Pi" => 50,
        "Ei" => 60,
        exponent => exponent.get(1..).and_then(|digits| digits.parse().ok()).unwrap_or_default(),
    }
}

/// Whether Go holds it as a 64-bit integer and a scale.
fn is_small(quantity: &Quantity, whole: &str, fraction: &str, suffix: &str) -> bool {
    let whole_digits = whole.len().max(1);
    if suffix.ends_with('i') {
        let exponent = usize::try_from(exponent(suffix)).unwrap_or_default();
        fraction.is_empty() && whole_digits + exponent * 3 / 10 < 15
    } else {
        let scale = exponent(suffix) - i64::try_from(fraction.len()).unwrap_or(i64::MAX);
        whole_digits + fraction.len() <= DIGITS && scale >= -9 && quantity.format() != Format::BinarySi
    }
}

fn looks_canonical(whole: &str, fraction: &str, suffix: &str) -> bool {
    if suffix.ends_with('i') {
        return whole.parse::<u64>().is_ok_and(|value| value & 7 != 0);
    }
    let scale = exponent(suffix) - i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    let shifted_ends_in_zeros = format!("{whole}{fraction}").ends_with("000");
    scale % 3 == 0 && !shifted_ends_in_zeros && !whole.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values are what `resource.Quantity` of k8s.io/apimachinery v0.35 reads and writes as JSON.
    #[test]
    fn text_is_written_as_go_writes_it() {
        for (text, expected) in EXPECTED {
            assert_eq!(canonical(text).as_deref().map_err(|message| *message), *expected, "{text:?}");
        }
    }

    const EXPECTED: &[(&str, Result<&str, &str>)] = &[
        ("", Err(FORMAT)),
        ("0", Ok("0")),
        ("00", Ok("0")),
        ("1", Ok("1")),
        ("1000m", Ok("1")),
        ("0.5", Ok("500m")),
        ("1.5Gi", Ok("1536Mi")),
        ("1.500", Ok("1.500")),
        ("+5", Ok("+5")),
        ("007Mi", Ok("007Mi")),
        ("1024Ki", Ok("1Mi")),
        ("1025Ki", Ok("1025Ki")),
        ("0Mi", Ok("0")),
        ("-1", Ok("-1")),
        ("-0.5", Ok("-500m")),
        ("1e3", Ok("1e3")),
        ("12e6", Ok("12e6")),
        ("1E", Ok("1E")),
        ("1Ei", Ok("1Ei")),
        ("100Ei", Ok("9223372036854775807")),
        ("m", Ok("0")),
        ("Ki", Ok("0")),
        (".", Ok("0")),
        ("-", Ok("0")),
        ("Ei", Err(NUMERIC)),
        ("Gi", Ok("0")),
        ("1x", Err(FORMAT)),
        ("1 Gi", Err(FORMAT)),
        ("1K", Err(SUFFIX)),
        ("1mi", Err(SUFFIX)),
        ("1.2.3", Err(FORMAT)),
        ("--1", Err(SUFFIX)),
        ("1e", Err(SUFFIX)),
        ("1e3m", Err(FORMAT)),
        ("0.1n", Ok("1n")),
        ("0.0000000001", Ok("1n")),
        ("1000", Ok("1k")),
        ("1000k", Ok("1M")),
        ("1.5", Ok("1500m")),
        ("0.100", Ok("100m")),
        ("1.25", Ok("1250m")),
        ("1.250", Ok("1.250")),
        ("5.", Ok("5.")),
        ("5.G", Ok("5.G")),
        (".5", Ok("500m")),
        ("+.5", Ok("500m")),
        ("1000000000000000000", Ok("1E")),
        ("1e-3", Ok("1e-3")),
        ("1e-4", Ok("100e-6")),
        ("1E3", Ok("1E3")),
        ("0.5Mi", Ok("512Ki")),
        ("0.1Ki", Ok("102400m")),
        ("1i", Err(SUFFIX)),
        ("9999999999999999Ki", Ok("9223372036854775807")),
        ("1.000", Ok("1")),
        ("2000.000", Ok("2k")),
        ("-007", Ok("-007")),
        ("1000000", Ok("1M")),
        ("10000Ki", Ok("10000Ki")),
        ("8Ki", Ok("8Ki")),
        ("999999999999Gi", Ok("9223372036854775807")),
        ("E", Ok("0")),
        ("e", Err(SUFFIX)),
        ("k", Ok("0")),
        ("-m", Ok("0")),
        ("+Ki", Ok("0")),
        ("1234567890123456789", Ok("1234567890123456789")),
        ("1e19", Ok("10e18")),
        ("1e+3", Ok("1e+3")),
        ("0e5", Ok("0")),
        ("00.5", Ok("500m")),
    ];
}
