//! Files that are written by the code: CRDs, manifests, the Helm chart, schemas that programs carry, the reference of the command line, and the
//! table of Kubernetes' types.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, ensure};
use clap::Args;
use pillion::render;
use pillion_api::sidecarset::crd;
use pillion_api::{probe_marker, vpa};

use crate::chart;
use crate::command::{output, root};

/// Writes the generated files.
#[derive(Args)]
pub(crate) struct Gen {
    /// Only say whether they are up to date.
    #[arg(long)]
    check: bool,
}

impl Gen {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.check {
            check()?;
            return Ok(ExitCode::SUCCESS);
        }
        for (path, text) in files()?.into_iter().chain(schemas()?) {
            let folder = path.parent().context("a generated file is in a folder")?;
            std::fs::create_dir_all(folder)?;
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            eprintln!("wrote {}", path.strip_prefix(root()).unwrap_or(&path).display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Fails if a file is not what the code would write.
pub(crate) fn check() -> anyhow::Result<()> {
    compare(files()?)
}

/// As [`check`], for what only Go can make.
pub(crate) fn check_schemas() -> anyhow::Result<()> {
    compare(schemas()?)
}

fn compare(files: impl IntoIterator<Item = (PathBuf, String)>) -> anyhow::Result<()> {
    let stale: Vec<String> = files
        .into_iter()
        .filter(|(path, text)| std::fs::read_to_string(path).ok().as_ref() != Some(text))
        .map(|(path, _)| path.strip_prefix(root()).unwrap_or(&path).display().to_string())
        .collect();
    ensure!(stale.is_empty(), "out of date: {}; run `cargo xtask gen`", stale.join(", "));
    Ok(())
}

fn files() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let crds = root().join("deploy/crds");
    let autoscaler = [
        ("autoscaling.k8s.io_verticalpodautoscalers.yaml", vpa::crd::vertical_pod_autoscaler()),
        ("autoscaling.k8s.io_verticalpodautoscalercheckpoints.yaml", vpa::crd::checkpoint()),
        ("apps.kruise.io_podprobemarkers.yaml", probe_marker::crd()),
    ];
    let autoscaler = autoscaler.into_iter().map(|(name, definition)| Ok((crds.join(name), render::yaml(&definition)?)));
    let others = [
        (root().join("crates/model/api/src/sidecarset/crd/versions.json"), format!("{}\n", crd::versions())),
        (root().join("crates/model/api/src/vpa/crd/definitions.json"), format!("{}\n", vpa::crd::definitions())),
        (root().join("crates/engine/apiserver/src/openapi/builtin.json"), pillion_apiserver::builtin_definitions()),
        (crds.join("apps.kruise.io_sidecarsets.yaml"), render::yaml(&crd::sidecarset())?),
        (root().join("docs/cli.md"), pillion::cli_reference_markdown()),
        differences()?,
        lifecycle()?,
    ];
    let timelines = pillion_lifecycle::timeline::TIMELINES.iter();
    let timelines = timelines.map(|timeline| Ok((root().join("docs/images").join(timeline.file), timeline.svg())));
    let chart = chart::files()?.into_iter().chain([chart::plain()?]);
    autoscaler.chain(timelines).chain(others.into_iter().chain(chart).map(Ok)).collect()
}

/// The page on the embedded API server, with its table of known differences.
fn differences() -> anyhow::Result<(PathBuf, String)> {
    let known = pillion_differential::Known::list(&pillion_differential::known_differences())?;
    with_parts("docs/embedded.md", &[("known differences", pillion_differential::markdown(&known))])
}

/// The page on the end of sidecars, with the marks and what each mode keeps.
fn lifecycle() -> anyhow::Result<(PathBuf, String)> {
    use pillion_lifecycle::{cases, marks, modes};
    let parts = [("marks", marks::table()), ("modes", modes::table()), ("cases", cases::table())];
    with_parts("docs/lifecycle.md", &parts)
}

/// A page in which parts are generated, each between two comments.
fn with_parts(page: &str, parts: &[(&str, String)]) -> anyhow::Result<(PathBuf, String)> {
    let path = root().join(page);
    let mut text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    for (name, part) in parts {
        let (begin, end) = (format!("<!-- begin: {name} -->\n"), format!("<!-- end: {name} -->"));
        let (before, rest) = text.split_once(&begin).with_context(|| format!("{page} marks where {name} begin"))?;
        let (_, after) = rest.split_once(&end).with_context(|| format!("{page} marks where {name} end"))?;
        text = format!("{before}{begin}{part}{end}{after}");
    }
    Ok((path, text))
}

/// How Go holds and writes Kubernetes' types. `None` where there is no Go.
fn schemas() -> anyhow::Result<Option<(PathBuf, String)>> {
    if !has_go() {
        return Ok(None);
    }
    let mut command = Command::new("go");
    command.args(["run", "./schemas"]).current_dir(root().join("crates/testing/cluster/go/kubernetes"));
    Ok(Some((root().join("crates/model/patch/src/schema/builtin.json"), output(command)?)))
}

/// Where ready-made binaries are used there need be no Go.
pub(crate) fn has_go() -> bool {
    Command::new("go").arg("version").output().is_ok_and(|output| output.status.success())
}
