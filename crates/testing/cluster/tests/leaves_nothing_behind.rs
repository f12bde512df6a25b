//! Brings real clusters up and takes them down in every way there is, and looks at the machine before, meanwhile and
//! after.
//!
//! These tests bring up clusters of their own, so they run where none is up: `cargo xtask test cluster`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong in a test fails it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pillion_cluster::image::SHELL;
use pillion_cluster::{Cluster, Options, prerequisites};

/// Places of the host that containerd, the kubelet, the CNI plugins and iptables write to unless they are kept from it.
const FIXED_PLACES: [&str; 12] = [
    "/etc/cni",
    "/opt/cni",
    "/opt/containerd",
    "/run/containerd",
    "/run/netns",
    "/run/xtables.lock",
    "/usr/libexec/kubernetes",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
];

/// Settings that the kubelet or kube-proxy change unless they are kept from it.
const KERNEL_SETTINGS: [&str; 7] = [
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv4/ip_forward",
    "net/netfilter/nf_conntrack_max",
    "vm/overcommit_memory",
];

/// A pod with everything that leaves traces: two containers, a mount in memory, a token, a port on the host.
fn pod() -> String {
    format!(
        r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "traces"}}, "spec": {{
             "terminationGracePeriodSeconds": 0,
             "initContainers": [{{"name": "sidecar", "image": "{SHELL}", "restartPolicy": "Always",
                                 "command": ["sleep", "3600"]}}],
             "containers": [{{"name": "main", "image": "{SHELL}", "command": ["sleep", "3600"],
                             "ports": [{{"containerPort": 80, "hostPort": 8080}}],
                             "volumeMounts": [{{"name": "memory", "mountPath": "/memory"}}]}}],
             "volumes": [{{"name": "memory", "emptyDir": {{"medium": "Memory"}}}}]}}}}"#
    )
}

/// What there is on this machine, as far as a cluster could have to do with it.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    processes: BTreeMap<u32, String>,
    links: BTreeSet<String>,
    network_namespaces: BTreeSet<String>,
    cgroups: BTreeSet<PathBuf>,
    host: Host,
}

/// What must not even change while a cluster is up.
#[derive(Debug, PartialEq, Eq)]
struct Host {
    mounts: BTreeSet<String>,
    firewall: Vec<String>,
    kernel_settings: Vec<Option<String>>,
    files: BTreeSet<PathBuf>,
}

impl Machine {
    fn look() -> Self {
        let own_namespace = link("/proc/self/ns/pid");
        let mut processes = BTreeMap::new();
        let mut network_namespaces = BTreeSet::new();
        for entry in fs::read_dir("/proc").unwrap() {
            let Ok(pid) = entry.unwrap().file_name().to_string_lossy().parse::<u32>() else { continue };
            network_namespaces.extend(link(&format!("/proc/{pid}/ns/net")));
            let namespace = link(&format!("/proc/{pid}/ns/pid"));
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            // Other people's processes come and go: ours are in a process namespace, name the folder, or are this.
            let in_namespace = namespace.is_some() && namespace != own_namespace;
            if in_namespace || command.contains("pillion/cluster/") || command.starts_with("pillion-cluster-supervisor")
            {
                processes.insert(pid, command);
            }
        }
        let links = names("/sys/class/net");
        let mut cgroups = BTreeSet::new();
        find_cgroups(Path::new("/sys/fs/cgroup"), &mut cgroups);
        Self { processes, links, network_namespaces, cgroups, host: Host::look() }
    }
}

impl Host {
    fn look() -> Self {
        let rules = Command::new("iptables-save").output().map(|output| output.stdout).unwrap_or_default();
        let rules = String::from_utf8_lossy(&rules);
        // A comment holds the time, a chain's line its counters.
        let firewall = rules.lines().filter(|line| line.starts_with("-A")).map(str::to_owned).collect();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mounts = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(str::to_owned).collect();
        let kernel_settings =
            KERNEL_SETTINGS.iter().map(|name| fs::read_to_string(Path::new("/proc/sys").join(name)).ok()).collect();
        let mut files = BTreeSet::new();
        for place in FIXED_PLACES.map(PathBuf::from) {
            files.extend(names(&place).into_iter().map(|name| place.join(name)));
            if place.exists() {
                files.insert(place);
            }
        }
        Self { mounts, firewall, kernel_settings, files }
    }
}

