//! Floats as Go writes them.

/// The shortest text that reads back as the float; with an exponent below -4 and from `limit` on. `%v` has 21, `strconv` 6.
pub(crate) fn shortest(float: f64, limit: i32) -> String {
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if float == 0.0 || (-4..limit).contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_go_writes_them() {
        for (float, value, strconv) in [
            (1.5, "1.5", "1.5"),
            (100.0, "100", "100"),
            (1e6, "1000000", "1e+06"),
            (1e20, "100000000000000000000", "1e+20"),
            (1e21, "1e+21", "1e+21"),
            (1e-5, "1e-05", "1e-05"),
            (0.0, "0", "0"),
            (-0.5, "-0.5", "-0.5"),
        ] {
            assert_eq!((shortest(float, 21).as_str(), shortest(float, 6).as_str()), (value, strconv));
        }
    }
}
