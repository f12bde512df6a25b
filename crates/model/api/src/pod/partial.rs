//! A new pod, read without what no decision about it depends on.
//!
//! Most of the text of a large pod is environment variables, and which manager owns which field. Skipping them is several times
//! cheaper than decoding them:
//!
//! ```text
//!  status, metadata.managedFields                    left out
//!  spec.{initContainers,containers}[].env[]          null in the place of a variable that nobody asks for
//!  everything else                                   decoded
//! ```
//!
//! Every list keeps its length, so that a patch of the partial pod is a patch of the whole one. Two things cannot be done with a
//! partial pod: copying a container of it, and looking up variables by a name that was not asked for. A variable that is not written as
//! the API server writes it is kept, whatever its name is.
//!
//! ```
//! use pillion_api::pod::partial::PartialPod;
//! use pillion_partial::Partial;
//!
//! let text = br#"{"spec": {"containers": [{"env": [{"name":"A","value":"1"},{"name":"B","value":"2"}]}]}}"#;
//! let pod = Partial(PartialPod::new(&|name| name == "B")).parse(text)?;
//! assert_eq!(pod["spec"]["containers"][0]["env"], serde_json::json!([null, {"name": "B", "value": "2"}]));
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::cell::Cell;
use std::fmt;

use pillion_partial::Part;
use serde::de::{Error, SeqAccess};
use serde_json::Value;
use serde_json::value::RawValue;

/// Reads a pod without what nobody asks for.
#[derive(Clone, Copy)]
pub struct PartialPod<'a> {
    place: Place,
    is_wanted: &'a dyn Fn(&str) -> bool,
    has_expressions: Option<&'a Cell<bool>>,
}

/// Where in the pod a value is.
#[derive(Clone, Copy)]
enum Place {
    Pod,
    Metadata,
    Spec,
    Containers,
    Container,
    Env,
    Mounts,
    Mount,
    Elsewhere,
}

impl Place {
    fn field(self, name: &str) -> Place {
        match (self, name) {
            (Place::Pod, "metadata") => Place::Metadata,
            (Place::Pod, "spec") => Place::Spec,
            (Place::Spec, "containers" | "initContainers") => Place::Containers,
            (Place::Container, "env") => Place::Env,
            (Place::Container, "volumeMounts") => Place::Mounts,
            _ => Place::Elsewhere,
        }
    }

    fn item(self) -> Place {
        match self {
            Place::Containers => Place::Container,
            Place::Mounts => Place::Mount,
            _ => Place::Elsewhere,
        }
    }

    fn is_left_out(self, name: &str) -> bool {
        matches!((self, name), (Place::Pod, "status") | (Place::Metadata, "managedFields"))
    }
}

impl<'a> PartialPod<'a> {
    /// Reads a pod with the environment variables whose names are wanted.
    pub fn new(is_wanted: &'a dyn Fn(&str) -> bool) -> PartialPod<'a> {
        PartialPod { place: Place::Pod, is_wanted, has_expressions: None }
    }

    /// Sets `found` if a mount has a `subPathExpr`, which may name any variable.
    #[must_use]
    pub fn watching_for_expressions(self, found: &'a Cell<bool>) -> PartialPod<'a> {
        PartialPod { has_expressions: Some(found), ..self }
    }

    fn at(self, place: Place) -> PartialPod<'a> {
        PartialPod { place, ..self }
    }

    /// A variable, unless it begins with a name that nobody asks for.
    fn variable<E: Error>(self, text: &str) -> Result<Value, E> {
        match first_name(text) {
            Some(name) if !(self.is_wanted)(name) => Ok(Value::Null),
            _ => serde_json::from_str(text).map_err(E::custom),
        }
    }
}

/// The name with which an object begins, if it is written as the API server writes it.
fn first_name(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(r#"{"name":""#)?;
    let end = rest.bytes().position(|sign| matches!(sign, b'"' | b'\\'))?;
    let (name, rest) = rest.split_at_checked(end)?;
    rest.starts_with('"').then_some(name)
}

impl fmt::Debug for PartialPod<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartialPod").finish_non_exhaustive()
    }
}

