//! `pillion up` as a user runs it: real processes, signals, and what is left behind.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, LogParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, ResourceExt as _};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{OpenptyResult, Winsize};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{self, LocalFlags};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything here takes on a small machine that builds at the same time.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// Asks until there is an answer.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Nobody in particular.
const SOMEBODY: u32 = 65_534;

/// A copy of the program and of some manifests, where another user can reach them. What runs from here can be found.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        // By another process: a test that forks while this one writes would keep the file open, and it could not be executed until then.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_pillion")).arg(folder.path().join("pillion")).status();
        assert!(copied.unwrap().success());
        Place { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// `pillion up`. Where this test may, it is run by a user without any rights.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("pillion"));
        command.arg("up").args(arguments).current_dir(self.folder.path()).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("TMPDIR", self.folder.path());
        if nix::unistd::geteuid().is_root() {
            command.uid(SOMEBODY).gid(SOMEBODY);
        }
        command
    }

    /// Starts it.
    pub(crate) fn up(&self, arguments: &[&str]) -> Up {
        Up::start(self.command(arguments))
    }

    /// Starts it where a process may have so many open files.
    fn up_with_files(&self, files: u32, arguments: &[&str]) -> Up {
        let command = self.command(arguments);
        let mut limited = Command::new("/bin/sh");
        limited.arg("-c").arg(format!("ulimit -n {files}; exec \"$0\" \"$@\"")).arg(command.get_program());
        limited.args(command.get_args()).current_dir(self.folder.path()).env_clear();
        limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if nix::unistd::geteuid().is_root() {
            limited.uid(SOMEBODY).gid(SOMEBODY);
        }
        Up::start(limited)
    }

    /// The processes that run our copy of the program, supervisors of pods among them, or carry the mark in their environment.
    fn processes(&self, mark: &str) -> Vec<String> {
        let program = self.path("pillion");
        let mark = format!("MARK={mark}");
        let folders = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        folders
            .filter(|process| {
                let environment = fs::read(process.join("environ")).unwrap_or_default();
                fs::read_link(process.join("exe")).is_ok_and(|link| link == program)
                    || environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
            })
            .map(|process| {
                let line = fs::read(process.join("cmdline")).unwrap_or_default();
                format!("{}: {}", process.display(), String::from_utf8_lossy(&line).replace('\0', " "))
            })
            .collect()
    }

    /// Waits until nothing of ours runs any more.
    pub(crate) fn nothing_is_left(&self, mark: &str) {
        let started = Instant::now();
        loop {
            let left = self.processes(mark);
            if left.is_empty() {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "these are left behind: {left:#?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A running `pillion up`.
pub(crate) struct Up {
    pub(crate) child: Child,
    lines: mpsc::Receiver<String>,
    seen: String,
}

impl Up {
    fn start(mut command: Command) -> Up {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Up { child, lines, seen: String::new() }
    }

    /// Waits for a line on stdout that has this text.
    pub(crate) fn line_with(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            writeln!(self.seen, "{line}").unwrap();
            if line.contains(text) {
                return line;
            }
        }
        let _ = self.child.kill();
        let stderr = self.stderr();
        panic!("no line with {text:?} in\n{}\nstderr:\n{stderr}", self.seen);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Waits for the end: the exit status, and all that was written.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            writeln!(self.seen, "{line}").unwrap();
        }
        let stderr = self.stderr();
        let status = self.child.wait().unwrap();
        (status.code(), std::mem::take(&mut self.seen), stderr)
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Up {
    /// A test that fails leaves nothing running.
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
    }
}

pub(crate) fn client(kubeconfig: &Path) -> (tokio::runtime::Runtime, Client) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(async {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    });
    (runtime, client)
}

/// A Deployment with one pod that runs `script`; its processes carry the mark.
fn deployment(mark: &str, script: &str) -> String {
    format!(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 20
      containers:
      - name: app
        image: web
        env: [{{name: MARK, value: "{mark}"}}]
        command: [sh, -c, {script:?}]
"#
    )
}

#[test]
fn the_quickstart_ends_by_itself_and_leaves_nothing() {
    let place = Place::new();
    let quickstart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/quickstart");
    fs::create_dir(place.path("quickstart")).unwrap();
    for file in fs::read_dir(quickstart).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), place.path("quickstart").join(file.file_name())).unwrap();
    }
    let (status, stdout, stderr) = place.up(&["quickstart", "--until-done"]).end();
    assert_eq!(status, Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("Complete 2/2"), "{stdout}");
    // What is switched on is in plain sight.
    assert!(stdout.lines().any(|line| line == "feature gates: NativeSidecar, SidecarField"), "{stdout}");
    // The proxy of the Job is sized from the Job's main container, that of the Deployment from its app.
    assert!(stdout.contains("(cpu 10m–50m, memory 16Mi–32Mi)"), "{stdout}");
    assert!(stdout.contains("(cpu 10m–400m, memory 16Mi–128Mi)"), "{stdout}");
    assert_eq!(stderr, "");
    place.nothing_is_left("none");
}

