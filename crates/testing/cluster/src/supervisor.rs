//! The one process that all others of a run are under.
//!
//! With a node it is process 1 of a process namespace, so that when it ends, in whatever way, the kernel ends every
//! other process of the run with it, containers included; the mount and network namespaces go with the last of them.
//! With the control plane alone it needs no privilege, and its two children ask the kernel to be killed when it ends.
//!
//! It reads its [`Plan`] from stdin and writes [`Report`]s to stdout. Until its caller says [`DETACH`], the end of
//! stdin means that the caller is gone, and the run ends too: a broken-off `up` leaves nothing behind.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, setsid};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};

use crate::binaries::Programs;
use crate::components::{self, KUBE_PROXY_HEALTH, NODE_NAME, Ports};
use crate::folder::{Folder, MARK, write};
use crate::host::Host;
use crate::lock::Lock;
use crate::mounts::{self, HostMounts};
use crate::network::{HOST_ADDRESS, NodeNetwork};
use crate::process::ProcessIdentity;
use crate::state::{Phase, State};
use crate::{certificates, cgroups, cleanup, images, packages};

/// Set in the environment of a supervisor.
pub(crate) const ASKED: &str = "PILLION_CLUSTER_SUPERVISOR";

/// What the caller writes when the cluster is to stay up without it.
pub(crate) const DETACH: &str = "detach\n";

/// How long a component may take to be ready, on a slow machine with other work.
const PATIENCE: Duration = Duration::from_mins(2);
/// Milliseconds.
const BETWEEN_LOOKS: u8 = 100;
const LOG_LINES_IN_ERRORS: usize = 12;

/// What the supervisor is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Itself, as the host sees it; it could not tell.
    pub(crate) supervisor: ProcessIdentity,
    /// The run's folder.
    pub(crate) folder: PathBuf,
    /// The version of Kubernetes, for the record.
    pub(crate) kubernetes: String,
    pub(crate) programs: Programs,
    /// The folder of the CNI plugins; none means no node.
    pub(crate) cni_plugins: Option<PathBuf>,
}

/// What the supervisor tells its caller, one to a line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// What is being waited for.
    Step(String),
    /// The cluster is up.
    Ready(State),
    /// It will not come up.
    Failed(String),
}

/// Why a run ends.
enum End {
    /// Somebody wants it to.
    Asked,
    /// It cannot go on.
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for End {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// If this process was started as a supervisor, its whole life. A program that brings clusters up calls this before
/// anything else, and ends with the exit code if there is one.
pub fn supervise_if_asked() -> Option<ExitCode> {
    std::env::var_os(ASKED)?;
    Some(match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&Report::Failed(format!("{error:#}")));
            ExitCode::FAILURE
        }
    })
}

fn supervise() -> anyhow::Result<()> {
    let mut caller = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let plan: Plan = serde_json::from_str(&read_line(&mut caller)?).context("the plan on stdin cannot be read")?;
    // Away from the caller's terminal and its Ctrl-C.
    setsid().context("cannot leave the session")?;
    let end_asked = signalled(&[SIGTERM, SIGINT])?;
    let child_ended = signalled(&[SIGCHLD])?;
    let Some(lock) = Lock::acquire(Duration::ZERO)? else {
        bail!("another cluster is up on this machine");
    };
    let folder = Folder::at(plan.folder.clone())?;
    let state = State {
        phase: Phase::Starting,
        kubernetes: plan.kubernetes.clone(),
        node_name: plan.cni_plugins.is_some().then(|| NODE_NAME.to_owned()),
        kubeconfig: folder.kubeconfig(),
        supervisor: plan.supervisor,
    };
    let mut run = Run {
        programs: plan.programs,
        cni_plugins: plan.cni_plugins,
        folder,
        state,
        caller: Some(caller),
        end_asked,
        child_ended,
        components: Vec::new(),
        network: None,
        host_mounts: None,
    };
    let end = match run.start() {
        Ok(()) => run.watch(),
        Err(end) => end,
    };
    run.finish(end, &lock)
}

