//! Input that means harm: it is refused, or costs little.

use pillion_expr::{Amount, Expr, ExprErrorKind, MAX_DEPTH, MAX_DIGITS, MAX_LENGTH, Resource};
use proptest::prelude::*;

use crate::evaluate;

fn refused(source: &str) -> ExprErrorKind {
    match Expr::parse(source, Resource::Cpu) {
        Ok(_) => panic!("accepted"),
        Err(error) => {
            // Whatever the source, the report is small.
            assert!(error.render().len() < 1024);
            error.kind().clone()
        }
    }
}

#[test]
fn length_is_limited() {
    let longest = format!("{}cpu", " ".repeat(MAX_LENGTH - 3));
    assert!(Expr::parse(&longest, Resource::Cpu).is_ok());
    for source in
        [format!(" {longest}"), "(".repeat(100_000), "-".repeat(100_000), "1+".repeat(500_000), "é".repeat(513)]
    {
        assert_eq!(refused(&source), ExprErrorKind::TooLong { length: source.len() });
    }
}

#[test]
fn nesting_is_limited() {
    let nested = |open: &str, close: &str, depth| format!("{}cpu{}", open.repeat(depth), close.repeat(depth));
    for (open, close) in [("(", ")"), ("-", ""), ("max(1,", ")")] {
        assert!(Expr::parse(&nested(open, close, MAX_DEPTH), Resource::Cpu).is_ok(), "{open}");
        assert_eq!(refused(&nested(open, close, MAX_DEPTH + 1)), ExprErrorKind::TooDeep, "{open}");
    }
    assert_eq!(refused(&"(".repeat(MAX_LENGTH)), ExprErrorKind::TooDeep);
    assert_eq!(refused(&"-".repeat(MAX_LENGTH)), ExprErrorKind::TooDeep);
}

#[test]
fn what_follows_in_a_row_is_not_nested() {
    assert_eq!(evaluate(&format!("cpu{}", "+cpu".repeat(250)), Resource::Cpu, "1m"), "251m");
    assert_eq!(evaluate(&format!("max(cpu{})", ",cpu".repeat(250)), Resource::Cpu, "1m"), "1m");
    assert_eq!(evaluate(&format!("cpu{}", "+(cpu)".repeat(150)), Resource::Cpu, "1m"), "151m");
}

#[test]
fn digits_are_limited_in_all_numbers_together() {
    assert_eq!(evaluate(&format!("1{}", "0".repeat(MAX_DIGITS - 1)), Resource::Memory, "1"), i64::MAX.to_string());
    let rows = [
        "1".repeat(MAX_DIGITS + 1),
        format!("1e{MAX_DIGITS}"),
        format!("1e-{MAX_DIGITS}"),
        "1e999999999".to_owned(),
        "1e-99999999999999999999999999".to_owned(),
        format!("0.{}", "0".repeat(MAX_DIGITS)),
        "1e100*1e100*1e100".to_owned(),
        format!("1{}", "+1".repeat(MAX_DIGITS)),
    ];
    for source in rows {
        assert_eq!(refused(&source), ExprErrorKind::TooManyDigits, "{source}");
    }
}

#[test]
fn the_worst_that_the_limits_allow_is_still_exact() {
    // The denominators are almost all different, and so is every partial sum.
    let sum = (0..30).fold("memory".to_owned(), |text, n| format!("{text}+memory/{}", 1009 + 2 * n));
    assert_eq!(evaluate(&sum, Resource::Memory, "1Ei"), "1186252207613260957");
    let nested = (0..25).fold("memory".to_owned(), |text, n| format!("max({text},0)/{}", 1009 + 2 * n));
    assert_eq!(evaluate(&nested, Resource::Memory, "1Ei"), "1");
}

fn amounts() -> impl Strategy<Value = Amount> {
    prop_oneof![
        Just(Amount::Unlimited),
        any::<i64>().prop_map(|bytes| Amount::Finite(bytes.to_string().parse().unwrap())),
    ]
}

proptest! {
    #[test]
    fn any_text_is_either_refused_in_its_own_columns_or_total(text in ".{0,40}", amount in amounts()) {
        either(&text, amount)?;
    }

    #[test]
    fn any_row_of_tokens_is_either_refused_in_its_own_columns_or_total(
        tokens in prop::collection::vec(
            prop::sample::select(vec![
                "cpu", "max(", "min(", "(", ")", ",", "+", "-", "*", "/", "1", "0", "2.5", "50%", "100m", "1e9", "3Gi",
                " ", "\n", "memory", "Mi", "%", "é",
            ]),
            0..24,
        ),
        amount in amounts(),
    ) {
        either(&tokens.concat(), amount)?;
    }
}

fn either(text: &str, amount: Amount) -> Result<(), TestCaseError> {
    match Expr::parse_any(text) {
        Ok(expr) => {
            let steps = expr.explain(amount, Resource::Cpu);
            let outcome = expr.evaluate(amount, Resource::Cpu).to_string();
            prop_assert_eq!(steps.last().map(|step| step.value.clone()), Some(outcome));
        }
        Err(error) => {
            prop_assert!((1..=text.chars().count() + 1).contains(&error.column()), "{}", error.render());
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
    Ok(())
}
