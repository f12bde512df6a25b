//! What expressions come to.

use pillion_expr::{Amount, Expr, Outcome, Resource};
use pillion_quantity::{Quantity, Scale};

use crate::evaluate;

fn table(resource: Resource, rows: &[(&str, &str, &str)]) {
    for (source, amount, expected) in rows {
        assert_eq!(evaluate(source, resource, amount), *expected, "{source} of {amount}");
    }
}

#[test]
fn the_stories_of_the_proposal_come_to_the_printed_numbers() {
    let half = "max(cpu*50%, 50m)";
    table(
        Resource::Cpu,
        &[
            // Story 1: one container, 200m limit and 50m request.
            (half, "200m", "100m"),
            (half, "50m", "50m"),
            // Story 2: the sum of two.
            (half, "600m", "300m"),
            (half, "150m", "75m"),
            // Story 3: the greater of two.
            (half, "400m", "200m"),
            (half, "100m", "50m"),
            // Story 4: one has no limit.
            (half, "unlimited", "unlimited"),
            // Story 6: a native sidecar.
            ("max(cpu*30%, 50m)", "1", "300m"),
            ("cpu*20%", "500m", "100m"),
            // White space is free.
            ("5 % * cpu", "1", "50m"),
        ],
    );
    table(
        Resource::Memory,
        &[
            ("200Mi", "200Mi", "200Mi"),
            ("100Mi", "unlimited", "100Mi"),
            ("max(memory*50%, 100Mi)", "200Mi", "100Mi"),
            ("max(memory*50%, 100Mi)", "1Gi", "512Mi"),
            ("max(memory*25%, 100Mi)", "2000Mi", "500Mi"),
            ("memory*15%", "1000Mi", "150Mi"),
        ],
    );
}

#[test]
fn the_curve_of_story_5_bends_at_four_and_at_eight_cores() {
    let curve = "0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)";
    table(
        Resource::Cpu,
        &[
            (curve, "0", "0"),
            (curve, "2", "1"),
            (curve, "4", "2"),
            (curve, "6", "2400m"),
            (curve, "8", "2800m"),
            (curve, "12", "4800m"),
            (curve, "unlimited", "unlimited"),
        ],
    );
}

#[test]
fn arithmetic_is_exact_and_rounded_up_once() {
    table(
        Resource::Cpu,
        &[
            // Truncating floating point makes this 28m.
            ("cpu*29%", "100m", "29m"),
            ("cpu/3", "100m", "34m"),
            ("cpu/3*3", "100m", "100m"),
            ("cpu/3 + cpu/3 + cpu/3", "100m", "100m"),
            ("cpu*10%*10%*10%", "1", "1m"),
            ("cpu*10%*10%*10%*10%", "1", "1m"),
            ("0.1+0.2-0.3", "1", "0"),
            ("100u", "1", "1m"),
            ("cpu", "1n", "1m"),
            ("cpu/7 - cpu/7", "1", "0"),
        ],
    );
    table(
        Resource::Memory,
        &[
            ("memory/3", "100", "34"),
            ("memory*33%", "100Mi", "33Mi"),
            ("memory*33%", "100", "33"),
            ("memory*33.3%", "100", "34"),
            ("1m", "1Gi", "1"),
        ],
    );
}

