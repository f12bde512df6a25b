//! A parsed path, and the values that it leads to.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Number, Value};

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Field(String),
    Wildcard,
    Recursive,
    Slice(Slice),
    Union(Vec<JsonPath>),
    Filter {
        left: JsonPath,
        comparison: Option<(String, JsonPath)>,
    },
    Literal(Value),
    /// A word that means nothing here, which is an error only when the path is followed.
    Word,
}

/// `[from:to:step]`; `[i]` is `[i:i+1]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slice {
    pub(crate) from: Option<i64>,
    pub(crate) to: Option<i64>,
    /// `to` was not written: of the last element, `[-1]`, it is 0 and means the end.
    pub(crate) single: bool,
    pub(crate) step: Option<i64>,
}

/// The path does not fit the object: an index is out of bounds, or values of different types are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path does not fit the object: an index is out of bounds, or values of different types are compared")]
pub struct Mismatch;

type Found<'a> = Vec<Cow<'a, Value>>;

impl JsonPath {
    /// Every value that the path leads to. Fields that are not there lead nowhere.
    ///
    /// # Errors
    /// The path does not fit the object.
    pub fn find<'a>(&self, object: &'a Value) -> Result<Vec<Cow<'a, Value>>, Mismatch> {
        self.follow(vec![Cow::Borrowed(object)])
    }

    fn follow<'a>(&self, from: Found<'a>) -> Result<Found<'a>, Mismatch> {
        self.steps.iter().try_fold(from, |values, step| step.apply(values))
    }
}

impl Step {
    fn apply<'a>(&self, values: Found<'a>) -> Result<Found<'a>, Mismatch> {
        let mut found = Vec::new();
        match self {
            Step::Word => return Err(Mismatch),
            Step::Literal(literal) => found.extend(values.iter().map(|_| Cow::Owned(literal.clone()))),
            Step::Field(name) => found.extend(values.into_iter().filter_map(|value| field(value, name))),
            Step::Wildcard => found.extend(values.into_iter().flat_map(children)),
            Step::Recursive => {
                for value in values {
                    descend(value, &mut found);
                }
            }
            Step::Slice(slice) => {
                for value in values.into_iter().filter(|value| !value.is_null()) {
                    found.extend(slice.of(value)?);
                }
            }
            Step::Union(paths) => {
                for path in paths {
                    found.extend(path.follow(values.clone())?);
                }
            }
            Step::Filter { left, comparison } => {
                for value in values {
                    if !value.is_array() {
                        return Err(Mismatch);
                    }
                    for item in children(value) {
                        if passes(&item, left, comparison.as_ref())? {
                            found.push(item);
                        }
                    }
                }
            }
        }
        Ok(found)
    }
}

fn field<'a>(value: Cow<'a, Value>, name: &str) -> Option<Cow<'a, Value>> {
    match value {
        Cow::Borrowed(value) => value.get(name).map(Cow::Borrowed),
        Cow::Owned(value) => value.get(name).cloned().map(Cow::Owned),
    }
}

fn children(value: Cow<'_, Value>) -> Found<'_> {
    match value {
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Object(fields)) => fields.values().map(Cow::Borrowed).collect(),
        // Only literals are owned, and a literal has no children.
        _ => Vec::new(),
    }
}

/// The value and all that is below it, as far as it has children.
fn descend<'a>(value: Cow<'a, Value>, found: &mut Found<'a>) {
    let below = children(value.clone());
    if !below.is_empty() {
        found.push(value);
        for child in below {
            descend(child, found);
        }
    }
}

impl Slice {
    fn of<'a>(&self, value: Cow<'a, Value>) -> Result<Found<'a>, Mismatch> {
        if !value.is_array() {
            return Err(Mismatch);
        }
        let items = children(value);
        let length = i64::try_from(items.len()).map_err(|_| Mismatch)?;
        let from_end = |index: i64| index.saturating_add(length);
        let from = match self.from.unwrap_or(0) {
            from if from < 0 => from_end(from),
            from => from,
        };
        let to = match self.to.unwrap_or(length) {
            to if to < 0 || (to == 0 && self.single) => from_end(to),
            to => to,
        };
        if from == to {
            return Ok(Vec::new());
        }
        let step = self.step.unwrap_or(1);
        if from < 0 || from >= length || to > length || from > to || step <= 0 {
            return Err(Mismatch);
        }
        let as_usize = |index: i64| usize::try_from(index).map_err(|_| Mismatch);
        let (from, to, step) = (as_usize(from)?, as_usize(to)?, as_usize(step)?);
        Ok(items.into_iter().take(to).skip(from).step_by(step).collect())
    }
}

