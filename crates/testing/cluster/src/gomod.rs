//! The Go module that the programs of Kubernetes are built from.
//!
//! `k8s.io/kubernetes` cannot be built as a dependency as it stands: it names its own staging modules by a path inside
//! its repository. A module of our own that requires it and replaces each of them by its published version can. The
//! list of those modules, and the language version and settings that the release was built with, are taken from
//! Kubernetes' own `go.mod`; `go mod tidy` then adds what all of it needs.
//!
//! The module of the default version is kept in `go/kubernetes`, with its sums; those of other versions are made when
//! they are needed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::folder;
use crate::version::KubernetesVersion;

/// What is built from `k8s.io/kubernetes`.
pub(crate) const KUBERNETES_PROGRAMS: [&str; 6] =
    ["kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet"];

/// `go.mod` before `go mod tidy`, from the `go.mod` of `k8s.io/kubernetes` at the same version.
pub(crate) fn generate(version: KubernetesVersion, upstream: &str) -> anyhow::Result<String> {
    let directive =
        |name: &str| upstream.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::trim);
    let staging: Vec<&str> = upstream
        .lines()
        .filter_map(|line| line.split_once("=> ./staging/"))
        .map(|(module, _)| module.trim().trim_start_matches("replace "))
        .collect();
    if staging.is_empty() {
        bail!("the go.mod of k8s.io/kubernetes {} replaces no staging module", version.tag());
    }
    let go = directive("go").context("the go.mod of k8s.io/kubernetes names no Go version")?;

    let mut text = format!(
        "// Made from the go.mod of k8s.io/kubernetes by `cargo xtask cluster go-mod`; do not edit.\n\n\
         module pillion.dev/testing/cluster/kubernetes\n\ngo {go}\n"
    );
    if let Some(godebug) = directive("godebug") {
        write!(text, "\ngodebug {godebug}\n")?;
    }
    text.push_str("\ntool (\n");
    for program in KUBERNETES_PROGRAMS {
        writeln!(text, "\tk8s.io/kubernetes/cmd/{program}")?;
    }
    write!(text, ")\n\nrequire k8s.io/kubernetes {}\n\nreplace (\n", version.tag())?;
    for module in staging {
        writeln!(text, "\t{module} => {module} {}", version.staging_tag())?;
    }
    text.push_str(")\n");
    Ok(text)
}

/// The `go.mod` of `k8s.io/kubernetes`, from Go's module cache or proxy.
fn upstream(version: KubernetesVersion) -> anyhow::Result<String> {
    let module = format!("k8s.io/kubernetes@{}", version.tag());
    let download: Value = serde_json::from_str(&go(Path::new("/"), &["mod", "download", "-json", &module])?)?;
    let path = download["GoMod"].as_str().with_context(|| format!("go did not say where the go.mod of {module} is"))?;
    fs::read_to_string(path).with_context(|| format!("cannot read {path}"))
}

/// Writes `go.mod` and `go.sum` for a version into `folder`.
pub(crate) fn write(version: KubernetesVersion, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    folder::write(&folder.join("go.mod"), generate(version, &upstream(version)?)?)?;
    go(folder, &["mod", "tidy"])?;
    Ok(())
}

/// Makes the module of the default version anew.
pub(crate) fn update() -> anyhow::Result<()> {
    write(KubernetesVersion::default(), &source_folder())
}

/// Says whether the module of the default version is still what [`update`] would write.
pub(crate) fn check() -> anyhow::Result<()> {
    let version = KubernetesVersion::default();
    let kept = fs::read_to_string(source_folder().join("go.mod")).context("cannot read go/kubernetes/go.mod")?;
    if without_requirements(&kept) != without_requirements(&generate(version, &upstream(version)?)?) {
        bail!("go/kubernetes/go.mod is not that of Kubernetes {version}: run `cargo xtask cluster go-mod`");
    }
    let required = ["k8s.io/kubernetes".to_owned(), version.tag()];
    if !kept.lines().any(|line| line.split_whitespace().take(2).eq(&required)) {
        bail!("go/kubernetes/go.mod does not require Kubernetes {version}: run `cargo xtask cluster go-mod`");
    }
    go(&source_folder(), &["mod", "tidy", "-diff"])
        .map(drop)
        .context("go/kubernetes is not tidy: run `cargo xtask cluster go-mod`")
}

fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("go/kubernetes")
}

/// What [`generate`] decides, without what `go mod tidy` adds.
fn without_requirements(go_mod: &str) -> String {
    let mut kept = String::new();
    let mut in_block = false;
    for line in go_mod.lines().filter(|line| !line.is_empty()) {
        in_block = in_block || line == "require (";
        if !in_block && !line.starts_with("require ") {
            kept.push_str(line);
            kept.push('\n');
        }
        in_block = in_block && line != ")";
    }
    kept
}

/// Runs go in `folder`, for what it prints. A workspace file above it, or flags of the user's, have no say.
fn go(folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("go")
        .args(arguments)
        .current_dir(folder)
        .env("GOWORK", "off")
        .env_remove("GOFLAGS")
        .output()
        .context("cannot run go")?;
    if !output.status.success() {
        let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("go {} failed: {}{}", arguments.join(" "), out.trim(), error.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPSTREAM: &str = "\
// This is a generated file.

module k8s.io/kubernetes

go 1.25.0

godebug default=go1.25

require (
\tgithub.com/blang/semver/v4 v4.0.0
\tgolang.org/x/net v0.47.0 // indirect
\tk8s.io/api v0.0.0
)

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/kubelet => ./staging/src/k8s.io/kubelet
\texample.com/other => example.com/fork v1.0.0
)
";

    #[test]
    fn every_staging_module_is_replaced_by_its_published_version() {
        let text = generate("1.35.8".parse().unwrap(), UPSTREAM).unwrap();
        let expected = "\
// Made from the go.mod of k8s.io/kubernetes by `cargo xtask cluster go-mod`; do not edit.

module pillion.dev/testing/cluster/kubernetes

go 1.25.0

godebug default=go1.25

tool (
\tk8s.io/kubernetes/cmd/kube-apiserver
\tk8s.io/kubernetes/cmd/kube-controller-manager
\tk8s.io/kubernetes/cmd/kube-proxy
\tk8s.io/kubernetes/cmd/kube-scheduler
\tk8s.io/kubernetes/cmd/kubectl
\tk8s.io/kubernetes/cmd/kubelet
)

require k8s.io/kubernetes v1.35.8

replace (
\tk8s.io/api => k8s.io/api v0.35.8
\tk8s.io/kubelet => k8s.io/kubelet v0.35.8
)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_go_mod_without_staging_modules_is_refused() {
        let error = generate("1.35.8".parse().unwrap(), "module k8s.io/kubernetes\n\ngo 1.25.0\n").unwrap_err();
        assert!(error.to_string().contains("no staging module"), "{error}");
    }

    #[test]
    fn what_tidy_adds_is_no_drift_and_another_replacement_is() {
        let generated = generate("1.35.8".parse().unwrap(), UPSTREAM).unwrap();
        let tidied = generated.replace(
            "require k8s.io/kubernetes v1.35.8\n",
            "require (\n\tgolang.org/x/net v0.47.0 // indirect\n\tk8s.io/kubernetes v1.35.8 // indirect\n)\n",
        );
        assert_eq!(without_requirements(&tidied), without_requirements(&generated));
        let drifted = tidied.replace("v0.35.8", "v0.35.7");
        assert_ne!(without_requirements(&drifted), without_requirements(&generated));
    }

    #[test]
    fn the_module_that_is_kept_is_of_the_default_version() {
        let kept = fs::read_to_string(source_folder().join("go.mod")).unwrap();
        let version = KubernetesVersion::default();
        assert!(kept.contains(&format!("\tk8s.io/kubernetes {}\n", version.tag())));
        assert!(kept.contains(&format!("\tk8s.io/kubelet => k8s.io/kubelet {}\n", version.staging_tag())));
    }
}