#[test]
fn unlimited_is_compared_by_its_multiple_first() {
    table(
        Resource::Cpu,
        &[
            ("cpu", "unlimited", "unlimited"),
            ("min(cpu, 2)", "unlimited", "2"),
            ("max(cpu, 2)", "unlimited", "unlimited"),
            ("min(max(cpu*50%, 50m), 4)", "unlimited", "4"),
            ("cpu-cpu", "unlimited", "0"),
            ("cpu-cpu+50m", "unlimited", "50m"),
            ("cpu*0", "unlimited", "0"),
            ("cpu*0 + 3", "unlimited", "3"),
            ("cpu/1000 - 1e9", "unlimited", "unlimited"),
            ("2*cpu - cpu", "unlimited", "unlimited"),
            ("max(cpu, 2*cpu, 3) - 2*cpu", "unlimited", "0"),
            ("min(cpu, cpu+1) - cpu", "unlimited", "0"),
            ("min(cpu-5, cpu-7) - cpu + 10", "unlimited", "3"),
            ("500m", "unlimited", "500m"),
            ("2 - cpu", "unlimited", "negative (-unlimited + 2)"),
            ("cpu/4 - cpu", "unlimited", "negative (-0.75·unlimited)"),
            ("cpu - cpu - 50m", "unlimited", "negative (-50m)"),
        ],
    );
    table(Resource::Memory, &[("min(memory*2, 1Gi)", "unlimited", "1Gi"), ("memory-memory", "unlimited", "0")]);
}

#[test]
fn a_negative_result_is_reported_exactly() {
    table(
        Resource::Cpu,
        &[
            ("cpu-100m", "50m", "negative (-50m)"),
            ("cpu-2", "500m", "negative (-1500m)"),
            ("-cpu/3", "1", "negative (-1/3)"),
            // Not rounded up to zero.
            ("-1u", "1", "negative (-0.000001)"),
            ("-1e-12", "1", "negative (-1/1000000000000)"),
            ("cpu-2", "2", "0"),
        ],
    );
    table(
        Resource::Memory,
        &[("memory-100Mi", "50Mi", "negative (-50Mi)"), ("memory*50%-10Mi", "15Mi", "negative (-2560Ki)")],
    );
}

#[test]
fn a_result_is_printed_in_the_family_of_its_inputs() {
    table(
        Resource::Memory,
        &[
            // A sum looks like its left side, unless that is a plain number or zero.
            ("memory + 1024k", "1Mi", "2024Ki"),
            ("1024k + memory", "1Mi", "2072576"),
            ("1024 + memory", "1Mi", "1025Ki"),
            ("0 + memory", "1Mi", "1Mi"),
            ("0k + memory", "1Mi", "1Mi"),
            ("memory + 1024", "0", "1024"),
            ("memory + 100Mi", "0", "100Mi"),
            ("memory - 1024", "1Mi", "1023Ki"),
            // A product looks like its quantity.
            ("2*memory", "1Gi", "2Gi"),
            ("memory/2", "1Gi", "512Mi"),
            ("memory/2", "1G", "500M"),
            ("-(-memory)", "1Gi", "1Gi"),
            // A maximum or minimum looks like the winner; of equals the first wins.
            ("max(memory, 1G)", "1Gi", "1Gi"),
            ("min(memory, 1G)", "1Gi", "1G"),
            ("max(1024000, 1000Ki)", "0", "1024k"),
            ("max(1000Ki, 1024000)", "0", "1000Ki"),
            ("min(1000Ki, 1024000)", "0", "1000Ki"),
            // Bytes that are no multiple of 1024 have no binary unit.
            ("memory/3", "1Mi", "349526"),
            // Numbers are decimal, exponents stay with those who write them.
            ("2048", "1Mi", "2048"),
            ("1000*2", "1Mi", "2k"),
            ("memory", "12e6", "12e6"),
            ("memory*2", "12e6", "24e6"),
            ("12e6", "1", "12M"),
        ],
    );
}

#[test]
fn a_result_beyond_kubernetes_becomes_the_greatest_quantity() {
    let greatest = i64::MAX.to_string();
    table(
        Resource::Memory,
        &[
            ("16Ei", "1", &greatest),
            ("memory*1e60", "1Gi", &greatest),
            ("8Ei-1", "1", &greatest),
            ("8Ei-2", "1", "9223372036854775806"),
            ("1e60/1e60", "1", "1"),
            ("memory*1e60*1e-60", "1Gi", "1Gi"),
        ],
    );
    table(Resource::Cpu, &[("cpu*1e30", "1", &greatest), ("1e19", "1", &greatest)]);
}

