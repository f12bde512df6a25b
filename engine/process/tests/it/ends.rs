//! Nothing is left, whatever ends.
//!
//! Every process of a pod holds a named pipe open. Its other end sees the end of file when the last of them is gone.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use pillion_process::{Abilities, PodSpec, ProcessSpec};

use crate::world::{World, first_line, shell, start};

/// Set for the program that is killed: `FIFO poor|rich`.
const CHILD: &str = "PILLION_TEST_PODS";

/// Children in the background, with parents that have gone, in sessions of their own, deaf to signals.
fn many(fifo: &Path) -> String {
    let fifo = fifo.display();
    format!(
        "exec 3>{fifo}; trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' &); \
         (sleep 1000 &); sleep 1000 & echo $PPID; exec sleep 1000"
    )
}

fn fifo(world: &World) -> PathBuf {
    let path = world.path("fifo");
    mkfifo(&path, Mode::from_bits_truncate(0o666)).unwrap();
    // Other users write into it, too.
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    path
}

/// Resolves when the last writer is gone.
fn nobody_left(fifo: &Path) -> impl Future<Output = ()> + use<> {
    let fifo = fifo.to_owned();
    let task = tokio::task::spawn_blocking(move || File::open(fifo).unwrap().read_to_end(&mut Vec::new()).unwrap());
    async move {
        tokio::time::timeout(Duration::from_mins(1), task).await.expect("some are left").unwrap();
    }
}

#[tokio::test]
async fn a_container_ends_with_its_first_process() {
    for world in World::both() {
        for share_pids in [false, true] {
            let id = format!("share-{share_pids}");
            let pod = world.host.pod(PodSpec { id, share_pids, ..PodSpec::default() }).unwrap();
            let path = world.path("fifo");
            let _ = std::fs::remove_file(&path);
            let left = nobody_left(&fifo(&world));
            let script = many(&path).replace("exec sleep 1000", "exit 4");
            assert_eq!(start(&pod, shell(&script)).await.wait().await.code, 4);
            left.await;
        }
    }
}

#[tokio::test]
async fn a_killed_container_a_torn_down_pod_and_a_dropped_one_leave_nothing() {
    for world in World::both() {
        for way in ["kill", "tear down", "drop"] {
            let pod = world.pod("web");
            let path = world.path("fifo");
            let _ = std::fs::remove_file(&path);
            let left = nobody_left(&fifo(&world));
            let process = start(&pod, shell(&many(&path))).await;
            let other = start(&pod, ProcessSpec { name: "other".to_owned(), ..shell(&many(&path)) }).await;
            first_line(&process).await;
            first_line(&other).await;
            match way {
                "kill" => {
                    process.kill().await;
                    other.kill().await;
                }
                "tear down" => {
                    let folder = pod.volume("x").unwrap();
                    pod.tear_down().await.unwrap();
                    assert!(!folder.parent().unwrap().exists());
                }
                _ => drop(pod),
            }
            assert_eq!(process.wait().await.code, 137);
            assert_eq!(other.wait().await.code, 137);
            left.await;
        }
    }
}

#[tokio::test]
async fn a_killed_supervisor_takes_its_container_or_pod_with_it() {
    let [_, world] = World::both();
    for generations in [0, 1] {
        let pod = world.pod("web");
        let path = world.path("fifo");
        let _ = std::fs::remove_file(&path);
        let left = nobody_left(&fifo(&world));
        let process = start(&pod, shell(&many(&path))).await;
        // Without a process namespace the container sees who supervises it.
        let mut pid = first_line(&process).await;
        for _ in 0..generations {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            pid = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().to_owned();
        }
        kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL).unwrap();
        assert_eq!(process.wait().await.code, 137);
        left.await;
    }
}

/// The program that is killed.
#[test]
fn program() {
    let Ok(what) = std::env::var(CHILD) else { return };
    let (fifo, abilities) = what.split_once(' ').unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build().unwrap();
    runtime.block_on(async {
        let World { host, folder } = World::new();
        let host = if abilities == "poor" { host.with_abilities(Abilities::default()) } else { host };
        let world = World { host, folder };
        let mut pods = Vec::new();
        for share_pids in [false, true] {
            let id = format!("share-{share_pids}");
            let pod = world.host.pod(PodSpec { id, share_pids, ..PodSpec::default() }).unwrap();
            for name in ["one", "two"] {
                let spec = ProcessSpec { name: name.to_owned(), ..shell(&many(Path::new(fifo))) };
                let process = start(&pod, spec).await;
                first_line(&process).await;
                // One that was started later, from outside.
                let command = ["sh", "-c", "sleep 1000 & exec sleep 1000"].map(str::to_owned);
                tokio::spawn(async move { process.exec(&command, None).await });
            }
            pods.push(pod);
        }
        println!("all run");
        std::future::pending::<()>().await;
    });
}

#[tokio::test]
async fn a_program_that_is_killed_leaves_nothing() {
    for abilities in ["rich", "poor"] {
        let world = World::new();
        let path = fifo(&world);
        let left = nobody_left(&path);
        let mut program = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "ends::program", "--nocapture"])
            .env(CHILD, format!("{} {abilities}", path.display()))
            .env("TMPDIR", world.folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("all run")));
        program.kill().unwrap();
        program.wait().unwrap();
        left.await;
    }
}
