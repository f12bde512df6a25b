//! The steps to a result.

use insta::assert_snapshot;
use pillion_expr::{Expr, Resource};

fn explain(source: &str, resource: Resource, amount: &str) -> String {
    let steps = Expr::parse(source, resource).unwrap().explain(amount.parse().unwrap(), resource);
    steps.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_part_is_shown_once_and_then_the_rounding() {
    assert_snapshot!(explain("0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)", Resource::Cpu, "6"), @"
    cpu → 6
    0.5*cpu → 3
    cpu-4 → 2
    max(0, cpu-4) → 2
    0.3*max(0, cpu-4) → 600m
    0.5*cpu - 0.3*max(0, cpu-4) → 2400m
    cpu-8 → -2
    max(0, cpu-8) → 0
    0.3*max(0, cpu-8) → 0
    0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8) → 2400m
    rounded up to 1m → 2400m
    ");
}

#[test]
fn multiples_of_unlimited_are_spelled_out() {
    assert_snapshot!(explain("0.5*cpu - 0.3*max(0, cpu-4)", Resource::Cpu, "unlimited"), @"
    cpu → unlimited
    0.5*cpu → 0.5·unlimited
    cpu-4 → unlimited - 4
    max(0, cpu-4) → unlimited - 4
    0.3*max(0, cpu-4) → 0.3·unlimited - 1200m
    0.5*cpu - 0.3*max(0, cpu-4) → 0.2·unlimited + 1200m
    result → unlimited
    ");
}

#[test]
fn numbers_are_no_quantities() {
    assert_snapshot!(explain("cpu*(1 - 50%)/(1/3)", Resource::Cpu, "250m"), @"
    cpu → 250m
    1 - 50% → 0.5
    cpu*(1 - 50%) → 125m
    1/3 → 1/3
    cpu*(1 - 50%)/(1/3) → 375m
    rounded up to 1m → 375m
    ");
}

#[test]
fn fractions_are_exact_until_the_rounding() {
    assert_snapshot!(explain("memory/3 + 0.5", Resource::Memory, "100Mi"), @"
    memory → 100Mi
    memory/3 → 104857600/3
    memory/3 + 0.5 → 209715203/6
    rounded up to 1 byte → 34952534
    ");
}

#[test]
fn a_negative_result_is_not_rounded() {
    assert_snapshot!(explain("cpu/3 - 1", Resource::Cpu, "1"), @"
    cpu → 1
    cpu/3 → 1/3
    cpu/3 - 1 → -2/3
    result → negative (-2/3)
    ");
}

#[test]
fn a_literal_explains_itself() {
    assert_snapshot!(explain("200Mi", Resource::Memory, "1Gi"), @"rounded up to 1 byte → 200Mi");
}

#[test]
fn white_space_is_folded() {
    assert_snapshot!(explain("max(\n  cpu * 50%,\n  50m\n)", Resource::Cpu, "1"), @"
    cpu → 1
    cpu * 50% → 500m
    max( cpu * 50%, 50m ) → 500m
    rounded up to 1m → 500m
    ");
}

#[test]
fn three_arguments_are_one_step() {
    assert_snapshot!(explain("max(cpu, 2, -cpu)", Resource::Cpu, "1"), @"
    cpu → 1
    -cpu → -1
    max(cpu, 2, -cpu) → 2
    rounded up to 1m → 2
    ");
}

#[test]
fn what_kubernetes_cannot_hold_is_lowered() {
    assert_snapshot!(explain("memory*1e30", Resource::Memory, "1Gi"), @"
    memory → 1Gi
    memory*1e30 → 1073741824000000000000000000000000000000
    lowered to the greatest quantity, 2^63-1 → 9223372036854775807
    ");
}
