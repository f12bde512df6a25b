//! Whether a cluster could be brought up here, and if not, why not.

use std::fmt;

use crate::options::Options;
use crate::packages::find_program;
use crate::{binaries, packages};

/// What stands in the way, one line each, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing(Vec<String>);

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Missing {}

/// Looks for everything that [`crate::Cluster::up`] needs; packages that it would install are not missed.
pub fn prerequisites(options: &Options) -> Result<(), Missing> {
    let mut missing = Vec::new();
    if options.control_plane_only {
        if find_program("setpriv").is_none() {
            missing.push("setpriv is missing: install util-linux".to_owned());
        }
    } else {
        if !nix::unistd::geteuid().is_root() {
            missing.push(
                "not root: the node needs namespaces, cgroups and containerd; run as root, or with --control-plane-only"
                    .to_owned(),
            );
        }
        let packages = packages::missing();
        if !packages.is_empty() && !options.install {
            missing.push(packages::complaint(&packages));
        }
    }
    match binaries::find(options.kubernetes, &binaries::wanted(options.control_plane_only)) {
        Ok((_, absent)) if !absent.is_empty() && find_program("go").is_none() => missing.push(format!(
            "Go is missing, to build {}: install it from https://go.dev/dl, or set KUBEBUILDER_ASSETS to a folder that \
             has them",
            absent.join(", ")
        )),
        Ok(_) => {}
        Err(error) => missing.push(format!("{error:#}")),
    }
    if missing.is_empty() { Ok(()) } else { Err(Missing(missing)) }
}