#[test]
fn machine_integers_that_overflow_are_replaced_by_unbounded_ones() {
    let most = Quantity::MAX.to_string();
    for source in ["memory*1e19/1e19 - memory", "memory/7*7 - memory", "memory*1.000000001 - memory*1.000000001"] {
        assert_eq!(evaluate(source, Resource::Memory, &most), "0", "{source}");
    }
    // The factors alone do not fit.
    assert_eq!(evaluate("cpu + 1e-55 - 1e-55", Resource::Cpu, "250m"), "250m");
}

#[test]
fn every_unit_means_what_it_means_in_kubernetes() {
    for unit in ["n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
        for number in ["1", "3", "0.5", ".25", "2.", "1.5", "007"] {
            let text = format!("{number}{unit}");
            let quantity: Quantity = text.parse().unwrap();
            let expected = quantity.round_up(Scale::Milli).to_string();
            assert_eq!(evaluate(&text, Resource::Cpu, "1"), expected, "{text}");
        }
    }
}

#[test]
fn an_e_is_an_exponent_only_if_digits_follow() {
    table(
        Resource::Memory,
        &[
            ("1e3", "1", "1k"),
            ("1E3", "1", "1k"),
            ("1E+3", "1", "1k"),
            ("1e-3*1e3", "1", "1"),
            ("1E", "1", "1E"),
            ("1Ei", "1", "1Ei"),
            ("1E - 1E + 1", "1", "1"),
            ("1E-memory", "1E", "0"),
            ("1e2%", "1", "1"),
        ],
    );
}

#[test]
fn names_are_case_insensitive_and_white_space_is_free() {
    table(
        Resource::Memory,
        &[
            ("MAX(Memory*50%, 100Mi)", "1Gi", "512Mi"),
            ("Min(MEMORY,1Gi)", "2Gi", "1Gi"),
            ("\t memory\n*\u{a0}2\u{3000}", "1Gi", "2Gi"),
            ("max  ( 1 ,\r\n 2 )", "1", "2"),
        ],
    );
}

#[test]
fn functions_take_two_or_more_arguments() {
    table(
        Resource::Cpu,
        &[
            ("max(1, 2, 3)", "1", "3"),
            ("min(3, 2, 1, cpu)", "500m", "500m"),
            ("max(min(cpu, 4), 100m, 5%)", "10", "4"),
            ("max(cpu, cpu*2, cpu*3)/3", "1", "1"),
        ],
    );
}

#[test]
fn operators_bind_as_usual() {
    table(
        Resource::Cpu,
        &[
            ("1+2*3", "1", "7"),
            ("10-4-3", "1", "3"),
            ("16/4/2", "1", "2"),
            ("16/4*2", "1", "8"),
            ("-2*-3", "1", "6"),
            ("--2", "1", "2"),
            ("10--5", "1", "15"),
            ("2-(3-4)", "1", "3"),
            ("-(1-3)*2", "1", "4"),
            ("7/-7+2", "1", "1"),
        ],
    );
}

#[test]
fn an_expression_knows_its_variable_and_its_source() {
    let expr = Expr::parse_any(" max(Memory, 1Gi) ").unwrap();
    assert_eq!(expr.variable(), Some(Resource::Memory));
    assert_eq!(expr.source(), " max(Memory, 1Gi) ");
    assert_eq!(expr.to_string(), expr.source());
    assert_eq!(Expr::parse_any("CPU").unwrap().variable(), Some(Resource::Cpu));
    assert_eq!(Expr::parse("100m", Resource::Cpu).unwrap().variable(), None);
}

#[test]
fn the_resource_decides_the_rounding() {
    let expr = Expr::parse_any("1.5").unwrap();
    let cpu = expr.evaluate(Amount::Unlimited, Resource::Cpu);
    let memory = expr.evaluate(Amount::Unlimited, Resource::Memory);
    assert_eq!(cpu, Outcome::Value("1500m".parse().unwrap()));
    assert_eq!(memory, Outcome::Value("2".parse().unwrap()));
}
