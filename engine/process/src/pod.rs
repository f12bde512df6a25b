//! A pod, as the program sees it.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::{Mutex, watch};

use crate::attach::Input;
use crate::folder::{check_name, remove_all};
use crate::message::{CommandSpec, Container, Part, PodConfig, Stdin, User};
use crate::mounts::Mount;
use crate::process::{ContainerStreams, Process, send};
use crate::start_error::StartError;
use crate::starter::Starter;

/// What the names of files begin with that guards of a pod have locked, each as long as anything of its own runs.
pub(crate) const GUARD: &str = "guard-";
/// Tells the guards apart that this program has started.
static GUARDS: AtomicU64 = AtomicU64::new(0);
/// The folder of a pod that holds its volumes.
pub(crate) const VOLUMES: &str = "volumes";

/// A pod to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSpec {
    /// Its name, among all pods of the host.
    pub id: String,
    /// What its containers see as the name of their machine, where that is allowed.
    pub hostname: Option<String>,
    /// Whether its containers see each other's processes.
    pub share_pids: bool,
}

/// A process to be started: one attempt of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSpec {
    /// The container's name.
    pub name: String,
    /// How often it was started before.
    pub attempt: u32,
    /// The command and its arguments. It is looked for in the `PATH` of `environment`.
    pub command: Vec<String>,
    /// The whole environment.
    pub environment: Vec<(String, String)>,
    /// Where it starts; the root if there is none. Made if it is missing.
    pub working_directory: Option<PathBuf>,
    /// Who it runs as; who runs this program if there is none.
    pub user: Option<User>,
    /// Whether neither it nor its children can get more privileges, as set-user-ID programs give them.
    pub no_new_privileges: bool,
    /// What it sees of the machine somewhere else.
    pub mounts: Vec<Mount>,
    /// It is killed when it uses more bytes.
    pub memory_limit: Option<u64>,
    /// What it reads, and whether it has a terminal.
    pub input: Input,
}

/// A pod. Everything in it ends when it is dropped.
#[derive(Debug)]
pub struct Pod {
    folder: PathBuf,
    config: PodConfig,
    /// `None` once it is to end.
    control: Mutex<Option<UnixStream>>,
    /// Whether nothing of it runs any more.
    gone: watch::Receiver<bool>,
}

impl Pod {
    pub(crate) fn new(folder: PathBuf, starter: &Starter, config: PodConfig) -> io::Result<Pod> {
        for part in [VOLUMES, "logs", "termination"] {
            DirBuilder::new().recursive(true).mode(0o700).create(folder.join(part))?;
        }
        let lock = File::create(folder.join(format!("{GUARD}{}", GUARDS.fetch_add(1, Ordering::Relaxed))))?;
        lock.try_lock()?;
        let (near, far) = BlockingStream::pair()?;
        near.set_nonblocking(true)?;
        let (guard, mut alive) = pipe::pipe()?;
        let guard = guard.into_blocking_fd()?;
        // The lock and the pipe are the guard's alone: they close when it ends.
        starter.start(&config, [far.as_fd(), lock.as_fd(), guard.as_fd()])?;
        let (ended, gone) = watch::channel(false);
        tokio::spawn(async move {
            // Nothing is ever written to it.
            let _ = alive.read(&mut [0]).await;
            ended.send_replace(true);
        });
        Ok(Pod { folder, config, control: Mutex::new(Some(UnixStream::from_std(near)?)), gone })
    }

    /// The folder of a volume, which need not exist.
    pub fn volume(&self, name: &str) -> io::Result<PathBuf> {
        check_name(name)?;
        Ok(self.folder.join(VOLUMES).join(name))
    }

    /// An empty file for the last words of an attempt, which everybody may write.
    pub fn termination_log(&self, name: &str, attempt: u32) -> io::Result<PathBuf> {
        check_name(name)?;
        let path = self.folder.join("termination").join(format!("{name}-{attempt}"));
        File::create(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o666))?;
        Ok(path)
    }

    /// Starts a process. It runs when this returns.
    pub async fn start(&self, spec: ProcessSpec) -> Result<Process, StartError> {
        let failed = |error: io::Error| StartError::other("cannot start a container", error);
        let log = self.log(&spec).map_err(failed)?;
        let (socket, far) = BlockingStream::pair().map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let (stdout, read_stdout) = pipe::pipe().map_err(failed)?;
        let (stderr, read_stderr) = pipe::pipe().map_err(failed)?;
        let [stdout, stderr] = [stdout.into_blocking_fd().map_err(failed)?, stderr.into_blocking_fd().map_err(failed)?];
        {
            let control = self.control.lock().await;
            let control = control.as_ref().ok_or(StartError::Ended)?;
            send(control, &(), &[far.as_fd(), stdout.as_fd(), stderr.as_fd()]).await.map_err(failed)?;
        }
        drop((far, stdout, stderr));
        let near = ContainerStreams::new(spec.input, [read_stdout, read_stderr]).map_err(failed)?;
        let container = Container {
            command: CommandSpec {
                command: spec.command,
                environment: spec.environment,
                working_directory: spec.working_directory,
                user: spec.user.or(self.config.abilities.user_namespaces.then_some(self.config.caller)),
                no_new_privileges: spec.no_new_privileges,
                stdin: match spec.input {
                    Input { terminal: true, .. } => Stdin::Terminal,
                    Input { stdin: true, .. } => Stdin::Given,
                    _ => Stdin::Null,
                },
                part: if self.config.own_pids() { Part::First } else { Part::FirstAmongOthers },
            },
            mounts: spec.mounts,
            memory_limit: spec.memory_limit,
        };
        let socket = UnixStream::from_std(socket).map_err(failed)?;
        Process::start(socket, container, log, near).await
    }

    /// Where an attempt is logged. The log of the attempt before stays, others go.
    fn log(&self, spec: &ProcessSpec) -> io::Result<PathBuf> {
        check_name(&spec.name)?;
        let folder = self.folder.join("logs").join(&spec.name);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        for entry in fs::read_dir(&folder)?.flatten() {
            let attempt = entry.file_name().to_str().and_then(|name| name.split('.').next()?.parse::<u32>().ok());
            if attempt.is_some_and(|attempt| attempt.checked_add(1) != Some(spec.attempt)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(folder.join(format!("{}.log", spec.attempt)))
    }

    /// Ends everything that runs. What it has written stays.
    pub async fn end(&self) {
        drop(self.control.lock().await.take());
        // An error is the end of the task that waits, which is as good.
        let _ = self.gone.clone().wait_for(|gone| *gone).await;
    }

    /// Ends everything that runs, and takes its files away.
    pub async fn tear_down(&self) -> io::Result<()> {
        self.end().await;
        let folder = self.folder.clone();
        tokio::task::spawn_blocking(move || remove_all(&folder)).await.map_err(io::Error::other)?
    }
}
