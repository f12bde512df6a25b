//! Usage from the metrics API (`metrics.k8s.io`), which metrics-server serves.

use std::borrow::Cow;
use std::fmt;

use axum::http::Request;
use kube::Client;
use pillion_quantity::Quantity;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::samples::Sample;

const PATH: &str = "/apis/metrics.k8s.io/v1beta1/pods";

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    timestamp: Cow<'a, str>,
    #[serde(borrow, default)]
    containers: Vec<Container<'a>>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Container<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    usage: Usage<'a>,
}

#[derive(Default, Deserialize)]
struct Usage<'a> {
    #[serde(borrow)]
    cpu: Option<Cow<'a, str>>,
    #[serde(borrow)]
    memory: Option<Cow<'a, str>>,
}

/// The usage of all pods, as text.
pub(crate) async fn read(client: &Client) -> Result<String, String> {
    let request = Request::get(PATH).body(Vec::new()).map_err(|error| error.to_string())?;
    client.request_text(request).await.map_err(|error| match error {
        kube::Error::Api(status) if matches!(status.code, 404 | 503) => {
            "the metrics API is not served; install metrics-server, or start with --usage-source=kubelets".to_owned()
        }
        error => error.to_string(),
    })
}

/// Every sample of an answer. One pod is read after the other: the list of a large cluster is not held a second time.
pub(crate) fn parse<'a>(text: &'a str, mut each: impl FnMut(Sample<'a>)) -> Result<(), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.deserialize_map(List(|pod: Pod<'a>| samples(pod, &mut each)))?;
    reader.end()
}

fn samples<'a>(pod: Pod<'a>, each: &mut impl FnMut(Sample<'a>)) {
    let Ok(at) = pod.timestamp.parse() else { return };
    for container in pod.containers {
        let quantity = |text: Option<Cow<'a, str>>| text.and_then(|text| text.parse::<Quantity>().ok());
        let number = |number: i128| i64::try_from(number).unwrap_or(i64::MAX);
        each(Sample {
            namespace: pod.metadata.namespace.clone(),
            pod: pod.metadata.name.clone(),
            container: container.name,
            millicores: quantity(container.usage.cpu).map(|cpu| number(cpu.milli_value())),
            bytes: quantity(container.usage.memory).map(|memory| number(memory.value())),
            at,
        });
    }
}

/// A list of pods, each of which is handed on as soon as it is read.
struct List<F>(F);

impl<'a, F: FnMut(Pod<'a>)> Visitor<'a> for List<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a PodMetricsList")
    }

    fn visit_map<M: MapAccess<'a>>(mut self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<Cow<'a, str>>()? {
            if key == "items" {
                map.next_value_seed(Items(&mut self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct Items<'f, F>(&'f mut F);

impl<'a, F: FnMut(Pod<'a>)> DeserializeSeed<'a> for Items<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'a, F: FnMut(Pod<'a>)> Visitor<'a> for Items<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of PodMetrics")
    }

    fn visit_seq<S: SeqAccess<'a>>(self, mut items: S) -> Result<(), S::Error> {
        while let Some(pod) = items.next_element()? {
            (self.0)(pod);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_container_of_every_pod_is_a_sample() {
        let text = r#"{"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": [
            {"metadata": {"name": "web-0", "namespace": "shop", "labels": {"a": "b"}}, "timestamp": "2026-01-01T00:00:00Z", "window": "15s",
             "containers": [
                {"name": "app", "usage": {"cpu": "1500001n", "memory": "10Ki"}},
                {"name": "mesh", "usage": {"memory": "1"}}
             ]},
            {"metadata": {"name": "odd", "namespace": "shop"}, "timestamp": "yesterday", "containers": [{"name": "app"}]}
        ]}"#;
        let mut samples = Vec::new();
        parse(text, |sample| samples.push(sample)).unwrap();
        let [app, mesh] = samples.as_slice() else { panic!("{samples:?}") };
        assert_eq!((app.millicores, app.bytes), (Some(2), Some(10240)), "rounded up, as Go does");
        assert_eq!((mesh.millicores, mesh.bytes), (None, Some(1)));
        assert!(matches!(app.pod, Cow::Borrowed("web-0")), "names are not copied");
    }

    #[test]
    fn an_answer_that_is_cut_off_is_an_error_and_one_without_pods_is_not() {
        assert!(parse(r#"{"items": [{"metadata": {"name": "web-0"#, |_| {}).is_err());
        assert!(parse(r#"{"items": {}}"#, |_| {}).is_err());
        assert!(parse(r#"{"kind": "PodMetricsList", "items": []}"#, |_| {}).is_ok());
    }
}
