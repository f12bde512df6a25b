//! `cargo bench -p pillion-expr`: parsing and checking, and evaluating, of typical and of the most hostile expressions.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use pillion_expr::{Amount, Expr, Resource};

fn expressions() -> Vec<(&'static str, String, Resource, &'static str)> {
    // As many digits, operators and distinct denominators as the limits allow.
    let hostile = (0..25).fold("cpu".to_owned(), |text, n| format!("max({text}, 0)/{}", 1009 + 2 * n));
    let wide = (0..30).fold("cpu".to_owned(), |text, n| format!("{text}+cpu/{}", 1009 + 2 * n));
    vec![
        ("percentage", "max(cpu*50%, 50m)".to_owned(), Resource::Cpu, "1700m"),
        ("memory", "max(memory*25%, 100Mi)".to_owned(), Resource::Memory, "2000Mi"),
        ("story 5", "0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)".to_owned(), Resource::Cpu, "11700m"),
        ("hostile, nested", hostile, Resource::Cpu, "11700m"),
        ("hostile, wide", wide, Resource::Cpu, "11700m"),
    ]
}

fn benchmarks(criterion: &mut Criterion) {
    for (name, source, resource, amount) in expressions() {
        let expr = Expr::parse(&source, resource).unwrap();
        let amount: Amount = amount.parse().unwrap();
        criterion.bench_function(&format!("parse and check: {name}"), |bencher| {
            bencher.iter(|| Expr::parse(black_box(&source), resource));
        });
        criterion.bench_function(&format!("evaluate: {name}"), |bencher| {
            bencher.iter(|| expr.evaluate(black_box(amount), resource));
        });
        criterion.bench_function(&format!("evaluate unlimited: {name}"), |bencher| {
            bencher.iter(|| expr.evaluate(black_box(Amount::Unlimited), resource));
        });
    }
}

criterion_group!(benches, benchmarks);
criterion_main!(benches);
