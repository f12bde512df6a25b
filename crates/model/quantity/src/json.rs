//! Quantities in JSON and YAML: written as strings, read from strings and numbers.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::quantity::{Format, NANOS_PER_UNIT, Quantity};

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"500m\", 2 or \"1Gi\"")
    }

    /// Kubernetes forgives white space around a quantity in JSON, and nowhere else.
    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        text.trim().parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, units: i64) -> Result<Quantity, E> {
        self.visit_i128(units.into())
    }

    fn visit_u64<E: Error>(self, units: u64) -> Result<Quantity, E> {
        self.visit_i128(units.into())
    }

    fn visit_i128<E: Error>(self, units: i128) -> Result<Quantity, E> {
        Ok(Quantity::from_nanos(units.saturating_mul(NANOS_PER_UNIT.cast_signed()), Format::DecimalSi))
    }

    /// Kubernetes parses the number's own text. Serde has lost that text by now, and the shortest decimal that reads
    /// back as the same float is it again for up to 15 significant digits. What is lost is that `1e3` was an exponent.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
        number.to_string().parse().map_err(E::custom)
    }

    /// Kubernetes reads `null` as nothing at all.
    fn visit_unit<E: Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_str, json, to_string};

    use super::*;

    fn read(json: &str) -> (String, Format) {
        let quantity: Quantity = from_str(json).unwrap();
        (quantity.to_string(), quantity.format())
    }

    #[test]
    fn a_quantity_is_written_as_its_canonical_string() {
        let quantity: Quantity = "0.5Gi".parse().unwrap();
        assert_eq!(to_string(&quantity).unwrap(), r#""512Mi""#);
    }

    #[test]
    fn strings_and_numbers_are_read() {
        for (json, canonical, format) in [
            (r#""512Mi""#, "512Mi", Format::BinarySi),
            (r#""1e3""#, "1e3", Format::DecimalExponent),
            ("2", "2", Format::DecimalSi),
            ("-1", "-1", Format::DecimalSi),
            ("18446744073709551615", "18446744073709551615", Format::DecimalSi),
            ("0.5", "500m", Format::DecimalSi),
            ("0.1", "100m", Format::DecimalSi),
            ("-0.25", "-250m", Format::DecimalSi),
            ("1e3", "1k", Format::DecimalSi),
            ("1e-12", "1n", Format::DecimalSi),
            ("1e300", "100000000000E", Format::DecimalSi),
        ] {
            assert_eq!(read(json), (canonical.to_owned(), format), "{json}");
            assert_eq!(serde_json::from_value::<Quantity>(from_str(json).unwrap()).unwrap().to_string(), canonical);
        }
    }

    /// The table of `TestJSONWhitespace` in kubernetes apimachinery `quantity_test.go`.
    #[test]
    fn white_space_around_the_text_is_forgiven() {
        for (json, canonical) in [
            (r#"" 1""#, "1"),
            (r#""1 ""#, "1"),
            ("1", "1"),
            (" 1", "1"),
            ("1 ", "1"),
            ("10", "10"),
            ("-1", "-1"),
            (" -1", "-1"),
        ] {
            assert_eq!(read(json).0, canonical, "{json}");
        }
    }

    #[test]
    fn null_is_zero_unless_it_may_be_absent() {
        assert_eq!(read("null").0, "0");
        assert_eq!(from_str::<Option<Quantity>>("null").unwrap(), None);
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_the_reason() {
        let refused = |value| serde_json::from_value::<Quantity>(value).unwrap_err().to_string();
        assert_eq!(
            refused(json!("100mi")),
            "unknown suffix `mi` at byte 3: did you mean `Mi` (mebi, 2^20) or `m` (milli, 1/1000)?"
        );
        assert_eq!(
            refused(json!(true)),
            r#"invalid type: boolean `true`, expected a quantity such as "500m", 2 or "1Gi""#
        );
        assert_eq!(refused(json!("")), "a quantity cannot be empty: write a number such as 500m, 2 or 1Gi");
    }
}
