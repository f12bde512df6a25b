//! The workloads of a cluster and the pods that run.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use kube::api::ListParams;
use kube::core::ApiResource;
use pillion_preview::{RunningPod, Workload};
use serde_json::Value;

use super::read::{Parts, ReadError, Reader};

/// What makes pods, and the pods.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    pub(crate) workloads: Vec<Workload>,
    pub(crate) pods: Vec<RunningPod>,
}

/// Whatever controls an object: group, kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    group: String,
    kind: String,
    name: String,
}

/// A pod that speaks for all pods of a workload that is of no kind of Kubernetes' own, and how many there are.
struct Group {
    pod: Value,
    count: u64,
}

impl Fleet {
    /// Reads the workloads and pods of a namespace, or of all.
    pub(crate) async fn read(reader: &Reader, namespace: Option<&str>) -> Result<Fleet, ReadError> {
        let every = ListParams::default();
        let list = async |resource: ApiResource| {
            reader.list(&resource, namespace, Parts::All, &every, |object| Some(slim(object))).await
        };
        let owner = |object: Value| Some((key(&object)?, owner_of(&object)));
        let (replica_sets, pods) = (ApiResource::erase::<ReplicaSet>(&()), ApiResource::erase::<Pod>(&()));
        let (deployments, stateful_sets, daemon_sets, controllers, jobs, cron_jobs, replica_sets, pods) = futures::try_join!(
            list(ApiResource::erase::<Deployment>(&())),
            list(ApiResource::erase::<StatefulSet>(&())),
            list(ApiResource::erase::<DaemonSet>(&())),
            list(ApiResource::erase::<ReplicationController>(&())),
            list(ApiResource::erase::<Job>(&())),
            list(ApiResource::erase::<CronJob>(&())),
            // Each Deployment keeps ten old ones, of which only their owner is of interest.
            reader.list(&replica_sets, namespace, Parts::Metadata, &every, owner),
            reader.list(&pods, namespace, Parts::All, &every, |pod| Some(PodRead::of(pod))),
        )?;
        let job_owners = jobs.iter().filter_map(|job| Some((key(job)?, owner_of(job)))).collect();
        let mut fleet = Fleet::default();
        let read = [deployments, stateful_sets, daemon_sets, controllers, jobs, cron_jobs];
        fleet.workloads.extend(read.into_iter().flatten().filter_map(Workload::of));
        for ((namespace, name), _) in replica_sets.iter().filter(|(_, owner)| owner.is_none()) {
            let alone = reader.get(&ApiResource::erase::<ReplicaSet>(&()), Some(namespace), name).await?;
            fleet.workloads.extend(alone.and_then(Workload::of));
        }
        fleet.add_pods(pods, &Owners { replica_sets: replica_sets.into_iter().collect(), jobs: job_owners });
        Ok(fleet)
    }

    fn add_pods(&mut self, pods: Vec<PodRead>, owners: &Owners) {
        let mut groups: BTreeMap<(String, Owner), Group> = BTreeMap::new();
        for pod in pods {
            self.pods.extend(pod.running);
            let Some(value) = pod.value else { continue };
            let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
            match owners.above(&namespace, pod.owner) {
                Above::None => self.workloads.extend(Workload::of(value)),
                Above::Read => {}
                Above::Other(owner) => {
                    groups.entry((namespace, owner)).or_insert(Group { pod: value, count: 0 }).count += 1;
                }
            }
        }
        let others = groups.into_iter();
        self.workloads.extend(
            others.map(|((_, owner), Group { pod, count })| Workload::of_pods(&owner.kind, &owner.name, &pod, count)),
        );
    }
}

/// What is kept of a pod while it is not known what controls it.
struct PodRead {
    running: Option<RunningPod>,
    owner: Option<Owner>,
    /// The pod itself, unless it is certain that its workload is read.
    value: Option<Value>,
}

impl PodRead {
    fn of(pod: Value) -> PodRead {
        let running = RunningPod::of(&pod);
        let owner = owner_of(&pod);
        let is_certain = owner.as_ref().is_some_and(|owner| {
            owner.group == "apps" && matches!(owner.kind.as_str(), "StatefulSet" | "DaemonSet")
                || owner.group.is_empty() && owner.kind == "ReplicationController"
                // A pod that a node runs by itself is only shown by the API server.
                || owner.kind == "Node"
        });
        let is_over = running.is_none();
        PodRead { running, owner, value: (!is_certain && !is_over).then(|| slim_pod(pod)) }
    }
}

