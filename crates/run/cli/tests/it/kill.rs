//! `pillion up` survives SIGKILL at any moment: the next run with the same `--data` is healthy, and has everything that was acknowledged.
//!
//! ```text
//!  start ─▶ check ─▶ a moment of its start, of definitions or of pods ─▶ SIGKILL ─▶ start ─▶ check ─▶ …
//! ```
//!
//! `PILLION_KILL_ROUNDS` says how often, `PILLION_KILL_SEED` repeats the choices of a run. `cargo xtask kill` sets both.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt as _};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::up::{PATIENCE, Place, Up, client};

/// A folder is used for this many rounds, and then a new one: first starts are killed as well.
const ROUNDS_OF_A_FOLDER: u64 = 5;
const GROUP: &str = "kill.example";
/// Pods with this label get the sidecar.
const LABEL: &str = "checked";

#[test]
fn every_start_after_a_kill_is_healthy() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let rounds = number("PILLION_KILL_ROUNDS").unwrap_or(3);
    let seed = number("PILLION_KILL_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("PILLION_KILL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let place = Place::new();
    let mut run: Option<Run> = None;
    for round in 0..rounds {
        let began = Instant::now();
        let folder = format!("data-{}", round / ROUNDS_OF_A_FOLDER);
        if round % ROUNDS_OF_A_FOLDER == 0
            && let Some(last) = run.take()
        {
            last.kill(&place, &mut random);
            fs::remove_dir_all(place.path(&last_folder(round))).unwrap();
        }
        let (known, moment) = match run {
            // The first start of a folder.
            None => (Known::default(), kill_start(&place, &folder, &mut random)),
            Some(running) => match random.u8(..3) {
                0 => {
                    let known = running.kill(&place, &mut random);
                    (known, kill_start(&place, &folder, &mut random))
                }
                1 => running.kill_definitions(&place, round, &mut random),
                _ => running.kill_pods(&place, round, &mut random),
            },
        };
        let next = Run::start(&place, &folder, known);
        next.check(round);
        println!("round {round} ({folder}): killed {moment}; healthy after {:.1?}", began.elapsed());
        run = Some(next);
    }
    if let Some(last) = run {
        last.kill(&place, &mut random);
    }
}

fn last_folder(round: u64) -> String {
    format!("data-{}", round / ROUNDS_OF_A_FOLDER - 1)
}

/// What must be there after a kill.
#[derive(Default)]
struct Known {
    /// Definitions that were acknowledged, and whether their object was.
    definitions: BTreeMap<String, bool>,
    /// Definitions whose deletion was acknowledged.
    deleted: BTreeSet<String>,
    /// Jobs that were acknowledged.
    jobs: BTreeSet<String>,
    /// The SidecarSet was.
    sidecar_set: bool,
}

/// Starts a run and kills it at a moment of its start.
fn kill_start(place: &Place, folder: &str, random: &mut fastrand::Rng) -> String {
    let up = place.up(&["--data", folder]);
    let moment = Duration::from_micros(random.u64(..1_500_000));
    pass(moment);
    kill_at_random(&up, random);
    wait_for_the_end(up, place);
    format!("{moment:.1?} after its start")
}

/// Lets real time pass: what is killed runs in it.
fn pass(time: Duration) {
    std::thread::sleep(time);
}

/// Kills a run alone, or with some or all of the processes that it has started.
fn kill_at_random(up: &Up, random: &mut fastrand::Rng) {
    let pid = i32::try_from(up.child.id()).unwrap();
    let mut victims = descendants(pid);
    random.shuffle(&mut victims);
    victims.truncate([0, victims.len() / 2, victims.len()][random.usize(..3)]);
    victims.insert(random.usize(..=victims.len()), pid);
    for victim in victims {
        // It may have ended with the one before it.
        let _ = kill(Pid::from_raw(victim), Signal::SIGKILL);
    }
}

/// Waits until nothing is left of a run that was killed.
fn wait_for_the_end(up: Up, place: &Place) {
    up.end();
    place.nothing_is_left("killed");
}

/// The processes that a process has started, and those that these have.
fn descendants(of: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok());
        children.entry(parent.unwrap_or_default()).or_default().push(pid);
    }
    let mut found = children.remove(&of).unwrap_or_default();
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    found
}

/// A run that has come up.
struct Run {
    up: Up,
    runtime: tokio::runtime::Runtime,
    client: Client,
    known: Arc<Mutex<Known>>,
}