fn link(path: &str) -> Option<String> {
    fs::read_link(path).ok().map(|target| target.display().to_string())
}

fn names(folder: impl AsRef<Path>) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

fn find_cgroups(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for name in names(folder) {
        let path = folder.join(name);
        if path.is_dir() && !path.is_symlink() {
            if path.to_string_lossy().contains("pillion") || path.to_string_lossy().contains("kubepods") {
                found.insert(path.clone());
            }
            find_cgroups(&path, found);
        }
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pillion-cluster"))
}

fn folder() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
    cache.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache")).join("pillion/cluster")
}

/// There is one cluster at a time, so there is one test at a time.
fn turn(control_plane_only: bool) -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(Cluster::current().unwrap().is_none(), "a cluster is up, and these tests bring up their own");
    let options = Options { control_plane_only, ..Options::default() };
    prerequisites(&options).unwrap_or_else(|missing| panic!("{missing}"));
    turn
}

/// Brings a cluster up with a command line, and returns the kubeconfig that it prints.
fn up(arguments: &[&str]) -> PathBuf {
    let output = program().arg("up").args(arguments).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success());
    let stdout = String::from_utf8(output.stdout).unwrap();
    PathBuf::from(stdout.lines().last().unwrap())
}

fn down() {
    assert!(program().arg("down").status().unwrap().success());
}

fn run_pod(kubeconfig: &Path) {
    let kubectl = |arguments: &[&str]| {
        let mut kubectl = Command::new(folder().join("bin/kubectl"));
        kubectl.args(arguments).env("KUBECONFIG", kubeconfig).env("KUBECACHEDIR", folder().join("kubectl-cache"));
        kubectl.stdout(Stdio::null());
        kubectl
    };
    let mut create = kubectl(&["create", "-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    create.stdin.take().unwrap().write_all(pod().as_bytes()).unwrap();
    assert!(create.wait().unwrap().success());
    assert!(kubectl(&["wait", "--for=condition=Ready", "pod/traces", "--timeout=120s"]).status().unwrap().success());
}

fn supervisor() -> u32 {
    let state = fs::read(folder().join("cluster.json")).unwrap();
    let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
    u32::try_from(state["supervisor"]["pid"].as_u64().unwrap()).unwrap()
}

fn kill(signal: &str, process: &str) {
    assert!(Command::new("kill").args([signal, "--", process]).status().unwrap().success());
}

/// The kernel takes a network namespace away in its own time.
fn assert_nothing_is_left(before: &Machine) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Machine::look() != *before && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let after = Machine::look();
    assert_eq!(after.processes, before.processes);
    assert_eq!(after.links, before.links);
    assert_eq!(after.network_namespaces, before.network_namespaces);
    assert_eq!(after.cgroups, before.cgroups);
    assert_eq!(after.host, before.host);
    assert!(!folder().exists());
}

/// If none of this were found while a cluster is up, that it is gone afterwards would mean nothing.
fn assert_a_node_is_seen(before: &Machine) {
    let meanwhile = Machine::look();
    for name in [
        "pillion-cluster-supervisor",
        "etcd",
        "kube-apiserver",
        "kubelet",
        "kube-proxy",
        "containerd-shim",
        "sleep 3600",
    ] {
        assert!(meanwhile.processes.values().any(|command| command.contains(name)), "{name} is not seen");
    }
    assert_eq!(meanwhile.links.difference(&before.links).collect::<Vec<_>>(), ["pillion0"]);
    // What a pod is asked to do it must be able to hear: nothing may be blocked by those that started it.
    let (container, _) = meanwhile.processes.iter().find(|(_, command)| command.starts_with("sleep 3600")).unwrap();
    let status = fs::read_to_string(format!("/proc/{container}/status")).unwrap();
    assert!(status.contains("SigBlk:\t0000000000000000\n"), "{status}");
    // The node's and the pod's.
    assert!(meanwhile.network_namespaces.len() >= before.network_namespaces.len() + 2);
    assert!(!meanwhile.cgroups.is_empty());
    assert_eq!(meanwhile.host, before.host);
}

#[test]
fn a_cluster_that_is_taken_down_leaves_nothing_behind() {
    let _turn = turn(false);
    let before = Machine::look();
    run_pod(&up(&[]));
    assert_a_node_is_seen(&before);
    down();
    assert_nothing_is_left(&before);
}

#[test]
fn a_supervisor_that_is_killed_leaves_nothing_that_down_does_not_take_away() {
    let _turn = turn(false);
    let before = Machine::look();
    run_pod(&up(&[]));
    assert_a_node_is_seen(&before);
    kill("-KILL", &supervisor().to_string());
    down();
    assert_nothing_is_left(&before);
}

#[test]
fn a_control_plane_whose_supervisor_is_killed_leaves_nothing_that_down_does_not_take_away() {
    let _turn = turn(true);
    let before = Machine::look();
    up(&["--control-plane-only"]);
    let meanwhile = Machine::look();
    assert_eq!(meanwhile.processes.len(), before.processes.len() + 3, "{meanwhile:?}");
    assert_eq!(meanwhile.links, before.links);
    assert_eq!(meanwhile.host, before.host);
    kill("-KILL", &supervisor().to_string());
    down();
    assert_nothing_is_left(&before);
}

/// Ctrl-C ends the command, and then the cluster, in good order.
#[test]
fn a_command_that_is_interrupted_has_its_cluster_taken_down() {
    let _turn = turn(true);
    let before = Machine::look();
    let script = "echo begun; exec sleep 3600";
    let mut command = program();
    command.args(["run", "--control-plane-only", "--", "sh", "-c", script]).process_group(0).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "begun");
    kill("-INT", &format!("-{}", child.id()));
    assert_eq!(child.wait().unwrap().code(), Some(128 + 2));
    assert_nothing_is_left(&before);
}

