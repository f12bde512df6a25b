//! Holding a session with a server.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use crate::session::Session;
use crate::words::in_words;

/// How long a command may take, in seconds.
const PATIENCE: &str = "60";

/// How many times a command is run at most if kubectl does not receive the schema of the API in time.
const TRIES: usize = 3;

/// An API server to hold sessions with.
pub struct Server {
    /// The kubeconfig of its owner.
    pub kubeconfig: PathBuf,
}

/// Holds a session with a server, and gives what each command printed.
///
/// It is held in this namespace, which must not be there yet.
pub fn play(server: &Server, session: &Session, namespace: &str) -> anyhow::Result<Vec<String>> {
    let place = Place::new(server, namespace)?;
    let printed = session.commands().map(|command| place.run(command)).collect();
    // Where no controller takes it away it stays, as being deleted.
    place.run("kubectl delete namespace $NS --wait=false")?;
    printed
}

/// Where commands are run: an empty folder, and the environment for kubectl.
struct Place {
    folder: TempDir,
    namespace: String,
}

impl Place {
    fn new(server: &Server, namespace: &str) -> anyhow::Result<Place> {
        let place = Place { folder: tempfile::tempdir()?, namespace: namespace.to_owned() };
        std::fs::create_dir_all(place.folder.path().join("work"))?;
        std::fs::copy(&server.kubeconfig, place.folder.path().join("kubeconfig"))
            .with_context(|| format!("cannot read {}", server.kubeconfig.display()))?;
        for command in [
            "kubectl config set-context --current --namespace=$NS",
            // Where no controller makes it, pods need it all the same.
            "kubectl create -f - <<< '{apiVersion: v1, kind: Namespace, metadata: {name: '$NS'}}'",
            "kubectl create -f - <<< '{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}}' || until_it_does kubectl get serviceaccount default",
        ] {
            let printed = place.run(command)?;
            ensure!(!printed.contains("[exit"), "{command}\n{printed}");
        }
        Ok(place)
    }

    /// What a command prints, and how it ends, in words.
    fn run(&self, command: &str) -> anyhow::Result<String> {
        for _ in 1..TRIES {
            let printed = self.run_once(command)?;
            if !timed_out_before_sending(&printed) {
                return Ok(printed);
            }
        }
        self.run_once(command)
    }

    fn run_once(&self, command: &str) -> anyhow::Result<String> {
        let script = format!("exec 2>&1\n{}\n{command}", include_str!("preamble.sh"));
        let home = self.folder.path();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let output = Command::new("timeout")
            .args([PATIENCE, "bash", "-c", &script])
            .stdin(Stdio::null())
            .current_dir(home.join("work"))
            .env("HOME", home)
            .env("KUBECONFIG", home.join("kubeconfig"))
            .env("KUBECACHEDIR", home.join("cache"))
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .env("NS", &self.namespace)
            .env("MANIFESTS", root.join("sessions/manifests"))
            .env("CRDS", root.join("../../deploy/crds"))
            .env("EXAMPLES", root.join("../../examples"))
            .output()
            .context("cannot run bash")?;
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            if !printed.is_empty() && !printed.ends_with('\n') {
                printed.push('\n');
            }
            let code = output.status.code().map_or_else(|| "by a signal".to_owned(), |code| code.to_string());
            write!(printed, "[exit {code}]")?;
        }
        // Folders are of this machine.
        let printed = printed.replace(&*root.to_string_lossy(), "<here>").replace(&*home.to_string_lossy(), "<home>");
        Ok(in_words(&printed, &self.namespace))
    }
}

/// Whether kubectl timed out while it read the schema of the API, with which it validates objects before it sends them. Its timeout is 32 seconds,
/// which is too short if the machine is very busy.
fn timed_out_before_sending(printed: &str) -> bool {
    let mut lines = printed.lines().skip_while(|line| line.starts_with("<log> "));
    lines.next().is_some_and(|line| line.starts_with("error: error validating") && line.contains("Client.Timeout"))
}

#[cfg(test)]
mod tests {
    use super::timed_out_before_sending;

    #[test]
    fn a_command_is_run_again_if_it_timed_out_before_it_sent_anything() {
        let error = "error: error validating \"STDIN\": error validating data: unexpected error when reading response body. Please retry. \
                     Original error: net/http: request canceled (Client.Timeout or context cancellation while reading body); if …";
        assert!(timed_out_before_sending(&format!("<log> request.go:1196] \"Unexpected error\"\n{error}\n[exit 1]")));
        assert!(!timed_out_before_sending(&format!("configmap/first created\n{error}\n[exit 1]")));
        assert!(!timed_out_before_sending(
            "error: error validating \"STDIN\": error validating data: kind not set\n[exit 1]"
        ));
    }
}
