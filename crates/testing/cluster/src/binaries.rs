//! The programs of Kubernetes and etcd: found where the user has them, or built once from pinned Go modules.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};

use crate::folder;
use crate::gomod::{self, KUBERNETES_PROGRAMS};
use crate::packages::{find_program, is_program};
use crate::version::KubernetesVersion;

const ETCD: &str = "etcd";
const ETCD_PACKAGE: &str = "go.etcd.io/etcd/server/v3";
/// The version that is built; `go/etcd/go.mod` requires the same.
const ETCD_VERSION: &str = "3.6.8";
/// The oldest one that will do: all supported versions of Kubernetes ask for 3.5 at least.
const ETCD_OLDEST: (u32, u32) = (3, 5);

const HELM: &str = "helm";
const HELM_PACKAGE: &str = "helm.sh/helm/v4/cmd/helm";
/// The version that is built; `go/helm/go.mod` requires the same.
const HELM_VERSION: &str = "4.3.1";

/// The components of the VerticalPodAutoscaler project.
pub(crate) const VPA_PROGRAMS: [&str; 3] = ["admission-controller", "recommender", "updater"];
/// The version that is built; `go/vpa/go.mod` requires the same.
const VPA_VERSION: &str = "1.8.1";

/// The modules as they are kept in this repository. In the program itself, so that the build needs no checkout.
const KUBERNETES_MODULE: [(&str, &str); 2] =
    [("go.mod", include_str!("../go/kubernetes/go.mod")), ("go.sum", include_str!("../go/kubernetes/go.sum"))];
const ETCD_MODULE: [(&str, &str); 2] =
    [("go.mod", include_str!("../go/etcd/go.mod")), ("go.sum", include_str!("../go/etcd/go.sum"))];

const HELM_MODULE: [(&str, &str); 2] =
    [("go.mod", include_str!("../go/helm/go.mod")), ("go.sum", include_str!("../go/helm/go.sum"))];

const VPA_MODULE: [(&str, &str); 2] =
    [("go.mod", include_str!("../go/vpa/go.mod")), ("go.sum", include_str!("../go/vpa/go.sum"))];

/// Programs by name.
pub(crate) type Programs = BTreeMap<String, PathBuf>;

/// What a run needs.
pub(crate) fn wanted(control_plane_only: bool) -> Vec<&'static str> {
    let mut wanted = vec![ETCD];
    wanted.extend(
        KUBERNETES_PROGRAMS
            .into_iter()
            .filter(|name| !control_plane_only || ["kube-apiserver", "kubectl"].contains(name)),
    );
    wanted
}

