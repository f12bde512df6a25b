//! Containers as processes of this machine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use pillion_clock::Clock;
use pillion_process::{
    Attachment, Host, MachineUsage, PodSpec, Process, ProcessSpec, Session, StartError, User, volume,
};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedSender;

use crate::images::{Image, ImageMap};
use crate::runtime::{
    ContainerId, ContainerSpec, ExecError, ExecOutput, Exit, Limits, LogOptions, Refusal, Runtime, Sandbox, Signal,
    Started, Usage, Volume, VolumeContent, VolumeFile,
};

mod host_path;
mod message;

/// The `PATH` of a container that has none, as container runtimes give it.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where the API server puts the token of a service account into every pod.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The addresses of pods: 127.10.0.1 to 127.10.255.254. All of 127.0.0.0/8 is this machine.
const FIRST_ADDRESS: u32 = 0x7f0a_0001;
const LAST_ADDRESS: u32 = 0x7f0a_fffe;

/// Runs containers as processes of this machine, for users without privileges. Each pod has an address on the loopback
/// network of its own.
pub struct ProcessRuntime {
    host: Host,
    images: ImageMap,
    exits: OnceLock<UnboundedSender<Exit>>,
    pods: Mutex<HashMap<String, Arc<LocalPod>>>,
    /// By the uid of the pod that has it.
    addresses: Mutex<BTreeMap<String, u32>>,
}

struct LocalPod {
    pod: pillion_process::Pod,
    hostname: String,
    /// What mounts of volumes show.
    volumes: BTreeMap<String, PathBuf>,
    processes: Mutex<HashMap<ContainerId, Process>>,
}

impl ProcessRuntime {
    /// Runs pods on `host`; `images` says what containers run that have no command.
    pub fn new(host: Host, images: ImageMap) -> ProcessRuntime {
        ProcessRuntime { host, images, exits: OnceLock::new(), pods: Mutex::default(), addresses: Mutex::default() }
    }

    fn pods(&self) -> MutexGuard<'_, HashMap<String, Arc<LocalPod>>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pod(&self, uid: &str) -> Option<Arc<LocalPod>> {
        self.pods().get(uid).cloned()
    }

    fn process(&self, id: &ContainerId) -> Option<Process> {
        self.pod(&id.pod_uid)?.processes().get(id).cloned()
    }

    fn addresses(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pod with its namespaces and its volumes.
    fn make(&self, uid: &str, sandbox: &Sandbox) -> Result<LocalPod, Refusal> {
        let spec = sandbox.pod.spec.as_ref();
        let hostname = hostname(&sandbox.pod);
        let on_host = spec.is_some_and(|spec| spec.host_network == Some(true));
        let pod = self.host.pod(PodSpec {
            id: uid.to_owned(),
            hostname: (!on_host).then(|| hostname.clone()),
            share_pids: spec.is_some_and(|spec| spec.share_process_namespace == Some(true)),
        });
        let pod = pod.map_err(|error| refusal("FailedCreatePodSandBox", error.to_string()))?;
        let volumes = sandbox.volumes.iter().map(|volume| {
            let folder = fill_first(&pod, volume).map_err(|error| unmounted(&volume.name, &error))?;
            Ok((volume.name.clone(), folder))
        });
        let volumes = volumes.collect::<Result<_, Refusal>>()?;
        Ok(LocalPod { pod, hostname, volumes, processes: Mutex::default() })
    }

    /// What the process crate is asked to start.
    fn process_spec(&self, pod: &LocalPod, spec: &ContainerSpec) -> Result<ProcessSpec, Refusal> {
        let image = self.images.get(&spec.image);
        let mut command =
            command(spec, image).ok_or_else(|| refusal("CreateContainerError", message::no_command(spec)))?;
        if let Some(program) = command.first().and_then(|name| self.images.program(name)) {
            command.splice(..1, program.iter().cloned());
        }
        let working_directory =
            spec.working_directory.as_deref().or(image.and_then(|image| image.working_dir.as_deref()));
        Ok(ProcessSpec {
            name: spec.id.container.clone(),
            attempt: spec.id.attempt,
            command,
            environment: environment(spec, image, &pod.hostname),
            working_directory: working_directory.map(PathBuf::from),
            user: self.user(spec)?,
            no_new_privileges: spec.no_new_privileges,
            mounts: self.mounts(pod, spec)?,
            memory_limit: spec.limits.memory,
            input: spec.input,
        })
    }

    fn user(&self, spec: &ContainerSpec) -> Result<Option<User>, Refusal> {
        if spec.user.is_none() && spec.group.is_none() {
            return Ok(None);
        }
        let number = |number: i64| {
            u32::try_from(number).map_err(|_| refusal("CreateContainerError", format!("{number} is no user or group")))
        };
        let uid = spec.user.map_or(Ok(self.host.user().uid), number)?;
        Ok(Some(User { uid, gid: spec.group.map_or(Ok(0), number)? }))
    }

    fn mounts(&self, pod: &LocalPod, spec: &ContainerSpec) -> Result<Vec<pillion_process::Mount>, Refusal> {
        let can_mount = self.host.abilities().mounts;
        let mut mounts = Vec::new();
        // What every pod has without asking for it must not keep it from running where nothing can be mounted.
        for mount in spec.mounts.iter().filter(|mount| can_mount || mount.path != SERVICE_ACCOUNT) {
            let failed = |problem: String| refusal("CreateContainerConfigError", problem);
            let volume = pod.volumes.get(&mount.volume);
            let volume = volume.ok_or_else(|| {
                failed(format!("cannot find volume {:?} to mount into container {:?}", mount.volume, spec.id.container))
            })?;
            let source = match &mount.sub_path {
                None => volume.clone(),
                Some(path) => volume::sub_path(volume, path).map_err(|error| {
                    tracing::debug!(%error, "a subPath cannot be mounted");
                    let (volume, container) = (&mount.volume, &spec.id.container);
                    failed(format!("failed to prepare subPath for volumeMount {volume:?} of container {container:?}"))
                })?,
            };
            mounts.push(pillion_process::Mount { source, target: (&mount.path).into(), read_only: mount.read_only });
        }
        if can_mount && !spec.termination_message_path.is_empty() {
            let file = pod.pod.termination_log(&spec.id.container, spec.id.attempt);
            let source = file.map_err(|error| refusal("CreateContainerError", error.to_string()))?;
            let target = Path::new("/").join(&spec.termination_message_path);
            mounts.push(pillion_process::Mount { source, target, read_only: false });
        }
        Ok(mounts)
    }
}

