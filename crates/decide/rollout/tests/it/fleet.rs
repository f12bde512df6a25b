//! A set with its pods, as an API server and kubelets would treat them.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_api::sidecarset::{self, SidecarSet};
use pillion_rollout::{Plan, PodUpdate, PodView, RevisionWrite, Snapshot, Step, StoredRevision, Target, Texts, plan};
use pillion_testkit::{mk_container, mk_image_id, mk_injected_pod, mk_set};
use serde_json::{Value, json};

pub(crate) const EMPTY: &str = "empty:1";

/// How the sidecar is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Cold,
    Native,
    Hot,
    HotNative,
    /// A plain sidecar, and beside it one that is upgraded hot.
    Mixed,
}

/// The spec of a set with one sidecar, or with two of them.
pub(crate) fn spec(kind: Kind, image: &str, strategy: Value) -> Value {
    let mut container = json!({"name": "proxy", "image": image});
    if matches!(kind, Kind::Hot | Kind::HotNative) {
        container["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": EMPTY});
    }
    let mut spec = json!({"updateStrategy": strategy});
    if kind == Kind::Mixed {
        let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": EMPTY});
        spec["containers"] = json!([container, {"name": "logs", "image": "logs:1", "upgradeStrategy": hot}]);
        return spec;
    }
    if matches!(kind, Kind::Native | Kind::HotNative) {
        container["restartPolicy"] = json!("Always");
        spec["initContainers"] = json!([container]);
    } else {
        spec["containers"] = json!([container]);
    }
    spec
}

pub(crate) struct Fleet {
    pub(crate) set: SidecarSet,
    pub(crate) pods: BTreeMap<String, Value>,
    pub(crate) revisions: Vec<Value>,
    pub(crate) now: Timestamp,
    version: u64,
    /// Pods whose app is not ready, whatever their sidecars do.
    pub(crate) unready_apps: Vec<String>,
    /// The end of the name of the ReplicaSet that creates the pods; without one they belong to no workload.
    pub(crate) replica_set: Option<usize>,
    /// How many writes were made to pods.
    pub(crate) pod_writes: usize,
    /// What was read last, so that ten thousand rollouts take seconds: a set or a pod that is the same is not read again.
    read: RefCell<Read>,
    /// What each kubelet has seen last: the pod, its generation, and whether its app is ready.
    seen: HashMap<String, (String, Value, bool)>,
}

#[derive(Default)]
struct Read {
    target: Option<Arc<Target>>,
    views: HashMap<String, (Value, PodView)>,
    texts: Texts,
}

/// One request to the API server.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Revision(RevisionWrite),
    Status,
    Pod(PodUpdate),
    Trim(String),
}

impl Fleet {
    pub(crate) fn new(kind: Kind, image: &str, strategy: Value, pods: usize) -> Fleet {
        Fleet::of(mk_set("mesh", json!({"app": "web"}), spec(kind, image, strategy)), pods)
    }

    pub(crate) fn of(mut set: SidecarSet, pods: usize) -> Fleet {
        set.metadata.resource_version = Some("100".to_owned());
        set.metadata.generation = Some(1);
        let mut fleet = Fleet {
            set,
            pods: BTreeMap::new(),
            revisions: Vec::new(),
            now: Timestamp::from_second(1000).unwrap(),
            version: 1000,
            unready_apps: Vec::new(),
            replica_set: None,
            pod_writes: 0,
            read: RefCell::default(),
            seen: HashMap::new(),
        };
        for i in 0..pods {
            fleet.create(&format!("web-{i:03}"));
        }
        fleet
    }

    /// A new pod with the set as it is.
    pub(crate) fn create(&mut self, name: &str) {
        let mut pod = mk_injected_pod(name, json!({"app": "web"}), [mk_container("app")], &[&self.set]).into_value();
        self.version += 1;
        pod["metadata"]["uid"] = json!(format!("{name}-{}", self.version));
        if let Some(hash) = self.replica_set {
            pod["metadata"]["labels"]["pod-template-hash"] = json!(hash.to_string());
            let owner = json!({"kind": "ReplicaSet", "name": format!("web-{hash}"), "controller": true});
            pod["metadata"]["ownerReferences"] = json!([owner]);
        }
        self.pods.insert(name.to_owned(), pod);
    }

    pub(crate) fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// Changes the set as a user would.
    pub(crate) fn edit(&mut self, edit: impl FnOnce(&mut Value)) {
        let mut object = serde_json::to_value(&self.set).unwrap();
        edit(&mut object);
        self.set = sidecarset::decode(object).unwrap();
        sidecarset::prepare(&mut self.set);
        self.set.metadata.generation = self.set.metadata.generation.map(|generation| generation + 1);
    }

    pub(crate) fn set_image(&mut self, image: &str) {
        let list = if self.set.spec.containers.is_empty() { "initContainers" } else { "containers" };
        self.edit(|set| set["spec"][list][0]["image"] = json!(image));
    }

