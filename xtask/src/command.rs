//! Starting cargo from the root of the workspace.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use anyhow::{Context as _, bail};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    // As cargo says it now: a target folder that several clones share may hold a program that another of them compiled.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// How often tests of chance are tried, if not as often as they say themselves.
pub(crate) static REPEAT: OnceLock<u64> = OnceLock::new();

/// Whether tests of chance are tried as often as in CI.
pub(crate) static THOROUGH: OnceLock<()> = OnceLock::new();

/// Whether stories are rewritten as the real cluster tells them.
pub(crate) static ACCEPT: OnceLock<()> = OnceLock::new();

/// Whether everything has to run, and what is missing is installed.
pub(crate) fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// `cargo` at the root, with the toolchain that runs this program.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    // Build scripts of dependencies run again when these differ, and everything that depends on them is compiled again: a cargo that this program
    // starts must see what a cargo sees that a user starts.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            command.env_remove(name);
        }
    }
    if let Some(repeat) = REPEAT.get() {
        command.env("PILLION_QUOTA_RUNS", repeat.to_string());
    }
    if THOROUGH.get().is_some() {
        command.env("PILLION_THOROUGH", "1");
    }
    if ACCEPT.get().is_some() {
        command.env("UPDATE_STORIES", "1");
    }
    command
}

/// Packages with features of their own: compiled together with the others, they would change the features of the tests.
pub(crate) const APART: [&str; 2] = ["pillion-benches", "pillion-schemas"];

/// `cargo test` of the workspace, with the features that programs have as well.
pub(crate) fn tests<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    tests_without(&[], arguments)
}

/// The same without some packages.
pub(crate) fn tests_without<'a>(packages: &[&str], arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = cargo(["test", "--workspace"]);
    command.args(APART.iter().chain(packages).flat_map(|package| ["--exclude", package])).args(arguments);
    command
}

/// The package of the scenarios.
pub(crate) const SCENARIOS: &str = "pillion-scenarios";

/// Packages with few tests that between them depend on the whole product and on what tests use: compiled together with them, dependencies have the
/// features that they have in all tests, and are not compiled once more.
pub(crate) const COMPANIONS: [&str; 2] = ["pillion-generate", "pillion-selector"];

/// `cargo test` of these packages.
pub(crate) fn tests_of<'a>(packages: &[&str], arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = cargo(["test"]);
    command.args(packages.iter().chain(&COMPANIONS).flat_map(|package| ["--package", package])).args(arguments);
    command
}

/// The program that runs real clusters and builds images.
pub(crate) fn cluster_program<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = cargo(["run", "--quiet", "--package", "pillion-cluster", "--"]);
    command.args(arguments);
    command
}

/// Builds a program as it is put into images, and returns its path.
pub(crate) fn static_program(name: &str) -> anyhow::Result<PathBuf> {
    Ok(output(cluster_program(["static", name]))?.trim_end().into())
}

/// Arguments of `nice` that lower the priority of a command.
const NICE: [&str; 2] = ["-n", "10"];

/// A `cargo` that compiles beside another one: it has a lower priority, and a target folder of its own, since cargo locks the folder.
/// Checking and documenting share almost no files with building.
pub(crate) fn cargo_beside<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let cargo = cargo(arguments);
    let mut command = Command::new("nice");
    command.args(NICE).arg(cargo.get_program()).args(cargo.get_args()).current_dir(root());
    for (name, value) in cargo.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("CARGO_TARGET_DIR", target.join("check"));
    command
}

thread_local! {
    static LABEL: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Puts a name before each line that commands of this thread print: others print at the same time.
pub(crate) fn label(name: &'static str) {
    LABEL.set(Some(name));
}

/// Runs a command and shows its output. The error names the tests that failed.
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    run_to(command, std::io::stdout())
}

fn run_to(mut command: Command, to: impl Write + Send + 'static) -> anyhow::Result<()> {
    let (shown, label) = (show(&command), LABEL.get());
    eprintln!("\n{}$ {shown}", prefix(label));
    command.stdout(Stdio::piped());
    if label.is_some() {
        command.stderr(Stdio::piped());
    }
    let mut child = command.spawn().with_context(|| format!("cannot start {shown}"))?;
    let stdout = child.stdout.take().context("stdout is a pipe")?;
    let stderr = child.stderr.take().map(|stderr| in_background(move || forward(stderr, std::io::stderr(), label)));
    let failed = in_background(move || forward(stdout, to, label));
    let status = child.wait()?;
    // A process that the command left behind may keep a pipe open for ever.
    let patience = Duration::from_secs(10);
    let failed = failed.recv_timeout(patience).unwrap_or_default();
    // Errors of a compiler are shown before anything else is.
    let _ = stderr.map(|stderr| stderr.recv_timeout(patience));
    if !status.success() {
        let failed: Vec<String> = failed.iter().map(|test| format!("\n    {test}")).collect();
        bail!("{shown}: {status}{}", failed.concat());
    }
    Ok(())
}