impl LocalPod {
    fn processes(&self) -> MutexGuard<'_, HashMap<ContainerId, Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers an attempt, and of those before only the last, for its log.
    fn remember(&self, id: &ContainerId, process: Process) {
        let mut processes = self.processes();
        processes.retain(|old, _| old.container != id.container || old.attempt.saturating_add(1) >= id.attempt);
        processes.insert(id.clone(), process);
    }
}

fn refusal(reason: &str, message: String) -> Refusal {
    Refusal { reason: reason.to_owned(), message }
}

fn unmounted(volume: &str, error: &io::Error) -> Refusal {
    refusal("FailedMount", format!("MountVolume.SetUp failed for volume \"{volume}\" : {error}"))
}

/// As [`fill`], for a pod that has just been made. What an earlier run has left is kept as a reboot would keep it: the files of an
/// emptyDir on disk.
fn fill_first(pod: &pillion_process::Pod, volume: &Volume) -> io::Result<PathBuf> {
    let folder = pod.volume(&volume.name)?;
    let is_folder = || std::fs::symlink_metadata(&folder).is_ok_and(|metadata| metadata.is_dir());
    if !matches!(volume.content, VolumeContent::Empty { memory: false, .. }) || !is_folder() {
        volume::remove(&folder)?;
    }
    fill(pod, volume)
}

/// Makes what a volume shows, and says where that is.
fn fill(pod: &pillion_process::Pod, volume: &Volume) -> io::Result<PathBuf> {
    let folder = pod.volume(&volume.name)?;
    match &volume.content {
        VolumeContent::Empty { .. } => volume::create(&folder)?,
        VolumeContent::Files(files) => {
            let file = |file: &VolumeFile| volume::VolumeFile { content: file.content.clone(), mode: file.mode };
            let files = files.iter().map(|(path, content)| (path.clone(), file(content))).collect();
            volume::replace_files(&folder, &files)?;
        }
        VolumeContent::HostPath { path, kind } => {
            host_path::check(path, kind)?;
            return Ok(path.clone());
        }
    }
    Ok(folder)
}

/// The name that a pod's containers have for their machine, as the kubelet cuts it.
fn hostname(pod: &Pod) -> String {
    let given = pod.spec.as_ref().and_then(|spec| spec.hostname.clone()).filter(|name| !name.is_empty());
    let name = given.unwrap_or_else(|| pod.name_any());
    name.chars().take(63).collect::<String>().trim_end_matches(['-', '.']).to_owned()
}

