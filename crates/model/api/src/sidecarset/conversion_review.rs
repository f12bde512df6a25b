//! ConversionReview of `apiextensions.k8s.io/v1`: a list of SidecarSets in, the same list in another version out.
//!
//! A review may hold every SidecarSet of a cluster. Objects are read, converted and written one after the other, so that it takes little
//! more memory than its text and that of the answer.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer as _, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::convert::{to_v1alpha1, to_v1beta1};
use super::version::shape_of;
use crate::names;

/// Answers a ConversionReview, both as JSON.
///
/// `hold` is asked with the text of each object before it is decoded; what it gives is kept until the object is converted.
///
/// A request that cannot be met is answered with a failure that says why; the API server shows that to the user.
///
/// # Errors
/// The text is not a ConversionReview.
pub fn convert_review<R>(
    review: &[u8],
    hold: impl Fn(&str) -> Result<R, String>,
) -> Result<Vec<u8>, serde_json::Error> {
    let Review { request } = serde_json::from_slice(review)?;
    let request = request.unwrap_or_default();
    let uid = request.uid.map_or("null", RawValue::get);
    let convert: fn(Value) -> Value = match request.desired_version.as_deref() {
        Some(names::V1BETA1) => to_v1beta1,
        Some(names::V1ALPHA1) => to_v1alpha1,
        _ => {
            let message = format!("SidecarSet converts to {} and {} only", names::V1BETA1, names::V1ALPHA1);
            return Ok(failure(uid, &message));
        }
    };
    // A conversion adds a field or two to each object. What is reserved and never written takes no memory; a copy to grow would.
    let mut answer = Vec::with_capacity(review.len() + review.len() / 2);
    begin(&mut answer, uid);
    let (mut count, mut refused) = (0, None);
    let mut one = |text: &str| -> Result<(), String> {
        let of_object = |reason: String| format!("{}: {reason}", name(text, count));
        let _room = hold(text).map_err(of_object)?;
        let object: Value = serde_json::from_str(text).map_err(|error| of_object(error.to_string()))?;
        shape_of(&object).map_err(|error| error.to_string())?;
        if count > 0 {
            answer.push(b',');
        }
        count += 1;
        serde_json::to_writer(&mut answer, &convert(object)).map_err(|error| error.to_string())
    };
    let mut objects = serde_json::Deserializer::from_str(request.objects.map_or("[]", RawValue::get));
    let read = objects.deserialize_seq(Each(&mut |text: &str| {
        refused = one(text).err();
        refused.is_none()
    }));
    match (read, refused) {
        (_, Some(reason)) => Ok(failure(uid, &reason)),
        (Ok(()), None) => {
            end(&mut answer, &json!({"status": "Success"}));
            Ok(answer)
        }
        (Err(error), None) => Err(error),
    }
}

#[derive(Deserialize)]
struct Review<'a> {
    #[serde(borrow)]
    request: Option<Request<'a>>,
}

/// A request. Its objects are text.
#[derive(Default, Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    uid: Option<&'a RawValue>,
    #[serde(rename = "desiredAPIVersion")]
    desired_version: Option<String>,
    #[serde(borrow)]
    objects: Option<&'a RawValue>,
}

/// What an object is called in messages: by its name, or by its place if it has none.
fn name(text: &str, index: usize) -> String {
    match serde_json::from_str::<Named>(text) {
        Ok(object) if object.metadata.name.len() <= LONGEST_NAME => format!("SidecarSet {:?}", object.metadata.name),
        _ => format!("request.objects[{index}]"),
    }
}

/// The longest name that the API server takes.
const LONGEST_NAME: usize = 253;