impl Run {
    fn start(place: &Place, folder: &str, known: Known) -> Run {
        let mut up = place.up(&["--data", folder]);
        up.line_with("export KUBECONFIG=");
        let (runtime, client) = client(&place.path(folder).join("kubeconfig"));
        Run { up, runtime, client, known: Arc::new(Mutex::new(known)) }
    }

    fn kill(self, place: &Place, random: &mut fastrand::Rng) -> Known {
        kill_at_random(&self.up, random);
        wait_for_the_end(self.up, place);
        Arc::into_inner(self.known).unwrap().into_inner().unwrap()
    }

    /// Lets `work` go on for a random time, and kills the run in the midst of it.
    fn kill_during(
        self,
        work: impl Future<Output = kube::Result<()>>,
        place: &Place,
        random: &mut fastrand::Rng,
    ) -> (Known, Duration) {
        let moment = Duration::from_micros(random.u64(..1_000_000));
        self.runtime.block_on(async {
            let mut work = Box::pin(work);
            if let Ok(Err(error)) = tokio::time::timeout(moment, &mut work).await {
                panic!("the run was not killed yet, and refused: {error}");
            }
            // Requests are under way.
            kill_at_random(&self.up, random);
        });
        (self.kill(place, random), moment)
    }

    fn kill_definitions(self, place: &Place, round: u64, random: &mut fastrand::Rng) -> (Known, String) {
        let (client, known) = (self.client.clone(), Arc::clone(&self.known));
        let tasks = (0..4).map(move |task| define(client.clone(), Arc::clone(&known), format!("{round}x{task}")));
        let work = async { futures::future::try_join_all(tasks).await.map(drop) };
        let (known, moment) = self.kill_during(work, place, random);
        (known, format!("after {moment:.1?} of definitions"))
    }

    fn kill_pods(self, place: &Place, round: u64, random: &mut fastrand::Rng) -> (Known, String) {
        let (client, known) = (self.client.clone(), Arc::clone(&self.known));
        let work = async move {
            let jobs: Api<Job> = Api::default_namespaced(client);
            for number in 0..3 {
                let name = format!("job-{round}-{number}");
                let job = json!({"metadata": {"name": name}, "spec": {"template": template("OnFailure")}});
                jobs.create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await?;
                known.lock().unwrap().jobs.insert(name);
            }
            std::future::pending().await
        };
        let (known, moment) = self.kill_during(work, place, random);
        (known, format!("after {moment:.1?} of pods"))
    }

