//! What must be true of any input. Each function takes the bytes of a fuzzer and panics when something is not so.

use std::str::FromStr;

use pillion_api::sidecarset::{self, convert, validation};
use pillion_expr::{Amount, Expr, Outcome, Resource};
use pillion_inject::Catalog;
use pillion_quantity::Quantity;
use serde_json::Value;

/// Any text is a quantity or an error; what was read prints in canonical form, and that reads as the same.
pub fn quantity(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(quantity) = Quantity::from_str(text) else { return };
    let printed = quantity.to_string();
    let again = Quantity::from_str(&printed).expect("the canonical form is a quantity");
    assert_eq!(quantity, again, "{text:?} prints as {printed:?}, which is another value");
    // A binary value that is no multiple of 1024 prints without a suffix, and so reads back as a decimal one.
    let in_its_format = again.with_format(quantity.format()).to_string();
    assert_eq!(printed, in_its_format, "{text:?} prints as {printed:?}, which is not canonical");
}

/// Any text is an expression or an error that can be shown; an expression has a value whatever it is given.
pub fn expression(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for resource in [Resource::Cpu, Resource::Memory] {
        match Expr::parse(text, resource) {
            Err(error) => {
                assert!(error.column() >= 1, "columns start at 1");
                assert!(!error.render().is_empty());
            }
            Ok(expression) => {
                for given in ["unlimited", "0", "1m", "7", "1536Mi", "9223372036854775807"] {
                    let given: Amount = given.parse().expect("an amount");
                    if let Outcome::Value(value) = expression.evaluate(given, resource) {
                        assert!(!value.is_negative(), "{text:?} of {given} is {value}");
                    }
                    assert!(!expression.explain(given, resource).is_empty());
                }
            }
        }
    }
}

/// Any JSON is a SidecarSet or an error; what was read can be defaulted, validated, hashed and converted without loss.
pub fn sidecarset(data: &[u8]) {
    let Ok(object) = serde_json::from_slice::<Value>(data) else { return };
    let Ok(mut set) = sidecarset::decode(object) else { return };
    sidecarset::prepare(&mut set);
    let hash = sidecarset::hash(&set);
    let errors = validation::validate(&set, &validation::Context::default());
    if errors.is_empty() {
        let compiled = Catalog::new([set.clone()], &[]);
        assert!(compiled.is_ok(), "validation accepts what injection cannot use: {:?}", compiled.err());
    }
    let written = serde_json::to_value(&set).expect("a SidecarSet is JSON");
    let there_and_back = convert::to_v1beta1(convert::to_v1alpha1(written.clone()));
    assert_eq!(there_and_back, written, "conversion lost something");
    let again = sidecarset::decode(written).expect("what was written can be read");
    assert_eq!(hash, sidecarset::hash(&again), "writing and reading changed the hash");
}
