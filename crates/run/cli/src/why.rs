//! `pillion why`: of every SidecarSet whether it is injected, and where each value comes from.

mod running;
mod text;

use jiff::Timestamp;
use pillion_admission::Why;
use pillion_preview::Drift;
use serde::Serialize;

use crate::inject::refusal;
use crate::manifest::Manifests;
use crate::offline::Inputs;

pub(crate) use running::explain_running;
pub use text::text;

/// The explanation of one object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `Kind/name`.
    pub object: String,
    /// Its namespace; that of an object of a manifest which names none is the one of `--namespace`.
    pub namespace: String,
    /// Whether the namespace is part of its title for people: a manifest that names none is applied to any.
    #[serde(skip)]
    pub is_in_namespace: bool,
    /// What else is to be known of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The explanation.
    #[serde(flatten)]
    pub why: Why,
    /// How the numbers of the autoscalers that size it were computed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub derivations: Vec<Derivation>,
    /// Whether and how autoscalers update what runs, and why not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<String>,
    /// For a running pod, what it has beside what it would get today.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// For a workload of a cluster, the same of each of its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<Vec<PodDrift>>,
}

/// How the numbers of an autoscaler were computed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Derivation {
    pub vertical_pod_autoscaler: String,
    /// One step or result each.
    pub lines: Vec<String>,
}

/// One pod of a workload.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDrift {
    /// The pod's name.
    pub name: String,
    /// What it has beside what it would get today.
    #[serde(flatten)]
    pub drift: Drift,
}

impl Explanation {
    /// That of an object, without what only a cluster knows.
    fn new(object: String, namespace: &str, why: Why) -> Explanation {
        Explanation {
            object,
            namespace: namespace.to_owned(),
            is_in_namespace: true,
            remarks: Vec::new(),
            why,
            derivations: Vec::new(),
            updates: Vec::new(),
            drift: None,
            pods: None,
        }
    }
}

/// Explains every object that has a pod in it, of the manifests that the inputs were read from.
///
/// # Errors
/// Every pod that is malformed, with its place in its file.
pub fn explain(manifests: &Manifests, inputs: &Inputs, now: Timestamp) -> Result<Vec<Explanation>, Vec<String>> {
    let mut explanations = Vec::new();
    let mut errors = Vec::new();
    let read = manifests.for_each(|document| {
        if !inputs.is_object(&document) {
            return;
        }
        match inputs.offline.why(&document.value, now) {
            Ok(None) => {}
            Ok(Some(why)) => {
                let own = document.namespace();
                let namespace = own.unwrap_or(&inputs.offline.namespace);
                let explanation = Explanation::new(document.title(), namespace, why);
                explanations.push(Explanation { is_in_namespace: own.is_some(), ..explanation });
            }
            Err(error) => errors.push(refusal(&document, &error)),
        }
    });
    errors.extend(read.err().into_iter().flatten().map(|error| error.to_string()));
    if errors.is_empty() { Ok(explanations) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inject::{Outcome, inject};
    use crate::offline::testing::load_text;

    const MANIFEST: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: x, resources: {requests: {cpu: 1}, limits: {cpu: 2}}}]}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: web}
spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
status: {recommendation: {containerRecommendations: [{containerName: app, target: {cpu: 250m}}]}}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: api}
spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: api}}
";

    fn explained(manifest: &str) -> Vec<Explanation> {
        let (manifests, inputs) = load_text(manifest);
        explain(&manifests, &inputs, Timestamp::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn autoscalers_of_a_manifest_are_explained() {
        let explanations = explained(MANIFEST);
        let text = text(&explanations[0]);
        let has = |words: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").contains(words);
        assert!(has("web yes it targets Deployment/web"), "{text}");
        assert!(has("api no it targets Deployment/api, and the pod is of another workload"), "{text}");
        assert!(has("web/app: requests.cpu = 250m, limits.cpu = 500m as recommended"), "{text}");
    }

    #[test]
    fn what_becomes_of_running_pods_has_a_section_of_its_own() {
        let mut explanation = explained(MANIFEST).remove(0);
        assert!(!text(&explanation).contains("UPDATES"));
        explanation.updates = vec!["web-1: is not evicted: its controller has only 1 replica".to_owned()];
        let said = "\n  UPDATES OF RUNNING PODS\n  web-1: is not evicted: its controller has only 1 replica\n";
        assert!(text(&explanation).contains(said), "{}", text(&explanation));
    }

    #[test]
    fn an_autoscaler_whose_target_is_not_supported_says_so_instead_of_being_off() {
        let manifest = r"
apiVersion: v1
kind: Pod
metadata:
  name: web-0
  ownerReferences: [{apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: web, uid: a, controller: true}]
spec: {containers: [{name: app, image: x}]}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: web}
spec: {targetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: web}}
status: {conditions: [{type: ConfigUnsupported, status: 'True', message: it has no scale}]}
";
        let explanations = explained(manifest);
        let text = text(&explanations[0]);
        assert!(text.contains("it targets Rollout/web, which is not supported: it has no scale"), "{text}");
    }

    #[test]
    fn objects_of_one_name_in_different_namespaces_are_told_apart() {
        let pod = |namespace: &str| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: web{namespace}}}\nspec: {{containers: [{{name: app}}]}}\n"
            )
        };
        let manifest = [pod(", namespace: a"), pod(", namespace: b"), pod("")].join("---\n");
        let explanations = explained(&manifest);
        let titles: Vec<String> =
            explanations.iter().filter_map(|it| text(it).lines().next().map(str::to_owned)).collect();
        assert_eq!(titles, ["Pod/web in namespace a", "Pod/web in namespace b", "Pod/web"]);
        let json = serde_json::to_value(&explanations).unwrap();
        let places: Vec<&str> = (0..3_usize).filter_map(|i| json[i]["namespace"].as_str()).collect();
        assert_eq!(places, ["a", "b", "default"]);
        assert!(json[0].get("isInNamespace").is_none());
    }

    #[test]
    fn what_they_recommend_is_injected() {
        let (manifests, inputs) = load_text(MANIFEST);
        let mut injected = Vec::new();
        inject(&manifests, &inputs, Timestamp::UNIX_EPOCH, |outcome| injected.extend(outcome.injected)).unwrap();
        let template = &injected[0]["spec"]["template"];
        assert_eq!(template["spec"]["containers"][0]["resources"]["requests"]["cpu"], "250m");
        assert!(template["metadata"].get("ownerReferences").is_none());
    }

    #[test]
    fn nothing_is_injected_where_the_webhook_is_not_called() {
        for (namespace, count) in [("kube-system", 1), (pillion_manager::NAMESPACE, 1), ("shop", 2)] {
            let manifest = format!(
                "
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {{name: mesh}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  containers: [{{name: proxy, image: envoy:1.30}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: web, namespace: {namespace}, labels: {{app: web}}}}
spec: {{containers: [{{name: app, image: web:1}}]}}
"
            );
            let (manifests, inputs) = load_text(&manifest);
            let mut containers = Vec::new();
            let take =
                |outcome: Outcome| containers.extend(outcome.after()["spec"]["containers"].as_array().map(Vec::len));
            inject(&manifests, &inputs, Timestamp::UNIX_EPOCH, take).unwrap();
            assert_eq!(containers, [count], "{namespace}");
            let explanations = explain(&manifests, &inputs, Timestamp::UNIX_EPOCH).unwrap();
            let verdict = &explanations[0].why.sidecar_sets[0];
            assert_eq!(verdict.matched, count == 2, "{namespace}: {}", verdict.message);
        }
    }
}