    /// Everything that was acknowledged is there, and everything works.
    fn check(&self, round: u64) {
        let mut known = self.known.lock().unwrap();
        let checks = async {
            self.check_definitions(&mut known).await;
            self.check_sidecar_set(&mut known, round).await;
            self.check_jobs(&mut known).await;
        };
        let in_time = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, checks).await });
        assert!(in_time.is_ok(), "the run is not healthy in time:\n{}", self.runtime.block_on(self.describe()));
    }

    async fn check_definitions(&self, known: &mut Known) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let there = definitions.list(&ListParams::default()).await.unwrap().items;
        let is_there = |name: &str| there.iter().any(|definition| definition.name_any() == name);
        for definition in &there {
            let value = serde_json::to_value(definition).unwrap();
            let conditions = value["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let established = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
            assert!(conditions.iter().any(established), "{value:#}");
            assert!(definition.metadata.deletion_timestamp.is_none(), "{value:#}");
        }
        for (name, has_object) in &known.definitions {
            assert!(is_there(name), "{name} was acknowledged, and is not there");
            let objects = objects(&self.client, name).list(&ListParams::default()).await.unwrap().items;
            assert!(!has_object || !objects.is_empty(), "the object of {name} was acknowledged, and is not there");
        }
        for name in &known.deleted {
            assert!(!is_there(name), "the deletion of {name} was acknowledged, and it is there");
        }
    }

    /// SidecarSets are served and injected, and an injected pod runs to its end.
    async fn check_sidecar_set(&self, known: &mut Known, round: u64) {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "SidecarSet"));
        let sets: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
        if known.sidecar_set {
            sets.get("helper").await.unwrap();
        } else {
            let set = json!({
                "apiVersion": "apps.kruise.io/v1beta1",
                "kind": "SidecarSet",
                "metadata": {"name": "helper"},
                "spec": {
                    "selector": {"matchLabels": {"app": LABEL}},
                    "initContainers": [{
                        "name": "helper", "image": "helper", "restartPolicy": "Always",
                        "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done"],
                    }],
                },
            });
            match sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await {
                // One that was not acknowledged may be there.
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                created => drop(created.unwrap()),
            }
            known.sidecar_set = true;
        }
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        let (name, mut pod) = (format!("check-{round}"), template("Never"));
        pod["metadata"]["name"] = json!(name);
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let ended = |pod: Option<&Pod>| matches!(phase(pod), Some("Succeeded" | "Failed"));
        let pod = await_condition(pods.clone(), &name, ended).await.unwrap();
        assert_eq!(phase(pod.as_ref()), Some("Succeeded"), "{pod:#?}");
        assert!(is_injected(pod.as_ref().unwrap()), "{pod:#?}");
        pods.delete(&name, &DeleteParams::default()).await.unwrap();
    }

    /// Jobs that were acknowledged come to their end, and their pods have the sidecar.
    async fn check_jobs(&self, known: &mut Known) {
        let jobs: Api<Job> = Api::default_namespaced(self.client.clone());
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        for name in std::mem::take(&mut known.jobs) {
            let done = |job: Option<&Job>| job.and_then(|job| job.status.as_ref()?.succeeded) == Some(1);
            await_condition(jobs.clone(), &name, done).await.unwrap();
            let of_job = ListParams::default().labels(&format!("job-name={name}"));
            for pod in pods.list(&of_job).await.unwrap() {
                assert!(is_injected(&pod), "{pod:#?}");
            }
            jobs.delete(&name, &DeleteParams::background()).await.unwrap();
        }
    }

    /// For whoever has to find out why it is not healthy.
    async fn describe(&self) -> String {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let jobs: Api<Job> = Api::all(self.client.clone());
        let (pods, jobs) = (pods.list(&ListParams::default()).await, jobs.list(&ListParams::default()).await);
        format!("{:#?}\n{:#?}", pods.map(|list| list.items), jobs.map(|list| list.items))
    }
}

/// Makes definitions, each with an object, and deletes every third with it, until it is killed.
async fn define(client: Client, known: Arc<Mutex<Known>>, prefix: String) -> kube::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for number in 0..50 {
        let plural = format!("t{prefix}x{number}");
        let (name, kind) = (format!("{plural}.{GROUP}"), format!("T{prefix}x{number}"));
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "metadata": {"name": name},
            "spec": {
                "group": GROUP,
                "scope": "Cluster",
                "names": {"plural": plural, "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        definitions.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await?;
        known.lock().unwrap().definitions.insert(name.clone(), false);
        let object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": "one"}});
        objects(&client, &name).create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await?;
        known.lock().unwrap().definitions.insert(name.clone(), true);
        if number % 3 == 2 {
            // From here on it may be there or not.
            known.lock().unwrap().definitions.remove(&name);
            definitions.delete(&name, &DeleteParams::default()).await?;
            known.lock().unwrap().deleted.insert(name);
        }
    }
    Ok(())
}

/// The objects of a definition, by its name.
fn objects(client: &Client, definition: &str) -> Api<DynamicObject> {
    let (plural, group) = definition.split_once('.').unwrap();
    let kind = GroupVersionKind::gvk(group, "v1", &plural.to_uppercase());
    Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, plural))
}

/// A pod whose container succeeds if its init container has prepared what it needs.
fn template(policy: &str) -> Value {
    let mounts = json!([{"name": "work", "mountPath": "/tmp"}]);
    json!({
        "metadata": {"labels": {"app": LABEL}},
        "spec": {
            "restartPolicy": policy,
            "volumes": [{"name": "work", "emptyDir": {"medium": "Memory"}}],
            "initContainers": [{
                "name": "prepare", "image": "prepare", "command": ["sh", "-c", "echo prepared > /tmp/file"],
                "volumeMounts": mounts,
            }],
            "containers": [{
                "name": "main", "image": "main", "command": ["grep", "prepared", "/tmp/file"],
                "env": [{"name": "MARK", "value": "killed"}], "volumeMounts": mounts,
            }],
        },
    })
}

fn phase(pod: Option<&Pod>) -> Option<&str> {
    pod?.status.as_ref()?.phase.as_deref()
}

fn is_injected(pod: &Pod) -> bool {
    let init = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    init.iter().any(|container| container.name == "helper")
}
