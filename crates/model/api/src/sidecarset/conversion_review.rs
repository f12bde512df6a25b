//! ConversionReview of `apiextensions.k8s.io/v1`: a list of SidecarSets in, the same list in another version out.
//!
//! A review may hold every SidecarSet of a cluster. Objects are read, converted and written one after the other, so that it takes little
//! more memory than its text and that of the answer.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::convert::{to_v1alpha1, to_v1beta1};
use super::version::shape_of;
use crate::names;

/// Answers a ConversionReview, both as JSON.
///
/// A request that cannot be met is answered with a failure that says why; the API server shows that to the user.
///
/// # Errors
/// The text is not a ConversionReview.
pub fn convert_review(review: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let Review { request } = serde_json::from_slice(review)?;
    let request = request.unwrap_or_default();
    let convert: Option<fn(Value) -> Value> = match request.desired_version.as_deref() {
        Some(names::V1BETA1) => Some(to_v1beta1),
        Some(names::V1ALPHA1) => Some(to_v1alpha1),
        _ => None,
    };
    let uid = request.uid.map_or("null", RawValue::get);
    let Some(convert) = convert else {
        let message = format!("SidecarSet converts to {} and {} only", names::V1BETA1, names::V1ALPHA1);
        return Ok(answer(uid, &[], &failure(&message)));
    };
    let mut objects = Objects { convert, converted: Vec::new(), stranger: None };
    let mut text = serde_json::Deserializer::from_slice(review);
    match (ReviewSeed(&mut objects).deserialize(&mut text), objects.stranger) {
        (_, Some(reason)) => Ok(answer(uid, &[], &failure(&reason))),
        (Ok(()), None) => Ok(answer(uid, &objects.converted, &json!({"status": "Success"}))),
        (Err(error), None) => Err(error),
    }
}

#[derive(Deserialize)]
struct Review<'a> {
    #[serde(borrow)]
    request: Option<Request<'a>>,
}

/// A request without its objects.
#[derive(Default, Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    uid: Option<&'a RawValue>,
    #[serde(rename = "desiredAPIVersion")]
    desired_version: Option<String>,
}

fn failure(message: &str) -> Value {
    json!({"status": "Failure", "message": message})
}

fn answer(uid: &str, converted: &[u8], result: &Value) -> Vec<u8> {
    let head = format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{{"uid":{uid},"convertedObjects":["#
    );
    let tail = format!(r#"],"result":{result}}}}}"#);
    [head.as_bytes(), converted, tail.as_bytes()].concat()
}

/// Converts the objects of a review as they are read.
struct Objects {
    convert: fn(Value) -> Value,
    /// JSON, with commas between the objects.
    converted: Vec<u8>,
    /// Why one of them cannot be converted.
    stranger: Option<String>,
}

impl Objects {
    fn convert<E: serde::de::Error>(&mut self, object: Value) -> Result<(), E> {
        if let Err(error) = shape_of(&object) {
            self.stranger = Some(error.to_string());
            return Err(E::custom("an object is not a SidecarSet"));
        }
        if !self.converted.is_empty() {
            self.converted.push(b',');
        }
        serde_json::to_writer(&mut self.converted, &(self.convert)(object)).map_err(E::custom)
    }
}

/// A review, of which only `request.objects` counts.
struct ReviewSeed<'a>(&'a mut Objects);
struct RequestSeed<'a>(&'a mut Objects);
struct ObjectsSeed<'a>(&'a mut Objects);

impl<'de> DeserializeSeed<'de> for ReviewSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ReviewSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a ConversionReview")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "request" {
                map.next_value_seed(RequestSeed(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for RequestSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RequestSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request of a ConversionReview")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "objects" {
                map.next_value_seed(ObjectsSeed(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for ObjectsSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ObjectsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut objects: A) -> Result<(), A::Error> {
        while let Some(object) = objects.next_element::<Value>()? {
            self.0.convert::<A::Error>(object)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(review: &Value) -> Value {
        let answer = convert_review(review.to_string().as_bytes()).unwrap();
        serde_json::from_slice::<Value>(&answer).unwrap()["response"].clone()
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
            assert!(convert_review(text.as_bytes()).is_err(), "{text}");
        }
    }
}
