//! Powers of two with the same bits on every machine.
//!
//! What the standard library answers depends on the platform. The weights of samples go into checkpoints that upstream's
//! recommender reads, and the same samples have to give the same recommendation everywhere; so the computation is spelt out.

/// 2 to the power of `x`, for results that are normal numbers; computed as Go computes it.
pub(crate) fn exp2(x: f64) -> f64 {
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    const P: [f64; 5] = [
        1.666_666_666_666_666_6e-1,
        -2.777_777_777_701_559_3e-3,
        6.613_756_321_437_934e-5,
        -1.653_390_220_546_525_2e-6,
        4.138_136_797_057_238_5e-8,
    ];
    if x > 1023.0 {
        return f64::INFINITY;
    }
    if x < -1074.0 || x.is_nan() {
        return 0.0;
    }
    #[expect(clippy::cast_possible_truncation, reason = "between -1074 and 1023")]
    let whole = if x > 0.0 { (x + 0.5) as i32 } else { (x - 0.5) as i32 };
    let rest = x - f64::from(whole);
    let (high, low) = (rest * LN2_HIGH, -rest * LN2_LOW);
    let sum = high - low;
    let square = sum * sum;
    let odd = sum - square * P.iter().rev().fold(0.0, |value, factor| factor + square * value);
    let result = 1.0 - ((low - (sum * odd) / (2.0 - odd)) - high);
    result * power_of_two(whole)
}

/// 2 to the power of a whole number; 0 if that is too small for a float.
pub(crate) fn power_of_two(exponent: i32) -> f64 {
    match exponent {
        1024.. => f64::INFINITY,
        -1022..1024 => f64::from_bits(u64::from((exponent + 1023).cast_unsigned()) << 52),
        -1074..-1022 => f64::from_bits(1 << (exponent + 1074)),
        _ => 0.0,
    }
}

/// `base` to the power of a whole number, by squaring: as Go multiplies.
pub(crate) fn power(base: f64, exponent: i32) -> f64 {
    let (mut result, mut square, mut rest) = (1.0, base, exponent.unsigned_abs());
    while rest != 0 {
        if rest & 1 == 1 {
            result *= square;
        }
        square *= square;
        rest >>= 1;
    }
    if exponent < 0 { 1.0 / result } else { result }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits that Go 1.26 computes on amd64.
    #[test]
    fn exp2_has_the_bits_of_go() {
        for (x, bits) in [
            (0.5, 4_609_047_870_845_172_684),
            (1.0, 4_611_686_018_427_387_904),
            (0.25, 4_608_034_531_892_639_509),
            (0.1, 4_607_505_657_739_150_948),
            (1.0 / 3.0, 4_608_352_999_143_469_707),
            (20.0, 4_697_254_411_347_427_328),
            (23.75, 4_713_835_732_166_955_950),
            (99.99, 5_057_480_164_267_115_326),
            (-0.5, 4_604_544_271_217_802_188),
            (0.041_666_666_666_666_664, 4_607_314_384_342_046_161),
        ] {
            assert_eq!(exp2(x).to_bits(), bits, "2^{x}");
        }
    }

    #[test]
    fn powers_of_two_are_exact_down_to_nothing() {
        assert_eq!(power_of_two(10).to_bits(), 1024.0_f64.to_bits());
        assert_eq!(power_of_two(-1022).to_bits(), f64::MIN_POSITIVE.to_bits());
        assert_eq!(power_of_two(-1074).to_bits(), 1);
        assert_eq!(power_of_two(-106_751).to_bits(), 0);
        assert_eq!(power(3.0, -2).to_bits(), (1.0_f64 / 9.0).to_bits());
        assert_eq!(power(f64::INFINITY, -2).to_bits(), 0);
    }
}