#[test]
fn sidecar_sets_of_the_older_version_are_converted() {
    let place = Place::new();
    let set = "{apiVersion: apps.kruise.io/v1alpha1, kind: SidecarSet, metadata: {name: older}, spec: {namespace: default, \
               selector: {matchLabels: {app: work}}, initContainers: [{name: proxy, image: proxy, restartPolicy: Always, \
               command: [sh, -c, 'trap \"exit 0\" TERM; while :; do sleep 1 & wait $!; done']}]}}";
    let job = "{apiVersion: batch/v1, kind: Job, metadata: {name: work}, spec: {template: {metadata: {labels: {app: work}}, \
               spec: {restartPolicy: Never, containers: [{name: main, image: work, command: ['true']}]}}}}";
    place.write("older.yaml", &format!("{set}\n---\n{job}\n"));
    let (status, stdout, stderr) = place.up(&["older.yaml", "--until-done"]).end();
    assert_eq!(status, Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("injects proxy (native)") && stdout.contains("proxy done · main done"), "{stdout}");
    assert_eq!(stderr, "");
}

#[test]
fn a_job_that_fails_is_reported_by_the_exit_status() {
    let place = Place::new();
    place.write(
        "job.yaml",
        "{apiVersion: batch/v1, kind: Job, metadata: {name: bad}, spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, \
         containers: [{name: main, image: bad, command: [sh, -c, 'printf no.paper.\\\\377; exit 3']}]}}}}",
    );
    let (status, stdout, stderr) = place.up(&["job.yaml", "--until-done"]).end();
    assert_eq!(status, Some(1), "{stdout}\n{stderr}");
    assert!(stdout.contains("main exit 3"), "{stdout}");
    // The last words of its container come first.
    let (heading, rest) = stderr.split_once('\n').unwrap();
    assert!(heading.starts_with("--- pod bad-") && heading.ends_with(", container main, exit 3"), "{stderr}");
    // Also a byte that is no text.
    assert_eq!(rest, "no.paper.\u{fffd}\nerror: Job bad did not complete\n");
}

#[test]
fn wrong_use_is_reported_before_anything_starts() {
    let place = Place::new();
    place.write(
        "pod.yaml",
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: a}]}}",
    );
    place.write("other-job.yaml", "{apiVersion: example.com/v1, kind: Job, metadata: {name: a}}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    place.write("images.yaml", "web: [sh]");
    place.write("file", "");
    let rows: &[(&[&str], i32, &str)] = &[
        (&["pod.yaml", "--until-done"], 2, "there is none in these manifests"),
        (&["other-job.yaml", "--until-done"], 2, "there is none in these manifests"),
        (&["nowhere.yaml"], 2, "nowhere.yaml"),
        (&["pod.yaml", "--port", &port], 1, "cannot listen on 127.0.0.1:"),
        (&["--images", "nowhere.yaml"], 2, "nowhere.yaml"),
        (&["--images", "images.yaml"], 2, "images.yaml"),
        (&["--data", "file/below"], 2, "cannot keep anything in file/below"),
        (&["--data", "file"], 2, "--data file: file is not a folder"),
        (&["--data", "."], 2, "--data .: . has other things in it; name a new or an empty folder"),
    ];
    for (arguments, status, words) in rows {
        let (code, stdout, stderr) = place.up(arguments).end();
        assert_eq!(code, Some(*status), "{arguments:?}\n{stdout}\n{stderr}");
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
    }
    place.nothing_is_left("none");
}

#[test]
fn what_the_api_server_refuses_is_reported_with_the_file() {
    let place = Place::new();
    place.write(
        "pod.yaml",
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: A, image: a}]}}",
    );
    let (status, stdout, stderr) = place.up(&["pod.yaml"]).end();
    assert_eq!(status, Some(1), "{stdout}\n{stderr}");
    assert!(stderr.contains("pod.yaml: Pod/a: ") && stderr.contains("spec.containers[0].name"), "{stderr}");
}

