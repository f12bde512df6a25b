//! How long parsing and printing take, by the kind of quantity.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use pillion_quantity::Quantity;

const KINDS: [(&str, &str); 6] = [
    ("whole", "2"),
    ("milli", "1500m"),
    ("binary", "512Mi"),
    ("fraction", "0.25"),
    ("binary fraction", "1.5Gi"),
    ("exponent", "12e6"),
];

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    for (kind, text) in KINDS {
        group.bench_function(BenchmarkId::new(kind, text), |bencher| {
            bencher.iter(|| black_box(text).parse::<Quantity>());
        });
    }
    group.finish();
}

fn print(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("print");
    for (kind, text) in KINDS {
        let Ok(quantity) = text.parse::<Quantity>() else { continue };
        group.bench_function(BenchmarkId::new(kind, text), |bencher| {
            bencher.iter(|| black_box(quantity).to_string());
        });
    }
    group.finish();
}

criterion_group!(benches, parse, print);
criterion_main!(benches);
