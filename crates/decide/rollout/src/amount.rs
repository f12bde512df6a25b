//! Numbers of pods that are written as a number or a percentage.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How many of `total` pods a partition keeps on the old revision. A percentage below 100% updates at least one of several pods. What
/// validation would refuse keeps none.
pub fn partition(partition: Option<&IntOrString>, total: usize) -> usize {
    let kept = scaled(partition, total).unwrap_or_default();
    let is_less_than_all = matches!(partition, Some(IntOrString::String(text)) if text != "100%");
    if is_less_than_all && total > 1 && kept == total { total - 1 } else { kept.min(total) }
}

/// How many of `total` pods may be unavailable: 1 unless the strategy says otherwise, also where it says a negative number. Any other text that
/// validation would refuse allows none.
pub fn max_unavailable(max_unavailable: Option<&IntOrString>, total: usize) -> usize {
    match max_unavailable {
        None | Some(IntOrString::Int(..0)) => 1,
        amount => scaled(amount, total).unwrap_or_default(),
    }
}

fn scaled(amount: Option<&IntOrString>, total: usize) -> Option<usize> {
    match amount? {
        IntOrString::Int(number) => usize::try_from(*number).ok(),
        IntOrString::String(text) => {
            let percent: usize = text.strip_suffix('%')?.parse().ok()?;
            Some(total.checked_mul(percent)?.div_ceil(100))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(text: &str) -> IntOrString {
        IntOrString::String(text.to_owned())
    }

    #[test]
    fn a_partition_is_rounded_up_and_lets_one_pod_go_unless_it_is_all() {
        for (amount, total, kept) in [
            (IntOrString::Int(3), 10, 3),
            (IntOrString::Int(30), 10, 10),
            (IntOrString::Int(-1), 10, 0),
            (percent("1%"), 5, 1),
            (percent("99%"), 5, 4),
            (percent("100%"), 5, 5),
            (percent("99%"), 1, 1),
            (percent("18%"), 1000, 180),
            (percent("0%"), 5, 0),
            (percent("150%"), 5, 5),
            (percent("nonsense"), 5, 0),
        ] {
            assert_eq!(partition(Some(&amount), total), kept, "{amount:?} of {total}");
        }
        assert_eq!(partition(None, 5), 0);
    }

    #[test]
    fn what_may_be_unavailable_is_rounded_up() {
        assert_eq!(max_unavailable(None, 100), 1);
        assert_eq!(max_unavailable(Some(&percent("5%")), 5), 1);
        assert_eq!(max_unavailable(Some(&percent("10%")), 1000), 100);
        assert_eq!(max_unavailable(Some(&IntOrString::Int(0)), 1000), 0);
        assert_eq!(max_unavailable(Some(&IntOrString::Int(-1)), 1000), 1, "as the default");
    }
}
