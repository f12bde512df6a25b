//! The algebra: what holds for every quantity and every text.

use proptest::prelude::*;

use crate::suffix;
use crate::{Format, Quantity, Scale};

const CAP: i128 = i64::MAX as i128 * 1_000_000_000;

fn format() -> impl Strategy<Value = Format> {
    prop_oneof![Just(Format::DecimalSi), Just(Format::BinarySi), Just(Format::DecimalExponent)]
}

/// Quantities up to Kubernetes' cap, with plenty of round numbers in both bases.
fn quantity() -> impl Strategy<Value = Quantity> {
    let nanos = prop_oneof![
        -CAP..=CAP,
        (-2000_i128..2000, 0_u32..24).prop_map(|(number, power)| number * 10_i128.pow(power)),
        (-2000_i128..2000, 0_u32..5).prop_map(|(number, power)| (number * 1_000_000_000) << (10 * power)),
    ];
    (nanos, format()).prop_map(|(nanos, format)| Quantity::from_nanos(nanos, format))
}

fn suffix() -> impl Strategy<Value = &'static str> {
    prop::sample::select([&suffix::DECIMAL[..], &suffix::BINARY[1..]].concat())
}

/// A text of the grammar.
fn text() -> impl Strategy<Value = String> {
    let suffix = prop_oneof![suffix().prop_map(str::to_owned), "[eE][+-]?[0-9]{1,3}"];
    ("[+-]?([0-9]{1,30}\\.?[0-9]{0,30}|\\.[0-9]{1,60})", suffix).prop_map(|(number, suffix)| number + &suffix)
}

proptest! {
    #[test]
    fn a_printed_quantity_parses_to_the_same_value(quantity in quantity()) {
        prop_assert_eq!(quantity.to_string().parse(), Ok(quantity));
    }

    /// Kubernetes' own canonical forms are this stable and not more: 2000 bytes are `2000` in binary format, which
    /// reads as decimal and is `2k` there.
    #[test]
    fn printing_is_idempotent_in_one_format(text in text()) {
        let quantity: Quantity = text.parse().unwrap();
        let again: Quantity = quantity.to_string().parse().unwrap();
        prop_assert_eq!(again.with_format(quantity.format()).to_string(), quantity.to_string());
    }

    #[test]
    fn only_a_printed_suffix_carries_the_format(quantity in quantity()) {
        let printed = quantity.to_string();
        let format = match quantity.format() {
            Format::BinarySi if printed.ends_with('i') => Format::BinarySi,
            Format::DecimalExponent if printed.contains('e') => Format::DecimalExponent,
            _ => Format::DecimalSi,
        };
        prop_assert_eq!(printed.parse::<Quantity>().unwrap().format(), format);
    }

    #[test]
    fn a_canonical_form_has_no_fraction_and_no_needless_sign(text in text()) {
        let printed = text.parse::<Quantity>().unwrap().to_string();
        let digits = printed.strip_prefix('-').unwrap_or(&printed);
        prop_assert!(digits == "0" || digits.starts_with(|first| ('1'..='9').contains(&first)), "{}", printed);
        prop_assert!(!printed.contains(['.', '+']), "{}", printed);
    }

    #[test]
    fn a_parsed_value_is_the_written_number_rounded_up(
        whole: u16, fraction in 0_u32..1_000_000, suffix in suffix(), negative: bool,
    ) {
        let text = format!("{}{whole}.{fraction:06}{suffix}", if negative { "-" } else { "" });
        let (format, unit) = suffix::interpret(suffix).unwrap();
        let nanos = ((u128::from(whole) * 1_000_000 + u128::from(fraction)) * unit).div_ceil(1_000_000).cast_signed();
        let nanos = if format == Format::BinarySi { nanos.min(CAP) } else { nanos };
        prop_assert_eq!(text.parse::<Quantity>().unwrap().nanos(), if negative { -nanos } else { nanos });
    }

    #[test]
    fn a_shifted_point_and_an_exponent_are_the_same(whole in "[0-9]{1,20}", fraction in "[0-9]{0,20}") {
        let (pointed, shifted) = (format!("{whole}.{fraction}e0"), format!("{whole}{fraction}e-{}", fraction.len()));
        prop_assert_eq!(pointed.parse::<Quantity>(), shifted.parse());
    }

    #[test]
    fn order_agrees_with_the_difference(a in quantity(), b in quantity()) {
        let difference = a.checked_sub(b).unwrap();
        prop_assert_eq!(a < b, difference.is_negative());
        prop_assert_eq!(a == b, difference.is_zero());
        prop_assert_eq!(a > b, difference.is_positive());
    }

    #[test]
    fn adding_and_subtracting_cancel(a in quantity(), b in quantity()) {
        let back = a.checked_add(b).unwrap().checked_sub(b).unwrap();
        prop_assert_eq!(back, a);
        prop_assert_eq!(a.checked_add(b), b.checked_add(a));
    }

    #[test]
    fn arithmetic_and_rounding_keep_the_format_of_what_is_not_zero(a in quantity(), b in quantity()) {
        prop_assume!(!a.is_zero());
        prop_assert_eq!(a.checked_add(b).unwrap().format(), a.format());
        prop_assert_eq!(a.checked_sub(b).unwrap().format(), a.format());
        prop_assert_eq!(a.round_up(Scale::One).format(), a.format());
    }

    #[test]
    fn rounding_is_the_least_step_away_from_zero(quantity in quantity()) {
        for (scale, step) in [(Scale::Milli, 1_000_000), (Scale::One, 1_000_000_000)] {
            let rounded = quantity.round_up(scale);
            let growth = rounded.nanos().abs() - quantity.nanos().abs();
            prop_assert_eq!(rounded.nanos() % step, 0);
            prop_assert!((0..step).contains(&growth));
            prop_assert_eq!(rounded.round_up(scale), rounded);
        }
    }

    #[test]
    fn any_text_is_answered_and_an_error_points_into_it(text in ".{0,20}|[0-9.+-]{0,4}[eEinumkKMGTPB ]{0,3}[0-9+-]{0,12}") {
        match text.parse::<Quantity>() {
            Ok(quantity) => prop_assert!(quantity.to_string().parse::<Quantity>().is_ok()),
            Err(error) => {
                prop_assert!(text.is_char_boundary(error.offset()), "{:?}", error);
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }

    #[test]
    fn json_keeps_the_value(quantity in quantity()) {
        let json = serde_json::to_string(&quantity).unwrap();
        prop_assert_eq!(serde_json::from_str::<Quantity>(&json).unwrap(), quantity);
    }
}