#[test]
fn a_kind_that_nobody_serves_is_reported_at_once() {
    let rows = [
        ("apiVersion: apps/v1, kind: Deploymnet", r#"no resource serves kind "Deploymnet" of "apps/v1"; is the kind"#),
        (
            "apiVersion: shop.example/v1, kind: Cart",
            r#"no resource serves kind "Cart" of "shop.example/v1"; is the kind"#,
        ),
        ("kind: Pod", "apiVersion is missing"),
    ];
    for (kind, words) in rows {
        let place = Place::new();
        place.write("a.yaml", &format!("{{{kind}, metadata: {{name: a}}}}"));
        let (status, stdout, stderr) = place.up(&["a.yaml"]).end();
        assert_eq!(status, Some(1), "{stdout}\n{stderr}");
        assert!(stderr.starts_with("error: a.yaml: ") && stderr.contains(&format!("/a: {words}")), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn a_terminal_that_is_closed_ends_it_without_a_panic() {
    let place = Place::new();
    place.write("web.yaml", &deployment("closed", "trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done"));
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let OpenptyResult { master, slave } = nix::pty::openpty(&size, None).unwrap();
    // A program that had our end as well would keep the terminal open.
    for end in [&master, &slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
    }
    let mut command = place.command(&["web.yaml"]);
    command.stdin(Stdio::null()).stdout(slave.try_clone().unwrap()).stderr(slave);
    let mut child = command.spawn().unwrap();
    // The other end of the terminal is ours alone from here on.
    drop(command);
    let mut terminal = fs::File::from(master);
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("app") {
        let mut piece = [0; 4096];
        let length = terminal.read(&mut piece).unwrap();
        seen.extend_from_slice(&piece[..length]);
    }
    // Keys are not shown, and Ctrl-C is still a signal.
    let flags = termios::tcgetattr(&terminal).unwrap().local_flags;
    assert!(!flags.intersects(LocalFlags::ECHO | LocalFlags::ICANON) && flags.contains(LocalFlags::ISIG), "{flags:?}");
    drop(terminal);
    // 101 would be a panic.
    assert_eq!(child.wait().unwrap().code(), Some(1));
    place.nothing_is_left("closed");
}

#[test]
fn an_interrupt_gives_containers_their_grace_and_a_second_one_does_not() {
    let place = Place::new();
    place.write(
        "web.yaml",
        &deployment("polite", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 1 & wait $!; done"),
    );
    let mut up = place.up(&["web.yaml"]);
    up.line_with("app ready");
    up.signal(Signal::SIGINT);
    let (status, stdout, stderr) = up.end();
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{stdout}");
    place.nothing_is_left("polite");

    place.write("web.yaml", &deployment("deaf", "trap '' TERM; while :; do sleep 1; done"));
    let mut up = place.up(&["web.yaml"]);
    up.line_with("app ready");
    let started = Instant::now();
    up.signal(Signal::SIGINT);
    up.signal(Signal::SIGTERM);
    let (_, stdout, stderr) = up.end();
    assert!(started.elapsed() < Duration::from_secs(20), "the grace period was waited for\n{stdout}\n{stderr}");
    place.nothing_is_left("deaf");
}

/// The memory in bytes that is this process's alone.
fn private_memory(process: &Path) -> u64 {
    let rollup = fs::read_to_string(process.join("smaps_rollup")).unwrap_or_default();
    let private = rollup.lines().filter_map(|line| line.strip_prefix("Private_")?.split_whitespace().nth(1));
    private.map(|kibibytes| kibibytes.parse::<u64>().unwrap() * 1024).sum()
}

/// The memory that the node uses, as `kubectl top node` reads it.
fn node_memory(kubeconfig: &Path) -> String {
    let (runtime, client) = client(kubeconfig);
    let request = http::Request::get("/apis/metrics.k8s.io/v1beta1/nodes").body(Vec::new()).unwrap();
    let nodes: Value = runtime.block_on(client.request(request)).unwrap();
    nodes["items"][0]["usage"]["memory"].as_str().unwrap().to_owned()
}

/// `PILLION_PODS` makes them more: a node of 300 takes minutes and 2 GB.
#[test]
fn a_pod_costs_little_more_than_its_own_processes() {
    let pods: usize = std::env::var("PILLION_PODS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let place = Place::new();
    place.write(
        "web.yaml",
        &deployment("cheap", "exec sleep 1000")
            .replace("spec:\n  selector", &format!("spec:\n  replicas: {pods}\n  selector")),
    );
    let mut up = place.up(&["web.yaml"]);
    let line = up.line_with("export KUBECONFIG=");
    up.line_with(&format!("{pods}/{pods} ready"));
    let used = node_memory(Path::new(line.split_once('=').unwrap().1));
    assert!(used.starts_with(|first: char| ('1'..='9').contains(&first)), "the node uses {used}");
    let own = u64::from(up.child.id());
    let program = place.path("pillion");
    let supervisors: Vec<PathBuf> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|process| fs::read_link(process.join("exe")).is_ok_and(|link| link == program))
        .filter(|process| process.file_name().and_then(|name| name.to_str()?.parse().ok()) != Some(own))
        .collect();
    let bytes: u64 = supervisors.iter().map(|process| private_memory(process)).sum();
    let each = bytes / u64::try_from(pods).unwrap();
    assert!(supervisors.len() >= 3 * pods, "{supervisors:?}");
    assert!(bytes > 0 && each < 2 << 20, "{} KiB a pod", each / 1024);
    up.signal(Signal::SIGINT);
    up.end();
    place.nothing_is_left("cheap");
}

#[test]
fn idle_connections_do_not_lock_the_owner_out_where_files_are_few() {
    let place = Place::new();
    let mut up = place.up_with_files(200, &["--simulate"]);
    let line = up.line_with("export KUBECONFIG=");
    let kubeconfig = Path::new(line.split_once('=').unwrap().1);
    let clusters = Kubeconfig::read_from(kubeconfig).unwrap().clusters;
    let server = clusters[0].cluster.as_ref().unwrap().server.as_deref().unwrap();
    let server = server.strip_prefix("https://").unwrap();
    let idle: Vec<_> = (0..300).filter_map(|_| std::net::TcpStream::connect(server).ok()).collect();
    assert!(idle.len() > 200, "{} connections", idle.len());
    let (runtime, client) = client(kubeconfig);
    runtime.block_on(Api::<Pod>::all(client).list(&ListParams::default())).unwrap();
    up.signal(Signal::SIGINT);
    up.end();
}

#[test]
fn whatever_signal_ends_it_its_folder_goes_with_it() {
    for signal in [Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGHUP] {
        let place = Place::new();
        let mut up = place.up(&["--simulate"]);
        let kubeconfig = up.line_with("export KUBECONFIG=");
        let folder = Path::new(kubeconfig.split_once('=').unwrap().1).parent().unwrap().to_path_buf();
        assert!(folder.is_dir());
        up.signal(signal);
        let (status, _, stderr) = up.end();
        assert_eq!((status, folder.exists()), (Some(0), false), "{signal}: {stderr}");
    }
}

#[test]
fn after_kill_nine_nothing_runs_on_and_the_same_data_goes_on() {
    let place = Place::new();
    place.write(
        "web.yaml",
        &deployment("killed", "setsid sh -c 'while :; do sleep 1; done' & while :; do sleep 1; done"),
    );
    let mut up = place.up(&["web.yaml", "--data", "data"]);
    up.line_with("app ready");
    let pods = |kubeconfig: &Path| {
        let (runtime, client) = client(kubeconfig);
        runtime.block_on(Api::<Pod>::namespaced(client, "default").list(&ListParams::default())).unwrap().items
    };
    let before = pods(&place.path("data/kubeconfig"));
    assert!(!place.processes("killed").is_empty(), "nothing was started");
    up.signal(Signal::SIGKILL);
    up.end();
    place.nothing_is_left("killed");

    let mut up = place.up(&["--data", "data"]);
    up.line_with("app ready ×2");
    let after = pods(&place.path("data/kubeconfig"));
    let names = |pods: &[Pod]| pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect::<Vec<_>>();
    assert_eq!(names(&before), names(&after));
    // A folder belongs to one run at a time.
    let (status, _, stderr) = place.up(&["--data", "data"]).end();
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains("another"), "{stderr}");
    up.signal(Signal::SIGTERM);
    up.end();
    place.nothing_is_left("killed");
}

/// Nothing runs in it: the manifests are one event.
#[test]
fn warnings_of_an_earlier_run_with_the_same_data_are_not_printed_again() {
    let place = Place::new();
    let run = |words: &str| {
        let event = format!(
            "{{apiVersion: v1, kind: Event, metadata: {{generateName: web-, namespace: default}}, type: Warning, reason: Failed, \
             message: {words}, involvedObject: {{kind: Pod, namespace: default, name: web}}}}"
        );
        place.write("event.yaml", &event);
        let mut up = place.up(&["event.yaml", "--data", "data"]);
        up.line_with(words);
        up.signal(Signal::SIGINT);
        let (status, stdout, stderr) = up.end();
        assert_eq!(status, Some(0), "{stdout}\n{stderr}");
        stdout
    };
    run("no paper");
    // Events are exact to the second.
    let ended = Timestamp::now().as_second();
    until("the next second", || (Timestamp::now().as_second() > ended).then_some(()));
    let stdout = run("no ink");
    assert!(!stdout.contains("no paper"), "{stdout}");
}

#[test]
fn a_new_run_initializes_pods_again_and_keeps_what_is_in_their_empty_dirs() {
    let place = Place::new();
    place.write(
        "pod.yaml",
        r#"
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  volumes:
  - {name: disk, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory}}
  initContainers:
  - name: prepare
    image: prepare
    command: [sh, -c, "echo prepared | tee -a /tmp/disk/file >> /tmp/memory/file"]
    volumeMounts: [{name: disk, mountPath: /tmp/disk}, {name: memory, mountPath: /tmp/memory}]
  containers:
  - name: app
    image: app
    command: [sh, -c, "grep -c prepared /tmp/disk/file /tmp/memory/file; while :; do sleep 1; done"]
    readinessProbe: {exec: {command: [grep, prepared, /tmp/memory/file]}, periodSeconds: 1}
    volumeMounts: [{name: disk, mountPath: /tmp/disk}, {name: memory, mountPath: /tmp/memory}]
"#,
    );
    let log = |kubeconfig: &Path| {
        let (runtime, client) = client(kubeconfig);
        let pods = Api::<Pod>::namespaced(client, "default");
        let only_app = LogParams { container: Some("app".to_owned()), ..LogParams::default() };
        let log = runtime.block_on(pods.logs("web", &only_app)).unwrap();
        (log, runtime.block_on(pods.get("web")).unwrap())
    };
    let mut up = place.up(&["pod.yaml", "--data", "data"]);
    up.line_with("app ready");
    let (first, _) = log(&place.path("data/kubeconfig"));
    assert_eq!(first, "/tmp/disk/file:1\n/tmp/memory/file:1\n");
    up.signal(Signal::SIGKILL);
    up.end();

    let mut up = place.up(&["--data", "data"]);
    up.line_with("app ready ×2");
    let (second, pod) = log(&place.path("data/kubeconfig"));
    // The disk is the same, and memory does not outlive a reboot.
    assert_eq!(second, "/tmp/disk/file:2\n/tmp/memory/file:1\n");
    let status = pod.status.clone().unwrap();
    let prepare = &status.init_container_statuses.unwrap()[0];
    assert_eq!((prepare.restart_count, prepare.ready), (1, true));
    let folder = place.path("data/pods/pods").join(pod.uid().unwrap());
    assert!(folder.join("volumes/disk/file").is_file());
    up.signal(Signal::SIGTERM);
    up.end();
    assert!(folder.join("volumes/disk/file").is_file());

    // What is deleted is gone with its files, also when the next run has never started it.
    let mut up = place.up(&["--data", "data"]);
    up.line_with("export KUBECONFIG=");
    let (runtime, client) = client(&place.path("data/kubeconfig"));
    let pods = Api::<Pod>::namespaced(client, "default");
    runtime.block_on(pods.delete("web", &DeleteParams::default().grace_period(0))).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while folder.exists() {
        assert!(Instant::now() < deadline, "{} is left behind", folder.display());
        std::thread::sleep(Duration::from_millis(5));
    }
    up.signal(Signal::SIGTERM);
    up.end();
}

#[test]
fn an_image_that_cannot_be_pulled_is_not_run() {
    let place = Place::new();
    place.write("web.yaml", &deployment("unpulled", "sleep infinity"));
    place.write("images.yaml", "web: {pull: {error: pull access denied}}\n");
    let mut up = place.up(&["--images", "images.yaml", "web.yaml"]);
    up.line_with("app ErrImagePull");
    up.signal(Signal::SIGINT);
    let (status, stdout, stderr) = up.end();
    assert_eq!(status, Some(0), "{stdout}\n{stderr}");
    place.nothing_is_left("unpulled");
}

/// A Job whose sidecar ends with it, by the wrapper.
const STRICT: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: report}
spec:
  template:
    metadata:
      annotations: {pillion.dev/sidecars: proxy, pillion.dev/sidecar-mode: Strict}
    spec:
      restartPolicy: Never
      containers:
      - {name: report, image: busybox, command: [sh, -c, "sleep 1"]}
      - {name: proxy, image: busybox, command: [sleep, infinity]}
"#;

#[test]
fn sidecars_with_the_mode_strict_are_wrapped_without_a_flag() {
    let place = Place::new();
    place.write("job.yaml", STRICT);
    let (status, stdout, stderr) = place.up(&["job.yaml", "--until-done"]).end();
    assert_eq!(status, Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("pillion-wrap done"), "{stdout}");
    assert!(stdout.contains("Complete 1/1"), "{stdout}");
    place.nothing_is_left("none");
}

#[test]
fn simulated_sidecars_with_the_mode_strict_end_without_a_wrapper() {
    let place = Place::new();
    let simulated = "pillion.dev/sidecar-mode: Strict, pillion.dev/simulate: 'report: 1s, proxy: forever'";
    place.write("job.yaml", &STRICT.replace("pillion.dev/sidecar-mode: Strict", simulated));
    let (status, stdout, stderr) = place.up(&["--simulate", "job.yaml", "--until-done"]).end();
    assert_eq!(status, Some(0), "{stdout}\n{stderr}");
    assert!(!stdout.contains("pillion-wrap") && stdout.contains("Complete 1/1"), "{stdout}");
}

/// A SidecarSet for the pods of [`deployment`].
const MESH: &str = r"
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: mesh}
spec:
  selector: {matchLabels: {app: web}}
  containers:
  - {name: proxy, image: proxy, command: [sleep, infinity]}
";

#[test]
fn a_manager_beside_it_serves_the_webhooks_that_it_leaves_out() {
    let place = Place::new();
    let mut up = place.up(&["--controllers", "rollout,repair"]);
    let kubeconfig = up.line_with("export KUBECONFIG=").trim_start_matches("export KUBECONFIG=").to_owned();
    let (runtime, client) = client(Path::new(&kubeconfig));
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let named = || runtime.block_on(configurations.get_opt("pillion")).unwrap();
    assert_eq!(named(), None);

    // The port that is free now may be taken by the time that it is used; then the manager says so and ends.
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (address, health) = (free().to_string(), free().to_string());
    let mut manager = Command::new(place.path("pillion"));
    manager.args(["manager", "--kubeconfig", &kubeconfig, "--controllers", "webhook"]);
    manager.args(["--bind-address", &address, "--health-address", &health, "--shutdown-delay", "0"]);
    manager.args(["--webhook-url", &format!("https://{address}")]);
    if nix::unistd::geteuid().is_root() {
        manager.uid(SOMEBODY).gid(SOMEBODY);
    }
    let manager = Up::start(manager);
    until("the registration", || {
        named().filter(|live| live.webhooks.iter().flatten().any(|it| it.name == "pods.pillion.dev"))
    });
    let sets: Api<DynamicObject> = Api::all_with(client.clone(), &sidecar_sets());
    let mesh: Value = serde_saphyr::from_str(MESH).unwrap();
    until("the SidecarSet", || {
        let set = serde_json::from_value(mesh.clone()).unwrap();
        runtime.block_on(sets.create(&PostParams::default(), &set)).ok()
    });
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let pod = serde_json::json!({
        "metadata": {"generateName": "web-", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": "web", "command": ["sleep", "infinity"]}]},
    });
    until("a pod with its sidecar", || {
        let made = runtime
            .block_on(pods.create(&PostParams::default(), &serde_json::from_value(pod.clone()).unwrap()))
            .ok()?;
        (made.spec?.containers.len() == 2).then_some(())
    });
    manager.signal(Signal::SIGTERM);
    manager.end();
    up.signal(Signal::SIGINT);
    let (status, stdout, stderr) = up.end();
    assert_eq!(status, Some(0), "{stdout}\n{stderr}");
    place.nothing_is_left("none");
}

fn sidecar_sets() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "SidecarSet"))
}
