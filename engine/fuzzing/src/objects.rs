//! Objects as JSON and as protobuf: decoded, patched, applied. The first byte of an input chooses the type.

use k8s_openapi::jiff::Timestamp;
use pillion_patch::apply::{self, Context, Manager};
use pillion_patch::decode::{self, Decoded};
use pillion_patch::schema::{self, Schema};
use pillion_patch::{protobuf as wire, strategic as merging};
use serde_json::{Deserializer, Value};

/// A few types that between them have every kind of field: name of the schema, `apiVersion`, `kind`.
const TYPES: &[(&str, &str, &str)] = &[
    ("io.k8s.api.core.v1.Pod", "v1", "Pod"),
    ("io.k8s.api.apps.v1.Deployment", "apps/v1", "Deployment"),
    ("io.k8s.api.core.v1.ConfigMap", "v1", "ConfigMap"),
    ("io.k8s.api.core.v1.Service", "v1", "Service"),
    ("io.k8s.api.core.v1.Secret", "v1", "Secret"),
    ("io.k8s.api.coordination.v1.Lease", "coordination.k8s.io/v1", "Lease"),
    ("io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler", "autoscaling/v2", "HorizontalPodAutoscaler"),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    ),
];

struct Type {
    schema: Schema<'static>,
    api_version: &'static str,
    kind: &'static str,
}

fn choose(data: &[u8]) -> Option<(Type, &[u8])> {
    let (choice, rest) = data.split_first()?;
    let (name, api_version, kind) = TYPES.get(usize::from(*choice) % TYPES.len())?;
    let schema = schema::builtin().get(name).expect("a type of the table");
    Some((Type { schema, api_version, kind }, rest))
}

/// Any bytes are an object of the type or an error; what was read reads as the same again.
pub fn decode(data: &[u8]) {
    let Some((Type { schema, .. }, text)) = choose(data) else { return };
    let bodies = [decode::parse(text), decode::parse_yaml(text)];
    for body in bodies.into_iter().flatten() {
        let converted = decode::convert(schema, body.value.clone());
        for read in [decode::decode(schema, body), converted].into_iter().flatten() {
            reads_as_the_same(schema, read.object);
        }
    }
}

/// Any bytes are a message of the type or an error; what was read is read by JSON's rules as the same.
pub fn protobuf(data: &[u8]) {
    let Some((Type { schema, .. }, bytes)) = choose(data) else { return };
    let raw = wire::decode(bytes).map_or(bytes, |envelope| envelope.raw);
    let Ok(value) = wire::to_json(schema, raw) else { return };
    if let Ok(Decoded { object, .. }) = decode::decode(schema, value) {
        reads_as_the_same(schema, object);
    }
}

fn reads_as_the_same(schema: Schema<'_>, object: Value) {
    let read = |object: Value| decode::decode(schema, object).expect("what was written can be read").object;
    let again = read(object.clone());
    // Go writes the zero time as null, and reads null as nothing.
    if !any(&object, &|value| value.is_null()) {
        assert_eq!(object.to_string(), again.to_string(), "it reads as something else");
    }
    let once_more = read(again.clone());
    assert_eq!(again.to_string(), once_more.to_string(), "it reads as something else, for the second time");
}

/// Two values: the second is a patch of the first. And an object merged into itself stays as it is.
pub fn strategic(data: &[u8]) {
    let Some((Type { schema, .. }, text)) = choose(data) else { return };
    let Some([original, patch]) = two_values(text) else { return };
    let _ = merging::strategic_merge(schema, original.clone(), patch.clone());
    for value in [original, patch] {
        let Ok(Decoded { object, .. }) = decode::decode(schema, value) else { continue };
        // Lists with an element twice, or without its key, do not merge; null and `$…` are the words of a patch.
        let plain = !any(&object, &|value| match value {
            Value::Array(items) => items.len() > 1,
            Value::Object(fields) => fields.keys().any(|key| key.starts_with('$')),
            other => other.is_null(),
        });
        if let (Ok(merged), true) = (merging::strategic_merge(schema, object.clone(), object.clone()), plain) {
            assert_eq!(decode::write(schema, merged).to_string(), object.to_string(), "merged into itself");
        }
    }
}

/// Two values: a live object, and what is written or applied over it. Applying twice is applying once.
pub fn apply(data: &[u8]) {
    let Some((Type { schema, api_version, kind }, rest)) = choose(data) else { return };
    let Some((flags, text)) = rest.split_first() else { return };
    let Some([live, mut new]) = two_values(text) else { return };
    let manager = Manager {
        name: if flags & 2 == 0 { "fuzzer" } else { "kubectl" },
        subresource: if flags & 4 == 0 { "" } else { "status" },
    };
    let force = flags & 1 == 1;
    let reset: &[&[&str]] = if flags & 8 == 0 { &[&["status"]] } else { &[] };
    let context = Context { schema, api_version, kind, manager, now: Timestamp::UNIX_EPOCH, reset };
    for value in [&live, &new] {
        apply::update(&context, Some(&live), &mut value.clone());
        apply::update(&context, None, &mut value.clone());
    }
    if let Value::Object(fields) = &mut new {
        fields.insert("apiVersion".to_owned(), api_version.into());
        fields.insert("kind".to_owned(), kind.into());
    }
    let _ = apply::apply(&context, Some(&live), &new, force);
    // The server applies to nothing but what it has read itself.
    let Ok(Decoded { object: live, .. }) = decode::decode(schema, live) else { return };
    for live in [Some(&live), None] {
        let Ok(once) = apply::apply(&context, live, &new, force) else { continue };
        let twice = apply::apply(&context, Some(&once), &new, force);
        assert_eq!(twice.map(|object| object.to_string()), Ok(once.to_string()), "applied twice");
    }
}

fn two_values(text: &[u8]) -> Option<[Value; 2]> {
    let mut values = Deserializer::from_slice(text).into_iter::<Value>().map_while(Result::ok);
    Some([values.next()?, values.next()?])
}

/// Whether something is so of a value or of any value in it.
fn any(value: &Value, is_so: &dyn Fn(&Value) -> bool) -> bool {
    is_so(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| any(item, is_so)),
            Value::Object(fields) => fields.values().any(|field| any(field, is_so)),
            _ => false,
        }
}
