//! The examples of `examples/rollout`, as their texts say to play them: `pillion up`, a change, and `pillion rollout`.
//!
//! After a change that is meant: `UPDATE_EXAMPLES=1 cargo test -p pillion examples`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::up::{PATIENCE, Place, Up, client};

/// One example that is played.
struct Play {
    place: Place,
    up: Up,
    kubeconfig: PathBuf,
    runtime: Runtime,
    client: Client,
    name: &'static str,
    /// What was printed so far.
    transcript: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/rollout")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() { copy(&entry.path(), &to) } else { drop(fs::copy(entry.path(), to)) }
    }
}

impl Play {
    /// Starts the example, and waits until all its pods are ready and its set has its first revision.
    fn start(name: &'static str) -> Play {
        let place = Place::new();
        copy(&folder(), &place.path("rollout"));
        let start = format!("rollout/{name}/start");
        let mut up = place.up(&[&start, "--images", "rollout/images.yaml"]);
        let line = up.line_with("export KUBECONFIG=");
        let kubeconfig = PathBuf::from(line.split_once('=').unwrap().1);
        let (runtime, client) = client(&kubeconfig);
        let play = Play { place, up, kubeconfig, runtime, client, name, transcript: String::new() };
        play.until_ready("web");
        play.until_recorded("mesh");
        play
    }

    /// A set that is changed before the controller has seen it has no revision to go back to.
    fn until_recorded(&self, name: &str) {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "SidecarSet"));
        let sets: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let is_recorded =
            |set: Option<&DynamicObject>| set.is_some_and(|set| set.data["status"]["latestRevision"].is_string());
        self.runtime.block_on(async {
            tokio::time::timeout(PATIENCE, await_condition(sets, name, is_recorded)).await.unwrap().unwrap();
        });
    }

    fn until_ready(&self, name: &str) {
        let sets: Api<StatefulSet> = Api::default_namespaced(self.client.clone());
        let is_ready = |set: Option<&StatefulSet>| {
            set.is_some_and(|set| {
                let wanted = set.spec.as_ref().and_then(|spec| spec.replicas);
                set.status.as_ref().and_then(|status| status.ready_replicas) == wanted
            })
        };
        self.runtime.block_on(async {
            tokio::time::timeout(PATIENCE, await_condition(sets, name, is_ready)).await.unwrap().unwrap();
        });
    }

    /// `kubectl apply --server-side -f FILE`
    fn apply(&self, file: &str) {
        let path = self.place.path(&format!("rollout/{}/{file}", self.name));
        let (documents, broken) = pillion::manifest::parse(&file.into(), &fs::read_to_string(path).unwrap());
        assert!(broken.is_empty());
        for document in documents {
            let (group, version) = document.api_version().split_once('/').unwrap();
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, document.kind()));
            let api: Api<DynamicObject> = match document.kind() {
                "SidecarSet" => Api::all_with(self.client.clone(), &resource),
                _ => Api::default_namespaced_with(self.client.clone(), &resource),
            };
            let params = PatchParams::apply("example").force();
            self.runtime.block_on(api.patch(document.name(), &params, &Patch::Apply(&document.value))).unwrap();
        }
    }

    /// Runs `pillion rollout …`; what it printed last, and how it ended, go into the transcript.
    fn rollout(&mut self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pillion"));
        let command = command.arg("rollout").args(arguments).arg("--kubeconfig").arg(&self.kubeconfig);
        let output = command.output().unwrap();
        let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        writeln!(self.transcript, "$ pillion rollout {}", arguments.join(" ")).unwrap();
        for text in [stdout.lines().last().unwrap_or_default(), stderr.lines().last().unwrap_or_default()] {
            if !text.is_empty() {
                writeln!(self.transcript, "{}", with_any_pod(text)).unwrap();
            }
        }
        (output.status.code(), format!("{stdout}{stderr}"))
    }

    /// What `pillion rollout … -o FORMAT` prints to stdout: one document that can be read, and nothing else.
    fn read(&self, format: &str, arguments: &[&str]) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pillion"));
        let command =
            command.arg("rollout").args(arguments).args(["-o", format]).arg("--kubeconfig").arg(&self.kubeconfig);
        let output = command.output().unwrap();
        let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success(), "{arguments:?}: {stdout}{stderr}");
        if format == "json" {
            return serde_json::from_str(&stdout).unwrap();
        }
        assert!(!stdout.starts_with(['{', '[']), "{arguments:?} prints JSON: {stdout}");
        let mut documents = pillion_yaml::parse(&stdout, pillion_yaml::Options::default()).unwrap();
        assert_eq!(documents.len(), 1, "{stdout}");
        documents.remove(0).value
    }

    fn pod(&self, name: &str) -> Pod {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        self.runtime.block_on(pods.get(name)).unwrap()
    }

    /// Deletes a pod and waits for the one that takes its place.
    fn recreate(&self, name: &str) {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        let before = self.pod(name).uid();
        self.runtime.block_on(async {
            pods.delete(name, &DeleteParams::default()).await.unwrap();
            let is_new = |pod: Option<&Pod>| pod.is_some_and(|pod| pod.uid() != before);
            tokio::time::timeout(PATIENCE, await_condition(pods, name, is_new)).await.unwrap().unwrap();
        });
        self.until_ready("web");
    }

    /// The transcript is the one that is beside the example, and in its text.
    fn end(self) {
        let folder = folder().join(self.name);
        let expected = folder.join("rollout.expected");
        if std::env::var_os("UPDATE_EXAMPLES").is_some() {
            fs::write(&expected, &self.transcript).unwrap();
        }
        assert_eq!(self.transcript, fs::read_to_string(&expected).unwrap(), "{}", expected.display());
        let text = fs::read_to_string(folder.join("README.md")).unwrap();
        for line in self.transcript.lines() {
            assert!(text.contains(line), "examples/rollout/{}/README.md does not say {line:?}", self.name);
        }
        for line in printed(&text) {
            let is_printed = line == "…" || self.transcript.lines().any(|printed| printed == line);
            assert!(is_printed, "examples/rollout/{}/README.md says {line:?}, which is not printed", self.name);
        }
        self.up.signal(nix::sys::signal::Signal::SIGTERM);
        let (status, _, stderr) = self.up.end();
        assert_eq!((status, stderr.as_str()), (Some(0), ""));
    }
}

