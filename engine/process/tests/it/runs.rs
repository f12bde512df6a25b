//! A command, its output, its errors, and others inside it.

use std::time::Duration;

use pillion_process::{ExecError, LogOptions, ProcessSpec, Signal, User};

use crate::world::{World, environment, first_line, run, shell, start, text};

#[tokio::test]
async fn a_command_runs_and_its_output_is_logged() {
    for world in World::both() {
        let pod = world.pod("web");
        let process = start(&pod, shell("echo out; echo err >&2; printf rest; exit 7")).await;
        let exit = process.wait().await;
        assert_eq!((exit.code, exit.signal, exit.oom_killed), (7, None, false));
        let log = text(&process, LogOptions::default()).await;
        let mut lines: Vec<&str> = log.lines().collect();
        lines.sort_unstable();
        // The streams are two: which line is first nobody knows.
        assert!(lines == ["err", "out", "rest"] || lines == ["out", "resterr"], "{log}");
        let log = text(&process, LogOptions { timestamps: true, tail_lines: Some(1), ..LogOptions::default() }).await;
        assert!(log.starts_with("20") && log.contains("Z "), "{log}");
        assert_eq!(process.usage().await, None);
    }
}

#[tokio::test]
async fn a_command_has_the_environment_that_is_given_and_nothing_else() {
    for world in World::both() {
        let pod = world.pod("web");
        let spec = ProcessSpec {
            command: vec!["env".to_owned()],
            environment: [environment(), vec![("GREETING".to_owned(), "hello world".to_owned())]].concat(),
            ..shell("")
        };
        let (code, log) = run(&pod, spec).await.unwrap();
        let mut lines: Vec<&str> = log.lines().collect();
        lines.sort_unstable();
        assert_eq!((code, lines), (0, vec!["GREETING=hello world", "PATH=/usr/local/bin:/usr/bin:/bin"]));
        // The last one is the folder that is listed.
        let script = "umask; pwd; cat; exec ls /proc/self/fd";
        let (_, log) = run(&pod, ProcessSpec { name: "other".to_owned(), ..shell(script) }).await.unwrap();
        assert_eq!(log, "0022\n/\n0\n1\n2\n3\n");
    }
}

#[tokio::test]
async fn what_cannot_start_is_refused_in_the_words_of_a_container_runtime() {
    for world in World::both() {
        let pod = world.pod("web");
        let command = |command: &[&str]| ProcessSpec {
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            ..shell("")
        };
        let passwd = Some("/etc/passwd".into());
        for (spec, expected) in [
            (command(&["no-such-thing"]), "exec: \"no-such-thing\": executable file not found in $PATH"),
            (command(&["/no/such"]), "exec: \"/no/such\": stat /no/such: no such file or directory"),
            (command(&["/etc/passwd"]), "exec: \"/etc/passwd\": permission denied"),
            (command(&["/etc"]), "exec: \"/etc\": is a directory"),
            (command(&[]), "no command is given"),
            (
                ProcessSpec { working_directory: passwd, ..shell("true") },
                "chdir to cwd (\"/etc/passwd\") set in config.json failed: not a directory",
            ),
        ] {
            assert_eq!(pod.start(spec).await.unwrap_err().to_string(), expected);
        }
        // It is found and may be run, but the kernel does not take it: then it has started, and fails.
        let broken = world.path("broken");
        std::fs::write(&broken, "\u{7f}ELF").unwrap();
        std::process::Command::new("chmod").arg("755").arg(&broken).status().unwrap();
        let broken = broken.display().to_string();
        let (code, log) = run(&pod, command(&[&broken])).await.unwrap();
        assert_eq!((code, log), (255, format!("exec {broken}: exec format error\n")));
    }
}

#[tokio::test]
async fn a_signal_reaches_the_command_that_wants_it() {
    for world in World::both() {
        let pod = world.pod("web");
        let process =
            start(&pod, shell("trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 1000 & wait; done")).await;
        assert_eq!(first_line(&process).await, "ready");
        process.signal(Signal::SIGTERM).await;
        assert_eq!(process.wait().await.code, 3);
        assert_eq!(text(&process, LogOptions::default()).await, "ready\nbye\n");
        // It has ended; this does nothing.
        process.signal(Signal::SIGTERM).await;
    }
}

