//! Laws, against an evaluator that is as plain as it can be.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive, Zero};
use pillion_expr::{Amount, Expr, Outcome, Resource};
use pillion_quantity::{Format, Quantity};
use proptest::prelude::*;

/// An expression as a tree. Divisors are literals other than zero.
#[derive(Clone, Debug)]
enum Tree {
    Literal(&'static str, BigRational),
    Variable,
    Negate(Box<Tree>),
    Add(Box<Tree>, Box<Tree>),
    Subtract(Box<Tree>, Box<Tree>),
    Multiply(Box<Tree>, Box<Tree>),
    Divide(Box<Tree>, Box<Tree>),
    Max(Vec<Tree>),
    Min(Vec<Tree>),
}

fn ratio(numerator: i64, denominator: i64) -> BigRational {
    BigRational::new(numerator.into(), denominator.into())
}

/// In whole units: bytes.
fn evaluate(tree: &Tree, variable: &BigRational) -> BigRational {
    let value = |tree: &Tree| evaluate(tree, variable);
    match tree {
        Tree::Literal(_, value) => value.clone(),
        Tree::Variable => variable.clone(),
        Tree::Negate(operand) => -value(operand),
        Tree::Add(left, right) => value(left) + value(right),
        Tree::Subtract(left, right) => value(left) - value(right),
        Tree::Multiply(left, right) => value(left) * value(right),
        Tree::Divide(left, right) => value(left) / value(right),
        Tree::Max(arguments) => arguments.iter().map(value).max().unwrap(),
        Tree::Min(arguments) => arguments.iter().map(value).min().unwrap(),
    }
}

/// With only the parentheses that precedence needs: 0 allows sums, 1 products, 2 single operands.
fn print(tree: &Tree, level: u8) -> String {
    let (own, text) = match tree {
        Tree::Literal(text, _) => (2, (*text).to_owned()),
        Tree::Variable => (2, "memory".to_owned()),
        Tree::Negate(operand) => (2, format!("-{}", print(operand, 2))),
        Tree::Add(left, right) => (0, format!("{} + {}", print(left, 0), print(right, 1))),
        Tree::Subtract(left, right) => (0, format!("{} - {}", print(left, 0), print(right, 1))),
        Tree::Multiply(left, right) => (1, format!("{}*{}", print(left, 1), print(right, 2))),
        Tree::Divide(left, right) => (1, format!("{}/{}", print(left, 1), print(right, 2))),
        Tree::Max(arguments) => (2, format!("max({})", list(arguments))),
        Tree::Min(arguments) => (2, format!("min({})", list(arguments))),
    };
    if own < level { format!("({text})") } else { text }
}

fn list(arguments: &[Tree]) -> String {
    arguments.iter().map(|argument| print(argument, 0)).collect::<Vec<_>>().join(", ")
}

/// Numbers other than zero.
fn numbers() -> impl Strategy<Value = Tree> {
    prop::sample::select(vec![
        ("2", ratio(2, 1)),
        ("0.3", ratio(3, 10)),
        ("50%", ratio(1, 2)),
        ("7", ratio(7, 1)),
        ("1e3", ratio(1000, 1)),
        ("12.5%", ratio(1, 8)),
    ])
    .prop_map(|(text, value)| Tree::Literal(text, value))
}

fn quantities() -> impl Strategy<Value = Tree> {
    prop::sample::select(vec![
        ("0", ratio(0, 1)),
        ("64Mi", ratio(64 << 20, 1)),
        ("1.5Gi", ratio(3 << 29, 1)),
        ("100M", ratio(100_000_000, 1)),
        ("250m", ratio(1, 4)),
        ("3n", ratio(3, 1_000_000_000)),
    ])
    .prop_map(|(text, value)| Tree::Literal(text, value))
}

/// Trees whose value grows with the variable, or any, where `signed`.
fn trees(signed: bool) -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![2 => Just(Tree::Variable), 1 => quantities(), 1 => numbers()];
    leaf.prop_recursive(5, 24, 4, move |inner| {
        let pair = || (inner.clone().prop_map(Box::new), inner.clone().prop_map(Box::new));
        let scaled = || (inner.clone().prop_map(Box::new), numbers().prop_map(Box::new));
        let growing = prop_oneof![
            pair().prop_map(|(left, right)| Tree::Add(left, right)),
            scaled().prop_map(|(left, number)| Tree::Multiply(left, number)),
            scaled().prop_map(|(right, number)| Tree::Multiply(number, right)),
            scaled().prop_map(|(left, number)| Tree::Divide(left, number)),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Tree::Max),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Tree::Min),
        ];
        let any = prop_oneof![
            inner.clone().prop_map(|operand| Tree::Negate(Box::new(operand))),
            pair().prop_map(|(left, right)| Tree::Subtract(left, right)),
        ];
        if signed { prop_oneof![3 => growing, 2 => any].boxed() } else { growing.boxed() }
    })
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![0..100_u64, any::<u32>().prop_map(u64::from), any::<i64>().prop_map(i64::unsigned_abs)]
}

fn amount(bytes: u64) -> Amount {
    Amount::Finite(Quantity::from_nanos(i128::from(bytes) * 1_000_000_000, Format::BinarySi))
}