/// What the text of an example says that its commands print.
fn printed(text: &str) -> Vec<&str> {
    let blocks = text.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).filter(|line| !line.is_empty() && !line.starts_with("$ ")).collect()
}

/// Which pod comes first depends on when each became ready.
fn with_any_pod(line: &str) -> String {
    (0..4).fold(line.to_owned(), |line, i| line.replace(&format!("web-{i}"), "web-N"))
}

/// The images of a pod's sidecars.
fn images(pod: &Pod) -> Vec<String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let sidecars = containers.filter(|container| container.name != "app");
    let mut images: Vec<String> = sidecars.filter_map(|container| container.image.clone()).collect();
    images.sort();
    images
}

const FOLLOW: [&str; 5] = ["status", "mesh", "-w", "--timeout", "180"];

#[test]
fn examples_partition() {
    let mut play = Play::start("partition");
    play.apply("next.yaml");
    let (code, said) = play.rollout(&FOLLOW);
    assert_eq!(code, Some(0), "{said}");
    play.apply("all.yaml");
    let (code, said) = play.rollout(&FOLLOW);
    assert_eq!(code, Some(0), "{said}");
    for i in 0..4 {
        assert_eq!(images(&play.pod(&format!("web-{i}"))), ["proxy:1.1"]);
    }
    every_command_prints_json_and_yaml(&play);
    play.end();
}

/// After a rollout to its end.
fn every_command_prints_json_and_yaml(play: &Play) {
    let next = play.place.path("rollout/partition/next.yaml");
    for format in ["json", "yaml"] {
        assert_eq!(play.read(format, &["status", "mesh"])["pods"]["matched"], 4);
        assert_eq!(play.read(format, &["history", "mesh"]).as_array().unwrap().len(), 2);
        assert_eq!(play.read(format, &["plan", "-f", next.to_str().unwrap()])[0]["sidecarSet"], "mesh");
        assert_eq!(play.read(format, &["pause", "mesh"])["result"], "paused");
        assert_eq!(play.read(format, &["resume", "mesh"])["result"], "resumed");
        let undone = play.read(format, &["undo", "mesh"]);
        assert!(undone["result"].as_str().unwrap().starts_with("rolled back to mesh-"), "{undone}");
        // Nothing is printed before the end.
        let followed = play.read(format, &["status", "mesh", "-w", "--timeout", "180"]);
        assert_eq!((&followed["outcome"], &followed["pods"]["updatedReady"]), (&json!("Complete"), &json!(4)));
    }
    assert_eq!(play.read("json", &["restart", "mesh", "--yes", "--timeout", "180"])["result"], "restarted");
}

#[test]
fn examples_bad_image() {
    let mut play = Play::start("bad-image");
    play.apply("next.yaml");
    let (code, said) = play.rollout(&FOLLOW);
    assert_eq!(code, Some(1), "{said}");
    let (code, said) = play.rollout(&["undo", "mesh"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = play.rollout(&FOLLOW);
    assert_eq!(code, Some(0), "{said}");
    for i in 0..4 {
        assert_eq!(images(&play.pod(&format!("web-{i}"))), ["proxy:1.0"]);
    }
    play.end();
}

#[test]
fn examples_pinned() {
    let mut play = Play::start("pinned");
    play.apply("next.yaml");
    let (code, said) = play.rollout(&FOLLOW);
    assert_eq!(code, Some(0), "{said}");
    play.recreate("web-0");
    assert_eq!(images(&play.pod("web-0")), ["proxy:1.0"], "a new pod gets the pinned revision");
    play.end();
}

#[test]
fn examples_canary() {
    let mut play = Play::start("canary");
    play.apply("next.yaml");
    play.until_ready("web-canary");
    let (code, said) = play.rollout(&["status", "mesh-canary", "-w", "--timeout", "180"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(images(&play.pod("web-canary-0")), ["proxy:1.1"]);
    assert_eq!(images(&play.pod("web-0")), ["proxy:1.0"]);
    play.end();
}

#[test]
fn examples_hot_upgrade() {
    let mut play = Play::start("hot-upgrade");
    play.apply("next.yaml");
    let (code, said) = play.rollout(&FOLLOW);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(images(&play.pod("web-3")), ["empty:1.0", "proxy:1.1"]);
    play.end();
}