/// `command` and `args` over those of the image; `None` when nobody says what to run.
fn command(spec: &ContainerSpec, image: Option<&Image>) -> Option<Vec<String>> {
    let of_image = |list: fn(&Image) -> &Vec<String>| image.map(list).cloned().unwrap_or_default();
    let words = if !spec.command.is_empty() {
        [spec.command.clone(), spec.args.clone()].concat()
    } else if !spec.args.is_empty() {
        [of_image(|image| &image.command), spec.args.clone()].concat()
    } else {
        [of_image(|image| &image.command), of_image(|image| &image.args)].concat()
    };
    // Arguments alone are nobody's command.
    let known = !spec.command.is_empty() || image.is_some();
    (known && !words.is_empty()).then_some(words)
}

/// What container runtimes set, then the image's variables, then the container's; the last of a name counts.
fn environment(spec: &ContainerSpec, image: Option<&Image>, hostname: &str) -> Vec<(String, String)> {
    let home = std::env::home_dir().filter(|_| spec.user.is_none()).unwrap_or_else(|| "/".into());
    let runtime = [("PATH", PATH.to_owned()), ("HOME", home.display().to_string()), ("HOSTNAME", hostname.to_owned())];
    let terminal = spec.input.terminal.then(|| ("TERM", "xterm".to_owned()));
    let runtime = runtime.into_iter().chain(terminal).map(|(name, value)| (name.to_owned(), value));
    let image = image.into_iter().flat_map(|image| image.env.clone());
    let mut variables: Vec<(String, String)> = Vec::new();
    for (name, value) in runtime.chain(image).chain(spec.environment.iter().cloned()) {
        match variables.iter_mut().find(|(known, _)| *known == name) {
            Some(variable) => variable.1 = value,
            None => variables.push((name, value)),
        }
    }
    variables
}

/// The lowest address that no pod has.
fn free_address(used: &BTreeSet<u32>) -> u32 {
    (FIRST_ADDRESS..LAST_ADDRESS).find(|address| !used.contains(address)).unwrap_or(LAST_ADDRESS)
}

/// Where a port of a pod is reached, given all places where the pod listens. Pods share the machine's network: where only another pod listens,
/// nothing is reached.
fn ways_to(port: u16, own: IpAddr, listeners: &[SocketAddr]) -> BTreeSet<SocketAddr> {
    let listeners = listeners.iter().filter(|listener| listener.port() == port);
    let address = |listener: &SocketAddr| if listener.ip().is_unspecified() { own } else { listener.ip() };
    listeners.map(|listener| SocketAddr::new(address(listener), port)).collect()
}

impl Runtime for ProcessRuntime {
    fn version(&self) -> String {
        concat!("pillion://", env!("CARGO_PKG_VERSION")).to_owned()
    }

    fn runs_as_root(&self, image: &str) -> bool {
        self.host.user().uid == 0 && !self.images.get(image).is_some_and(|image| image.non_root)
    }

    fn pull_error(&self, image: &str) -> Option<String> {
        self.images.pull_error(image)
    }

    fn report_exits(&self, exits: UnboundedSender<Exit>) {
        // It is called once.
        let _ = self.exits.set(exits);
    }

    async fn prepare(&self, sandbox: Sandbox) -> Result<IpAddr, Refusal> {
        let uid = sandbox.pod.metadata.uid.clone().unwrap_or_default();
        self.release(&uid).await;
        let pod = self.make(&uid, &sandbox)?;
        let mut addresses = self.addresses();
        let address = free_address(&addresses.values().copied().collect());
        addresses.insert(uid.clone(), address);
        self.pods().insert(uid, Arc::new(pod));
        Ok(Ipv4Addr::from_bits(address).into())
    }

    async fn update_volume(&self, pod_uid: &str, volume: Volume) -> Result<(), Refusal> {
        let Some(pod) = self.pod(pod_uid) else { return Ok(()) };
        fill(&pod.pod, &volume).map(drop).map_err(|error| unmounted(&volume.name, &error))
    }

