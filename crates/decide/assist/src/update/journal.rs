//! What an update has promised, so that a restart in the middle of it ends in one of two states.

use serde::{Deserialize, Serialize};

/// The journal of an update, written before anything is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Journal {
    /// The version that is asked for.
    pub version: String,
    /// Where it is fetched.
    pub url: String,
    /// The name of the file.
    pub file: String,
    /// The SHA-256 that was asked for.
    pub sha256: Option<String>,
    /// The size that was asked for.
    pub size: Option<u64>,
    /// The SHA-256 of what was fetched. Known once it is staged.
    #[serde(default)]
    pub fetched_sha256: Option<String>,
    #[serde(default)]
    pub fetched_size: Option<u64>,
    /// The digest of what is about to be put in place: a file's SHA-256, or that of a directory's listing. Known once it is staged.
    pub new: Option<String>,
    /// The digest of what was there before; `None` if nothing was.
    pub old: Option<String>,
    /// The name, in the agent's own directory, that is exchanged with the file.
    pub staged: Option<String>,
    /// Why the update has failed: the old file comes back.
    pub failed: Option<String>,
    /// How often a restart has tried again.
    pub attempts: u32,
}

/// What is found in place of the file when the agent starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnDisk {
    Nothing,
    /// Something with this digest.
    Digest(String),
}

/// What a restarted agent does with an update that was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// The old file is in place: the update begins again.
    Again,
    /// The new file is in place: the main process is made to read it, and it is verified.
    Reload,
    /// The new file is in place and has failed: the old one comes back.
    Undo,
    /// It has failed, or was tried too often: the old file stays, and the result says so.
    GiveUp,
}

/// More restarts in the middle of one update are not a coincidence.
const ATTEMPTS: u32 = 3;

/// Decides what happens with an update that was under way.
pub fn resume(journal: &Journal, on_disk: &OnDisk) -> Resume {
    let new = matches!((on_disk, &journal.new), (OnDisk::Digest(found), Some(new)) if found == new);
    let changes = journal.new != journal.old;
    match (new && changes, journal.failed.is_some()) {
        (true, true) => Resume::Undo,
        (true, false) => Resume::Reload,
        (false, true) => Resume::GiveUp,
        (false, false) if journal.attempts >= ATTEMPTS => Resume::GiveUp,
        (false, false) => Resume::Again,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_goes_on_from_what_is_on_the_disk() {
        let journal = |new: Option<&str>, attempts| Journal {
            version: "v2".into(),
            url: "https://cdn.example.com/x".into(),
            file: "x".into(),
            sha256: None,
            size: None,
            fetched_sha256: None,
            fetched_size: None,
            new: new.map(str::to_owned),
            old: Some("old".into()),
            staged: None,
            failed: None,
            attempts,
        };
        let digest = |text: &str| OnDisk::Digest(text.to_owned());
        let table = [
            (journal(None, 0), digest("old"), Resume::Again),
            (journal(Some("new"), 0), digest("old"), Resume::Again),
            (journal(Some("new"), 0), digest("new"), Resume::Reload),
            (journal(Some("new"), 9), digest("new"), Resume::Reload),
            (journal(Some("new"), 3), digest("old"), Resume::GiveUp),
            (journal(Some("new"), 0), OnDisk::Nothing, Resume::Again),
        ];
        let failed = Journal { failed: Some("x".into()), ..journal(Some("new"), 0) };
        assert_eq!(resume(&failed, &digest("new")), Resume::Undo);
        assert_eq!(resume(&failed, &digest("old")), Resume::GiveUp);
        for (journal, on_disk, expected) in table {
            assert_eq!(resume(&journal, &on_disk), expected, "{journal:?} {on_disk:?}");
        }
    }
}
