//! What is known of each container that an autoscaler sizes.

use pillion_api::pod::Pod;
use pillion_api::vpa::{
    Gates, RecommendedContainerResources, ResourceList, VerticalPodAutoscaler, VerticalPodAutoscalerCheckpoint,
};
use pillion_api::workload::pod_template;
use pillion_quantity::{Format, Quantity};
use pillion_rightsize::{ContainerKind, ContainerTarget, LimitRanges, PodContainer, PodView, container_targets};
use serde::Serialize;
use serde_json::{Value, json};

/// What is recommended for native sidecars is for the template as well.
const SIDECARS: Gates = Gates { native_sidecar: true, ..Gates::NONE };

/// The columns of a table.
pub(super) const HEADER: [&str; 12] = [
    "NAMESPACE",
    "VPA",
    "WORKLOAD",
    "CONTAINER",
    "RESOURCE",
    "CURRENT",
    "TARGET",
    "LOWER",
    "UPPER",
    "SAMPLES",
    "SAVES",
    "REASON",
];

/// The workload that an autoscaler targets. `Null` if it is not known.
#[derive(Debug, Default)]
pub(super) struct Target {
    pub(super) workload: Value,
    pub(super) pods: Vec<Value>,
    pub(super) ranges: LimitRanges,
    /// What becomes of the pods, one line for all of which the same is to be said.
    pub(super) updates: Vec<String>,
}

impl Target {
    fn is_known(&self) -> bool {
        self.workload.is_object()
    }

    /// A pod as the template has it, without what is injected.
    fn template(&self) -> Option<PodView> {
        let template = self.workload.pointer(pod_template(&self.workload)?)?;
        Some(PodView::new(&Pod::new(template.clone()).ok()?))
    }

    /// What the containers are and request: in the newest pod, or in the template while there is none.
    pub(super) fn containers(&self) -> Vec<PodContainer> {
        let newest = self.pods.iter().max_by_key(|pod| pod["metadata"]["creationTimestamp"].as_str());
        let newest = newest.and_then(|pod| Some(PodView::new(&Pod::new(pod.clone()).ok()?)));
        newest.or_else(|| self.template()).map(|pod| pod.containers.to_vec()).unwrap_or_default()
    }

    /// The pods, each with how often it counts: the live ones once, or the template once for each replica while there is no pod.
    fn counted_pods(&self) -> Vec<(PodView, i128)> {
        if self.pods.is_empty() {
            let replicas = self.workload["spec"]["replicas"].as_i64().map_or(1, i128::from);
            return self.template().map(|template| (template, replicas)).into_iter().collect();
        }
        let read = |pod: &Value| Some((PodView::new(&Pod::new(pod.clone()).ok()?), 1));
        self.pods.iter().filter_map(read).collect()
    }
}

/// A container of a template, with nothing but its name and the resources that it should have.
#[derive(Debug)]
pub(super) struct ContainerPatch {
    /// The list of the template that has the container.
    pub(super) list: &'static str,
    /// The place of the container among the containers of the template that can be sized.
    pub(super) place: usize,
    pub(super) container: Value,
}

/// One container of an autoscaler.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) namespace: String,
    pub(super) vpa: String,
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) workload: String,
    pub(super) container: String,
    /// Whether it is a native sidecar.
    is_sidecar: bool,
    /// `None` if the template does not have the container, or is not known.
    #[serde(skip)]
    pub(super) patch: Option<ContainerPatch>,
    current: ResourceList,
    pub(super) target: ResourceList,
    lower_bound: ResourceList,
    upper_bound: ResourceList,
    samples: Option<i64>,
    /// What all pods together would request less; negative if they need more.
    saves: ResourceList,
    reason: String,
}

impl Row {
    /// One line for each resource, with the resource and what is saved of it.
    pub(super) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let text = |list: &ResourceList, resource: &str| {
            list.get(resource).map_or_else(|| "-".to_owned(), |amount| amount.to_string())
        };
        self.target.iter().map(move |(resource, target)| Line {
            resource,
            saves: self.saves.get(resource),
            cells: [
                self.namespace.clone(),
                self.vpa.clone(),
                format!("{}/{}", self.kind, self.workload),
                self.container.clone(),
                resource.to_owned(),
                text(&self.current, resource),
                target.to_string(),
                text(&self.lower_bound, resource),
                text(&self.upper_bound, resource),
                self.samples.map_or_else(|| "-".to_owned(), |samples| samples.to_string()),
                text(&self.saves, resource),
                self.reason.clone(),
            ],
        })
    }
}

/// One resource of one container, as a table shows it.
pub(super) struct Line<'a> {
    pub(super) resource: &'a str,
    pub(super) saves: Option<Quantity>,
    pub(super) cells: [String; 12],
}