    async fn start(&self, container: ContainerSpec) -> Result<Started, Refusal> {
        let id = container.id.clone();
        let gone = || refusal("CreateContainerError", "the pod has no sandbox".to_owned());
        let pod = self.pod(&id.pod_uid).ok_or_else(gone)?;
        let spec = self.process_spec(&pod, &container)?;
        let last_words =
            spec.mounts.iter().find(|mount| mount.target == Path::new("/").join(&container.termination_message_path));
        let last_words = last_words.map(|mount| mount.source.clone());
        let process = pod.pod.start(spec).await.map_err(|error| match &error {
            StartError::MountsNotAllowed { .. } | StartError::User { .. } | StartError::Ended => {
                refusal("CreateContainerError", error.to_string())
            }
            _ => refusal("RunContainerError", message::not_started(&error)),
        })?;
        pod.remember(&id, process.clone());
        let started = Started {
            id: format!("pillion://{}/{}/{}", id.pod_uid, id.container, id.attempt),
            image_id: format!("pillion://{}", container.image),
        };
        let exits = self.exits.get().cloned();
        tokio::spawn(async move {
            let exit = process.wait().await;
            let from_logs = container.message_from_logs && exit.code != 0;
            let message = message::last_words(last_words.as_deref(), from_logs.then_some(&process)).await;
            let exit = Exit { id, code: exit.code, oom_killed: exit.oom_killed, message, at: exit.at };
            if let Some(exits) = exits {
                // A node that does not listen has ended.
                let _ = exits.send(exit);
            }
        });
        Ok(started)
    }

    async fn signal(&self, container: &ContainerId, signal: Signal) {
        if let Some(process) = self.process(container) {
            match signal {
                Signal::Term => process.signal(pillion_process::Signal::SIGTERM).await,
                Signal::Kill => process.kill().await,
            }
        }
    }

    async fn exec(
        &self,
        container: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> Result<ExecOutput, ExecError> {
        let ended = || ExecError::Failed(message::not_executed(&StartError::Ended));
        let process = self.process(container).ok_or_else(ended)?;
        match process.exec(command, timeout).await {
            Ok(done) => Ok(ExecOutput { code: done.code, output: done.output.into() }),
            Err(pillion_process::ExecError::TimedOut(after)) => {
                Err(ExecError::TimedOut { command: command.to_vec(), after })
            }
            Err(pillion_process::ExecError::Start(error)) => Err(ExecError::Failed(message::not_executed(&error))),
        }
    }

    async fn open(&self, container: &ContainerId, command: &[String], terminal: bool) -> Result<Session, Refusal> {
        let failed = |error: &StartError| refusal("ExecFailed", message::not_executed(error));
        let process = self.process(container).ok_or_else(|| failed(&StartError::Ended))?;
        process.open(command, terminal).await.map_err(|error| failed(&error))
    }

    async fn attach(&self, container: &ContainerId) -> Result<Attachment, Refusal> {
        let process =
            self.process(container).ok_or_else(|| refusal("AttachFailed", "container not running".to_owned()))?;
        Ok(process.attach())
    }

    async fn connect(&self, pod_uid: &str, port: u16) -> Result<TcpStream, Refusal> {
        let address = self.addresses().get(pod_uid).copied();
        let (Some(pod), Some(address)) = (self.pod(pod_uid), address) else {
            return Err(refusal("PortForwardFailed", "the pod does not run".to_owned()));
        };
        let own = IpAddr::from(Ipv4Addr::from_bits(address));
        let running: Vec<Process> = pod.processes().values().filter(|one| one.ended().is_none()).cloned().collect();
        let listeners = join_all(running.iter().map(Process::listeners)).await.concat();
        let mut error = io::Error::from(io::ErrorKind::ConnectionRefused);
        for address in ways_to(port, own, &listeners) {
            match TcpStream::connect(address).await {
                Ok(connection) => return Ok(connection),
                Err(failure) => error = failure,
            }
        }
        Err(refusal("PortForwardFailed", message::not_connected(own, port, &error)))
    }

    async fn resize(&self, container: &ContainerId, limits: Limits) -> Result<(), Refusal> {
        if let Some(process) = self.process(container) {
            process.set_memory_limit(limits.memory).await;
        }
        Ok(())
    }

    async fn usage(&self, container: &ContainerId) -> Option<Usage> {
        let process = self.process(container)?;
        let usage = process.usage().await?;
        let (since, at) = (process.since(), Clock::system().now());
        Some(Usage { cpu: usage.cpu, working_set: usage.working_set, since, at })
    }

    fn machine_usage(&self) -> Option<Usage> {
        let MachineUsage { cpu, working_set, since } = MachineUsage::now()?;
        Some(Usage { cpu, working_set, since, at: Clock::system().now() })
    }

    async fn listeners(&self, container: &ContainerId) -> Vec<SocketAddr> {
        match self.process(container) {
            Some(process) => process.listeners().await,
            None => Vec::new(),
        }
    }

    async fn logs(&self, container: &ContainerId, options: LogOptions) -> Result<BoxStream<'static, Bytes>, Refusal> {
        // One that could not be started has said nothing.
        let Some(process) = self.process(container) else { return Ok(futures::stream::empty().boxed()) };
        let LogOptions { follow, tail_lines, since, timestamps, limit_bytes } = options;
        let options = pillion_process::LogOptions { follow, tail_lines, since, timestamps, limit_bytes };
        let log = process.logs(options).await.map_err(|error| refusal("InternalError", error.to_string()))?;
        Ok(log.map(Bytes::from).boxed())
    }

