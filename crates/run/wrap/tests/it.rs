//! The real binary, with real processes.
// Helpers of tests are tests as well.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const PROGRAM: &str = env!("CARGO_BIN_EXE_pillion-wrap");

fn work(state: &Path, line: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .arg("work")
        .arg("--name=main")
        .arg(format!("--state={}", state.display()))
        .args(["--", "/bin/sh", "-c", line]);
    command
}

fn sidecar(state: &Path, policy: &str, grace: u32, line: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["sidecar", "--name=side", "--work=main"]).arg(format!("--state={}", state.display()));
    command.args([format!("--policy={policy}"), format!("--grace={grace}")]).args(["--", "/bin/sh", "-c", line]);
    command
}

/// Starts it, and returns when it has written its first line.
fn started(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "it ended before it wrote anything");
    (child, output)
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

/// Does not trap TERM, as most programs.
const SERVER: &str = "echo up; exec sleep 3600";

#[test]
fn exit_codes_and_streams_are_those_of_the_command() {
    for code in [0, 1, 42, 137, 143] {
        let state = tempfile::tempdir().unwrap();
        let status = work(state.path(), &format!("exit {code}")).status().unwrap();
        assert_eq!(status.code(), Some(code));
        assert_eq!(fs::read_to_string(state.path().join("main.exit")).unwrap(), code.to_string());
    }
    let state = tempfile::tempdir().unwrap();
    let mut child = work(state.path(), "read line; echo \"out $line\"; echo \"err $line\" >&2")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out hello\n"[..], &b"err hello\n"[..]));
}

#[test]
fn a_command_that_a_signal_ends_gives_the_code_that_runtimes_give() {
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(work(state.path(), &format!("kill -{signal} $$")).status().unwrap().code(), Some(code), "{signal}");
    }
    let missing =
        Command::new(PROGRAM).args(["work", "--name=a", "--state=/tmp", "--", "/no/such/program"]).status().unwrap();
    assert_eq!(missing.code(), Some(127));
}

#[test]
fn signals_are_forwarded() {
    for (sent, name, code) in [(Signal::SIGTERM, "TERM", 3), (Signal::SIGUSR1, "USR1", 4), (Signal::SIGHUP, "HUP", 5)] {
        let state = tempfile::tempdir().unwrap();
        let line = format!("trap 'exit {code}' {name}; echo up; while :; do sleep 0.05; done");
        let (mut child, _output) = started(&mut work(state.path(), &line));
        signal(&child, sent);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
    }
}

#[test]
fn real_time_signals_are_forwarded_and_their_codes_reported() {
    const REAL_TIME: i32 = 37;
    let state = tempfile::tempdir().unwrap();
    let line = format!("trap 'exit 6' {REAL_TIME}; echo up; while :; do sleep 0.05; done");
    let (mut child, _output) = started(&mut work(state.path(), &line));
    let sent = Command::new("/bin/sh").args(["-c", &format!("kill -{REAL_TIME} {}", child.id())]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(6));
    let ended = work(state.path(), &format!("kill -{REAL_TIME} $$")).status().unwrap();
    assert_eq!(ended.code(), Some(128 + REAL_TIME));
}

#[test]
fn orphans_are_adopted_and_reaped() {
    let state = tempfile::tempdir().unwrap();
    // The inner shell leaves a process behind. Whoever adopts it has to reap it.
    let line = "orphan=$(sh -c 'sleep 3600 >/dev/null & echo $!'); \
                if grep -q \"^$orphan (sleep) . $PPID \" /proc/$orphan/stat; then echo adopted; fi; kill $orphan; \
                tries=0; while [ -e /proc/$orphan ] && [ $tries -lt 1000 ]; do tries=$((tries + 1)); sleep 0.05; done; \
                if ! [ -e /proc/$orphan ]; then echo reaped; fi";
    let output = work(state.path(), line).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "adopted\nreaped\n");
}

#[test]
fn a_killed_wrapper_takes_its_command_along() {
    let state = tempfile::tempdir().unwrap();
    let (mut child, mut output) = started(&mut work(state.path(), SERVER));
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
    // The pipe is closed when the last process that holds it is gone.
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
}

/// Starts work and a sidecar, ends the work as the test says, and returns how the sidecar ended.
fn sidecar_after(policy: &str, grace: u32, side: &str, end: impl FnOnce(&mut Child)) -> ExitStatus {
    let state = tempfile::tempdir().unwrap();
    let (mut main, _main_output) =
        started(work(state.path(), "echo up; read line; exit ${line:-0}").stdin(Stdio::piped()));
    let (mut side, _output) = started(&mut sidecar(state.path(), policy, grace, side));
    assert!(side.try_wait().unwrap().is_none(), "the sidecar ended before the work");
    end(&mut main);
    main.wait().unwrap();
    side.wait().unwrap()
}

fn tell(main: &mut Child, code: &str) {
    main.stdin.take().unwrap().write_all(format!("{code}\n").as_bytes()).unwrap();
}

#[test]
fn a_sidecar_ends_with_0_when_the_work_is_done_however_it_takes_that() {
    let lines = [
        SERVER,
        "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done",
        "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done",
        // It is killed after the grace period.
        "trap '' TERM; echo up; while :; do sleep 0.05; done",
    ];
    for line in lines {
        assert_eq!(sidecar_after("Never", 1, line, |main| tell(main, "0")).code(), Some(0), "{line}");
    }
    assert_eq!(sidecar_after("Never", 1, SERVER, |main| tell(main, "1")).code(), Some(0), "any end is one under Never");
    assert_eq!(sidecar_after("OnFailure", 1, SERVER, |main| tell(main, "0")).code(), Some(0));
}