#[tokio::test]
async fn process_1_does_not_hear_a_signal_that_it_does_not_handle() {
    let world = World::new();
    if !world.host.abilities().pid_namespaces {
        return;
    }
    let pod = world.pod("web");
    let process = start(&pod, shell("echo $$; exec sleep 1000")).await;
    assert_eq!(first_line(&process).await, "1");
    process.signal(Signal::SIGTERM).await;
    // The answer comes after the signal.
    assert_eq!(process.usage().await.unwrap().processes, 1);
    process.kill().await;
    let exit = process.wait().await;
    assert_eq!((exit.code, exit.signal, exit.oom_killed), (137, Some(9), false));
}

#[tokio::test]
async fn commands_run_inside_a_container() {
    for world in World::both() {
        let pod = world.pod("web");
        let spec = ProcessSpec {
            environment: [environment(), vec![("A".to_owned(), "1".to_owned())]].concat(),
            ..shell("echo up; exec sleep 1000")
        };
        let process = start(&pod, spec).await;
        first_line(&process).await;
        let exec = |script: &str, timeout| {
            let command = ["sh", "-c", script].map(str::to_owned);
            let process = process.clone();
            async move { process.exec(&command, timeout).await }
        };
        let output = exec("echo $A; echo no >&2; exit 5", None).await.unwrap();
        assert_eq!((output.code, String::from_utf8(output.output).unwrap()), (5, "1\nno\n".to_owned()));
        // What it leaves in the background does not hold it up.
        let output = exec("sleep 1000 & echo done", Some(Duration::from_mins(1))).await.unwrap();
        assert_eq!((output.code, output.output), (0, b"done\n".to_vec()));
        let output = exec("yes & echo done", Some(Duration::from_mins(1))).await.unwrap();
        assert_eq!(output.code, 0, "nor does what writes without end");
        let error = process.exec(&["nothing".to_owned()], None).await.unwrap_err();
        assert_eq!(error.to_string(), "exec: \"nothing\": executable file not found in $PATH");
        let slow = exec("setsid sleep 4711.5 & exec sleep 4711.5", Some(Duration::from_millis(100))).await;
        assert_eq!(slow, Err(ExecError::TimedOut(Duration::from_millis(100))));
        let left = exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '4711[.]5'", None).await.unwrap();
        if world.host.abilities().pid_namespaces {
            assert_eq!(String::from_utf8(left.output).unwrap(), "0\n");
        }
        process.kill().await;
        process.wait().await;
        assert!(exec("true", None).await.is_err());
    }
}

#[tokio::test]
async fn a_command_runs_as_another_user() {
    let world = World::new();
    let abilities = world.host.abilities();
    let pod = world.pod("web");
    let (_, caller) = run(&pod, shell("id -u")).await.unwrap();
    assert_eq!(caller.trim(), nix::unistd::Uid::effective().to_string());
    let other = ProcessSpec { user: Some(User { uid: 1234, gid: 5678 }), ..shell("id -u; id -g") };
    if abilities.user_namespaces || caller.trim() == "0" {
        assert_eq!(run(&pod, other).await.unwrap(), (0, "1234\n5678\n".to_owned()));
    } else {
        assert!(run(&pod, other).await.unwrap_err().to_string().starts_with("cannot run as user 1234"));
    }
}

#[tokio::test]
async fn a_command_can_be_kept_from_getting_more_privileges() {
    let world = World::new();
    let pod = world.pod("web");
    for (no_new_privileges, expected) in [(true, "NoNewPrivs:\t1\n"), (false, "NoNewPrivs:\t0\n")] {
        let spec = ProcessSpec { no_new_privileges, ..shell("grep NoNewPrivs /proc/self/status") };
        assert_eq!(run(&pod, spec).await.unwrap(), (0, expected.to_owned()));
    }
}