#[derive(Deserialize)]
struct Named {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

fn failure(uid: &str, message: &str) -> Vec<u8> {
    let mut answer = Vec::new();
    begin(&mut answer, uid);
    end(&mut answer, &json!({"status": "Failure", "message": message}));
    answer
}

/// The answer up to its first object.
fn begin(answer: &mut Vec<u8>, uid: &str) {
    answer
        .extend_from_slice(br#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"#);
    answer.extend_from_slice(uid.as_bytes());
    answer.extend_from_slice(br#","convertedObjects":["#);
}

/// The answer from its last object on.
fn end(answer: &mut Vec<u8>, result: &Value) {
    answer.extend_from_slice(format!(r#"],"result":{result}}}}}"#).as_bytes());
}

/// Reads a list, and hands over the text of one object after the other until it is not wanted.
struct Each<'a>(&'a mut dyn FnMut(&str) -> bool);

impl<'de> Visitor<'de> for Each<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut objects: A) -> Result<(), A::Error> {
        while let Some(object) = objects.next_element::<&RawValue>()? {
            if !(self.0)(object.get()) {
                return Err(A::Error::custom("an object cannot be converted"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn response(review: &Value) -> Value {
        response_with(review, |_| Ok(()))
    }

    fn response_with<R>(review: &Value, hold: impl Fn(&str) -> Result<R, String>) -> Value {
        let answer = convert_review(review.to_string().as_bytes(), hold).unwrap();
        serde_json::from_slice::<Value>(&answer).unwrap()["response"].clone()
    }

    fn review_of(objects: &[Value]) -> Value {
        json!({"request": {"uid": "1", "desiredAPIVersion": names::V1BETA1, "objects": objects}})
    }

    fn set(name: &str) -> Value {
        json!({"apiVersion": names::V1ALPHA1, "kind": "SidecarSet", "metadata": {"name": name}, "spec": {}})
    }

    #[test]
    fn a_review_is_answered_object_by_object() {
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "42", "desiredAPIVersion": names::V1BETA1, "objects": [
                {"apiVersion": names::V1ALPHA1, "kind": "SidecarSet", "metadata": {"name": "a"}, "spec": {}},
                {"apiVersion": names::V1BETA1, "kind": "SidecarSet", "metadata": {"name": "b"}, "spec": {}},
            ]},
        });
        insta::assert_json_snapshot!(response(&review), @r#"
            {
              "uid": "42",
              "convertedObjects": [
                {
                  "apiVersion": "apps.kruise.io/v1beta1",
                  "kind": "SidecarSet",
                  "metadata": {
                    "name": "a"
                  },
                  "spec": {}
                },
                {
                  "apiVersion": "apps.kruise.io/v1beta1",
                  "kind": "SidecarSet",
                  "metadata": {
                    "name": "b"
                  },
                  "spec": {}
                }
              ],
              "result": {
                "status": "Success"
              }
            }
            "#);
    }

    #[test]
    fn a_review_that_cannot_be_met_says_why() {
        let message = |request: Value| response(&json!({"request": request}))["result"].to_string();
        insta::assert_snapshot!(message(json!({"desiredAPIVersion": "apps.kruise.io/v1"})), @r#"{"status":"Failure","message":"SidecarSet converts to apps.kruise.io/v1beta1 and apps.kruise.io/v1alpha1 only"}"#);
        let pod = json!({"apiVersion": "v1", "kind": "Pod"});
        insta::assert_snapshot!(message(json!({"desiredAPIVersion": names::V1BETA1, "objects": [pod]})), @r#"{"status":"Failure","message":"apiVersion \"v1\", kind \"Pod\" is not a SidecarSet of apps.kruise.io"}"#);
        insta::assert_snapshot!(message(Value::Null), @r#"{"status":"Failure","message":"SidecarSet converts to apps.kruise.io/v1beta1 and apps.kruise.io/v1alpha1 only"}"#);
    }

    #[test]
    fn the_version_may_come_after_the_objects() {
        let object = json!({"apiVersion": names::V1ALPHA1, "kind": "SidecarSet", "metadata": {"name": "a"}});
        let review = json!({"request": {"objects": [object], "desiredAPIVersion": names::V1BETA1, "uid": "1"}});
        assert_eq!(response(&review)["convertedObjects"][0]["apiVersion"], names::V1BETA1);
        let review = json!({"request": {"objects": null, "desiredAPIVersion": names::V1BETA1, "uid": "1"}});
        assert_eq!(response(&review), json!({"uid": "1", "convertedObjects": [], "result": {"status": "Success"}}));
    }

    #[test]
    fn what_is_no_review_is_an_error() {
        let version = names::V1BETA1;
        let half = format!(r#"{{"request": {{"desiredAPIVersion": "{version}", "objects": [{{}}"#);
        let wrong = format!(r#"{{"request": {{"desiredAPIVersion": "{version}", "objects": {{"a": 1}}}}}}"#);
        for text in ["", "[]", "5", "{\"request\": []}", half.as_str(), wrong.as_str()] {
            assert!(convert_review(text.as_bytes(), |_| Ok(())).is_err(), "{text}");
        }
    }

    /// Counts how many there are.
    struct Counted<'a>(&'a Cell<usize>);

    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }

    #[test]
    fn objects_are_held_one_at_a_time() {
        let sets: Vec<Value> = (0..1_000).map(|i| set(&i.to_string())).collect();
        let (held, asked) = (Cell::new(0), Cell::new(0));
        let response = response_with(&review_of(&sets), |_| {
            asked.set(asked.get() + 1);
            held.set(held.get() + 1);
            assert_eq!(held.get(), 1);
            Ok(Counted(&held))
        });
        let names = response["convertedObjects"].as_array().unwrap().iter().map(|set| &set["metadata"]["name"]);
        assert!(names.eq(sets.iter().map(|set| &set["metadata"]["name"])));
        assert_eq!((held.get(), asked.get()), (0, 1_000));
    }

    #[test]
    fn an_object_that_is_not_held_is_named_and_nothing_is_converted() {
        let hold = |text: &str| if text.len() < 200 { Ok(()) } else { Err("too large".to_owned()) };
        let long = "x".repeat(300);
        let mut large = set("large");
        large["spec"]["long"] = json!(long);
        let refused = |last: Value| response_with(&review_of(&[set("a"), last]), hold);
        let expected = json!({"status": "Failure", "message": r#"SidecarSet "large": too large"#});
        assert_eq!(refused(large), json!({"uid": "1", "convertedObjects": [], "result": expected}));
        for nameless in [set(&long), json!([long]), json!({"metadata": {"name": [long]}})] {
            assert_eq!(refused(nameless)["result"]["message"], "request.objects[1]: too large");
        }
    }

    #[test]
    fn an_object_that_cannot_be_decoded_is_named() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let object = format!(r#"{{"metadata":{{"name":"deep"}},"spec":{deep}}}"#);
        let version = names::V1BETA1;
        let review = format!(r#"{{"request":{{"uid":"1","desiredAPIVersion":"{version}","objects":[{object}]}}}}"#);
        let answer = convert_review(review.as_bytes(), |_| Ok(())).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let message = answer["response"]["result"]["message"].as_str().unwrap();
        assert!(message.starts_with(r#"SidecarSet "deep": recursion limit exceeded"#), "{message}");
    }
}
