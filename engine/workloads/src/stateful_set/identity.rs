//! The names of a StatefulSet's pods and volume claims.

use serde_json::{Value, json};

use crate::kinds::StatefulSet;
use crate::pod_control::from_template;
use crate::write::controller_reference;
use kube::ResourceExt as _;

pub(super) const REVISION: &str = "controller-revision-hash";
pub(super) const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The name of the set of a pod, if it is named as one of a set.
pub(super) fn parent(pod: &str) -> Option<&str> {
    split(pod).map(|(parent, _)| parent)
}

/// The number of a pod in its set; none if it is too large for one.
pub(super) fn ordinal(pod: &str) -> Option<i32> {
    split(pod).and_then(|(_, digits)| digits.parse().ok())
}

fn split(pod: &str) -> Option<(&str, &str)> {
    let (parent, digits) = pod.rsplit_once('-')?;
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some((parent, digits))
}

pub(super) fn pod_name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", set.name_any())
}

pub(super) fn claim_name(set: &StatefulSet, template: &Value, ordinal: i32) -> String {
    format!("{}-{}-{ordinal}", template["metadata"]["name"].as_str().unwrap_or_default(), set.name_any())
}

/// The labels that say which pod of a set it is.
pub(super) fn labels(pod: &str, ordinal: i32) -> Value {
    json!({POD_NAME: pod, POD_INDEX: ordinal.to_string()})
}

/// The pod of a number, of a revision's template.
pub(super) fn pod(set: &StatefulSet, template: &Value, revision: &str, ordinal: i32) -> Value {
    let mut pod = from_template(template, &controller_reference(set));
    let name = pod_name(set, ordinal);
    for (key, value) in labels(&name, ordinal).as_object().into_iter().flatten() {
        pod["metadata"]["labels"][key] = value.clone();
    }
    pod["metadata"]["labels"][REVISION] = revision.into();
    pod["metadata"]["name"] = name.as_str().into();
    pod["spec"]["hostname"] = name.into();
    if let Some(service) = set.spec.service_name.as_deref().filter(|service| !service.is_empty()) {
        pod["spec"]["subdomain"] = service.into();
    }
    let claims = &set.spec.volume_claim_templates;
    let mut volumes: Vec<Value> = claims.iter().map(|claim| volume(set, claim, ordinal)).collect();
    let is_claim = |volume: &Value| claims.iter().any(|claim| claim["metadata"]["name"] == volume["name"]);
    volumes.extend(pod["spec"]["volumes"].as_array().into_iter().flatten().filter(|volume| !is_claim(volume)).cloned());
    if !volumes.is_empty() {
        pod["spec"]["volumes"] = volumes.into();
    }
    pod
}

fn volume(set: &StatefulSet, claim: &Value, ordinal: i32) -> Value {
    json!({
        "name": claim["metadata"]["name"],
        "persistentVolumeClaim": {"claimName": claim_name(set, claim, ordinal)},
    })
}

/// The volume claims of a number, as they are to be.
pub(super) fn claims(set: &StatefulSet, ordinal: i32) -> Vec<Value> {
    let claim = |template: &Value| {
        let mut claim = template.clone();
        claim["apiVersion"] = "v1".into();
        claim["kind"] = "PersistentVolumeClaim".into();
        claim["metadata"]["name"] = claim_name(set, template, ordinal).into();
        for (key, value) in set.spec.selector.match_labels.iter().flatten() {
            claim["metadata"]["labels"][key] = value.as_str().into();
        }
        claim
    };
    set.spec.volume_claim_templates.iter().map(claim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_of_the_set_that_its_name_says() {
        for (name, set, number) in [
            ("web-0", Some("web"), Some(0)),
            ("my-web-12", Some("my-web"), Some(12)),
            ("web", None, None),
            ("web-", None, None),
            ("web-a1", None, None),
            ("web-1a", None, None),
            ("web-99999999999", Some("web"), None),
        ] {
            assert_eq!((parent(name), ordinal(name)), (set, number), "{name}");
        }
    }

    #[test]
    fn a_pod_has_its_name_its_host_and_its_volumes() {
        let set: StatefulSet = serde_json::from_value(json!({
            "metadata": {"name": "web", "uid": "1"},
            "spec": {
                "serviceName": "nginx",
                "selector": {"matchLabels": {"app": "web"}},
                "volumeClaimTemplates": [{"metadata": {"name": "www"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [], "volumes": [{"name": "www", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]},
                },
            },
        }))
        .unwrap();
        let mut pod = pod(&set, &set.spec.template, "web-5f", 2);
        pod["metadata"].as_object_mut().unwrap().shift_remove("ownerReferences");
        insta::assert_json_snapshot!(pod, @r#"
        {
          "apiVersion": "v1",
          "kind": "Pod",
          "metadata": {
            "generateName": "web-",
            "labels": {
              "app": "web",
              "statefulset.kubernetes.io/pod-name": "web-2",
              "apps.kubernetes.io/pod-index": "2",
              "controller-revision-hash": "web-5f"
            },
            "name": "web-2"
          },
          "spec": {
            "containers": [],
            "volumes": [
              {
                "name": "www",
                "persistentVolumeClaim": {
                  "claimName": "www-web-2"
                }
              },
              {
                "name": "tmp",
                "emptyDir": {}
              }
            ],
            "hostname": "web-2",
            "subdomain": "nginx"
          }
        }
        "#);
        insta::assert_json_snapshot!(claims(&set, 2), @r#"
        [
          {
            "metadata": {
              "name": "www-web-2",
              "labels": {
                "app": "web"
              }
            },
            "spec": {
              "accessModes": [
                "ReadWriteOnce"
              ]
            },
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim"
          }
        ]
        "#);
    }
}
