//! The tables of `OpenKruise`'s calculator and of its resource policy tests, with every difference on purpose.

use pillion_expr::{Expr, ExprErrorKind, Resource};

use crate::evaluate;

/// Where the upstream table prints a plain number (`0.5`), this one prints what a container then gets (`500m`).
fn same(resource: Resource, rows: &[(&str, &str, &str)]) {
    for (source, amount, expected) in rows {
        assert_eq!(evaluate(source, resource, amount), *expected, "{source} of {amount}");
    }
}

fn refused(source: &str) -> ExprErrorKind {
    match Expr::parse(source, Resource::Cpu) {
        Ok(_) => panic!("{source} was accepted"),
        Err(error) => error.kind().clone(),
    }
}

#[test]
fn numbers_and_percentages() {
    same(
        Resource::Cpu,
        &[
            ("42", "1", "42"),
            ("3.14", "1", "3140m"),
            ("50%", "1", "500m"),
            ("100.5%", "1", "1005m"),
            ("2 + 3", "1", "5"),
            ("10 - 4", "1", "6"),
            ("3 * 4", "1", "12"),
            ("15 / 3", "1", "5"),
            ("(2 + 3) * 4", "1", "20"),
            ("100% * 2", "1", "2"),
            ("max(10, 20)", "1", "20"),
            ("min(10, 20)", "1", "10"),
            ("1e2", "1", "100"),
            ("1E2", "1", "100"),
            ("min(max(max(max(0.5,0.5*0.5),0.5-1.0),0.5-1.0),3.0)", "1", "500m"),
            ("20 - 10", "1", "10"),
            ("10 - 10", "1", "0"),
            ("1e3 + 500", "1", "1500"),
            ("1.5e2 * 2", "1", "300"),
            (".5 + .5", "1", "1"),
            ("1.5+2", "1", "3500m"),
        ],
    );
}

#[test]
fn quantities() {
    same(
        Resource::Cpu,
        &[
            ("40m + 20m", "1", "60m"),
            ("100Mi - 50Mi", "1", "50Mi"),
            ("2 * 40m", "1", "80m"),
            ("100m / 2", "1", "50m"),
            ("100m", "1", "100m"),
            ("max(40m, 20)", "1", "20"),
            ("min(40m, 20m)", "1", "20m"),
            ("min(max(max(max(500m,0.5*0.5),0.5-1.0),0.5-1.0),3.0)", "1", "500m"),
            ("0m + 0m", "1", "0"),
            ("1000Gi + 500Gi", "1", "1500Gi"),
            ("1.5Gi * 2", "1", "3Gi"),
            ("1Gi + 100Mi", "1", "1124Mi"),
            ("max(100m, 100m)", "1", "100m"),
            ("min(100m, 100m)", "1", "100m"),
            (".5Mi", "1", "512Ki"),
            ("1k", "1", "1k"),
            ("100M", "1", "100M"),
            ("1G", "1", "1G"),
            ("1T", "1", "1T"),
            ("1P", "1", "1P"),
            ("1Ki", "1", "1Ki"),
            ("1Ti", "1", "1Ti"),
            ("1Pi", "1", "1Pi"),
        ],
    );
}

#[test]
fn variables() {
    same(
        Resource::Cpu,
        &[
            ("cpu", "100m", "100m"),
            ("cpu * 2", "50m", "100m"),
            ("max(cpu, 200m)", "100m", "200m"),
            ("min(max(max(max(0.5,0.5*cpu),cpu-1.0),cpu-1.0),3.0)", "500m", "500m"),
            ("max(0.25, cpu)", "100m", "250m"),
            ("max(cpu, 0.75)", "500m", "750m"),
            ("min(0.8, cpu)", "1", "800m"),
            ("min(cpu, 1.5)", "2", "1500m"),
            ("max(min(2*cpu,-cpu+3.0),2*cpu-3.0)", "1500m", "1500m"),
            ("max(min(2*cpu,3.0-cpu),2*cpu-3.0)", "1500m", "1500m"),
            ("cpu - 100m", "50m", "negative (-50m)"),
        ],
    );
    same(
        Resource::Memory,
        &[("memory + 100Mi", "200Mi", "300Mi"), ("0.5 * memory + max(0, memory-2Gi)", "8Gi", "10Gi")],
    );
}

