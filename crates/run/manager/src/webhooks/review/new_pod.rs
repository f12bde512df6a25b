//! Reading the question about a new pod, which comes more often than all others together: without what no answer depends on.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use axum::body::Bytes;
use pillion_api::names::IS_INJECTED;
use pillion_api::pod::partial::PartialPod;
use pillion_lifecycle::marks::{has_own_marks, is_variable};
use pillion_partial::Partial;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::{Request, VERSION};

/// The names of environment variables that SidecarSets transfer.
type Names = Arc<BTreeSet<Box<str>>>;

/// What was left out of a pod when it was read.
#[derive(Debug)]
pub(crate) struct LeftOut {
    /// The question.
    body: Bytes,
    /// The variables that were kept.
    kept: Names,
    /// Whether the pod refers to variables of its own by name.
    has_expressions: bool,
}

impl Request {
    /// Reads a question about a pod without the environment variables that no decision reads.
    pub(crate) fn read_new_pod(body: &Bytes, transferred: &Names) -> Result<Request, String> {
        let has_expressions = Cell::new(false);
        let is_wanted = |name: &str| name == IS_INJECTED || is_variable(name) || transferred.contains(name);
        let pod = PartialPod::new(&is_wanted).watching_for_expressions(&has_expressions);
        // Whether it is text is looked at once, and not again for each variable.
        let request = std::str::from_utf8(body).ok().and_then(|text| {
            let mut json = serde_json::Deserializer::from_str(text);
            let request = json.deserialize_map(ReviewOf(pod)).ok()?;
            json.end().ok().and(request)
        });
        // The whole question has the better error.
        let Some(mut request) = request else { return Request::read(body) };
        let has_expressions = has_expressions.get();
        request.left_out = Some(LeftOut { body: body.clone(), kept: Arc::clone(transferred), has_expressions });
        Ok(request)
    }

    /// The same question with everything that an answer may depend on, which has these variables.
    pub(crate) fn with_variables(self, transferred: &Names) -> Result<Request, String> {
        let needed = self.left_out.as_ref().filter(|left_out| left_out.is_needed(&self, transferred));
        let Some(body) = needed.map(|left_out| left_out.body.clone()) else { return Ok(self) };
        // There is room for one of them.
        drop(self);
        Request::read(&body)
    }
}

impl LeftOut {
    fn is_needed(&self, request: &Request, transferred: &Names) -> bool {
        let is_kept = Arc::ptr_eq(&self.kept, transferred) || transferred.is_subset(&self.kept);
        // A container with a mark may be moved, and then it has to be whole.
        !is_kept || self.has_expressions || has_own_marks(&request.object)
    }
}

/// Reads an `AdmissionReview` whose object is read like this.
struct ReviewOf<'a>(PartialPod<'a>);

impl<'de> Visitor<'de> for ReviewOf<'_> {
    type Value = Option<Request>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an AdmissionReview")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Option<Request>, A::Error> {
        let (mut request, mut is_other_version) = (None, false);
        while let Some(key) = fields.next_key::<Field>()? {
            match key {
                Field::Request => request = Some(fields.next_value_seed(RequestOf(self.0))?),
                Field::ApiVersion => {
                    is_other_version = fields.next_value::<Option<String>>()?.is_some_and(|version| version != VERSION);
                }
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(request.filter(|_| !is_other_version))
    }
}

struct RequestOf<'a>(PartialPod<'a>);

impl<'de> DeserializeSeed<'de> for RequestOf<'_> {
    type Value = Request;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Request, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RequestOf<'_> {
    type Value = Request;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Request, A::Error> {
        let mut request = Request::default();
        while let Some(key) = fields.next_key::<Field>()? {
            match key {
                Field::Uid => request.uid = fields.next_value()?,
                Field::Namespace => request.namespace = fields.next_value()?,
                Field::Operation => request.operation = fields.next_value()?,
                Field::SubResource => request.sub_resource = fields.next_value()?,
                Field::DryRun => request.dry_run = fields.next_value()?,
                Field::Object => request.object = fields.next_value_seed(Partial(self.0))?,
                Field::OldObject => request.old_object = fields.next_value()?,
                Field::ApiVersion | Field::Request | Field::Other => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(request)
    }
}

/// The fields that are read, of a review and of its request.
#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    ApiVersion,
    Request,
    Uid,
    Namespace,
    Operation,
    SubResource,
    DryRun,
    Object,
    OldObject,
    #[serde(other)]
    Other,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn names(names: &[&str]) -> Names {
        Arc::new(names.iter().map(|name| (*name).into()).collect())
    }

    fn question(pod: &Value) -> Bytes {
        let request = json!({"uid": "7", "namespace": "shop", "operation": "CREATE", "dryRun": true, "object": pod, "oldObject": null, "options": {}});
        Bytes::from(json!({"kind": "AdmissionReview", "request": request}).to_string())
    }

    fn pod(container: Value) -> Value {
        let mut container = container;
        container["env"] = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
        json!({"metadata": {"name": "web"}, "spec": {"containers": [container]}})
    }

    fn variables(request: &Request) -> Value {
        request.object["spec"]["containers"][0]["env"].clone()
    }

    #[test]
    fn only_variables_that_are_transferred_are_read() {
        let known = names(&["B"]);
        let request = Request::read_new_pod(&question(&pod(json!({}))), &known).unwrap();
        assert_eq!((request.uid.as_str(), request.namespace.as_deref()), ("7", Some("shop")));
        assert!(request.is("CREATE") && request.is_dry_run() && request.old_object.is_null());
        assert_eq!(variables(&request), json!([null, {"name": "B", "value": "2"}]));
        let request = request.with_variables(&known).unwrap();
        assert_eq!(variables(&request)[0], Value::Null, "what is there is enough");
    }

    #[test]
    fn what_an_answer_may_depend_on_is_read_after_all() {
        let all = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
        let read = |container: Value, then: &[&str]| {
            let request = Request::read_new_pod(&question(&pod(container)), &names(&["B"])).unwrap();
            variables(&request.with_variables(&names(then)).unwrap())
        };
        assert_eq!(read(json!({}), &["A", "B"]), all, "a SidecarSet that came meanwhile transfers A");
        assert_ne!(read(json!({}), &[]), all);
        assert_eq!(read(json!({"volumeMounts": [{"subPathExpr": "$(A)"}]}), &[]), all);
        assert_eq!(read(json!({"sidecar": true}), &[]), all, "it may become an init container");
    }

    #[test]
    fn a_question_that_cannot_be_read_has_the_same_error() {
        for body in ["{}", "[]", r#"{"request": {"uid": 5}}"#, r#"{"request": null}"#, "{\"request\": {}} x", ""] {
            let body = Bytes::from(body);
            let error = Request::read(&body).unwrap_err();
            assert_eq!(Request::read_new_pod(&body, &names(&[])).unwrap_err(), error);
        }
    }
}
