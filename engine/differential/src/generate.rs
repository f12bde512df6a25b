//! Conversations that are drawn instead of written: random patches of a deployment, a pod and a custom resource, and
//! small mutations of objects that are good.

mod draw;
mod patch;
mod shape;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::conversation::{Conversation, Step};
use crate::expectation::Expectation;
use draw::Draw;
use shape::Shape;

/// How many steps a conversation has; the next begins with fresh objects.
const STEPS: usize = 25;

/// A kind that is talked about.
struct Kind {
    name: &'static str,
    /// The collection, with variables.
    path: &'static str,
    api_version: &'static str,
    /// A good object, without apiVersion and kind.
    object: Value,
    /// What patches are drawn from.
    shape: Shape,
    has_strategic_merge: bool,
}

/// Conversations with about that many requests. The same start draws the same ones.
pub fn conversations(start: u64, requests: usize) -> Vec<Conversation> {
    (0..requests.div_ceil(STEPS))
        .map(|index| conversation(&mut Draw::new(start.wrapping_add(index as u64)), &format!("drawn-{index}")))
        .collect()
}

fn conversation(draw: &mut Draw, name: &str) -> Conversation {
    let kinds = [deployment(), pod(), widget()];
    let mut steps = vec![create_definition()];
    steps.extend(kinds.iter().map(create));
    for number in 1..=STEPS {
        let kind = draw.one_of(&kinds);
        let step = if draw.chance(25) { mutation(draw, kind) } else { patch::step(draw, kind) };
        steps.push(Step { name: format!("{number}. {}", step.name), ..step });
    }
    let finally = vec![format!("DELETE {DEFINITIONS}/widgets.$ns.example.com")];
    let about = "What a generator drew.".to_owned();
    Conversation { name: name.to_owned(), about, webhooks: BTreeMap::new(), steps, finally }
}

/// A good object with a thing or two changed, created as a dry run.
fn mutation(draw: &mut Draw, kind: &Kind) -> Step {
    let mut object = whole(kind);
    object["metadata"]["name"] = "new".into();
    // A server tells what is wrong with a custom resource in any order.
    let most = if kind.has_strategic_merge { 2 } else { 1 };
    for _ in 0..=draw.below(most) {
        patch::spoil(draw, &mut object);
    }
    let validation = draw.one_of(&["", "&fieldValidation=Strict", "&fieldValidation=Ignore"]);
    Step {
        name: format!("create a {} like this", kind.name),
        request: Some(format!("POST {}?dryRun=All{validation}", kind.path)),
        body: Some(object),
        ..Step::default()
    }
}

fn create(kind: &Kind) -> Step {
    Step {
        name: format!("create a {}", kind.name),
        request: Some(format!("POST {}", kind.path)),
        body: Some(whole(kind)),
        until: Some(Expectation::of_status(201)),
        ..Step::default()
    }
}

fn whole(kind: &Kind) -> Value {
    let mut object = kind.object.clone();
    object["apiVersion"] = kind.api_version.into();
    object["kind"] = kind.name.into();
    object
}

fn deployment() -> Kind {
    Kind {
        name: "Deployment",
        path: "/apis/apps/v1/namespaces/$ns/deployments",
        api_version: "apps/v1",
        object: json!({"metadata": {"name": "one", "labels": {"app": "web"}}, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "containers": [{"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "b:1"}],
                "volumes": [{"name": "v", "emptyDir": {}}]
            }}
        }}),
        shape: shape::deployment(),
        has_strategic_merge: true,
    }
}

fn pod() -> Kind {
    Kind {
        name: "Pod",
        path: "/api/v1/namespaces/$ns/pods",
        api_version: "v1",
        object: json!({"metadata": {"name": "one", "labels": {"app": "web"}}, "spec": {
            "automountServiceAccountToken": false,
            "containers": [{"name": "a", "image": "a:1", "ports": [{"containerPort": 80}]}, {"name": "b", "image": "b:1"}]
        }}),
        shape: shape::pod(),
        has_strategic_merge: true,
    }
}

fn widget() -> Kind {
    Kind {
        name: "Widget",
        path: "/apis/$ns.example.com/v1/namespaces/$ns/widgets",
        api_version: "$ns.example.com/v1",
        object: json!({"metadata": {"name": "one"}, "spec": {"size": 3, "parts": [{"name": "a"}, {"name": "b", "count": 2}], "tags": ["x"]}}),
        shape: shape::widget(),
        has_strategic_merge: false,
    }
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn create_definition() -> Step {
    let part = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "count": {"type": "integer", "default": 1}, "note": {"type": "string", "nullable": true}}});
    let spec = json!({"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": part},
        "plain": {"type": "array", "items": {"type": "integer"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "integer"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
    }});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let spec = json!({"group": "$ns.example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [version]});
    Step {
        name: "create the definition".to_owned(),
        request: Some(format!("POST {DEFINITIONS}")),
        body: Some(json!({"metadata": {"name": "widgets.$ns.example.com"}, "spec": spec})),
        only: vec!["/kind".to_owned()],
        ..Step::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_start_draws_the_same_conversations() {
        let text = |start| format!("{:?}", conversations(start, 100));
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
    }

    #[test]
    fn about_as_many_requests_are_drawn_as_are_asked_for() {
        let drawn: usize = conversations(1, 100).iter().map(|conversation| conversation.steps.len()).sum();
        assert!((100..=140).contains(&drawn), "{drawn}");
    }
}
