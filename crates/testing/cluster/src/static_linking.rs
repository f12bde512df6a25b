//! How a program is linked so that it needs no library of its image.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::packages::{self, find_program};

/// A target of the compiler, and what it needs to link statically.
pub(crate) struct StaticLinking {
    target: String,
    flags: Option<&'static str>,
}

impl StaticLinking {
    /// With musl, where its target (`rustup target add`) and its compiler (Debian's `musl-tools`) are installed, or can be if `install`
    /// is true; otherwise with the static form of the system's own C library, which makes programs of more than twice the size.
    pub(crate) fn here(install: bool) -> anyhow::Result<Self> {
        let arch = std::env::consts::ARCH;
        let musl = format!("{arch}-unknown-linux-musl");
        if install {
            // Without them there is the other way.
            if let Err(error) = install_musl(&musl) {
                eprintln!("image: {error:#}");
            }
        }
        if has_target(&musl)? && has_compiler() {
            return Ok(Self { target: musl, flags: None });
        }
        eprintln!(
            "image: linking with glibc, because musl is missing: rustup target add {musl}, and the package musl-tools"
        );
        // Flags for a named target are not for build scripts and macros, which cannot be linked like this.
        Ok(Self { target: format!("{arch}-unknown-linux-gnu"), flags: Some("-C target-feature=+crt-static") })
    }

    /// Makes `cargo build` link like this.
    pub(crate) fn apply_to(&self, cargo: &mut Command) {
        cargo.args(["--target", &self.target]).envs(self.flags.map(|flags| ("RUSTFLAGS", flags)));
    }
}

fn has_target(target: &str) -> anyhow::Result<bool> {
    let libraries = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--print", "target-libdir", "--target", target])
        .output()
        .context("cannot run rustc")?;
    Ok(Path::new(String::from_utf8_lossy(&libraries.stdout).trim()).is_dir())
}

fn has_compiler() -> bool {
    find_program("musl-gcc").is_some()
}

fn install_musl(target: &str) -> anyhow::Result<()> {
    if !has_target(target)? {
        let status = Command::new("rustup")
            .args(["target", "add", target])
            .stdin(Stdio::null())
            // Stdout is for the answer of our own command.
            .stdout(Stdio::null())
            .status()
            .context("cannot run rustup")?;
        anyhow::ensure!(status.success(), "rustup target add {target} failed");
    }
    if !has_compiler() {
        packages::install(&["musl-tools"])?;
    }
    Ok(())
}
