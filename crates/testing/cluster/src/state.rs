//! What is known of the run: written into its folder by the supervisor, read by everybody else.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::folder::Folder;
use crate::process::ProcessIdentity;

/// How far the run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Phase {
    /// Components are being started.
    Starting,
    /// The API server answers, and the node, if there is one, is Ready.
    Ready,
    /// It is being taken down.
    Ending,
    /// A component did not start, or ended. Nothing runs any more; the logs are kept until the folder is taken away.
    Failed {
        /// What went wrong, with the end of the component's log.
        why: String,
    },
}

/// One run of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct State {
    /// How far the run is.
    pub(crate) phase: Phase,
    /// The version of Kubernetes.
    pub(crate) kubernetes: String,
    /// The node's name; none with the control plane alone.
    pub(crate) node_name: Option<String>,
    /// The administrator's kubeconfig.
    pub(crate) kubeconfig: PathBuf,
    /// The supervisor, as the host sees it.
    pub(crate) supervisor: ProcessIdentity,
}

impl State {
    /// The state of the run in `folder`, if there is or was one.
    pub(crate) fn read(folder: &Folder) -> anyhow::Result<Option<Self>> {
        let path = folder.state();
        match fs::read(&path) {
            Ok(text) => {
                serde_json::from_slice(&text).map(Some).with_context(|| format!("{} is damaged", path.display()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Writes the state so that a reader sees the old or the new one, never half of it.
    pub(crate) fn write(&self, folder: &Folder) -> anyhow::Result<()> {
        let path = folder.state();
        let unfinished = path.with_extension("json.new");
        fs::write(&unfinished, serde_json::to_vec_pretty(self)?)
            .and_then(|()| fs::rename(&unfinished, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Whether the cluster can be used.
    pub(crate) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready && self.supervisor.is_alive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State {
            phase: Phase::Ready,
            kubernetes: "1.35.8".to_owned(),
            node_name: Some("pillion".to_owned()),
            kubeconfig: PathBuf::from("/k"),
            supervisor: ProcessIdentity::of(std::process::id()).unwrap(),
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::at(temporary.path().to_owned()).unwrap();
        assert_eq!(State::read(&folder).unwrap(), None);
        state().write(&folder).unwrap();
        assert_eq!(State::read(&folder).unwrap(), Some(state()));
        fs::write(folder.state(), "{").unwrap();
        assert!(State::read(&folder).unwrap_err().to_string().ends_with("is damaged"));
    }

    #[test]
    fn a_run_whose_supervisor_is_gone_is_not_ready() {
        assert!(state().is_ready());
        let mut gone = state();
        gone.supervisor.start_time += 1;
        assert!(!gone.is_ready());
    }
}
