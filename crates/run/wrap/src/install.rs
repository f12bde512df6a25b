//! Copies the wrapper to where the other containers of the pod find it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::error::Error;

/// The name of the program.
const PROGRAM: &str = "pillion-wrap";

/// Copies this program. It is there as a whole or not at all.
pub(crate) fn install(folder: &Path) -> Result<(), Error> {
    let own = Path::new("/proc/self/exe");
    let (new, program) = (folder.join(".pillion-wrap.new"), folder.join(PROGRAM));
    fs::copy(own, &new).map_err(Error::file("write", &new))?;
    fs::set_permissions(&new, Permissions::from_mode(0o555)).map_err(Error::file("make executable", &new))?;
    fs::rename(&new, &program).map_err(Error::file("write", &program))
}
