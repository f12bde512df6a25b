//! What the system has to bring: programs that are not built here, and their packages.

use std::env;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// Programs that the node needs, and the Debian package of each.
const PROGRAMS: [(&str, &str); 7] = [
    ("busybox", "busybox-static"),
    ("containerd", "containerd"),
    ("containerd-shim-runc-v2", "containerd"),
    ("ctr", "containerd"),
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("runc", "runc"),
];

/// The CNI plugins that the node needs. They are in a folder of their own.
const CNI_PLUGINS: [&str; 4] = ["host-local", "loopback", "portmap", "ptp"];
const CNI_PACKAGE: &str = "containernetworking-plugins";
const CNI_FOLDERS: [&str; 4] = ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni", "/usr/local/lib/cni"];

/// Folders that are not on every user's `PATH`.
const SYSTEM_FOLDERS: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin"];

/// Where programs are looked for, as the value of a `PATH`.
pub(crate) fn search_path() -> String {
    let path = env::var("PATH").unwrap_or_default();
    std::iter::once(path.as_str()).filter(|path| !path.is_empty()).chain(SYSTEM_FOLDERS).collect::<Vec<_>>().join(":")
}

/// A program on the search path.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    env::split_paths(&search_path()).map(|folder| folder.join(name)).find(|path| is_program(path))
}

/// Whether there is a file that may be executed.
pub(crate) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The folder with the CNI plugins.
pub(crate) fn cni_plugins() -> Option<PathBuf> {
    CNI_FOLDERS
        .iter()
        .map(PathBuf::from)
        .find(|folder| CNI_PLUGINS.iter().all(|plugin| is_program(&folder.join(plugin))))
}

/// Packages of which something is missing.
pub(crate) fn missing() -> Vec<&'static str> {
    let mut packages: Vec<_> =
        PROGRAMS.iter().filter(|(program, _)| find_program(program).is_none()).map(|(_, package)| *package).collect();
    if cni_plugins().is_none() {
        packages.push(CNI_PACKAGE);
    }
    packages.dedup();
    packages
}

/// The line that says which packages are missing and what to do about it.
pub(crate) fn complaint(packages: &[&str]) -> String {
    let (are, names) = (if packages.len() == 1 { "is" } else { "are" }, packages.join(" "));
    if find_program("apt-get").is_some() {
        format!("{} {are} missing: apt-get install {names}, or run with --install", packages.join(", "))
    } else {
        format!("{} {are} missing: install them with the system's package manager", packages.join(", "))
    }
}

/// Installs packages with apt-get.
pub(crate) fn install(packages: &[&str]) -> anyhow::Result<()> {
    for arguments in [&["update", "-qq"][..], &["install", "-qq", "--yes", "--no-install-recommends"]] {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        if arguments[0] == "install" {
            command.args(packages);
        }
        // Stdout is for the answer of our own command.
        let output = command.stderr(Stdio::inherit()).output().context("cannot run apt-get")?;
        if !output.status.success() {
            bail!("apt-get {} {} failed", arguments[0], packages.join(" "));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_in_one_line_with_the_remedy() {
        let line = complaint(&["containerd", "runc"]);
        assert!(line.starts_with("containerd, runc are missing: "), "{line}");
        assert_eq!(line.lines().count(), 1);
        assert!(complaint(&["runc"]).starts_with("runc is missing: "));
    }

    #[test]
    fn a_program_is_found_on_the_path_and_a_plain_file_is_none() {
        assert!(find_program("sh").is_some());
        assert!(find_program("no-such-program").is_none());
        assert!(!is_program(Path::new("/etc/passwd")));
        assert!(!is_program(Path::new("/usr/bin")));
    }
}