/// The programs that are there already, and the names of those that would have to be built.
pub(crate) fn find(
    version: KubernetesVersion,
    wanted: &[&'static str],
) -> anyhow::Result<(Programs, Vec<&'static str>)> {
    let mut found = Programs::new();
    let mut absent = Vec::new();
    for name in wanted {
        let built = cache_folder(name, version)?.join(name);
        let installed = || {
            let assets = env::var_os("KUBEBUILDER_ASSETS").map(|assets| Path::new(&assets).join(name));
            assets
                .filter(|path| is_program(path))
                .into_iter()
                .chain(find_program(name))
                .find(|path| version_of(name, path).is_some_and(|found| fits(name, &found, version)))
        };
        match installed().or_else(|| is_program(&built).then_some(built)) {
            Some(path) => drop(found.insert((*name).to_owned(), path)),
            None => absent.push(*name),
        }
    }
    Ok((found, absent))
}

/// All programs; those that are not there are built first.
pub(crate) fn provide(version: KubernetesVersion, wanted: &[&'static str]) -> anyhow::Result<Programs> {
    let (found, absent) = find(version, wanted)?;
    if absent.is_empty() {
        return Ok(found);
    }
    if absent.contains(&ETCD) {
        build_etcd(version)?;
    }
    if absent.iter().any(|name| *name != ETCD) {
        build_kubernetes(version)?;
    }
    let (found, absent) = find(version, wanted)?;
    match absent.first() {
        Some(name) => bail!("{name} was built and is not there"),
        None => Ok(found),
    }
}

/// The version that a program says it is, without the `v`.
pub(crate) fn version_of(name: &str, path: &Path) -> Option<String> {
    let arguments: &[&str] = if name == "kubectl" { &["version", "--client"] } else { &["--version"] };
    let output = Command::new(path).args(arguments).stdin(Stdio::null()).output().ok()?;
    said_version(&String::from_utf8_lossy(&output.stdout)).map(str::to_owned)
}

/// It is the last word of the first line, whoever speaks: `Kubernetes v1.35.8`, `Client Version: v1.35.8`,
/// `etcd Version: 3.6.8`.
fn said_version(output: &str) -> Option<&str> {
    output.lines().next()?.split(' ').next_back().map(|version| version.trim_start_matches('v'))
}

/// Whether an installed program of this version will do.
fn fits(name: &str, found: &str, version: KubernetesVersion) -> bool {
    if name != ETCD {
        return version.fits(found);
    }
    let mut numbers = found.split('.').map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= ETCD_OLDEST,
        _ => false,
    }
}

/// Where a program is kept once it is built.
fn cache_folder(name: &str, version: KubernetesVersion) -> anyhow::Result<PathBuf> {
    let cache = folder::cache()?;
    Ok(if name == ETCD {
        cache.join("etcd").join(ETCD_VERSION)
    } else {
        cache.join("kubernetes").join(version.to_string())
    })
}

fn build_etcd(version: KubernetesVersion) -> anyhow::Result<()> {
    build(&format!("etcd {ETCD_VERSION}"), &cache_folder(ETCD, version)?, |module, programs| {
        write_module(module, &ETCD_MODULE)?;
        go_build(module, &programs.join(ETCD), "-s -w", ETCD_PACKAGE, &format!("etcd {ETCD_VERSION}"))
    })
}

/// Helm in the pinned version, built first if it is not there. No cluster needs it; tests of the chart do.
pub fn helm() -> anyhow::Result<PathBuf> {
    let finished = folder::cache()?.join(HELM).join(HELM_VERSION);
    if !is_program(&finished.join(HELM)) {
        let title = format!("Helm {HELM_VERSION}");
        build(&title, &finished, |module, programs| {
            write_module(module, &HELM_MODULE)?;
            let version = format!("-s -w -X helm.sh/helm/v4/internal/version.version=v{HELM_VERSION}");
            go_build(module, &programs.join(HELM), &version, HELM_PACKAGE, &title)
        })?;
    }
    Ok(finished.join(HELM))
}

/// The folder with the components of the VerticalPodAutoscaler project in the pinned version (`recommender`, `updater`,
/// `admission-controller`), built first if they are not there. No cluster needs them; what compares ours with them does.
pub fn vertical_pod_autoscaler() -> anyhow::Result<PathBuf> {
    let finished = folder::cache()?.join("vpa").join(VPA_VERSION);
    if !VPA_PROGRAMS.iter().all(|name| is_program(&finished.join(name))) {
        let title = format!("VerticalPodAutoscaler {VPA_VERSION}");
        build(&title, &finished, |module, programs| {
            write_module(module, &VPA_MODULE)?;
            go_build(module, programs, "-s -w", "tool", &title)
        })?;
    }
    Ok(finished)
}

fn build_kubernetes(version: KubernetesVersion) -> anyhow::Result<()> {
    let title = format!("Kubernetes {version}");
    build(&title, &cache_folder("kubelet", version)?, |module, programs| {
        if version.tag() == KubernetesVersion::default().tag() {
            write_module(module, &KUBERNETES_MODULE)?;
        } else {
            eprintln!("cluster: resolving the Go modules of {title}");
            gomod::write(version, module)?;
        }
        // Without these, clients meet a version that they cannot parse.
        let mut linker_flags = "-s -w".to_owned();
        for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
            for (name, value) in
                [("gitVersion", version.tag()), ("gitMajor", "1".to_owned()), ("gitMinor", version.minor().to_string())]
            {
                write!(linker_flags, " -X {package}.{name}={value}")?;
            }
        }
        go_build(module, programs, &linker_flags, "tool", &title)
    })
}

fn write_module(folder: &Path, files: &[(&str, &str)]) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, text) in files {
        folder::write(&folder.join(name), text)?;
    }
    Ok(())
}

/// Builds beside `finished` and renames at the end, so that a folder that is there is whole. One at a time: a second
/// one waits, and finds it done.
fn build(title: &str, finished: &Path, work: impl FnOnce(&Path, &Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let parent = finished.parent().context("a cache folder has a parent")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let lock = File::open(parent)?;
    lock.lock().with_context(|| format!("cannot lock {}", parent.display()))?;
    if finished.exists() {
        return Ok(());
    }
    let mut unfinished = finished.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    let (module, programs) = (unfinished.join("module"), unfinished.join("bin"));
    fs::create_dir_all(&programs)?;
    work(&module, &programs).with_context(|| format!("cannot build {title}"))?;
    fs::rename(&programs, finished)?;
    fs::remove_dir_all(&unfinished).with_context(|| format!("cannot delete {}", unfinished.display()))
}

/// Runs `go build` with a line that tells how far it is.
fn go_build(module: &Path, output: &Path, linker_flags: &str, packages: &str, title: &str) -> anyhow::Result<()> {
    let go = |arguments: &[&str]| {
        let mut go = Command::new("go");
        go.args(arguments).current_dir(module).stdin(Stdio::null());
        go.env("CGO_ENABLED", "0").env("GOWORK", "off").env_remove("GOFLAGS");
        go
    };
    eprintln!("cluster: building {title}, once; this takes minutes");
    let all = go(&["list", "-mod=readonly", "-deps", packages]).output().context("cannot run go")?;
    if !all.status.success() {
        bail!("go list failed: {}", String::from_utf8_lossy(&all.stderr).trim());
    }
    let total = String::from_utf8_lossy(&all.stdout).lines().count();

    let mut child = go(&["build", "-v", "-mod=readonly", "-trimpath", "-ldflags", linker_flags, "-o"])
        .arg(output)
        .arg(packages)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run go")?;
    let mut progress = Progress::new(title, total);
    let mut complaints = Vec::new();
    let stderr = child.stderr.take().context("go's stderr is a pipe")?;
    for line in BufReader::new(stderr).lines() {
        let line = line?;
        // `-v` names each package before it is compiled; anything else is worth reading.
        if line.contains(' ') {
            if !line.starts_with("go: downloading ") {
                complaints.push(line);
            }
        } else {
            progress.one_more();
        }
    }
    progress.end();
    if !child.wait()?.success() {
        bail!("go build failed:\n{}", complaints.join("\n"));
    }
    Ok(())
}

/// One line that is written over on a terminal, and one line per tenth of the work elsewhere.
struct Progress<'a> {
    title: &'a str,
    total: usize,
    done: usize,
    since: Instant,
    terminal: bool,
}