/// As Ctrl-C does, this goes to the whole foreground process group; but unlike SIGINT it is nowhere ignored from the
/// start. The cluster then goes down by itself.
#[test]
fn an_up_that_is_broken_off_leaves_nothing_behind() {
    let _turn = turn(false);
    let before = Machine::look();
    for step in ["etcd started", "containerd is ready", "kube-apiserver is ready", "kubelet started"] {
        let mut child =
            program().arg("up").process_group(0).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let _stderr = wait_for(&mut child, step);
        kill("-TERM", &format!("-{}", child.id()));
        assert!(!child.wait().unwrap().success());
        let deadline = Instant::now() + Duration::from_secs(30);
        while folder().exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_nothing_is_left(&before);
    }
}

/// The rest of stderr is to be kept: a program that cannot write to it would end by that.
fn wait_for(child: &mut Child, step: &str) -> Lines<BufReader<ChildStderr>> {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(step)), "{step} was never said");
    lines
}

#[test]
fn a_component_that_ends_takes_the_others_with_it_and_leaves_its_log() {
    let _turn = turn(true);
    let before = Machine::look();
    up(&["--control-plane-only"]);
    let processes = Machine::look().processes;
    let (etcd, _) = processes.iter().find(|(_, command)| command.contains("/bin/etcd ")).unwrap();
    kill("-KILL", &etcd.to_string());
    let deadline = Instant::now() + Duration::from_secs(10);
    while Machine::look().processes != before.processes && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Cluster::current().unwrap().is_none());
    let status = program().arg("status").output().unwrap();
    assert_eq!(status.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&status.stdout).contains("failed: etcd ended by SIGKILL"));
    assert!(folder().join("log/etcd.log").exists());
    down();
    assert_nothing_is_left(&before);
}

#[test]
fn a_second_cluster_is_refused_and_the_first_one_stays() {
    let _turn = turn(true);
    up(&["--control-plane-only"]);
    let second = program().args(["up", "--control-plane-only"]).output().unwrap();
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("a cluster is up already"));
    assert!(Cluster::current().unwrap().is_some());
    down();
}

#[test]
fn a_command_has_the_cluster_to_itself_and_its_exit_code_is_passed_on() {
    let _turn = turn(true);
    let before = Machine::look();
    let script = "kubectl get namespace default --output=name && exit 7";
    let output = program().args(["run", "--control-plane-only", "--", "sh", "-c", script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "namespace/default\n");
    assert_eq!(output.status.code(), Some(7));
    assert_nothing_is_left(&before);
}