/// Does work on a thread of its own, and gives what comes of it.
fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver
}

fn prefix(label: Option<&str>) -> String {
    label.map_or_else(String::new, |label| format!("{label:>9} │ "))
}

/// Passes on what is read, as it comes or line by line after the label, and gives the names of the tests that the test harness reports as
/// failed.
fn forward(mut from: impl Read, mut to: impl Write, label: Option<&str>) -> Vec<String> {
    let (mut failed, mut line, mut buffer) = (FailedTests::default(), Vec::new(), [0; 4096]);
    // Where nobody reads any more, the command is to go on.
    let mut show = |text: &[u8]| drop(to.write_all(text).and_then(|()| to.flush()));
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let read = &buffer[..length];
        if label.is_none() {
            show(read);
        }
        for byte in read {
            if *byte == b'\n' {
                let text = String::from_utf8_lossy(&line);
                if label.is_some() {
                    show(format!("{}{text}\n", prefix(label)).as_bytes());
                }
                failed.see(&text);
                line.clear();
            } else {
                line.push(*byte);
            }
        }
    }
    if label.is_some() && !line.is_empty() {
        show(format!("{}{}\n", prefix(label), String::from_utf8_lossy(&line)).as_bytes());
    }
    failed.names
}

/// Collects the names from the harness's list at its end: `failures:`, and a name on each of the following lines.
#[derive(Default)]
struct FailedTests {
    is_in_list: bool,
    names: Vec<String>,
}

impl FailedTests {
    fn see(&mut self, line: &str) {
        match line.strip_prefix("    ") {
            Some(name) if self.is_in_list => self.names.push(name.to_owned()),
            _ => self.is_in_list = line == "failures:",
        }
    }
}

/// Every failure in one error, the first one first. All of them have run.
pub(crate) fn all(outcomes: impl IntoIterator<Item = anyhow::Result<()>>) -> anyhow::Result<()> {
    let failures: Vec<String> =
        outcomes.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    if failures.is_empty() { Ok(()) } else { bail!("{}", failures.join("\n")) }
}

/// Runs a command and gives its standard output.
pub(crate) fn output(mut command: Command) -> anyhow::Result<String> {
    let shown = show(&command);
    let output = command.output().with_context(|| format!("cannot start {shown}"))?;
    if !output.status.success() {
        bail!("{shown}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn show(command: &Command) -> String {
    let file_name = |path: &OsStr| Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    // The priority is not shown.
    let lowered = command.get_args().take(NICE.len()).eq(NICE);
    let mut words = command.get_args().skip(if lowered { NICE.len() } else { 0 });
    let program = if lowered { words.next().unwrap_or_default() } else { command.get_program() };
    let arguments = words.map(|word| word.to_string_lossy().into_owned());
    std::iter::once(file_name(program)).chain(arguments).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_passed_on_and_failed_tests_are_collected_over_all_suites() {
        let suite = |names: &str| {
            format!(
                "running 2 tests\nFF\nfailures:\n\n---- a stdout ----\nfailures:\nno\n\n\nfailures:\n{names}\n\ntest result: FAILED.\n"
            )
        };
        let printed = format!("{}{}", suite("    one::a\n    b"), suite("    c"));
        let mut shown = Vec::new();
        assert_eq!(forward(printed.as_bytes(), &mut shown, None), ["one::a", "b", "c"]);
        assert_eq!(shown, printed.as_bytes());
    }

    #[test]
    fn each_line_says_which_tier_it_is_of_where_several_run_at_once() {
        let mut shown = Vec::new();
        // The last line may have no end.
        assert_eq!(forward(&b"failures:\n    a\nend"[..], &mut shown, Some("test")), ["a"]);
        assert_eq!(String::from_utf8_lossy(&shown), "     test │ failures:\n     test │     a\n     test │ end\n");
    }

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("/bin/cargo");
        assert_eq!(show(command.arg("doc")), "cargo doc");
        let mut lowered = Command::new("nice");
        assert_eq!(show(lowered.args(NICE).args(["/bin/cargo", "doc"])), "cargo doc");
    }

    #[test]
    fn a_command_that_fails_names_its_failed_tests() {
        let mut command = Command::new("sh");
        command.args(["-c", "printf 'failures:\\n    a\\n    b\\n'; exit 3"]);
        let error = run_to(command, std::io::sink()).unwrap_err().to_string();
        assert!(error.ends_with("exit status: 3\n    a\n    b"), "{error}");
    }

    #[test]
    fn all_outcomes_are_awaited_and_every_failure_is_listed() {
        let ran = std::cell::Cell::new(0);
        let outcomes = [Err("a"), Ok(()), Err("b")].into_iter().map(|outcome| {
            ran.set(ran.get() + 1);
            outcome.map_err(anyhow::Error::msg)
        });
        assert_eq!(all(outcomes).unwrap_err().to_string(), "a\nb");
        assert_eq!(ran.get(), 3);
        assert!(all([Ok(()), Ok(())]).is_ok());
    }
}
