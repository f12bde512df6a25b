//! Where things are: the cache that outlives a run, and the folder of the one run.
//!
//! Everything that a run writes is in its folder, so taking the folder away takes the files away. What is not a file
//! (processes, the network link, cgroups) has a name that follows from this module's constants.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Every process that the supervisor starts carries this variable, with the run's folder as its value.
pub(crate) const MARK: &str = "PILLION_CLUSTER_FOLDER";

/// A Unix socket's address holds no more than this, and the longest one under the folder is containerd's.
const LONGEST_SOCKET: usize = 107;

/// The user's cache folder for Pillion: `$XDG_CACHE_HOME/pillion`, or `~/.cache/pillion`.
pub(crate) fn cache() -> anyhow::Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("pillion"))
        .context("no cache folder: neither XDG_CACHE_HOME nor HOME is set to an absolute path")
}

/// Writes a file, and says which one if it cannot.
pub(crate) fn write(path: &Path, contents: impl AsRef<[u8]>) -> anyhow::Result<()> {
    std::fs::write(path, contents).with_context(|| format!("cannot write {}", path.display()))
}

/// The folder of the one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// `cluster/` in the user's cache folder.
    pub(crate) fn of_this_user() -> anyhow::Result<Self> {
        Self::at(cache()?.join("cluster"))
    }

    /// A run's folder at `path`.
    pub(crate) fn at(path: PathBuf) -> anyhow::Result<Self> {
        let folder = Self(path);
        let socket = folder.containerd_socket();
        if socket.as_os_str().len() > LONGEST_SOCKET {
            bail!("{} is too long for a Unix socket: set XDG_CACHE_HOME to a shorter path", socket.display());
        }
        Ok(folder)
    }

    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// What [`crate::state::State`] is written to.
    pub(crate) fn state(&self) -> PathBuf {
        self.0.join("cluster.json")
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.0.join("kubeconfig")
    }

    pub(crate) fn kubeconfig_of(&self, component: &str) -> PathBuf {
        self.0.join("config").join(format!("{component}.kubeconfig"))
    }

    /// Configuration files of the components.
    pub(crate) fn config(&self, name: &str) -> PathBuf {
        self.0.join("config").join(name)
    }

    /// Keys and certificates.
    pub(crate) fn pki(&self, name: &str) -> PathBuf {
        self.0.join("pki").join(name)
    }

    /// Links to the programs of the run, `kubectl` among them.
    pub(crate) fn programs(&self) -> PathBuf {
        self.0.join("bin")
    }

    /// The logs of the components.
    pub(crate) fn logs(&self) -> PathBuf {
        self.0.join("log")
    }

    pub(crate) fn log(&self, component: &str) -> PathBuf {
        self.logs().join(format!("{component}.log"))
    }

    /// What a component keeps: etcd's data, the kubelet's pods, containerd's images.
    pub(crate) fn data(&self, component: &str) -> PathBuf {
        self.0.join("data").join(component)
    }

    /// kubectl's discovery cache.
    pub(crate) fn kubectl_cache(&self) -> PathBuf {
        self.0.join("kubectl-cache")
    }

    /// Temporary files of the components.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.0.join("tmp")
    }

    /// containerd's socket.
    pub(crate) fn containerd_socket(&self) -> PathBuf {
        self.0.join("containerd.sock")
    }

    /// Makes the folders that the paths above are in.
    pub(crate) fn create(&self) -> anyhow::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        // The administrator's key is in here.
        let mut private = std::fs::DirBuilder::new();
        private.recursive(true).mode(0o700);
        for folder in ["", "bin", "config", "data", "log", "pki", "tmp"] {
            let path = self.0.join(folder);
            private.create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_too_deep_for_a_unix_socket_is_refused() {
        assert!(Folder::at(PathBuf::from("/root/.cache/pillion/cluster")).is_ok());
        let error = Folder::at(PathBuf::from(format!("/{}", "d".repeat(100)))).unwrap_err();
        assert!(error.to_string().contains("XDG_CACHE_HOME"), "{error}");
    }
}