/// Byte by byte: what comes after the line is for later.
fn read_line(file: &mut File) -> anyhow::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while file.read(&mut byte)? == 1 && byte != *b"\n" {
        line.extend(byte);
    }
    String::from_utf8(line).context("the plan is not UTF-8")
}

/// A stream with something to read once one of the signals has come. Handlers do this and no mask: unlike a handler, a
/// mask would be handed down to every component, and by containerd to every container.
fn signalled(signals: &[i32]) -> std::io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

/// A caller that does not listen is gone or will read the state file.
fn report(report: &Report) {
    if let Ok(line) = serde_json::to_string(report) {
        let mut stdout = std::io::stdout();
        let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    }
}

struct Run {
    programs: Programs,
    cni_plugins: Option<PathBuf>,
    folder: Folder,
    state: State,
    /// Until it detaches.
    caller: Option<File>,
    end_asked: UnixStream,
    child_ended: UnixStream,
    components: Vec<(&'static str, Pid)>,
    network: Option<NodeNetwork>,
    host_mounts: Option<HostMounts>,
}

impl Run {
    fn start(&mut self) -> Result<(), End> {
        self.folder.create()?;
        self.state.write(&self.folder)?;
        for (name, path) in &self.programs {
            std::os::unix::fs::symlink(path, self.folder.programs().join(name))?;
        }
        let host = Host::detect(self.folder.path())?;
        let address = if self.cni_plugins.is_some() {
            self.host_mounts = Some(mounts::enter(&self.folder)?);
            self.network = Some(NodeNetwork::create()?);
            HOST_ADDRESS
        } else {
            Ipv4Addr::LOCALHOST
        };
        let ports = free_ports(address)?;
        certificates::create(&self.folder, (address, ports.kube_apiserver))?;

        self.spawn("etcd", components::etcd(&self.folder, ports))?;
        let etcd = (Ipv4Addr::LOCALHOST, ports.etcd);
        self.wait_until("etcd", |_| TcpStream::connect(etcd).is_ok())?;
        let with_node = self.cni_plugins.is_some();
        self.spawn("kube-apiserver", components::kube_apiserver(&self.folder, ports, with_node))?;
        // These two take their time side by side.
        if let Some(plugins) = self.cni_plugins.clone() {
            self.start_containerd(host, &plugins)?;
        }
        self.wait_until("kube-apiserver", |run| run.kubectl(&["get", "--raw", "/readyz"]).as_deref() == Some("ok"))?;
        if with_node {
            self.start_node(host)?;
        }
        self.state.phase = Phase::Ready;
        self.state.write(&self.folder)?;
        report(&Report::Ready(self.state.clone()));
        Ok(())
    }

    fn start_containerd(&mut self, host: Host, cni_plugins: &Path) -> Result<(), End> {
        fs::create_dir(self.folder.config("cni"))?;
        write(&self.folder.config("cni/pillion.conflist"), components::cni_configuration().to_string())?;
        let configuration = components::containerd_configuration(&self.folder, host, cni_plugins);
        write(&self.folder.config("containerd.toml"), configuration)?;
        self.spawn_in_node("containerd", components::containerd(&self.folder))?;
        self.wait_until("containerd", |run| UnixStream::connect(run.folder.containerd_socket()).is_ok())?;
        for image in images::basic()? {
            let tarball = self.folder.temporary().join(images::tarball_name(&image.name));
            image.write(&tarball)?;
            import_image(&self.folder, &tarball)?;
            fs::remove_file(&tarball)?;
        }
        Ok(())
    }

    fn start_node(&mut self, host: Host) -> Result<(), End> {
        cgroups::create()?;
        write(&self.folder.config("resolv.conf"), "")?;
        let configuration = components::kubelet_configuration(&self.folder, host);
        write(&self.folder.config("kubelet.json"), configuration.to_string())?;
        self.spawn("kube-controller-manager", components::kube_controller_manager(&self.folder))?;
        self.spawn("kube-scheduler", components::kube_scheduler(&self.folder))?;
        self.spawn_in_node("kubelet", components::kubelet(&self.folder))?;
        self.spawn_in_node("kube-proxy", components::kube_proxy(&self.folder))?;
        self.wait_until("kube-controller-manager", |run| run.kubectl(&["get", "serviceaccount", "default"]).is_some())?;
        self.wait_until("kube-proxy", Self::kube_proxy_is_ready)?;
        self.wait_until("kubelet", |run| {
            let ready = r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
            run.kubectl(&["get", "node", NODE_NAME, "-o", ready]).as_deref() == Some("True")
        })
    }

