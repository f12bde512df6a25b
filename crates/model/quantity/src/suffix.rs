//! The suffixes, each family from its smallest to its largest: parsing and printing both read these two tables.

use crate::quantity::{Format, NANOS_PER_UNIT};

/// Powers of 1000, from nano.
pub(crate) const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// Powers of 1024, from one.
pub(crate) const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The family of a suffix, and how many nanos one of it is.
pub(crate) fn interpret(suffix: &str) -> Option<(Format, u128)> {
    let power_in =
        |family: &[&str]| family.iter().zip(0_u32..).find_map(|(text, power)| (*text == suffix).then_some(power));
    match power_in(&DECIMAL) {
        Some(power) => Some((Format::DecimalSi, 1000_u128.pow(power))),
        None => power_in(&BINARY).map(|power| (Format::BinarySi, NANOS_PER_UNIT << (10 * power))),
    }
}

/// What a user who wrote an unknown suffix may have meant; empty if there is nothing near.
pub(crate) fn near(suffix: &str) -> &'static [&'static str] {
    // Bytes are the unit already, so a trailing B adds nothing: MB is M, MiB is Mi.
    let bare = suffix.strip_suffix(['b', 'B']).unwrap_or(suffix);
    match bare.to_lowercase().as_str() {
        "" => &["no suffix (a byte is the unit)"],
        "n" => &["`n` (nano, 10^-9)"],
        "u" | "\u{b5}" | "\u{3bc}" => &["`u` (micro, 10^-6)"],
        "k" => &["`k` (kilo, 1000)", "`Ki` (kibi, 1024)"],
        "m" => &["`M` (mega, 10^6)", "`Mi` (mebi, 2^20)"],
        "g" => &["`G` (giga, 10^9)", "`Gi` (gibi, 2^30)"],
        "t" => &["`T` (tera, 10^12)", "`Ti` (tebi, 2^40)"],
        "p" => &["`P` (peta, 10^15)", "`Pi` (pebi, 2^50)"],
        "e" => &["`E` (exa, 10^18)", "`Ei` (exbi, 2^60)"],
        "ki" => &["`Ki` (kibi, 1024)"],
        "mi" if suffix == "mi" => &["`Mi` (mebi, 2^20)", "`m` (milli, 1/1000)"],
        "mi" => &["`Mi` (mebi, 2^20)"],
        "gi" => &["`Gi` (gibi, 2^30)"],
        "ti" => &["`Ti` (tebi, 2^40)"],
        "pi" => &["`Pi` (pebi, 2^50)"],
        "ei" => &["`Ei` (exbi, 2^60)"],
        _ => &[],
    }
}
