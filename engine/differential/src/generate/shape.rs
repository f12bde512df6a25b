//! What objects are made of, as far as patches are drawn from it.

use serde_json::{Map, Value, json};

use super::draw::Draw;

/// What values of a place look like.
pub(super) enum Shape {
    /// One of these values.
    Of(&'static [&'static str]),
    /// A number up to this one.
    Upto(usize),
    /// An object with some of these fields.
    Object(Vec<(&'static str, Shape)>),
    /// A map from some of these keys.
    Map(&'static [&'static str], Box<Shape>),
    /// A list whose items are told apart by a key.
    Keyed(&'static str, Vec<Value>, Box<Shape>),
    /// Any other list.
    List(Box<Shape>),
}

impl Shape {
    /// A value of the shape.
    pub(super) fn value(&self, draw: &mut Draw) -> Value {
        match self {
            Self::Of(words) => (*draw.one_of(words)).into(),
            Self::Upto(bound) => draw.below(*bound + 1).into(),
            Self::Object(fields) => {
                let mut object = Map::new();
                for (name, shape) in fields {
                    if draw.chance(40) {
                        object.insert((*name).to_owned(), shape.value(draw));
                    }
                }
                object.into()
            }
            Self::Map(keys, shape) => {
                let some: Vec<_> = keys.iter().filter(|_| draw.chance(50)).collect();
                some.into_iter().map(|key| ((*key).to_owned(), shape.value(draw))).collect()
            }
            Self::Keyed(key, keys, shape) => {
                let some: Vec<_> = keys.iter().filter(|_| draw.chance(50)).collect();
                let item = |value: &Value, draw: &mut Draw| {
                    let mut item = shape.value(draw);
                    item[*key] = value.clone();
                    item
                };
                some.into_iter().map(|value| item(value, draw)).collect()
            }
            Self::List(shape) => (0..draw.below(3)).map(|_| shape.value(draw)).collect(),
        }
    }
}

fn words(words: &'static [&'static str]) -> Shape {
    Shape::Of(words)
}

fn map(keys: &'static [&'static str], values: &'static [&'static str]) -> Shape {
    Shape::Map(keys, Box::new(words(values)))
}

fn metadata() -> Shape {
    let finalizers = Shape::List(Box::new(words(&["example.com/a", "example.com/b"])));
    Shape::Object(labels_and_annotations().into_iter().chain([("finalizers", finalizers)]).collect())
}

fn labels_and_annotations() -> Vec<(&'static str, Shape)> {
    vec![("labels", map(&["a", "b", "app"], &["web", "x", ""])), ("annotations", map(&["n", "m"], &["1", "2"]))]
}

fn containers() -> Shape {
    let env = Shape::Keyed(
        "name",
        vec![json!("X"), json!("Y"), json!("Z")],
        Box::new(Shape::Object(vec![("value", words(&["1", "2", ""]))])),
    );
    let port = Shape::Object(vec![("name", words(&["web", "admin"])), ("protocol", words(&["TCP", "UDP"]))]);
    let ports = Shape::Keyed("containerPort", vec![json!(80), json!(81)], Box::new(port));
    let resources = Shape::Object(vec![
        ("requests", map(&["cpu", "memory"], &["100m", "1", "64Mi", "0.5"])),
        ("limits", map(&["cpu", "memory"], &["1", "2Gi", "1e3"])),
    ]);
    let container = Shape::Object(vec![
        ("image", words(&["a:1", "a:2", "b"])),
        ("command", Shape::List(Box::new(words(&["sh", "-c"])))),
        ("env", env),
        ("ports", ports),
        ("resources", resources),
        ("imagePullPolicy", words(&["Always", "Never"])),
    ]);
    Shape::Keyed("name", vec![json!("a"), json!("b"), json!("c")], Box::new(container))
}

fn pod_spec() -> Shape {
    let toleration = Shape::Object(vec![
        ("key", words(&["k", "l"])),
        ("operator", words(&["Exists", "Equal"])),
        ("effect", words(&["NoSchedule", "NoExecute"])),
    ]);
    let volume = Shape::Object(vec![("emptyDir", Shape::Object(vec![("medium", words(&["Memory", ""]))]))]);
    Shape::Object(vec![
        ("containers", containers()),
        ("tolerations", Shape::List(Box::new(toleration))),
        ("nodeSelector", map(&["zone", "disk"], &["a", "b"])),
        ("volumes", Shape::Keyed("name", vec![json!("v"), json!("w")], Box::new(volume))),
        ("terminationGracePeriodSeconds", Shape::Upto(3)),
        ("activeDeadlineSeconds", Shape::Upto(3)),
    ])
}

pub(super) fn pod() -> Shape {
    Shape::Object(vec![("metadata", metadata()), ("spec", pod_spec())])
}

pub(super) fn deployment() -> Shape {
    let rolling = Shape::Object(vec![("maxSurge", words(&["25%", "0", "3"])), ("maxUnavailable", Shape::Upto(2))]);
    let strategy = Shape::Object(vec![("type", words(&["Recreate", "RollingUpdate"])), ("rollingUpdate", rolling)]);
    let template = Shape::Object(vec![("metadata", metadata()), ("spec", pod_spec())]);
    let spec = Shape::Object(vec![
        ("replicas", Shape::Upto(5)),
        ("strategy", strategy),
        ("template", template),
        ("minReadySeconds", Shape::Upto(2)),
    ]);
    Shape::Object(vec![("metadata", metadata()), ("spec", spec)])
}

pub(super) fn widget() -> Shape {
    let part = Shape::Object(vec![("count", Shape::Upto(3)), ("note", words(&["n", ""]))]);
    let spec = Shape::Object(vec![
        ("size", Shape::Upto(10)),
        ("color", words(&["red", "green", "pink"])),
        ("tags", Shape::List(Box::new(words(&["x", "z", "w"])))),
        ("parts", Shape::Keyed("name", vec![json!("a"), json!("b"), json!("c")], Box::new(part))),
        ("plain", Shape::List(Box::new(Shape::Upto(3)))),
        ("labels", map(&["a", "b"], &["1", "2"])),
        ("whole", Shape::Map(&["a", "b"], Box::new(Shape::Upto(3)))),
        ("free", Shape::Object(vec![("any", words(&["thing"])), ("list", Shape::List(Box::new(Shape::Upto(2))))])),
        ("unheard", words(&["field"])),
    ]);
    // Without finalizers: their definition could not be deleted.
    Shape::Object(vec![("metadata", Shape::Object(labels_and_annotations())), ("spec", spec)])
}
