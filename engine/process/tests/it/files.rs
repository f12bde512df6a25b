//! Volumes over the machine's own files.

use std::fs;
use std::path::Path;

use pillion_process::{Mount, ProcessSpec, volume};

use crate::world::{World, run, shell};

fn mount(source: &Path, target: &str, read_only: bool) -> Mount {
    Mount { source: source.to_owned(), target: target.into(), read_only }
}

#[tokio::test]
async fn a_volume_is_seen_where_the_machine_has_nothing() {
    let world = World::new();
    if !world.host.abilities().mounts {
        return;
    }
    let pod = world.pod("web");
    let data = pod.volume("data").unwrap();
    volume::create(&data).unwrap();
    for target in ["/pillion-test/data", "/etc/pillion-test/data", "/var/run/pillion-test/data", "/dev/pillion-test"] {
        let script = format!("echo {target} > {target}/file; cat file");
        let spec = ProcessSpec {
            mounts: vec![mount(&data, target, false)],
            working_directory: Some(target.into()),
            ..shell(&script)
        };
        assert_eq!(run(&pod, spec).await.unwrap(), (0, format!("{target}\n")), "{target}");
        assert_eq!(fs::read_to_string(data.join("file")).unwrap(), format!("{target}\n"));
        assert!(target.starts_with("/dev") || !Path::new(target).exists(), "{target} is on the machine");
    }
}

#[tokio::test]
async fn what_was_there_stays_there() {
    let world = World::new();
    if !world.host.abilities().mounts {
        return;
    }
    let pod = world.pod("web");
    let data = pod.volume("data").unwrap();
    volume::create(&data).unwrap();
    let script = "ls / /etc; cat /etc/passwd; echo x > /dev/null; readlink /proc/self/exe";
    let (code, before) = run(&pod, shell(script)).await.unwrap();
    assert_eq!(code, 0);
    let mounts =
        vec![mount(&data, "/zz-root", false), mount(&data, "/etc/zz-etc", false), mount(&data, "/dev/zz", false)];
    let (code, after) = run(&pod, ProcessSpec { mounts, ..shell(script) }).await.unwrap();
    let after: String = after.split_inclusive('\n').filter(|line| !line.starts_with("zz-")).collect();
    assert_eq!((code, after), (0, before));
}

#[tokio::test]
async fn files_parts_and_volumes_in_volumes_can_be_mounted() {
    let world = World::new();
    if !world.host.abilities().mounts {
        return;
    }
    let pod = world.pod("web");
    let (outer, inner) = (pod.volume("outer").unwrap(), pod.volume("inner").unwrap());
    volume::create(&outer).unwrap();
    volume::create(&inner).unwrap();
    fs::write(inner.join("file"), "inner").unwrap();
    let last_words = pod.termination_log("main", 0).unwrap();
    let mounts = vec![
        mount(&inner, "/data/deep/inner", true),
        mount(&outer, "/data", false),
        mount(&last_words, "/dev/termination-log", false),
        mount(&inner.join("file"), "/etc/pillion-test-file", false),
        // Over the sources of the others.
        mount(&volume::sub_path(&outer, "part").unwrap(), "/tmp", false),
    ];
    let script = "cat /data/deep/inner/file /etc/pillion-test-file; echo > /data/deep/inner/file; \
                  echo bye > /dev/termination-log; echo part > /tmp/part; cat /data/part/part";
    let (code, log) = run(&pod, ProcessSpec { mounts, ..shell(script) }).await.unwrap();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("innerinner") && log.contains("Read-only file system") && log.contains("part\n"), "{log}");
    assert_eq!(fs::read_to_string(last_words).unwrap(), "bye\n");
    assert_eq!(fs::read_to_string(inner.join("file")).unwrap(), "inner");
}

#[tokio::test]
async fn a_working_directory_that_is_missing_is_made() {
    let world = World::new();
    if world.host.abilities().mounts {
        let spec = ProcessSpec { working_directory: Some("/srv/pillion-test/app".into()), ..shell("pwd; ls -A") };
        let pod = world.pod("web");
        assert_eq!(run(&pod, spec).await.unwrap(), (0, "/srv/pillion-test/app\n".to_owned()));
        assert!(!Path::new("/srv/pillion-test").exists());
    }
}

#[tokio::test]
async fn what_cannot_be_mounted_is_refused() {
    for world in World::both() {
        let pod = world.pod("web");
        let missing = ProcessSpec { mounts: vec![mount(Path::new("/no/such"), "/data", false)], ..shell("true") };
        let error = pod.start(missing).await.unwrap_err();
        if world.host.abilities().mounts {
            assert_eq!(
                error.to_string(),
                "error mounting \"/no/such\" to rootfs at \"/data\": no such file or directory"
            );
            let wrong = ProcessSpec { mounts: vec![mount(Path::new("/etc"), "/etc/passwd", false)], ..shell("true") };
            let error = pod.start(wrong).await.unwrap_err();
            assert_eq!(error.to_string(), "error mounting \"/etc\" to rootfs at \"/etc/passwd\": not a directory");
        } else {
            assert!(error.to_string().starts_with("cannot mount \"/data\": this machine does not allow mounts"));
        }
    }
}