    pub(crate) fn target(&self) -> Arc<Target> {
        let target = &mut self.read.borrow_mut().target;
        if target.as_ref().is_none_or(|known| *known.set() != self.set) {
            *target = Some(Arc::new(Target::new(Arc::new(self.set.clone()))));
        }
        Arc::clone(target.as_ref().unwrap())
    }

    pub(crate) fn view(&self, name: &str) -> PodView {
        let Read { views, texts, .. } = &mut *self.read.borrow_mut();
        let pod = &self.pods[name];
        match views.get(name) {
            Some((known, view)) if known == pod => view.clone(),
            _ => {
                let view = PodView::new(&Pod::new(pod.clone()).unwrap(), texts);
                views.insert(name.to_owned(), (pod.clone(), view.clone()));
                view
            }
        }
    }

    pub(crate) fn views(&self) -> Vec<PodView> {
        self.pods.keys().map(|name| self.view(name)).collect()
    }

    pub(crate) fn plan(&self) -> Plan {
        self.plan_for(&self.views())
    }

    pub(crate) fn plan_for(&self, pods: &[PodView]) -> Plan {
        let target = self.target();
        let revisions: Vec<StoredRevision<'_>> = self.revisions.iter().map(StoredRevision::of).collect();
        let snapshot = Snapshot {
            target: &target,
            revisions: &revisions,
            is_used_elsewhere: &|_| false,
            is_in_scope: &|_| true,
            refusals: &pillion_rollout::Refusals::default(),
            system_namespace: "kruise-system",
        };
        plan(&snapshot, pods, self.now)
    }

    /// What a plan writes, in order.
    pub(crate) fn writes(plan: &Plan) -> Vec<Write> {
        let revisions = plan.revisions.iter().cloned().map(Write::Revision);
        let status = plan.is_status_changed.then_some(Write::Status);
        let pods = plan.updates.iter().cloned().map(Write::Pod);
        revisions.chain(status).chain(pods).chain(plan.trimmed.iter().cloned().map(Write::Trim)).collect()
    }

    /// Makes one request. With `is_killed`, the controller ends between the two writes to a pod.
    pub(crate) fn write(&mut self, plan: &Plan, write: &Write, is_killed: bool) {
        match write {
            Write::Status => self.set.status = Some(plan.status.clone()),
            Write::Trim(name) => self.revisions.retain(|revision| revision["metadata"]["name"] != name.as_str()),
            Write::Revision(RevisionWrite::Create(object)) => self.revisions.push(object.clone()),
            Write::Revision(RevisionWrite::Renumber { name, revision }) => {
                self.revision(name)["revision"] = json!(revision);
            }
            Write::Revision(RevisionWrite::SetCustomVersion { name, custom_version }) => {
                self.revision(name)["metadata"]["labels"][names::CUSTOM_VERSION] = json!(custom_version);
            }
            Write::Pod(update) => self.write_pod(update, is_killed),
        }
    }

    fn revision(&mut self, name: &str) -> &mut Value {
        self.revisions.iter_mut().find(|revision| revision["metadata"]["name"] == name).unwrap()
    }

    fn write_pod(&mut self, update: &PodUpdate, is_killed: bool) {
        let target = self.target();
        let Some(object) = self.pods.get_mut(&update.name) else { return };
        let change = target.change(update, &Pod::new(object.clone()).unwrap(), self.now);
        assert!(change.notes.is_empty(), "{:?}", change.notes);
        let is_killed = is_killed && !change.patch.0.is_empty();
        if !change.patch.0.is_empty() {
            json_patch::patch(object, &change.patch).unwrap();
            self.version += 1;
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
            object["metadata"]["generation"] = json!(object["metadata"]["generation"].as_i64().unwrap_or(1) + 1);
            self.pod_writes += 1;
        }
        if let Some(condition) = change.condition.filter(|_| !is_killed) {
            let conditions = object["status"]["conditions"].as_array_mut().unwrap();
            conditions.retain(|known| known["type"] != condition["type"]);
            conditions.push(condition);
            self.pod_writes += 1;
        }
    }

    /// One round of the controller.
    pub(crate) fn round(&mut self) -> Plan {
        let plan = self.plan();
        for write in Fleet::writes(&plan) {
            self.write(&plan, &write, false);
        }
        plan
    }