    /// Ready means that the rules for all Services it knows of are in place.
    fn kube_proxy_is_ready(&self) -> bool {
        let ask = || -> anyhow::Result<String> {
            let mut stream = TcpStream::connect(KUBE_PROXY_HEALTH)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        self.network.as_ref().is_some_and(|network| network.within(ask).is_ok_and(|answer| answer.contains(" 200 OK")))
    }

    /// Starts a component on the host.
    fn spawn(&mut self, name: &'static str, arguments: Vec<String>) -> anyhow::Result<()> {
        let mut command = if self.network.is_some() {
            self.command(&self.folder.programs().join(name))
        } else {
            let mut command = self.command(Path::new("setpriv"));
            command.args(["--pdeathsig", "KILL", "--"]).arg(self.folder.programs().join(name));
            command
        };
        command.args(arguments);
        self.logged(name, &mut command)?;
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        self.remember(name, &child)
    }

    /// Starts a component in the node's network.
    fn spawn_in_node(&mut self, name: &'static str, arguments: Vec<String>) -> anyhow::Result<()> {
        let network = self.network.as_ref().context("there is no node")?;
        let ours = self.folder.programs().join(name);
        let mut command = self.command(if ours.exists() { &ours } else { Path::new(name) });
        command.args(arguments);
        self.logged(name, &mut command)?;
        let child = network.within(|| command.spawn().with_context(|| format!("cannot start {name}")))?;
        self.remember(name, &child)
    }

    fn remember(&mut self, name: &'static str, child: &std::process::Child) -> anyhow::Result<()> {
        self.components.push((name, Pid::from_raw(child.id().try_into()?)));
        report(&Report::Step(format!("{name} started")));
        Ok(())
    }

    /// A command with nothing of the caller's environment in it: not its kubeconfig, not its proxies.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let path = format!("{}:{}", self.folder.programs().display(), packages::search_path());
        command.env_clear().env("PATH", path).env("HOME", self.folder.path()).env("TMPDIR", self.folder.temporary());
        command.env(MARK, self.folder.path()).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn logged(&self, name: &str, command: &mut Command) -> anyhow::Result<()> {
        let log = File::create(self.folder.log(name))?;
        command.stdout(log.try_clone()?).stderr(log);
        Ok(())
    }

    /// What kubectl prints, if it succeeds.
    fn kubectl(&self, arguments: &[&str]) -> Option<String> {
        let output = self
            .command(&self.folder.programs().join("kubectl"))
            .arg("--kubeconfig")
            .arg(self.folder.kubeconfig())
            .arg("--cache-dir")
            .arg(self.folder.kubectl_cache())
            .arg("--request-timeout=5s")
            .args(arguments)
            .output()
            .ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn wait_until(&mut self, component: &str, is_ready: impl Fn(&Self) -> bool) -> Result<(), End> {
        let deadline = Instant::now() + PATIENCE;
        while !is_ready(self) {
            if Instant::now() > deadline {
                let waited = PATIENCE.as_secs();
                return Err(anyhow!("{component} was not ready after {waited} s{}", self.end_of_log(component)).into());
            }
            self.look_around(PollTimeout::from(BETWEEN_LOOKS))?;
        }
        report(&Report::Step(format!("{component} is ready")));
        Ok(())
    }

    fn watch(&mut self) -> End {
        loop {
            if let Err(end) = self.look_around(PollTimeout::NONE) {
                return end;
            }
        }
    }

    /// Waits for something to happen, and says if it ends the run.
    fn look_around(&mut self, timeout: PollTimeout) -> Result<(), End> {
        let source = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
        let mut sources = vec![source(self.end_asked.as_fd()), source(self.child_ended.as_fd())];
        sources.extend(self.caller.as_ref().map(|caller| source(caller.as_fd())));
        match poll(&mut sources, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let speaks = |index: usize| sources.get(index).and_then(PollFd::any).unwrap_or(false);
        let (end_asked, child_ended, caller_speaks) = (speaks(0), speaks(1), speaks(2));
        if end_asked {
            return Err(End::Asked);
        }
        if child_ended {
            // More of them are one as well: all that have ended are looked for.
            let _ = self.child_ended.read(&mut [0; 64]);
        }
        if caller_speaks && let Some(caller) = &mut self.caller {
            let mut word = [0; DETACH.len()];
            if caller.read(&mut word)? == 0 {
                return Err(End::Asked);
            }
            self.caller = None;
        }
        self.reap()
    }

    /// As process 1 this is also the parent of every orphan.
    fn reap(&self) -> Result<(), End> {
        loop {
            let (pid, how) = match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, format!("with exit code {code}")),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, format!("by {signal}")),
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(()),
                Ok(_) => continue,
                Err(error) => return Err(error.into()),
            };
            if let Some((name, _)) = self.components.iter().find(|component| component.1 == pid) {
                return Err(anyhow!("{name} ended {how}{}", self.end_of_log(name)).into());
            }
        }
    }