impl<'a> Progress<'a> {
    fn new(title: &'a str, total: usize) -> Self {
        Self { title, total, done: 0, since: Instant::now(), terminal: std::io::stderr().is_terminal() }
    }

    fn one_more(&mut self) {
        self.done += 1;
        let elapsed = self.since.elapsed().as_secs();
        let line = format!("cluster: {}: {} of {} packages, {elapsed} s", self.title, self.done, self.total);
        if self.terminal {
            // A line that could not be written to a terminal is no error.
            let _ = write!(std::io::stderr(), "\r{line}");
        } else if self.done.is_multiple_of((self.total / 10).max(1)) {
            eprintln!("{line}");
        }
    }

    fn end(&self) {
        let elapsed = self.since.elapsed().as_secs();
        let start = if self.terminal { "\r\x1b[K" } else { "" };
        eprintln!("{start}cluster: {}: {} packages compiled in {elapsed} s", self.title, self.done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_program_is_taken_by_what_it_says_of_itself() {
        let version = KubernetesVersion::default();
        for (name, output, expected) in [
            ("kube-apiserver", "Kubernetes v1.35.2\n", true),
            ("kubelet", "Kubernetes v1.34.2\n", false),
            ("kubectl", "Client Version: v1.35.0\nKustomize Version: v5.7.1\n", true),
            ("kubectl", "Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0\n", false),
            ("etcd", "etcd Version: 3.6.8\nGit SHA: Not provided\n", true),
            ("etcd", "etcd Version: 3.5.21\n", true),
            ("etcd", "etcd Version: 3.4.23\n", false),
            ("etcd", "", false),
            ("kubelet", "panic: no\n", false),
        ] {
            let found = said_version(output).is_some_and(|found| fits(name, found, version));
            assert_eq!(found, expected, "{name}: {output}");
        }
    }

    #[test]
    fn the_control_plane_alone_needs_few_programs() {
        assert_eq!(wanted(true), ["etcd", "kube-apiserver", "kubectl"]);
        assert_eq!(wanted(false).len(), 7);
    }

    #[test]
    fn the_pinned_etcd_is_the_one_that_its_module_requires() {
        assert!(ETCD_MODULE[0].1.contains(&format!("\t{ETCD_PACKAGE} v{ETCD_VERSION} // indirect\n")));
    }

    #[test]
    fn the_pinned_helm_is_the_one_that_its_module_requires() {
        assert!(HELM_MODULE[0].1.contains(&format!("\thelm.sh/helm/v4 v{HELM_VERSION} // indirect\n")));
    }

    #[test]
    fn the_pinned_autoscaler_is_the_one_that_its_module_requires() {
        let required = format!("\tk8s.io/autoscaler/vertical-pod-autoscaler v{VPA_VERSION} // indirect\n");
        assert!(VPA_MODULE[0].1.contains(&required));
        assert!(VPA_PROGRAMS.iter().all(|name| VPA_MODULE[0].1.contains(&format!("/pkg/{name}\n"))));
    }

    #[test]
    fn a_build_that_was_broken_off_is_begun_anew_and_one_that_is_done_is_not_repeated() {
        let cache = tempfile::tempdir().unwrap();
        let finished = cache.path().join("kubernetes/1.0.0");
        let failed = build("it", &finished, |_, programs| {
            fs::write(programs.join("half"), "")?;
            bail!("broken off")
        });
        assert_eq!(format!("{:#}", failed.unwrap_err()), "cannot build it: broken off");
        assert!(!finished.exists());
        build("it", &finished, |_, programs| Ok(fs::write(programs.join("whole"), "")?)).unwrap();
        build("it", &finished, |_, _| bail!("a second time")).unwrap();
        let left: Vec<_> =
            fs::read_dir(finished.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["1.0.0"]);
        let programs: Vec<_> = fs::read_dir(&finished).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(programs, ["whole"]);
    }
}