    async fn release(&self, pod_uid: &str) {
        self.addresses().remove(pod_uid);
        if let Some(pod) = self.pod(pod_uid) {
            pod.pod.end().await;
        }
    }

    async fn tear_down(&self, pod_uid: &str) {
        self.addresses().remove(pod_uid);
        let pod = self.pods().remove(pod_uid);
        let removed = match pod {
            Some(pod) => pod.pod.tear_down().await,
            None => self.host.remove(pod_uid).await,
        };
        if let Err(error) = removed {
            tracing::warn!(pod_uid, %error, "the files of a pod cannot be removed");
        }
    }

    async fn keep_only(&self, pod_uids: BTreeSet<String>) {
        for uid in self.host.leftovers().iter().filter(|uid| !pod_uids.contains(*uid)) {
            self.tear_down(uid).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(command: &[&str], args: &[&str]) -> ContainerSpec {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        ContainerSpec {
            id: ContainerId { pod_uid: "uid".to_owned(), container: "main".to_owned(), attempt: 0 },
            image: "nginx".to_owned(),
            command: words(command),
            args: words(args),
            environment: vec![("A".to_owned(), "container".to_owned()), ("PATH".to_owned(), "/opt".to_owned())],
            working_directory: None,
            mounts: Vec::new(),
            limits: Limits::default(),
            user: Some(0),
            group: None,
            no_new_privileges: false,
            input: pillion_process::Input::default(),
            termination_message_path: String::new(),
            message_from_logs: false,
        }
    }

    fn image() -> Image {
        let env = [("A", "image"), ("B", "image")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        Image { command: vec!["c".to_owned()], args: vec!["a".to_owned()], env: env.into(), ..Image::default() }
    }

    #[test]
    fn command_and_arguments_go_over_those_of_the_image() {
        for (own, args, with_image, without) in [
            (&[][..], &[][..], Some("c a"), None),
            (&[], &["x"], Some("c x"), None),
            (&["y"], &[], Some("y"), Some("y")),
            (&["y"], &["x"], Some("y x"), Some("y x")),
        ] {
            let spec = spec(own, args);
            assert_eq!(command(&spec, Some(&image())).map(|words| words.join(" ")).as_deref(), with_image);
            assert_eq!(command(&spec, None).map(|words| words.join(" ")).as_deref(), without);
        }
    }

    #[test]
    fn the_last_variable_of_a_name_counts() {
        let variables = environment(&spec(&[], &[]), Some(&image()), "web-0");
        let shown: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown, ["PATH=/opt", "HOME=/", "HOSTNAME=web-0", "A=container", "B=image"]);
    }

    #[test]
    fn a_hostname_is_cut_as_the_kubelet_does() {
        let pod = |value| hostname(&serde_json::from_value(value).unwrap());
        assert_eq!(pod(json!({"metadata": {"name": "web-0"}})), "web-0");
        assert_eq!(pod(json!({"metadata": {"name": "web-0"}, "spec": {"containers": [], "hostname": "db"}})), "db");
        let long = "x".repeat(62) + "-" + "y";
        assert_eq!(pod(json!({"metadata": {"name": long}})), "x".repeat(62));
    }

    #[test]
    fn a_port_is_reached_where_the_pod_itself_listens() {
        let own: IpAddr = "127.10.0.7".parse().unwrap();
        let listeners = ["0.0.0.0:80", "[::]:80", "127.0.0.1:81", "127.10.0.7:82"].map(|one| one.parse().unwrap());
        let ways = |port| ways_to(port, own, &listeners).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(ways(80), ["127.10.0.7:80"]);
        assert_eq!(ways(81), ["127.0.0.1:81"]);
        assert_eq!(ways(82), ["127.10.0.7:82"]);
        assert!(ways(83).is_empty());
    }

    #[test]
    fn addresses_are_used_again() {
        let used = BTreeSet::from([FIRST_ADDRESS, FIRST_ADDRESS + 2]);
        assert_eq!(Ipv4Addr::from_bits(free_address(&used)).to_string(), "127.10.0.2");
    }
}
