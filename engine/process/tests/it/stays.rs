//! What is kept between attempts, and who may keep it.

use pillion_process::{Host, LogOptions, PodSpec, ProcessSpec, volume};

use crate::world::{World, first_line, run, shell, start, text};

#[tokio::test]
async fn the_log_of_the_attempt_before_stays() {
    let world = World::new();
    let pod = world.pod("web");
    let mut attempts = Vec::new();
    for attempt in 0..3 {
        let process = start(&pod, ProcessSpec { attempt, ..shell(&format!("echo {attempt}")) }).await;
        process.wait().await;
        attempts.push(process);
    }
    let mut logs = Vec::new();
    for process in &attempts {
        logs.push(text(process, LogOptions::default()).await);
    }
    assert_eq!(logs, ["", "1\n", "2\n"]);
}

#[tokio::test]
async fn a_folder_has_one_host_and_of_what_an_earlier_one_left_only_volumes_stay() {
    let world = World::new();
    let folder = world.path("host");
    let supervisor = env!("CARGO_BIN_EXE_pillion-process");
    let error = Host::with_supervisor(folder.clone(), supervisor.into()).unwrap_err();
    assert!(error.to_string().starts_with("another program runs pods in "), "{error}");
    let (pod, other) = (world.pod("web"), world.pod("other"));
    let cache = pod.volume("cache").unwrap();
    volume::create(&cache).unwrap();
    let script =
        format!("cd {}; echo kept > file; echo > late; echo up; while :; do echo > late; done", cache.display());
    let process = start(&pod, shell(&script)).await;
    first_line(&process).await;
    drop((pod, other));
    let World { host, folder: _folder } = world;
    drop(host);
    let supervisor = std::env::var(crate::world::SUPERVISOR).unwrap_or(supervisor.to_owned());
    let host = Host::with_supervisor(folder.clone(), supervisor.into()).unwrap();
    assert_eq!(host.leftovers(), ["web"]);
    // What ran before writes no more.
    std::fs::remove_file(cache.join("late")).unwrap();
    let left: Vec<_> =
        std::fs::read_dir(folder.join("pods/web")).unwrap().map(|part| part.unwrap().file_name()).collect();
    assert_eq!(left, ["volumes"]);
    let pod = host.pod(PodSpec { id: "web".to_owned(), ..PodSpec::default() }).unwrap();
    assert_eq!(run(&pod, shell(&format!("ls {0}; cat {0}/file", cache.display()))).await.unwrap().1, "file\nkept\n");
    drop(pod);
    host.remove("web").await.unwrap();
    assert!(!folder.join("pods/web").exists());
    let error = host.pod(PodSpec { id: "../web".to_owned(), ..PodSpec::default() }).unwrap_err();
    assert!(error.to_string().contains("is no name"), "{error}");
}
