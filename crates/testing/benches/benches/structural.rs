//! One small custom resource through all of it: read, completed, checked, with rules.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use pillion_structural::Structural;
use serde_json::{Value, json};

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "spec": {
            "type": "object",
            "required": ["replicas", "containers"],
            "x-kubernetes-validations": [
                {"rule": "self.replicas <= self.maxReplicas", "message": "replicas must fit"},
                {"rule": "self.containers.all(c, c.image.contains(':'))"},
            ],
            "properties": {
                "replicas": {"type": "integer", "minimum": 0},
                "maxReplicas": {"type": "integer", "default": 10},
                "containers": {
                    "type": "array", "maxItems": 10, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name", "image"], "properties": {
                        "name": {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
                        "image": {"type": "string", "maxLength": 200},
                        "args": {"type": "array", "maxItems": 20, "items": {"type": "string"}},
                    }},
                },
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }})
}

fn object() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "labels": {"app": "w"}},
        "spec": {"replicas": 3, "containers": [
            {"name": "app", "image": "app:1", "args": ["--a", "--b"]},
            {"name": "log", "image": "log:2"},
        ]},
    })
}

fn benches(criterion: &mut Criterion) {
    let schema = schema();
    let structural = Structural::compile(&schema).unwrap_or_else(|errors| unreachable!("{errors:?}"));
    let complete = {
        let mut object = object();
        structural.apply_defaults(&mut object);
        object
    };
    assert!(structural.validate(&complete, None).is_empty());
    criterion.bench_function("compile", |b| b.iter(|| Structural::compile(black_box(&schema))));
    criterion.bench_function("coerce and default", |b| {
        b.iter(|| {
            let mut object = object();
            let unknown = structural.coerce(&mut object);
            structural.apply_defaults(&mut object);
            (unknown, object)
        });
    });
    criterion.bench_function("validate a new object", |b| b.iter(|| structural.validate(black_box(&complete), None)));
    criterion.bench_function("validate an update", |b| {
        b.iter(|| structural.validate(black_box(&complete), Some(&complete)));
    });
}

criterion_group!(group, benches);
criterion_main!(group);