    fn end_of_log(&self, component: &str) -> String {
        let path = self.folder.log(component);
        let log = fs::read(&path).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let end = lines.get(lines.len().saturating_sub(LOG_LINES_IN_ERRORS)..).unwrap_or_default();
        format!("; the end of {}:\n{}", path.display(), end.join("\n"))
    }

    /// Ends every process, and takes away what the run made. After a failure the logs are kept.
    fn finish(mut self, end: End, lock: &Lock) -> anyhow::Result<()> {
        self.state.phase = Phase::Ending;
        let _ = self.state.write(&self.folder);
        self.kill_all()?;
        self.network = None;
        if let Some(host) = self.host_mounts.take() {
            host.enter()?;
        }
        match end {
            End::Asked => cleanup::all_but_processes(&self.folder, lock),
            End::Failed(error) => {
                let why = format!("{error:#}");
                let cleaned = cleanup::outside_the_folder(&self.folder, lock);
                self.state.phase = Phase::Failed { why: why.clone() };
                let _ = self.state.write(&self.folder);
                report(&Report::Failed(why));
                cleaned
            }
        }
    }

    fn kill_all(&self) -> anyhow::Result<()> {
        if self.state.node_name.is_some() {
            // For process 1 of a namespace this means all others of that namespace; for anybody else, the machine.
            if std::process::id() != 1 {
                bail!("the supervisor of a node is not process 1 of a process namespace");
            }
            let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
        } else {
            for (_, pid) in &self.components {
                let _ = kill(*pid, Signal::SIGKILL);
            }
        }
        loop {
            match waitpid(Pid::from_raw(-1), None) {
                Err(Errno::ECHILD) => return Ok(()),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error).context("cannot wait for the components to end"),
            }
        }
    }
}

/// Ports that nobody listens on: two on loopback, one where the API server will be.
fn free_ports(address: Ipv4Addr) -> anyhow::Result<Ports> {
    let listen = |address| TcpListener::bind((address, 0)).context("cannot find a free port");
    // All at once, or the same one might be found twice.
    let (etcd, etcd_peer, kube_apiserver) =
        (listen(Ipv4Addr::LOCALHOST)?, listen(Ipv4Addr::LOCALHOST)?, listen(address)?);
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port());
    Ok(Ports { etcd: port(&etcd)?, etcd_peer: port(&etcd_peer)?, kube_apiserver: port(&kube_apiserver)? })
}

/// Gives an image to the run's own containerd.
pub(crate) fn import_image(folder: &Folder, tarball: &Path) -> anyhow::Result<()> {
    let output = Command::new("ctr")
        .arg("--address")
        .arg(folder.containerd_socket())
        .args(["--namespace", "k8s.io", "images", "import"])
        .arg(tarball)
        .output()
        .context("cannot run ctr")?;
    if !output.status.success() {
        bail!("ctr images import {}: {}", tarball.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
