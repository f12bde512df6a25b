//! A cluster as its users have it: bring it up, find it, take it down.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;

use crate::folder::Folder;
use crate::lock::Lock;
use crate::options::Options;
use crate::prerequisites::prerequisites;
use crate::process::{ProcessIdentity, on_a_thread};
use crate::state::{Phase, State};
use crate::supervisor::{self, ASKED, DETACH, Plan, Report};
use crate::{binaries, cleanup, packages};

/// How long a supervisor may take to end in good order.
const PATIENCE: Duration = Duration::from_mins(1);

/// A cluster that is up.
///
/// One that was brought [`up`](Self::up) goes down with this value, or with this process, unless it is
/// [detached](Self::detach).
#[derive(Debug)]
pub struct Cluster {
    folder: Folder,
    state: State,
    supervisor: Option<Child>,
}

impl Cluster {
    /// Brings a cluster up and returns when its API server answers and its node is Ready. Says on stderr what it does.
    pub fn up(options: &Options) -> anyhow::Result<Self> {
        let folder = Folder::of_this_user()?;
        wait_for_another_to_end(&folder)?;
        prerequisites(options)?;
        if !options.control_plane_only {
            let packages = packages::missing();
            if !packages.is_empty() {
                eprintln!("cluster: installing {}", packages.join(", "));
                packages::install(&packages)?;
            }
        }
        let programs = binaries::provide(options.kubernetes, &binaries::wanted(options.control_plane_only))?;
        let cni_plugins = if options.control_plane_only {
            None
        } else {
            Some(packages::cni_plugins().context("the CNI plugins are missing")?)
        };

        let kubernetes = programs
            .get("kube-apiserver")
            .and_then(|path| binaries::version_of("kube-apiserver", path))
            .context("kube-apiserver does not say its version")?;

        let begin = Instant::now();
        let mut child = spawn_supervisor(options)?;
        let plan = Plan {
            supervisor: ProcessIdentity::of(child.id()).context("the supervisor ended at once")?,
            folder: folder.path().to_owned(),
            kubernetes,
            programs,
            cni_plugins,
        };
        let mut plan = serde_json::to_string(&plan)?;
        plan.push('\n');
        child.stdin.as_mut().context("stdin is a pipe")?.write_all(plan.as_bytes())?;
        let reports = BufReader::new(child.stdout.take().context("stdout is a pipe")?);
        for line in reports.lines() {
            match serde_json::from_str(&line?).context("the supervisor does not make sense")? {
                Report::Step(step) => eprintln!("cluster: {:5.1} s  {step}", begin.elapsed().as_secs_f32()),
                Report::Ready(state) => return Ok(Self { folder, state, supervisor: Some(child) }),
                Report::Failed(why) => {
                    child.wait()?;
                    bail!("{why}");
                }
            }
        }
        bail!("the supervisor ended and said nothing")
    }

    /// The cluster that is up, whoever brought it up.
    pub fn current() -> anyhow::Result<Option<Self>> {
        let folder = Folder::of_this_user()?;
        let state = State::read(&folder)?.filter(State::is_ready);
        Ok(state.map(|state| Self { folder, state, supervisor: None }))
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.state.kubeconfig
    }

    /// The name of the one node; none with the control plane alone.
    pub fn node_name(&self) -> Option<&str> {
        self.state.node_name.as_deref()
    }

    /// The version of Kubernetes.
    pub fn kubernetes(&self) -> &str {
        &self.state.kubernetes
    }

    /// Makes an image of a tarball, such as [`crate::ImageSpec::write`] writes, known to the node.
    pub fn import_image(&self, tarball: &Path) -> anyhow::Result<()> {
        supervisor::import_image(&self.folder, tarball)
    }

    /// The environment for programs that are to use this cluster: its kubeconfig and its kubectl.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut path = self.folder.programs().into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        vec![
            ("KUBECONFIG", self.state.kubeconfig.clone().into_os_string()),
            ("KUBECACHEDIR", self.folder.kubectl_cache().into_os_string()),
            ("PATH", path),
        ]
    }

    /// Leaves the cluster up when this process ends.
    pub fn detach(mut self) -> anyhow::Result<()> {
        if let Some(mut supervisor) = self.supervisor.take() {
            let stdin = supervisor.stdin.as_mut().context("stdin is a pipe")?;
            stdin.write_all(DETACH.as_bytes()).context("the supervisor is gone")?;
        }
        Ok(())
    }

    /// Takes the cluster down, and waits until nothing of it is left.
    pub fn down(mut self) -> anyhow::Result<()> {
        let supervisor = self.supervisor.take();
        down()?;
        if let Some(mut supervisor) = supervisor {
            supervisor.wait()?;
        }
        Ok(())
    }
}

/// Takes down whatever is up, and takes away whatever an earlier run left. Says whether there was anything.
pub fn down() -> anyhow::Result<bool> {
    let folder = Folder::of_this_user()?;
    if !folder.path().exists() {
        return Ok(false);
    }
    // A file that cannot be read tells nothing, but the folder has to go all the same.
    let supervisor = State::read(&folder).ok().flatten().map(|state| state.supervisor);
    let signal = |signal| supervisor.inspect(|supervisor| supervisor.signal(signal));
    signal(Signal::SIGTERM);
    let mut lock = Lock::acquire(PATIENCE)?;
    if lock.is_none() {
        signal(Signal::SIGKILL);
        lock = Lock::acquire(PATIENCE)?;
    }
    let lock = lock.context("the supervisor of the cluster does not end")?;
    cleanup::after_a_crash(&folder, &lock)?;
    Ok(true)
}

/// One cluster at a time: one that is up is an error, one that is going down is waited for, and what one has left is
/// taken away.
fn wait_for_another_to_end(folder: &Folder) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let lock = loop {
        if let Some(lock) = Lock::acquire(Duration::from_millis(100))? {
            break lock;
        }
        if State::read(folder)?.is_some_and(|state| state.phase == Phase::Ready) {
            bail!("a cluster is up already: take it down first, with `cluster down`");
        }
        if Instant::now() > deadline {
            bail!("another cluster on this machine is in the way, maybe another user's");
        }
    };
    if folder.path().exists() {
        eprintln!("cluster: taking away what an earlier run left");
        cleanup::after_a_crash(folder, &lock)?;
    }
    Ok(())
}

fn spawn_supervisor(options: &Options) -> anyhow::Result<Child> {
    let mut command = Command::new(&options.supervisor);
    command.arg0("pillion-cluster-supervisor").env(ASKED, "1");
    // Whoever reads this process's stderr to its end must not have to wait for the cluster's.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    on_a_thread(|| {
        if !options.control_plane_only {
            // The next child of this thread is process 1 of the namespace.
            unshare(CloneFlags::CLONE_NEWPID).context("cannot make a process namespace")?;
        }
        command.spawn().context("cannot start the supervisor")
    })
}