#[test]
fn negative_results() {
    same(
        Resource::Cpu,
        &[
            ("-10", "1", "negative (-10)"),
            ("-100m", "1", "negative (-100m)"),
            ("10 - 20", "1", "negative (-10)"),
            ("50m - 100m", "1", "negative (-50m)"),
        ],
    );
}

#[test]
fn spaces_nesting_and_adjacent_operators() {
    same(
        Resource::Cpu,
        &[
            ("2+3+4/2", "1", "7"),
            ("2   +   3", "1", "5"),
            ("2\t+\t3", "1", "5"),
            ("2\n+\n3", "1", "5"),
            ("  2  \t  +  \n  3  ", "1", "5"),
            ("max(  10  ,  20  )", "1", "20"),
            ("( 2 + 3 ) * 4", "1", "20"),
            ("max(min(max(10, 20), 15), 25)", "1", "25"),
            ("(100m + 50m) * 2 - 50m", "1", "250m"),
            ("max(100m * 50%, 30m)", "1", "50m"),
            ("max(10 + 5, 20 - 5) * 2", "1", "30"),
            ("max(100m, min(200m, 150m)) + 50m", "1", "200m"),
            ("10+-5", "1", "5"),
            ("10--5", "1", "15"),
            ("10 + -5", "1", "5"),
            ("10 - -5", "1", "15"),
            ("20+-10+5", "1", "15"),
            ("100m+50m", "1", "150m"),
            ("1e3", "1", "1k"),
            ("1E3", "1", "1k"),
            ("1e+3", "1", "1k"),
            ("1e-3", "1", "1m"),
            ("1E+3", "1", "1k"),
            ("1E-3", "1", "1m"),
            ("1.5e2", "1", "150"),
            ("2.5E+1", "1", "25"),
            ("1e3 + 2e2", "1", "1200"),
            ("1e3+-200", "1", "800"),
            ("200m * 50%", "1", "100m"),
            ("max(1e3, 2e2)", "1", "1k"),
            ("max(1e3, 100m)", "1", "1k"),
        ],
    );
}

#[test]
fn resource_policies() {
    same(
        Resource::Cpu,
        &[
            ("cpu*50%", "600m", "300m"),
            ("cpu*50%", "150m", "75m"),
            ("cpu*30%", "150m", "45m"),
            ("cpu*40%", "400m", "160m"),
            ("cpu*25%", "200m", "50m"),
            ("cpu*30%", "100m", "30m"),
            ("cpu*50%", "200m", "100m"),
            ("max(cpu*50%, 100m)", "150m", "100m"),
            ("max(cpu*50%, 100m)", "400m", "200m"),
            ("cpu + 50m", "100m", "150m"),
            ("500m", "100m", "500m"),
            ("cpu*50%", "0", "0"),
            ("1", "2", "1"),
        ],
    );
    same(
        Resource::Memory,
        &[
            ("memory*30%", "600Mi", "180Mi"),
            ("memory*20%", "300Mi", "60Mi"),
            ("memory*20%", "100Mi", "20Mi"),
            ("max(memory*20% + 100Mi, 200Mi)", "800Mi", "260Mi"),
            ("1Gi", "500Mi", "1Gi"),
            ("memory*25%", "400Mi", "100Mi"),
            ("1", "2Mi", "1"),
        ],
    );
}

