//! What containers see of each other and of the machine, and what they use.

use std::time::Duration;

use pillion_process::{PodSpec, ProcessSpec};

use crate::world::{World, first_line, run, shell, start};

#[tokio::test]
async fn each_container_has_processes_of_its_own_unless_they_are_shared() {
    let world = World::new();
    if !world.host.abilities().pid_namespaces {
        return;
    }
    let look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '";
    for share_pids in [false, true] {
        let id = format!("share-{share_pids}");
        let pod = world.host.pod(PodSpec { id, share_pids, ..PodSpec::default() }).unwrap();
        let first = start(&pod, shell("echo $$; exec sleep 5678.5")).await;
        assert_eq!(first_line(&first).await == "1", !share_pids);
        let (_, seen) = run(&pod, ProcessSpec { name: "second".to_owned(), ..shell(look) }).await.unwrap();
        assert_eq!(seen.contains("5678.5"), share_pids, "{seen}");
    }
}

#[tokio::test]
async fn a_pod_has_a_hostname() {
    let world = World::new();
    if world.host.abilities().hostnames {
        let spec = PodSpec { id: "web".to_owned(), hostname: Some("web-0".to_owned()), share_pids: false };
        let pod = world.host.pod(spec).unwrap();
        assert_eq!(run(&pod, shell("uname -n")).await.unwrap(), (0, "web-0\n".to_owned()));
    }
}

#[tokio::test]
async fn time_of_children_that_have_ended_counts() {
    for world in World::both() {
        let pod = world.pod("web");
        // A child burns a fifth of a second; the shell waits for it.
        let burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let process = start(&pod, shell(&format!("sh -c '{burn}'; sleep 1000 & echo done; wait"))).await;
        first_line(&process).await;
        let usage = process.usage().await.unwrap();
        assert!(usage.cpu > Duration::from_millis(20), "{usage:?}");
        assert!(usage.working_set > 10_000 && usage.working_set < 100_000_000, "{usage:?}");
        assert_eq!(usage.processes, 2);
        assert!(process.usage().await.unwrap().cpu >= usage.cpu);
    }
}

#[tokio::test]
async fn a_container_that_uses_too_much_memory_is_killed() {
    for world in World::both() {
        let pod = world.pod("web");
        // Strings that double, in a process below the first one.
        let script =
            "echo up; (x=0123456789abcdef; while :; do x=$x$x; [ ${#x} -gt 60000000 ] && sleep 1000; done) & wait";
        let process = start(&pod, ProcessSpec { memory_limit: Some(32 << 20), ..shell(script) }).await;
        let exit = process.wait().await;
        assert_eq!((exit.code, exit.oom_killed), (137, true));
        // Without a limit it would have gone on.
        let process = start(&pod, ProcessSpec { attempt: 1, ..shell("echo up; exec sleep 1000") }).await;
        first_line(&process).await;
        process.set_memory_limit(Some(1)).await;
        assert!(process.wait().await.oom_killed);
    }
}

/// Listens, when the test below has started it.
#[test]
fn listener() {
    if std::env::var_os("PILLION_TEST_LISTEN").is_some() {
        let listener = std::net::TcpListener::bind("127.11.22.33:0").unwrap();
        println!("listening on {}", listener.local_addr().unwrap());
        let _ = listener.accept();
    }
}

#[tokio::test]
async fn it_is_known_where_a_container_listens() {
    for world in World::both() {
        let pod = world.pod("web");
        let spec = ProcessSpec {
            command: [
                std::env::current_exe().unwrap().to_str().unwrap(),
                "--exact",
                "isolation::listener",
                "--nocapture",
            ]
            .map(str::to_owned)
            .to_vec(),
            environment: vec![("PILLION_TEST_LISTEN".to_owned(), "1".to_owned())],
            ..shell("")
        };
        let process = start(&pod, spec).await;
        let said = crate::world::line_with(&process, "listening on ").await;
        let address: std::net::SocketAddr = said.rsplit_once(' ').unwrap().1.parse().unwrap();
        assert_eq!(process.listeners().await, [address]);
    }
}
