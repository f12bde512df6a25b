//! The machine, and the folder in which pods are kept.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::{Gid, Uid};

use crate::abilities::Abilities;
use crate::folder::{check_name, remove_all};
use crate::message::{PodConfig, User};
use crate::pod::{GUARD, Pod, PodSpec, VOLUMES};
use crate::role::Role;
use crate::role::probe::Probe;
use crate::starter::Starter;

/// Pods of a program that was killed end within this.
const LONGEST_END: Duration = Duration::from_secs(20);

/// The machine that pods run on.
#[derive(Debug)]
pub struct Host {
    folder: PathBuf,
    leftovers: Vec<String>,
    starter: Starter,
    abilities: Abilities,
    caller: User,
    _lock: Flock<File>,
}

impl Host {
    /// Keeps pods in `folder`. Of what an earlier run has left there only volumes stay, when nothing of that run is alive any more. This
    /// program supervises pods: its main function calls [`supervise_if_asked`](crate::supervise_if_asked).
    pub fn new(folder: PathBuf) -> io::Result<Host> {
        Host::with_supervisor(folder, "/proc/self/exe".into())
    }

    /// The same with another program to supervise pods.
    pub fn with_supervisor(folder: PathBuf, program: PathBuf) -> io::Result<Host> {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        // Mounts are made elsewhere.
        let folder = fs::canonicalize(folder)?;
        let lock = Flock::lock(File::create(folder.join("lock"))?, FlockArg::LockExclusiveNonblock)
            .map_err(|_| io::Error::other(format!("another program runs pods in {}", folder.display())))?;
        let leftovers = clear(&folder.join("pods"))?;
        let staging = folder.join("staging");
        DirBuilder::new().recursive(true).create(&staging)?;
        let caller = User { uid: Uid::effective().as_raw(), gid: Gid::effective().as_raw() };
        let abilities = probe(&program, &Probe { caller, staging })?;
        tracing::debug!(?abilities, "what this machine allows");
        Ok(Host { folder, leftovers, starter: Starter::new(program), abilities, caller, _lock: lock })
    }

    /// What this machine allows.
    pub fn abilities(&self) -> Abilities {
        self.abilities
    }

    /// Who runs pods here.
    pub fn user(&self) -> User {
        self.caller
    }

    /// The same machine, as if it allowed less.
    #[must_use]
    pub fn with_abilities(self, abilities: Abilities) -> Host {
        Host { abilities, ..self }
    }

    /// The names of pods of an earlier run whose volumes are still there. A pod that is made again under its name has them.
    pub fn leftovers(&self) -> &[String] {
        &self.leftovers
    }

    /// Removes the files of a pod that does not exist in this run.
    pub async fn remove(&self, id: &str) -> io::Result<()> {
        check_name(id)?;
        let folder = self.folder.join("pods").join(id);
        tokio::task::spawn_blocking(move || remove_all(&folder)).await.map_err(io::Error::other)?
    }

    /// Makes a pod, in which nothing runs yet. Call it inside a tokio runtime.
    pub fn pod(&self, spec: PodSpec) -> io::Result<Pod> {
        check_name(&spec.id)?;
        let config = PodConfig {
            abilities: self.abilities,
            share_pids: spec.share_pids,
            hostname: spec.hostname,
            caller: self.caller,
            staging: self.folder.join("staging"),
        };
        Pod::new(self.folder.join("pods").join(&spec.id), &self.starter, config)
    }
}

fn probe(program: &Path, probe: &Probe) -> io::Result<Abilities> {
    let output = Role::Probe.of(program, probe)?.stdout(Stdio::piped()).output()?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let program = program.display();
        io::Error::other(format!("{program} does not supervise pods; does its main call supervise_if_asked? ({error})"))
    })
}

/// Removes all that an earlier run has left but the volumes of pods, and returns the names of the pods that have some.
fn clear(pods: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(pods) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut left = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().filter(|name| check_name(name).is_ok());
        let Some(name) = name.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_dir())) else {
            remove(&entry)?;
            continue;
        };
        let mut has_volumes = false;
        for part in fs::read_dir(entry.path())? {
            let part = part?;
            if part.file_name().to_str().is_some_and(|name| name.starts_with(GUARD)) {
                wait_for_the_end(&part.path())?;
            }
            let is_kept = part.file_name() == VOLUMES && part.file_type()?.is_dir();
            if is_kept && fs::read_dir(part.path())?.next().is_some() {
                has_volumes = true;
            } else {
                remove(&part)?;
            }
        }
        if has_volumes {
            left.push(name);
        } else {
            remove_all(&entry.path())?;
        }
    }
    Ok(left)
}

fn remove(entry: &fs::DirEntry) -> io::Result<()> {
    // A link is removed, not what it points at.
    if entry.file_type()?.is_dir() { remove_all(&entry.path()) } else { fs::remove_file(entry.path()) }
}

/// The supervisors of a pod outlive a program that was killed by some milliseconds, and what they run may still write.
fn wait_for_the_end(guard: &Path) -> io::Result<()> {
    let lock = File::open(guard)?;
    let began = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if began.elapsed() < LONGEST_END => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => {
                let guard = guard.display();
                return Err(io::Error::other(format!(
                    "processes of an earlier run still hold {guard}; end them, or choose another folder"
                )));
            }
        }
    }
}
