//! `type: HTTPMetric`: a result that is a number becomes a gauge.

use crate::config::reader::Field;

/// A gauge, served at `/metrics`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpMetric {
    pub name: String,
}

impl HttpMetric {
    pub(super) fn read(field: &Field<'_>) -> HttpMetric {
        if !field.mapping(&["metricName"]) {
            return HttpMetric::default();
        }
        let Some(metric) = field.get(&["metricName"]) else {
            field.wrong("`metricName` is missing: set it to the name of the gauge");
            return HttpMetric::default();
        };
        let name = metric.word();
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        if !name.chars().all(legal) || name.starts_with(|c: char| c.is_ascii_digit()) {
            metric.wrong(format!("{name:?} is not a name of a metric: letters, digits and _ only"));
        }
        HttpMetric { name }
    }
}