impl Part for PartialPod<'_> {
    fn is_whole(self) -> bool {
        matches!(self.place, Place::Elsewhere)
    }

    fn field(self, name: &str) -> Option<Self> {
        if let (Place::Mount, "subPathExpr", Some(found)) = (self.place, name, self.has_expressions) {
            found.set(true);
        }
        (!self.place.is_left_out(name)).then(|| self.at(self.place.field(name)))
    }

    fn item(self) -> Self {
        self.at(self.place.item())
    }

    fn list<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        if !matches!(self.place, Place::Env) {
            return pillion_partial::items(self, items);
        }
        let mut variables = Vec::new();
        while let Some(text) = items.next_element::<&RawValue>()? {
            variables.push(self.variable(text.get())?);
        }
        Ok(Value::Array(variables))
    }
}

#[cfg(test)]
mod tests {
    use pillion_partial::Partial;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> (Value, bool) {
        let found = Cell::new(false);
        let partial = PartialPod::new(&|name| name == "B").watching_for_expressions(&found);
        (Partial(partial).parse(text.as_bytes()).unwrap(), found.get())
    }

    #[test]
    fn lists_keep_their_length_and_everything_else_stays() {
        let pod = json!({
            "apiVersion": "v1", "metadata": {"name": "web", "managedFields": [{"manager": "kubectl"}], "labels": {"env": "x"}},
            "spec": {
                "initContainers": [{"name": "init", "env": [{"name": "A"}]}],
                "containers": [
                    {"env": [{"name": "A", "value": "1"}, {"value": "2", "name": "A"}, {"name": "B", "valueFrom": {"fieldRef": {}}}, null, 5]},
                    {"name": "b", "env": null, "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
                ],
                "env": [{"name": "A"}], "priority": -5, "ratio": 0.5,
            },
            "status": {"phase": "Pending"},
        });
        let (read, has_expressions) = read(&pod.to_string());
        let mut expected = pod;
        expected.as_object_mut().unwrap().shift_remove("status");
        expected["metadata"].as_object_mut().unwrap().shift_remove("managedFields");
        expected["spec"]["initContainers"][0]["env"][0] = Value::Null;
        expected["spec"]["containers"][0]["env"][0] = Value::Null;
        assert_eq!(read, expected);
        assert!(!has_expressions);
    }

    #[test]
    fn an_expression_in_a_mount_is_noticed() {
        let mount = |mount: Value| read(&json!({"spec": {"containers": [{"volumeMounts": [mount]}]}}).to_string()).1;
        assert!(mount(json!({"name": "data", "subPathExpr": "$(A)"})));
        assert!(!mount(json!({"name": "subPathExpr"})));
    }

    #[test]
    fn what_is_no_pod_is_read_as_it_is() {
        for text in ["5", "[]", "null", r#""text""#, "true", r#"{"spec":{"containers":{"env":5}}}"#] {
            assert_eq!(read(text).0.to_string(), text);
        }
        for text in [r#"{"spec":{"#, r#"{"spec":{"containers":[{"env":[{"name":"A",}]}]}}"#] {
            assert!(Partial(PartialPod::new(&|_| false)).parse(text.as_bytes()).is_err());
        }
    }

    #[test]
    fn a_variable_that_is_written_in_another_way_is_kept() {
        for variable in [r#"{ "name": "A" }"#, r#"{"name":"\u0041"}"#, r#"{"name":5}"#, r#"{"value":"1","name":"A"}"#] {
            let (read, _) = read(&format!(r#"{{"spec":{{"containers":[{{"env":[{variable},{{"name":"A"}}]}}]}}}}"#));
            let whole: Value = serde_json::from_str(variable).unwrap();
            assert_eq!(read["spec"]["containers"][0]["env"], json!([whole, null]));
        }
    }
}
