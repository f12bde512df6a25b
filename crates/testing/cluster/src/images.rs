//! The images: what is in each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::image::{Content, ImageSpec, PAUSE, PILLION, SCENARIOS, SHELL, SHELL_TWO};
use crate::packages::find_program;
use crate::static_linking::StaticLinking;

/// An image of programs of this workspace.
struct Programs {
    image: &'static str,
    about: &'static str,
    /// The program that a container runs.
    program: &'static str,
    package: &'static str,
    /// The same, of programs that run in containers of other images, too.
    statics: &'static [Static],
    /// Whether it is for users; the others are for tests.
    is_published: bool,
}

/// A program without libraries, optimised for its size.
struct Static {
    package: &'static str,
    /// The profile that it is built with.
    profile: &'static str,
    /// Whether it is in images of tests as well: it takes long to build.
    is_tested: bool,
}

const WRAP: Static = Static { package: "pillion-wrap", profile: "wrap", is_tested: true };
/// The pods of scenarios run the agent as it is compiled already.
const AGENT: Static = Static { package: "pillion-agent", profile: "agent", is_tested: false };

const PROGRAMS: [Programs; 2] = [
    Programs {
        image: PILLION,
        about: "Sidecars done properly on Kubernetes: the manager, and what runs in pods",
        program: "pillion-manager",
        package: "pillion-manager-program",
        statics: &[WRAP, AGENT],
        is_published: true,
    },
    Programs {
        image: SCENARIOS,
        about: "What the pods of Pillion's tests run",
        program: "pillion-scenarios",
        package: "pillion-scenarios",
        statics: &[],
        is_published: false,
    },
];

/// A pod's first process: it stays, and ends what was left to it, which is every orphan of a pod that shares one
/// process namespace.
const PAUSE_SCRIPT: &str = "trap 'exit 0' TERM INT; while :; do /bin/busybox sleep 2147483647 & wait $!; done";

/// The images that need nothing of this workspace: [`PAUSE`], and [`SHELL`] under two names.
pub(crate) fn basic() -> anyhow::Result<[ImageSpec; 3]> {
    let busybox = find_program("busybox").context("busybox is missing")?;
    let mut pause = ImageSpec { name: PAUSE.to_owned(), ..ImageSpec::default() };
    pause.add_program("/bin/busybox", &busybox)?;
    // So that a pod's container can change to this image and go on doing what it did.
    pause.files.insert("/bin/sleep".to_owned(), Content::Link("busybox".to_owned()));
    pause.entrypoint = ["/bin/busybox", "sh", "-c", PAUSE_SCRIPT].map(str::to_owned).to_vec();

    let mut shell = ImageSpec { name: SHELL.to_owned(), ..ImageSpec::default() };
    shell.add_program("/bin/busybox", &busybox)?;
    let applets = Command::new(&busybox).arg("--list").output().context("cannot run busybox")?;
    for applet in String::from_utf8_lossy(&applets.stdout).lines().filter(|applet| *applet != "busybox") {
        shell.files.insert(format!("/bin/{applet}"), Content::Link("busybox".to_owned()));
    }
    shell.files.insert("/tmp".to_owned(), Content::SharedFolder);
    shell.entrypoint = vec!["/bin/sh".to_owned()];
    shell.env = vec!["PATH=/bin".to_owned()];
    let again = ImageSpec { name: SHELL_TWO.to_owned(), ..shell.clone() };
    Ok([pause, shell, again])
}

/// The images of the programs of this workspace, which cargo builds first: for tests all of them, as they are compiled already; for a release
/// those that are published, optimised and linked statically.
pub(crate) fn of_programs(release: bool, linking: &StaticLinking) -> anyhow::Result<Vec<ImageSpec>> {
    let images: Vec<&Programs> = PROGRAMS.iter().filter(|image| image.is_published || !release).collect();
    let messages = cargo_build(release.then_some(linking), &images)?;
    images
        .into_iter()
        .map(|programs| {
            let path = |program: &str| format!("/usr/bin/{program}");
            let mut image = ImageSpec {
                name: programs.image.to_owned(),
                entrypoint: vec![path(programs.program)],
                env: vec!["PATH=/usr/bin".to_owned()],
                // A number, so that `runAsNonRoot` can be checked.
                user: "65532:65532".to_owned(),
                labels: labels(programs),
                ..ImageSpec::default()
            };
            let name = programs.program;
            let program = executable(&messages, name).with_context(|| format!("cargo built no program {name}"))?;
            image.add_program(&path(name), &program)?;
            for program in programs.statics.iter().filter(|program| program.is_tested || release) {
                image.add_program(&path(program.package), &static_program(program, linking)?)?;
            }
            Ok(image)
        })
        .collect()
}

