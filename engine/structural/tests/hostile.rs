//! Schemas and expressions made to hurt: they end, in bounded time and without a deep stack.

use pillion_rules::field::Path;
use pillion_structural::Structural;
use pillion_structural::crd::{self, Context};
use pillion_structural::policy::{Policy, Request};
use serde_json::{Value, json};

fn evaluate(expression: &str) -> String {
    let policy = Policy::compile(&json!({"spec": {"validations": [{"expression": expression}]}}));
    let object = json!({"l": (0..1000).collect::<Vec<_>>()});
    let request = Request {
        object: &object,
        old_object: &Value::Null,
        request: &json!({}),
        namespace: &Value::Null,
        params: None,
    };
    policy.evaluate(&request).into_iter().map(|decision| decision.message).collect::<Vec<_>>().join("\n")
}

#[test]
fn loops_in_loops_stop_at_the_cost_limit() {
    for expression in [
        "object.l.all(a, object.l.all(b, object.l.all(c, object.l.all(d, a + b + c + d >= 0))))",
        "lists.range(1000000000).all(a, a >= 0)",
        "lists.range(1000).map(a, lists.range(1000)).flatten().distinct().size() > 0",
        "object.l.map(a, object.l).map(b, b.map(c, object.l)).size() == 0",
    ] {
        let message = evaluate(expression);
        let stopped = message.contains("operation cancelled: actual cost limit exceeded")
            || message.contains("running out of cost budget");
        assert!(stopped, "{expression}: {message}");
    }
}

#[test]
fn text_that_doubles_stops_at_the_cost_limit() {
    let doubled = (0..60).fold("'aaaaaaaaaa'".to_owned(), |inner, _| format!("{inner}.replace('a', 'aa')"));
    let message = evaluate(&format!("{doubled}.size() > 0"));
    assert!(message.contains("cost limit exceeded") || message.contains("recursion limit"), "{message}");
}

#[test]
fn deep_expressions_are_refused() {
    for (open, close) in [("(", ")"), ("[", "]"), ("{1:", "}"), ("f(", ")"), ("!(", ")"), ("true?", ":1"), ("-(", ")")]
    {
        let message = evaluate(&format!("{}1{}", open.repeat(9_000), close.repeat(9_000)));
        assert!(
            message.contains("expression recursion limit exceeded: 250") || message.contains("Syntax error"),
            "{open}: {message}"
        );
    }
    for chain in [".a", "[0]", " + 1", ".f()", " == 1", " ? 1 : 1"] {
        let message = evaluate(&format!("object{}", chain.repeat(5_000)));
        assert!(message.contains("expression recursion limit exceeded: 250"), "{chain}");
    }
    // These are balanced, so their number does no harm.
    assert_eq!(evaluate(&format!("true{}", " && true".repeat(5_000))), "");
}

#[test]
fn macros_that_copy_do_not_blow_up() {
    let message = evaluate(&format!("optional.of(1){}.hasValue()", ".optMap(x, x)".repeat(100)));
    assert!(message.contains("expression has more than 100000 parts"), "{message}");
}

#[test]
fn schemas_that_nest_too_deeply_are_refused() {
    let mut schema = json!({"type": "string"});
    for _ in 0..70 {
        schema = json!({"type": "object", "properties": {"a": schema}});
    }
    let errors = crd::validate_schema(&schema, &Path::new("spec").child("validation"), Context::default());
    assert_eq!(
        errors[0].to_string(),
        r#"spec.validation.openAPIV3Schema: Invalid value: "": nests more than 64 levels deep"#
    );
    assert!(Structural::compile(&schema).is_err());
}
