//! Whole millicores and bytes, and how floats become them.

use pillion_expr::Resource;
use pillion_quantity::{Format, Quantity};

/// The resources that are sized.
pub(crate) const RESOURCES: [Resource; 2] = [Resource::Cpu, Resource::Memory];

/// The largest amount that is ever recommended: 10¹⁴ millicores or bytes.
pub const MAX_AMOUNT: i64 = 100_000_000_000_000;

/// A float as an amount: cut to a whole number between 0 and [`MAX_AMOUNT`]. What is not a number is 0.
pub fn amount(value: f64) -> i64 {
    #[expect(clippy::cast_precision_loss, reason = "exactly representable")]
    let largest = MAX_AMOUNT as f64;
    #[expect(clippy::cast_possible_truncation, reason = "within bounds, and truncation is meant")]
    let cut = value.clamp(0.0, largest) as i64;
    cut
}

/// An amount times a factor.
pub(crate) fn scale(value: i64, factor: f64) -> i64 {
    #[expect(clippy::cast_precision_loss, reason = "as upstream does")]
    let product = value as f64 * factor;
    amount(product)
}

/// What a histogram says of a resource (cores or bytes) as an amount (millicores or bytes).
pub(crate) fn from_histogram(resource: Resource, value: f64) -> i64 {
    match resource {
        Resource::Cpu => amount(value * 1000.0),
        Resource::Memory => amount(value),
    }
}

/// An amount as a histogram counts it.
pub(crate) fn to_histogram(resource: Resource, value: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "as upstream does")]
    let value = value as f64;
    match resource {
        Resource::Cpu => value / 1000.0,
        Resource::Memory => value,
    }
}

/// An amount as a quantity: millicores in decimal, bytes in binary format.
pub(crate) fn quantity(resource: Resource, value: i64) -> Quantity {
    match resource {
        Resource::Cpu => Quantity::from_nanos(i128::from(value) * 1_000_000, Format::DecimalSi),
        Resource::Memory => Quantity::from_nanos(i128::from(value) * 1_000_000_000, Format::BinarySi),
    }
}

/// The next multiple of `step`; the value itself if `step` is not positive.
pub(crate) fn round_up(value: i64, step: i64) -> i64 {
    if step <= 1 {
        return value;
    }
    match value % step {
        0 => value,
        rest => value.saturating_add(step - rest),
    }
}

#[cfg(test)]
mod tests {
    //! The tables of upstream's `pkg/recommender/model/types_test.go`.
    #![expect(clippy::float_cmp, reason = "exact by construction")]

    use super::*;

    #[test]
    fn cores_become_millicores_that_are_cut() {
        for (cores, millicores) in [
            (0.069_946, 69),
            (0.615_351_12, 615),
            (0.017_207_1, 17),
            (0.004_55, 4),
            (0.012_345_678_9, 12),
            (0.001_234_567_89, 1),
        ] {
            assert_eq!(from_histogram(Resource::Cpu, cores), millicores, "{cores}");
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let back = millicores as f64 / 1000.0;
            assert_eq!(to_histogram(Resource::Cpu, millicores), back);
        }
        for (bytes, amount) in [(69.669, 69), (12.333, 12), (17.357, 17), (4.0, 4), (12.123_456, 12), (1.0, 1)] {
            assert_eq!(from_histogram(Resource::Memory, bytes), amount, "{bytes}");
        }
        assert_eq!(to_histogram(Resource::Cpu, 1500), 1.5);
    }

    #[test]
    fn floats_are_kept_between_nothing_and_the_largest_amount() {
        assert_eq!([100.5, 0.0, -50.5, 0.125, -0.0001].map(amount), [100, 0, 0, 0, 0]);
        assert_eq!([1e14 + 100.0, 1e14, 1e30, f64::INFINITY].map(amount), [MAX_AMOUNT; 4]);
        assert_eq!(amount(f64::NAN), 0);
    }

    #[test]
    fn scaled_amounts_are_cut() {
        for (value, factor, scaled) in [
            (69, 1.0, 69),
            (615, 1.0, 615),
            (4, 2.124, 8),
            (12, 1.1, 13),
            (1213, 1.2414, 1505),
            (0, 1.0, 0),
            (11, 0.0, 0),
            (41_208, 1e-6, 0),
        ] {
            assert_eq!(scale(value, factor), scaled, "{value} x {factor}");
        }
    }

    #[test]
    fn amounts_round_up_to_multiples() {
        for (value, step, rounded) in [
            (100, 7, 105),
            (100, 10, 100),
            (0, 5, 0),
            (100, 0, 100),
            (100, -3, 100),
            (1000, 3, 1002),
            (1_231_241, 13, 1_231_243),
        ] {
            assert_eq!(round_up(value, step), rounded, "{value} by {step}");
        }
        assert_eq!(quantity(Resource::Memory, round_up(839_500_000, 134_217_728)).to_string(), "896Mi");
    }

    #[test]
    fn amounts_print_as_kubernetes_prints_them() {
        for (resource, value, text) in [
            (Resource::Cpu, 25, "25m"),
            (Resource::Cpu, 1000, "1"),
            (Resource::Cpu, MAX_AMOUNT, "100G"),
            (Resource::Memory, 262_144_000, "250Mi"),
            (Resource::Memory, 1025, "1025"),
        ] {
            assert_eq!(quantity(resource, value).to_string(), text);
        }
    }
}