#[test]
fn what_is_refused_there_is_refused_here() {
    let rows = [
        ("5..5", ExprErrorKind::InvalidNumber { text: "5..5".to_owned() }),
        ("5%%", ExprErrorKind::UnexpectedCharacter { character: '%' }),
        ("10 / 0", ExprErrorKind::DivisionByZero),
        ("unknown(1, 2)", ExprErrorKind::UnknownFunction { name: "unknown".to_owned() }),
        ("40m * 2m", ExprErrorKind::QuantityTimesQuantity),
        ("2 / 40m", ExprErrorKind::DivisionByQuantity),
        ("undefined_var", ExprErrorKind::UnknownName { name: "undefined_var".to_owned() }),
        ("", ExprErrorKind::Empty),
        ("   ", ExprErrorKind::Empty),
        ("2 + @", ExprErrorKind::UnexpectedCharacter { character: '@' }),
        ("(2 + 3", ExprErrorKind::UnclosedParenthesis),
        ("()", ExprErrorKind::ExpectedValue { found: Some(')') }),
        ("max()", ExprErrorKind::ArgumentCount { function: "max", found: 0 }),
        ("max(10)", ExprErrorKind::ArgumentCount { function: "max", found: 1 }),
        ("max(10, 20 / 0)", ExprErrorKind::DivisionByZero),
        ("max(10, unknown(20, 30))", ExprErrorKind::UnknownFunction { name: "unknown".to_owned() }),
        ("1e3e2", ExprErrorKind::UnknownUnit { unit: "e2".to_owned() }),
        ("1eKi", ExprErrorKind::UnknownUnit { unit: "eKi".to_owned() }),
        ("cpu * invalid", ExprErrorKind::UnknownName { name: "invalid".to_owned() }),
        ("memory*50%", ExprErrorKind::WrongVariable { variable: Resource::Memory, resource: Resource::Cpu }),
    ];
    for (source, kind) in rows {
        assert_eq!(refused(source), kind, "{source}");
    }
}

#[test]
fn what_is_silently_zero_there_is_refused_here() {
    for source in ["1e", "1e+", "100mi", "100MB", "2cpu", "0.5cpu", "5%5", "."] {
        refused(source);
    }
}

#[test]
fn what_denies_every_pod_there_is_refused_with_the_policy_here() {
    for source in ["cpu*cpu", "1/cpu", "100m/cpu", "cpu*100m", "10/(cpu-1)"] {
        refused(source);
    }
}

#[test]
fn what_only_some_pods_make_negative_is_accepted_here() {
    // There the policy is tried with one core or one byte, and refused if that is negative.
    same(Resource::Cpu, &[("cpu-2", "3", "1"), ("cpu-500m", "3", "2500m")]);
    same(
        Resource::Memory,
        &[
            ("memory-100Mi", "1Gi", "924Mi"),
            ("memory*50%-10Mi", "100Mi", "40Mi"),
            ("max(memory-100Mi,50Mi)", "100Mi", "50Mi"),
            // There the variable is only found in lower case.
            ("MEMORY*50%", "1Gi", "512Mi"),
        ],
    );
}

#[test]
fn arithmetic_is_more_exact_here() {
    same(
        Resource::Cpu,
        &[
            // There 28m: floating point, truncated.
            ("cpu*29%", "100m", "29m"),
            // There truncated to 0, here rounded up as every result is.
            ("0.000000000000000001 + 0.000000000000000002", "1", "1m"),
            // There 33m.
            ("cpu/3", "100m", "34m"),
            // There an overflow.
            ("999999999999999999 + 1", "1", "1E"),
        ],
    );
    // There 33553.92Ki, as milli-bytes; here whole bytes.
    same(Resource::Memory, &[("memory*33.333%", "100664", "33555")]);
}

#[test]
fn the_language_is_larger_here() {
    same(
        Resource::Cpu,
        &[
            // There exactly two arguments.
            ("max(10, 20, 30)", "1", "30"),
            // There no units above P and below m.
            ("1E", "1", "1E"),
            ("1Ei", "1", "1Ei"),
            ("5000u", "1", "5m"),
            ("5000000n", "1", "5m"),
            // There not evaluated at all when a target has no limit.
            ("min(cpu, 2)", "unlimited", "2"),
            ("500m", "unlimited", "500m"),
        ],
    );
}

#[test]
fn a_number_and_a_quantity_share_the_format_of_the_quantity() {
    // There a number on the left makes the sum decimal: 1049600.
    same(Resource::Memory, &[("1024 + memory", "1Mi", "1025Ki")]);
}
