//! Numbers that may be percentages.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The number that is meant, of a total. What is not a percentage, against all validation, is 0.
pub(crate) fn scaled(value: Option<&IntOrString>, total: i32, round_up: bool) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<i32>().ok()).unwrap_or(0);
            let hundredths = i64::from(percent) * i64::from(total);
            let whole = if round_up { (hundredths + 99).div_euclid(100) } else { hundredths.div_euclid(100) };
            i32::try_from(whole).unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_rounds_the_way_that_is_asked_for() {
        let percent = |text: &str| IntOrString::String(text.to_owned());
        for (value, total, up, expected) in [
            (IntOrString::Int(3), 10, true, 3),
            (percent("25%"), 10, true, 3),
            (percent("25%"), 10, false, 2),
            (percent("0%"), 10, true, 0),
            (percent("100%"), 7, false, 7),
            (percent("1%"), 1, true, 1),
            (percent("1%"), 1, false, 0),
            (percent("many"), 10, true, 0),
        ] {
            assert_eq!(scaled(Some(&value), total, up), expected, "{value:?} of {total}, up: {up}");
        }
    }
}
