//! What is kept between attempts, and who may keep it.

use pillion_process::{Host, LogOptions, ProcessSpec};

use crate::world::{World, run, shell, start, text};

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
async fn a_folder_has_one_host_and_what_an_earlier_one_left_is_gone() {
    let world = World::new();
    let folder = world.path("host");
    let supervisor = env!("CARGO_BIN_EXE_pillion-process");
    let error = Host::with_supervisor(folder.clone(), supervisor.into()).unwrap_err();
    assert!(error.to_string().starts_with("another program runs pods in "), "{error}");
    let pod = world.pod("web");
    assert_eq!(run(&pod, shell("true")).await.unwrap().0, 0);
    assert!(folder.join("pods/web/logs").exists());
    drop(pod);
    let World { host, folder: _folder } = world;
    drop(host);
    let supervisor = std::env::var(crate::world::SUPERVISOR).unwrap_or(supervisor.to_owned());
    let host = Host::with_supervisor(folder.clone(), supervisor.into()).unwrap();
    assert!(!folder.join("pods").exists());
    let error = host.pod(pillion_process::PodSpec { id: "../web".to_owned(), ..Default::default() }).unwrap_err();
    assert!(error.to_string().contains("is no name"), "{error}");
}