/// What controls each ReplicaSet and each Job, by namespace and name.
struct Owners {
    replica_sets: HashMap<(String, String), Option<Owner>>,
    jobs: HashMap<(String, String), Option<Owner>>,
}

/// What is above a pod.
enum Above {
    /// Nothing: the pod stands for itself.
    None,
    /// A workload that is read.
    Read,
    /// Something of another kind.
    Other(Owner),
}

impl Owners {
    fn above(&self, namespace: &str, owner: Option<Owner>) -> Above {
        let Some(owner) = owner else { return Above::None };
        let between = match (owner.group.as_str(), owner.kind.as_str()) {
            ("apps", "ReplicaSet") => &self.replica_sets,
            ("batch", "Job") => &self.jobs,
            _ => return Above::Other(owner),
        };
        match between.get(&(namespace.to_owned(), owner.name)) {
            Some(Some(above))
                if !matches!(
                    (above.group.as_str(), above.kind.as_str()),
                    ("apps", "Deployment") | ("batch", "CronJob")
                ) =>
            {
                Above::Other(above.clone())
            }
            _ => Above::Read,
        }
    }
}

fn key(object: &Value) -> Option<(String, String)> {
    let text = |key: &str| object["metadata"][key].as_str().map(str::to_owned);
    Some((text("namespace")?, text("name")?))
}

fn owner_of(object: &Value) -> Option<Owner> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let group = owner["apiVersion"].as_str()?.split_once('/').map_or("", |(group, _)| group);
    Some(Owner {
        group: group.to_owned(),
        kind: owner["kind"].as_str()?.to_owned(),
        name: owner["name"].as_str()?.to_owned(),
    })
}

/// A workload without what no decision looks at: annotations hold it once more as it was applied.
fn slim(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("annotations");
    }
    object
}

fn slim_pod(mut pod: Value) -> Value {
    if let Some(pod) = pod.as_object_mut() {
        pod.shift_remove("status");
    }
    pod
}

/// The pods of one workload, by name.
pub(crate) async fn pods_of(reader: &Reader, workload: &Value) -> Result<Vec<Value>, ReadError> {
    let uid = |object: &Value| object["metadata"]["uid"].as_str().map(str::to_owned);
    let (Some(own), Some(namespace)) = (uid(workload), workload["metadata"]["namespace"].as_str()) else {
        return Ok(Vec::new());
    };
    let controller = |object: &Value| {
        let owners = object["metadata"]["ownerReferences"].as_array()?;
        owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str().map(str::to_owned)
    };
    let every = ListParams::default();
    let mut owners = BTreeSet::from([own.clone()]);
    let between = match workload["kind"].as_str() {
        Some("CronJob") => Some(ApiResource::erase::<Job>(&())),
        Some("StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" | "Job") => None,
        _ => Some(ApiResource::erase::<ReplicaSet>(&())),
    };
    if let Some(between) = between {
        let owned = |object: Value| (controller(&object)? == own).then(|| uid(&object))?;
        owners.extend(reader.list(&between, Some(namespace), Parts::Metadata, &every, owned).await?);
    }
    let owned = |pod: Value| owners.contains(&controller(&pod)?).then_some(pod);
    let mut pods =
        reader.list(&ApiResource::erase::<Pod>(&()), Some(namespace), Parts::All, &selector(workload), owned).await?;
    pods.sort_by(|a, b| a["metadata"]["name"].as_str().cmp(&b["metadata"]["name"].as_str()));
    Ok(pods)
}

/// Asks only for pods with the labels that a workload or a SidecarSet selects by, where these are equalities.
pub(crate) fn selector(workload: &Value) -> ListParams {
    let selector = &workload["spec"]["selector"];
    let labels = if selector["matchLabels"].is_object() { &selector["matchLabels"] } else { &Value::Null };
    let terms =
        labels.as_object().into_iter().flatten().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let terms: Vec<String> = terms.collect();
    if terms.is_empty() { ListParams::default() } else { ListParams::default().labels(&terms.join(",")) }
}
