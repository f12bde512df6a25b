//! Limits that keep their proportion to requests.

use std::fmt;

use pillion_expr::Resource;
use pillion_quantity::{Format, Quantity};

use crate::pod::PodContainer;

/// What is noted about a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitNote {
    /// There is no limit to keep in proportion.
    NoLimit(Resource),
    /// Nothing is recommended.
    NoRecommendation(Resource),
    /// The limit in proportion is too large for a quantity.
    Capped(Resource),
}

impl fmt::Display for LimitNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitNote::NoLimit(resource) => write!(f, "{resource}: limit NOT set since originalLimit is nil or 0"),
            LimitNote::NoRecommendation(resource) => {
                write!(f, "{resource}: limit NOT set since recommendedRequest is nil or 0")
            }
            LimitNote::Capped(resource) => {
                write!(f, "{resource}: failed to keep limit to request ratio; capping limit to int64")
            }
        }
    }
}

/// How a fraction of a unit is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Down,
    Up,
}

/// The resources of a container as they are, and the limit that a LimitRange gives one that has none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Original {
    pub(crate) request: Option<Quantity>,
    pub(crate) limit: Option<Quantity>,
    pub(crate) default_limit: Option<Quantity>,
}

impl Original {
    pub(crate) fn of(container: &PodContainer, resource: Resource, default_limit: Option<Quantity>) -> Original {
        Original { request: container.requests.get(resource), limit: container.limits.get(resource), default_limit }
    }

    fn limit(&self) -> Option<Quantity> {
        let positive = |limit: Option<Quantity>| limit.filter(|limit| !limit.is_zero());
        positive(self.limit).or_else(|| positive(self.default_limit))
    }

    fn request(&self) -> Option<Quantity> {
        self.request.filter(|request| !request.is_zero())
    }
}

/// The limit that is to the recommended request what the limit was to the request.
pub(crate) fn proportional_limit(
    resource: Resource,
    original: &Original,
    recommended: Option<Quantity>,
) -> (Option<Quantity>, Option<LimitNote>) {
    let Some(limit) = original.limit() else { return (None, Some(LimitNote::NoLimit(resource))) };
    let Some(recommended) = recommended.filter(|amount| !amount.is_zero()) else {
        return (None, Some(LimitNote::NoRecommendation(resource)));
    };
    let Some(request) = original.request() else { return (Some(recommended), None) };
    if request.milli_value() == limit.milli_value() {
        return (Some(recommended), None);
    }
    let (scaled, is_capped) = scale(resource, limit, request, recommended, Rounding::Down);
    (Some(scaled), is_capped.then_some(LimitNote::Capped(resource)))
}

/// The request for which the limit in proportion is `boundary`. `None` if there is no limit to keep in proportion.
pub(crate) fn boundary_request(resource: Resource, original: &Original, boundary: Quantity) -> Option<Quantity> {
    let limit = original.limit()?;
    let Some(request) = original.request() else { return Some(boundary) };
    Some(scale(resource, request, limit, boundary, Rounding::Down).0)
}

/// `value` × `to` / `from` in whole millicores or bytes, and whether it had to be capped. `value` itself if `from` is zero.
pub(crate) fn scale(
    resource: Resource,
    value: Quantity,
    from: Quantity,
    to: Quantity,
    rounding: Rounding,
) -> (Quantity, bool) {
    let (units, nanos): (fn(Quantity) -> i128, i128) = match resource {
        Resource::Cpu => (Quantity::milli_value, 1_000_000),
        Resource::Memory => (Quantity::value, 1_000_000_000),
    };
    let most = i128::from(i64::MAX);
    // What upstream can count in 64 bits; the product of two such numbers fits into 128.
    let units = |quantity| units(quantity).clamp(-most, most);
    let divisor = units(from);
    if divisor == 0 {
        return (value, false);
    }
    let product = units(value) * units(to);
    let quotient =
        product.div_euclid(divisor) + i128::from(rounding == Rounding::Up && product.rem_euclid(divisor) != 0);
    let format = if value.is_zero() { default_format(resource) } else { value.format() };
    (Quantity::from_nanos(quotient.min(most) * nanos, format), quotient > most)
}

fn default_format(resource: Resource) -> Format {
    match resource {
        Resource::Cpu => Format::DecimalSi,
        Resource::Memory => Format::BinarySi,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Quantity> {
        (!text.is_empty()).then(|| text.parse().unwrap())
    }

    fn limit(resource: Resource, limit: &str, request: &str, recommended: &str, default: &str) -> (String, bool) {
        let original = Original { request: parse(request), limit: parse(limit), default_limit: parse(default) };
        let (limit, note) = proportional_limit(resource, &original, parse(recommended));
        (limit.map(|limit| limit.to_string()).unwrap_or_default(), note.is_some())
    }

    /// `TestGetProportionalResourceLimitCPU` and `…Mem` in upstream's `limit_and_request_scaling_test.go`: limit, request,
    /// recommendation, default limit, result, whether there is a note.
    #[test]
    fn limits_keep_their_proportion() {
        let both = [Resource::Cpu, Resource::Memory];
        for resource in both {
            for (of, request, recommended, default, result, noted) in [
                ("2", "1", "10", "", "20", false),
                ("", "1", "10", "2", "20", false),
                ("", "1", "10", "", "", true),
                ("2", "", "10", "", "10", false),
                ("", "1", "0", "2", "", true),
                ("1", "1", "10", "", "10", false),
            ] {
                assert_eq!(
                    limit(resource, of, request, recommended, default),
                    (result.to_owned(), noted),
                    "{resource} {of} {request}"
                );
            }
        }
        assert_eq!(limit(Resource::Cpu, "2", "1.50", "1", ""), ("1333m".into(), false));
        assert_eq!(limit(Resource::Memory, "200", "150", "100", ""), ("133".into(), false));
    }

    #[test]
    fn a_limit_that_is_too_large_is_capped_with_a_note() {
        assert_eq!(limit(Resource::Cpu, "10G", "1m", "10G", ""), ("9223372036854775807m".into(), true));
        assert_eq!(limit(Resource::Memory, "10G", "1", "10G", ""), ("9223372036854775807".into(), true));
        let text = LimitNote::Capped(Resource::Memory).to_string();
        assert_eq!(text, "memory: failed to keep limit to request ratio; capping limit to int64");
    }

    /// `TestScaleQuantityProportionallyCPU`.
    #[test]
    fn nothing_is_scaled_by_zero() {
        let one = parse("1").unwrap();
        assert_eq!(scale(Resource::Cpu, one, Quantity::ZERO, one, Rounding::Up), (one, false));
        assert_eq!(scale(Resource::Memory, one, Quantity::ZERO, one, Rounding::Up), (one, false));
    }
}