fn labels(programs: &Programs) -> BTreeMap<String, String> {
    [
        ("title", programs.program),
        ("description", programs.about),
        ("version", env!("CARGO_PKG_VERSION")),
        ("source", env!("CARGO_PKG_REPOSITORY")),
        ("licenses", env!("CARGO_PKG_LICENSE")),
    ]
    .map(|(key, value)| (format!("org.opencontainers.image.{key}"), value.to_owned()))
    .into()
}

/// The file name of an image's tarball: its name without registry and tag.
pub(crate) fn tarball_name(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    format!("{}.tar", last.split(':').next().unwrap_or(last))
}

/// Builds the programs, and returns cargo's messages. Programs for tests are built with the features of the workspace's tests, so that no
/// dependency is compiled once more.
fn cargo_build(release: Option<&StaticLinking>, images: &[&Programs]) -> anyhow::Result<String> {
    let mut command = cargo();
    command.args(["build", "--message-format=json-render-diagnostics"]);
    if let Some(linking) = release {
        command.arg("--release");
        linking.apply_to(&mut command);
        command.args(images.iter().flat_map(|image| ["--package", image.package]));
    } else {
        command.args(["--workspace", "--exclude", "pillion-benches", "--exclude", "pillion-schemas"]);
        command.args(images.iter().flat_map(|image| ["--bin", image.program]));
    }
    output_of(command)
}

fn output_of(mut command: Command) -> anyhow::Result<String> {
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo build of the programs failed");
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `pillion-wrap` as it is put into images: for what looks at the program itself.
///
/// # Errors
/// It cannot be built.
pub fn static_wrapper() -> anyhow::Result<PathBuf> {
    static_program(&WRAP, &StaticLinking::here(false)?)
}

/// `pillion-agent` as it is put into images.
///
/// # Errors
/// It cannot be built.
pub fn static_agent() -> anyhow::Result<PathBuf> {
    static_program(&AGENT, &StaticLinking::here(false)?)
}

/// Builds a program that is copied into containers of other images: optimised, and without any library, in tests as well.
fn static_program(program: &Static, linking: &StaticLinking) -> anyhow::Result<PathBuf> {
    let Static { package, profile, .. } = program;
    let mut command = cargo();
    command.args(["build", "--message-format=json-render-diagnostics", "--profile", profile, "--package", package]);
    linking.apply_to(&mut command);
    let messages = output_of(command)?;
    executable(&messages, package).with_context(|| format!("cargo built no program {package}"))
}

/// The program that cargo's messages name.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// Where images are written when nobody says: beside everything else that is built.
pub(crate) fn default_folder() -> anyhow::Result<PathBuf> {
    let output =
        cargo().args(["metadata", "--no-deps", "--format-version=1"]).output().context("cannot run cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata gave no JSON")?;
    let target = metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
    Ok(Path::new(target).join("images"))
}

fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // With other values than in a user's shell, build scripts of dependencies would run again.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            command.env_remove(name);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tarball_is_named_after_its_image() {
        assert_eq!(tarball_name("pillion.dev/shell:0.1.0"), "shell.tar");
        assert_eq!(tarball_name("localhost:5000/a"), "a.tar");
    }

    #[test]
    fn the_program_is_found_among_the_messages_of_cargo() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"pillion-api"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"pillion"},"executable":"/t/debug/pillion"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages, "pillion"), Some(PathBuf::from("/t/debug/pillion")));
        assert_eq!(executable(messages, "other"), None);
    }
}
