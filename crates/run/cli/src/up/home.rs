//! Where a run keeps its files: a folder of its own that goes with it, or the one that the user names.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The folder of a run. One that the user did not name is removed when this is dropped.
pub(crate) struct Home {
    folder: PathBuf,
    temporary: Option<tempfile::TempDir>,
}

impl Home {
    /// The user's folder, or one that is gone afterwards.
    pub(crate) fn new(data: Option<&Path>) -> Result<Home, String> {
        let cannot = |folder: &Path, error: &io::Error| {
            format!("cannot keep anything in {}: {}", folder.display(), crate::io_reason(error))
        };
        let Some(folder) = data else {
            let parent = std::env::temp_dir();
            let temporary = tempfile::Builder::new()
                .prefix("pillion-")
                .tempdir_in(&parent)
                .map_err(|error| cannot(&parent, &error))?;
            return Ok(Home { folder: temporary.path().to_path_buf(), temporary: Some(temporary) });
        };
        // Keys and secrets are in there: nobody else reads it.
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| cannot(folder, &error))?;
        std::fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(|error| cannot(folder, &error))?;
        let folder = folder.canonicalize().map_err(|error| cannot(folder, &error))?;
        Ok(Home { folder, temporary: None })
    }

    /// What kubectl is pointed to.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// The folder of the engine.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether objects are there after the end.
    pub(crate) fn is_kept(&self) -> bool {
        self.temporary.is_none()
    }
}