    /// The kubelet does what the spec of a pod says. The name of an image decides what happens: `bad` cannot be pulled, `crash` ends at once,
    /// `unready` runs and does not become ready.
    pub(crate) fn kubelet(&mut self, name: &str) {
        let is_app_ready = !self.unready_apps.iter().any(|unready| unready == name);
        let Some(pod) = self.pods.get_mut(name) else { return };
        // Nothing is new since it looked last.
        let seen = (text(&pod["metadata"]["uid"]).to_owned(), pod["metadata"]["generation"].clone(), is_app_ready);
        if self.seen.get(name) == Some(&seen) {
            return;
        }
        self.seen.insert(name.to_owned(), seen);
        let before = pod.clone();
        let mut is_ready = true;
        for (list, statuses) in [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")] {
            let containers = pod["spec"][list].as_array().cloned().unwrap_or_default();
            for (container, status) in
                containers.iter().zip(pod["status"][statuses].as_array_mut().into_iter().flatten())
            {
                let image = container["image"].as_str().unwrap();
                let runs = !image.contains("bad");
                if runs {
                    // A container that gets another image is restarted.
                    if status["imageID"] != mk_image_id(image).as_str() {
                        status["restartCount"] = json!(status["restartCount"].as_u64().unwrap_or_default() + 1);
                    }
                    status["image"] = json!(format!("docker.io/library/{image}"));
                    status["imageID"] = json!(mk_image_id(image));
                }
                let waiting =
                    if runs { image.contains("crash").then_some("CrashLoopBackOff") } else { Some("ImagePullBackOff") };
                status["state"] = match waiting {
                    Some(reason) => json!({"waiting": {"reason": reason, "message": format!("back-off {image:?}")}}),
                    None => json!({"running": {}}),
                };
                let is_app = container["name"] == "app";
                let ready = waiting.is_none() && !image.contains("unready") && (!is_app || is_app_ready);
                status["ready"] = json!(ready);
                is_ready &= ready;
            }
        }
        pod["status"]["observedGeneration"] = pod["metadata"]["generation"].clone();
        let status = if is_ready { "True" } else { "False" };
        for condition in pod["status"]["conditions"].as_array_mut().unwrap() {
            if condition["type"] == "Ready" && condition["status"] != status {
                condition["status"] = json!(status);
                condition["lastTransitionTime"] = json!(self.now.to_string());
            }
        }
        if *pod != before {
            self.version += 1;
            pod["metadata"]["resourceVersion"] = json!(self.version.to_string());
        }
    }

    pub(crate) fn kubelets(&mut self) {
        for name in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.kubelet(&name);
        }
    }

    /// Rounds until nothing is written any more.
    pub(crate) fn settle(&mut self) -> Plan {
        let mut is_settled = false;
        for _ in 0..500 {
            let plan = self.round();
            let was_settled = std::mem::replace(&mut is_settled, Fleet::writes(&plan).is_empty());
            if is_settled && was_settled {
                return plan;
            }
            self.kubelets();
        }
        panic!("the rollout does not come to an end: {:#?}", self.plan());
    }

    /// The images of a pod's sidecars, by container.
    pub(crate) fn images(&self, pod: &str) -> Vec<String> {
        let pod = &self.pods[pod];
        let lists = ["initContainers", "containers"].into_iter();
        let containers = lists.flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
        let sidecars = containers.filter(|container| container["name"] != "app");
        sidecars.map(|container| format!("{}={}", text(&container["name"]), text(&container["image"]))).collect()
    }

    /// How many pods have an image, by image, of all sidecars but idle ones.
    pub(crate) fn count(&self, image: &str) -> usize {
        self.pods.keys().filter(|pod| self.images(pod).iter().any(|it| it.ends_with(&format!("={image}")))).count()
    }

    pub(crate) fn annotation(&self, pod: &str, key: &str) -> &str {
        text(&self.pods[pod]["metadata"]["annotations"][key])
    }
}

/// Matched, updated, ready, updated and ready.
pub(crate) fn counts(plan: &Plan) -> [i32; 4] {
    let status = &plan.status;
    [status.matched_pods, status.updated_pods, status.ready_pods, status.updated_ready_pods.unwrap_or_default()]
}

/// The steps of a plan in few words.
pub(crate) fn steps(plan: &Plan) -> Vec<String> {
    let show = |update: &PodUpdate| {
        let images = |images: &[pillion_rollout::ImageChange]| {
            let shown: Vec<String> =
                images.iter().map(|it| format!("{} {} → {}", it.container, it.from, it.to)).collect();
            shown.join(", ")
        };
        match &update.step {
            Step::Update { images: list, .. } => format!("{}: update {}", update.name, images(list)),
            Step::Reset { images: list } => format!("{}: reset {}", update.name, images(list)),
            Step::SetUpgradable(is_upgradable) => format!("{}: upgradable {is_upgradable}", update.name),
        }
    };
    plan.updates.iter().map(show).collect()
}

/// The conditions of a plan in few words.
pub(crate) fn conditions(plan: &Plan) -> String {
    let show = |it: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        format!("{} {} {}: {}", it.type_, it.status, it.reason, it.message).trim_end_matches([':', ' ']).to_owned()
    };
    plan.status.conditions.iter().map(show).collect::<Vec<_>>().join("\n")
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