#[test]
fn the_death_of_the_works_wrapper_is_noticed() {
    let status = sidecar_after("Never", 1, SERVER, |main| signal(main, Signal::SIGKILL));
    assert_eq!(status.code(), Some(0));
}

#[test]
fn under_on_failure_a_sidecar_outlives_work_that_failed_and_is_started_again() {
    let state = tempfile::tempdir().unwrap();
    let (mut first, _first_output) = started(&mut work(state.path(), SERVER));
    let (mut side, _output) = started(&mut sidecar(state.path(), "OnFailure", 1, SERVER));
    signal(&first, Signal::SIGKILL);
    first.wait().unwrap();
    let (mut second, _second_output) = started(work(state.path(), "echo up; read line; exit 0").stdin(Stdio::piped()));
    assert!(side.try_wait().unwrap().is_none(), "the sidecar ended though the work has not");
    tell(&mut second, "0");
    assert_eq!(second.wait().unwrap().code(), Some(0));
    assert_eq!(side.wait().unwrap().code(), Some(0));
}

#[test]
fn a_sidecar_that_ends_early_passes_its_code_on() {
    let state = tempfile::tempdir().unwrap();
    let (mut main, _main_output) = started(&mut work(state.path(), SERVER));
    for code in [0, 1, 137] {
        assert_eq!(sidecar(state.path(), "Never", 1, &format!("exit {code}")).status().unwrap().code(), Some(code));
    }
    // A deletion of the pod ends it as any other container.
    let (mut side, _output) = started(&mut sidecar(state.path(), "Never", 1, SERVER));
    signal(&side, Signal::SIGTERM);
    assert_eq!(side.wait().unwrap().code(), Some(143));
    main.kill().unwrap();
    main.wait().unwrap();
}

/// Says so when it gets TERM, and goes on.
const STUBBORN: &str = "trap 'echo TERM' TERM; echo up; while :; do sleep 0.05; done";

fn line_of(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line
}

#[test]
fn a_sidecar_of_a_deleted_pod_gets_one_term_and_keeps_its_code() {
    let state = tempfile::tempdir().unwrap();
    let (mut main, _main_output) = started(work(state.path(), "echo up; read line; exit 0").stdin(Stdio::piped()));
    let (mut side, mut output) = started(&mut sidecar(state.path(), "Never", 1, STUBBORN));
    signal(&side, Signal::SIGTERM);
    assert_eq!(line_of(&mut output), "TERM\n");
    tell(&mut main, "0");
    main.wait().unwrap();
    assert_eq!(side.wait().unwrap().code(), Some(137));
    assert_eq!(line_of(&mut output), "", "a second TERM");
}

#[test]
fn a_deletion_while_a_sidecar_ends_is_no_second_term() {
    let state = tempfile::tempdir().unwrap();
    let (mut main, _main_output) = started(work(state.path(), "echo up; read line; exit 0").stdin(Stdio::piped()));
    let (mut side, mut output) = started(&mut sidecar(state.path(), "Never", 1, STUBBORN));
    tell(&mut main, "0");
    main.wait().unwrap();
    assert_eq!(line_of(&mut output), "TERM\n");
    signal(&side, Signal::SIGTERM);
    assert_eq!(side.wait().unwrap().code(), Some(0));
    assert_eq!(line_of(&mut output), "", "a second TERM");
}

#[test]
fn a_sidecar_that_is_started_again_after_the_work_ends_as_it_ended_last() {
    // What its attempt before the end of the work did, and what the one after it exits with.
    for (before, code) in [("exit 0", 0), ("exit 3", 3), ("kill -KILL $PPID; sleep 3600", 137)] {
        let state = tempfile::tempdir().unwrap();
        let (mut main, _main_output) = started(work(state.path(), "echo up; read line; exit 0").stdin(Stdio::piped()));
        sidecar(state.path(), "OnFailure", 1, before).status().unwrap();
        tell(&mut main, "0");
        main.wait().unwrap();
        assert_eq!(sidecar(state.path(), "OnFailure", 1, "exit 9").status().unwrap().code(), Some(code), "{before}");
    }
    // One that was killed after the work was done had not failed before.
    let state = tempfile::tempdir().unwrap();
    let (mut main, _main_output) = started(work(state.path(), "echo up; read line; exit 0").stdin(Stdio::piped()));
    let (mut side, mut output) = started(&mut sidecar(state.path(), "OnFailure", 3600, STUBBORN));
    tell(&mut main, "0");
    main.wait().unwrap();
    assert_eq!(line_of(&mut output), "TERM\n");
    signal(&side, Signal::SIGKILL);
    side.wait().unwrap();
    assert_eq!(sidecar(state.path(), "OnFailure", 1, "exit 9").status().unwrap().code(), Some(0));
}

#[test]
fn the_program_copies_itself() {
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new(PROGRAM).arg("install").arg(folder.path()).status().unwrap();
    assert!(status.success());
    let copy = folder.path().join("pillion-wrap");
    assert_eq!(fs::read(&copy).unwrap(), fs::read(PROGRAM).unwrap());
    let usage = Command::new(&copy).output().unwrap();
    assert_eq!(usage.status.code(), Some(125));
    assert!(String::from_utf8(usage.stderr).unwrap().contains("usage: pillion-wrap"));
}

#[test]
fn it_takes_little_memory() {
    let state = tempfile::tempdir().unwrap();
    let (mut main, _main_output) = started(&mut work(state.path(), SERVER));
    let (mut side, _output) = started(&mut sidecar(state.path(), "Never", 1, SERVER));
    for child in [&main, &side] {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        let kib: u64 = anonymous.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kib < 1024, "{kib} KiB of anonymous memory");
    }
    main.kill().unwrap();
    main.wait().unwrap();
    assert_eq!(side.wait().unwrap().code(), Some(0));
}
