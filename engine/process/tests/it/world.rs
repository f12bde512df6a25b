//! What the tests need: a host in a folder of its own, and pods with scripts in them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use futures::StreamExt as _;
use pillion_process::{Abilities, Host, LogOptions, Pod, PodSpec, Process, ProcessSpec, StartError};
use tempfile::TempDir;

/// Says which program supervises, when the one that cargo has built cannot be reached.
pub(crate) const SUPERVISOR: &str = "PILLION_TEST_SUPERVISOR";

pub(crate) struct World {
    pub(crate) host: Host,
    pub(crate) folder: TempDir,
}

impl World {
    pub(crate) fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        // Other users are in here, too.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let supervisor = std::env::var_os(SUPERVISOR).unwrap_or(env!("CARGO_BIN_EXE_pillion-process").into());
        let host = Host::with_supervisor(folder.path().join("host"), supervisor.into()).unwrap();
        World { host, folder }
    }

    /// A world with all that the machine allows, and one with nothing of it.
    pub(crate) fn both() -> [World; 2] {
        let poor = World::new();
        [World::new(), World { host: poor.host.with_abilities(Abilities::default()), folder: poor.folder }]
    }

    pub(crate) fn pod(&self, id: &str) -> Pod {
        self.host.pod(PodSpec { id: id.to_owned(), ..PodSpec::default() }).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

pub(crate) fn environment() -> Vec<(String, String)> {
    vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]
}

pub(crate) fn shell(script: &str) -> ProcessSpec {
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    ProcessSpec { name: "main".to_owned(), command, environment: environment(), ..ProcessSpec::default() }
}

pub(crate) async fn start(pod: &Pod, spec: ProcessSpec) -> Process {
    pod.start(spec).await.unwrap()
}

/// Runs a script to its end: its exit code and what it wrote.
pub(crate) async fn run(pod: &Pod, spec: ProcessSpec) -> Result<(i32, String), StartError> {
    let process = pod.start(spec).await?;
    let exit = process.wait().await;
    Ok((exit.code, text(&process, LogOptions::default()).await))
}

pub(crate) async fn text(process: &Process, options: LogOptions) -> String {
    let chunks: Vec<Vec<u8>> = process.logs(options).await.unwrap().collect().await;
    String::from_utf8(chunks.concat()).unwrap()
}

/// Waits for the first line of a process.
pub(crate) async fn first_line(process: &Process) -> String {
    let follow = LogOptions { follow: true, ..LogOptions::default() };
    let mut log = Box::pin(process.logs(follow).await.unwrap());
    String::from_utf8(log.next().await.expect("it has ended without a word")).unwrap().trim_end().to_owned()
}

/// Waits for a line of a process that holds a text.
pub(crate) async fn line_with(process: &Process, text: &str) -> String {
    let follow = LogOptions { follow: true, ..LogOptions::default() };
    let mut log = Box::pin(process.logs(follow).await.unwrap());
    loop {
        let line = String::from_utf8(log.next().await.expect("it has ended without that word")).unwrap();
        if line.contains(text) {
            return line.trim_end().to_owned();
        }
    }
}