fn passes(item: &Value, left: &JsonPath, comparison: Option<&(String, JsonPath)>) -> Result<bool, Mismatch> {
    let lefts = left.find(item);
    let Some((operator, right)) = comparison else {
        // A path that cannot be followed counts as one that leads somewhere.
        return Ok(lefts.map_or(true, |lefts| !lefts.is_empty()));
    };
    let (lefts, rights) = (lefts?, right.find(item)?);
    match (lefts.as_slice(), rights.as_slice()) {
        ([], _) | ([_], []) => Ok(false),
        ([left], [right]) => compare(left, operator, right),
        _ => Err(Mismatch),
    }
}

fn compare(left: &Value, operator: &str, right: &Value) -> Result<bool, Mismatch> {
    let ordering = match (left, right) {
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right)?,
        (Value::Bool(left), Value::Bool(right)) if matches!(operator, "==" | "!=") => left.cmp(right),
        _ => return Err(Mismatch),
    };
    Ok(match operator {
        "==" => ordering == Ordering::Equal,
        "!=" => ordering != Ordering::Equal,
        "<" => ordering == Ordering::Less,
        "<=" => ordering != Ordering::Greater,
        ">" => ordering == Ordering::Greater,
        ">=" => ordering != Ordering::Less,
        _ => return Err(Mismatch),
    })
}

/// Whole numbers and others are not compared with each other.
fn compare_numbers(left: &Number, right: &Number) -> Result<Ordering, Mismatch> {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => Ok(left.cmp(&right)),
        (None, None) => left.as_f64().partial_cmp(&right.as_f64()).ok_or(Mismatch),
        _ => Err(Mismatch),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(path: &str, object: &Value) -> Option<Vec<Value>> {
        let path = JsonPath::parse(path).expect("a path");
        path.find(object).ok().map(|found| found.into_iter().map(Cow::into_owned).collect())
    }

    #[test]
    fn paths_lead_where_kubectl_goes() {
        let object = json!({
            "spec": {"replicas": 3, "list": [1, 2, 3, 4], "x.y": "dotted", "t": true},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "n": 1},
                {"type": "Progressing", "status": "False", "n": 2.5, "reason": "it's (fine)"}
            ], "none": null},
        });
        let table = [
            (".spec.replicas", json!([3])),
            ("$.spec['replicas']", json!([3])),
            (".spec.missing.deeper", json!([])),
            (".spec.replicas.deeper", json!([])),
            (r".spec.x\.y", json!(["dotted"])),
            (r".spec['x\.y']", json!(["dotted"])),
            (".spec.list[0]", json!([1])),
            (".spec.list[-1]", json!([4])),
            (".spec.list[1:3]", json!([2, 3])),
            (".spec.list[::2]", json!([1, 3])),
            (".spec.list[-2:]", json!([3, 4])),
            (".spec.list[2:2]", json!([])),
            (".spec.list[*]", json!([1, 2, 3, 4])),
            (".spec.list[0,2]", json!([1, 3])),
            (".status.none", json!([null])),
            (".status.none[0]", json!([])),
            (".status.conditions[*].type", json!(["Ready", "Progressing"])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"])),
            (".status.conditions[?(@.type == 'Ready')].status", json!(["True"])),
            (".status.conditions[?(@.type!='Ready')].type", json!(["Progressing"])),
            (r#".status.conditions[?(@.reason=="it's (fine)")].type"#, json!(["Progressing"])),
            (".status.conditions[?(@.reason)].type", json!(["Progressing"])),
            ("..type", json!(["Ready", "Progressing"])),
            (".spec.list[?(@ >= 3)]", json!([3, 4])),
        ];
        for (path, want) in table {
            assert_eq!(find(path, &object).map(Value::Array), Some(want), "{path}");
        }
        for path in [
            ".spec.list[4]",
            ".spec.list[-5]",
            ".spec.replicas[0]",
            ".spec.list[?(@=='a')]",
            ".status.conditions[?(@.n>1)]",
            ".spec[?(@.a)]",
            "end",
        ] {
            assert_eq!(find(path, &object), None, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [
            ".a[",
            ".a[x]",
            ".a[?(@.b]",
            ".a[?(@.b==1)",
            ".a[?(@.b=='x)]",
            ".a.....b",
            "!a",
            "'open",
            ".a[?(@.b==1.2.3)]",
        ] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