fn outcome(tree: &Tree, variable: Amount) -> Outcome {
    let source = print(tree, 0);
    Expr::parse(&source, Resource::Memory)
        .unwrap_or_else(|error| panic!("{}", error.render()))
        .evaluate(variable, Resource::Memory)
}

/// What the outcome must be for an exact value: rounded up to a byte, and capped.
fn expected(value: &BigRational) -> Result<i128, ()> {
    if value.is_negative() {
        return Err(());
    }
    Ok(value.ceil().to_integer().min(BigInt::from(i64::MAX)).to_i128().unwrap())
}

/// A variable so large that it outweighs every number that a generated tree can contain.
fn enormous() -> BigRational {
    BigRational::from_integer(BigInt::from(10).pow(400))
}

proptest! {
    #[test]
    fn evaluation_agrees_with_the_plain_evaluator(tree in trees(true), bytes in bytes()) {
        let exact = evaluate(&tree, &BigRational::from_integer(bytes.into()));
        match (outcome(&tree, amount(bytes)), expected(&exact)) {
            (Outcome::Value(quantity), Ok(bytes)) => prop_assert_eq!(quantity.nanos(), bytes * 1_000_000_000),
            (Outcome::Negative(_), Err(())) => {}
            (outcome, expected) => prop_assert!(false, "{:?} is not {:?}", outcome, expected),
        }
    }

    #[test]
    fn unlimited_is_the_limit_of_growing_values(tree in trees(true)) {
        let (far, farther) = (enormous(), enormous() * BigInt::from(2));
        let (value, later) = (evaluate(&tree, &far), evaluate(&tree, &farther));
        match outcome(&tree, Amount::Unlimited) {
            Outcome::Unlimited => prop_assert_eq!((later - value).cmp(&BigRational::zero()), Ordering::Greater),
            Outcome::Value(quantity) => {
                prop_assert_eq!(&value, &later);
                prop_assert_eq!(Ok(quantity.nanos() / 1_000_000_000), expected(&value));
            }
            Outcome::Negative(_) => prop_assert!(value.is_negative()),
        }
    }

    #[test]
    fn more_of_the_variable_is_never_less_of_the_result(tree in trees(false), a in bytes(), b in bytes()) {
        let (less, more) = (a.min(b), a.max(b));
        match (outcome(&tree, amount(less)), outcome(&tree, amount(more)), outcome(&tree, Amount::Unlimited)) {
            (Outcome::Value(less), Outcome::Value(more), Outcome::Value(most)) => {
                prop_assert!(less <= more && more <= most);
            }
            (Outcome::Value(less), Outcome::Value(more), Outcome::Unlimited) => prop_assert!(less <= more),
            outcomes => prop_assert!(false, "{:?}", outcomes),
        }
    }

    #[test]
    fn the_greater_and_the_lesser_together_are_both(left in trees(true), right in trees(true), bytes in bytes()) {
        let pair = || vec![left.clone(), right.clone()];
        let both = Tree::Add(Box::new(left.clone()), Box::new(right.clone()));
        let chosen = Tree::Add(Box::new(Tree::Max(pair())), Box::new(Tree::Min(pair())));
        let difference = Tree::Subtract(Box::new(chosen), Box::new(both));
        for variable in [amount(bytes), Amount::Unlimited] {
            prop_assert_eq!(outcome(&difference, variable), Outcome::Value(Quantity::ZERO));
        }
    }

    #[test]
    fn the_order_of_arguments_does_not_matter(arguments in prop::collection::vec(trees(true), 2..4), bytes in bytes()) {
        let reversed: Vec<_> = arguments.iter().rev().cloned().collect();
        for variable in [amount(bytes), Amount::Unlimited] {
            for function in [Tree::Max, Tree::Min] {
                let one = outcome(&function(arguments.clone()), variable);
                let other = outcome(&function(reversed.clone()), variable);
                // The text of a negative value depends on the format of the argument that comes first.
                let negative = |outcome: &Outcome| matches!(outcome, Outcome::Negative(_));
                prop_assert!(one == other || negative(&one) && negative(&other), "{one} is not {other}");
            }
        }
    }

    #[test]
    fn an_explanation_ends_with_the_outcome(tree in trees(true), bytes in bytes()) {
        for variable in [amount(bytes), Amount::Unlimited] {
            let expr = Expr::parse(&print(&tree, 0), Resource::Memory).unwrap();
            let steps = expr.explain(variable, Resource::Memory);
            let outcome = expr.evaluate(variable, Resource::Memory).to_string();
            prop_assert_eq!(steps.last().map(|step| step.value.clone()), Some(outcome));
        }
    }

    #[test]
    fn an_expression_survives_printing_and_parsing(tree in trees(true), bytes in bytes()) {
        let expr = Expr::parse(&print(&tree, 0), Resource::Memory).unwrap();
        let again = Expr::parse(&expr.to_string(), Resource::Memory).unwrap();
        let outcome = |expr: &Expr| expr.evaluate(amount(bytes), Resource::Memory);
        prop_assert_eq!(outcome(&expr), outcome(&again));
    }
}
