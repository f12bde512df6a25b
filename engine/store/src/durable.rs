//! A store in a folder: `lock` says who holds it, `store.redb` has the objects and the newest version.

mod commit;
mod disk;
mod folder;

use std::path::Path;
use std::sync::Arc;

pub(crate) use commit::Committer;
pub use folder::OpenError;

use crate::Options;
use crate::state::State;

/// Opens the store in a folder, or makes one there.
pub(crate) fn open(folder: &Path, options: Options) -> Result<(Arc<State>, Committer), OpenError> {
    let lock = folder::lock(folder)?;
    let path = folder::create(folder)?;
    let (disk, contents) = folder::load(path)?;
    let state = Arc::new(State::new(contents.newest, contents.objects, options));
    let committer = Committer::start(state.clone(), disk, lock)?;
    Ok((state, committer))
}

#[cfg(test)]
mod tests;