/// The rows of an autoscaler, by container.
pub(super) fn rows(
    autoscaler: &VerticalPodAutoscaler,
    checkpoints: &[VerticalPodAutoscalerCheckpoint],
    target: &Target,
) -> Vec<Row> {
    let reference = autoscaler.spec.target_ref.clone().unwrap_or_default();
    let containers = target.containers();
    let template = target.template();
    let pods = target.counted_pods();
    let patched = template.as_ref().map(|template| container_targets(autoscaler, template, &target.ranges, SIDECARS));
    let patch = |name: &str| {
        let mut containers = template.as_ref()?.containers.iter().enumerate();
        let (place, container) = containers.find(|(_, container)| container.name == name)?;
        let resources = patched.as_ref()?.iter().find(|target| target.container == name)?;
        Some(ContainerPatch { list: ContainerKind::list(container.kind), place, container: patch(resources) })
    };
    let row = |recommended: &RecommendedContainerResources| {
        let name = &recommended.container_name;
        let container = containers.iter().find(|container| container.name == *name);
        let current: ResourceList = container.map(|container| container.requests.into()).unwrap_or_default();
        let checkpoint = checkpoints.iter().find(|checkpoint| {
            checkpoint.metadata.namespace.as_deref() == Some(autoscaler.namespace())
                && checkpoint.spec.vpa_object_name == autoscaler.name()
                && checkpoint.spec.container_name == *name
        });
        Row {
            namespace: autoscaler.namespace().to_owned(),
            vpa: autoscaler.name().to_owned(),
            api_version: reference.api_version.clone().unwrap_or_default(),
            kind: reference.kind.clone(),
            workload: reference.name.clone(),
            container: name.clone(),
            patch: patch(name),
            is_sidecar: container.is_some_and(|container| container.kind == ContainerKind::NativeSidecar),
            saves: saves(name, &recommended.target, &pods),
            reason: reason(autoscaler, recommended, container, target),
            current,
            target: recommended.target.clone(),
            lower_bound: recommended.lower_bound.clone().unwrap_or_default(),
            upper_bound: recommended.upper_bound.clone().unwrap_or_default(),
            samples: checkpoint.map(|checkpoint| checkpoint.status.total_samples_count),
        }
    };
    let recommended = autoscaler.status.recommendation.iter().flat_map(|it| &it.container_recommendations);
    recommended.map(row).collect()
}

/// What all pods together request of a container above what is recommended. A resource that no pod requests is left out.
fn saves(container: &str, target: &ResourceList, pods: &[(PodView, i128)]) -> ResourceList {
    let requests: Vec<(ResourceList, i128)> = pods
        .iter()
        .filter_map(|(pod, count)| {
            let container = pod.containers.iter().find(|it| it.name == container)?;
            Some((container.requests.into(), *count))
        })
        .collect();
    let saved = |(resource, target): (&str, Quantity)| {
        if !requests.iter().any(|(list, _)| list.get(resource).is_some()) {
            return None;
        }
        let less = requests.iter().try_fold(0_i128, |sum, (list, count)| {
            let request = list.get(resource).map_or(0, Quantity::nanos);
            sum.checked_add(request.checked_sub(target.nanos())?.checked_mul(*count)?)
        })?;
        let format = if resource == "memory" { Format::BinarySi } else { Format::DecimalSi };
        Some((resource.to_owned(), Quantity::from_nanos(less, format)))
    };
    target.iter().filter_map(saved).collect()
}

/// A container of a template with the resources that it should have.
fn patch(target: &ContainerTarget) -> Value {
    let mut resources = json!({"requests": ResourceList::from(target.requests)});
    if !target.limits.is_empty() {
        resources["limits"] = json!(ResourceList::from(target.limits));
    }
    json!({"name": target.container, "resources": resources})
}

/// Why the target is what it is, and whether pods are brought to it.
fn reason(
    autoscaler: &VerticalPodAutoscaler,
    recommended: &RecommendedContainerResources,
    container: Option<&PodContainer>,
    target: &Target,
) -> String {
    let mut reasons = Vec::new();
    if recommended.uncapped_target.as_ref().is_some_and(|uncapped| *uncapped != recommended.target) {
        reasons.push("capped by its policy".to_owned());
    }
    let bound = |list: &Option<ResourceList>, resource: &str| list.as_ref().and_then(|list| list.get(resource));
    match container {
        None if !target.is_known() => reasons.push("current requests are not known".to_owned()),
        None => reasons.push("the pods do not have this container".to_owned()),
        Some(_) => {}
    }
    let current: Option<ResourceList> = container.map(|container| container.requests.into());
    for (current, (resource, _)) in current.iter().flat_map(|it| recommended.target.iter().map(move |each| (it, each)))
    {
        let Some(request) = current.get(resource) else {
            reasons.push(format!("no {resource} request"));
            continue;
        };
        if bound(&recommended.lower_bound, resource).is_some_and(|lower| request < lower) {
            reasons.push(format!("too little {resource}"));
        } else if bound(&recommended.upper_bound, resource).is_some_and(|upper| request > upper) {
            reasons.push(format!("too much {resource}"));
        }
    }
    if reasons.is_empty() {
        reasons.push("within its bounds".to_owned());
    }
    if !autoscaler.update_mode().updates_running_pods() {
        reasons.push(format!("mode {}", autoscaler.update_mode().as_str()));
    }
    reasons.extend(target.updates.iter().map(|line| format!("pod {line}")));
    reasons.join(", ")
}
