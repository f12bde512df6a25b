//! A running `pillion up`, for as long as it is held.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// `pillion up` without manifests. It is asked to exit when this is dropped, and is waited for.
pub struct Up {
    child: Child,
    kubeconfig: PathBuf,
}

impl Up {
    /// Starts the program at `PILLION`, and returns when it has printed the path of its kubeconfig.
    pub fn start() -> anyhow::Result<Up> {
        let program =
            std::env::var_os("PILLION").context("PILLION names the program; `cargo xtask test real` sets it")?;
        let mut command = Command::new(program);
        let mut child = command.args(["up", "--plain"]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("stdout is a pipe")?;
        let mut lines = BufReader::new(stdout).lines();
        let first = lines.next().context("pillion up has ended")??;
        let kubeconfig = first.strip_prefix("export KUBECONFIG=").with_context(|| format!("it said {first:?}"))?.into();
        // Nobody reads the rest; a full pipe would hold the program up.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Up { child, kubeconfig })
    }

    /// The kubeconfig of its owner.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // An error means that it has ended already.
        if let Ok(id) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
        let _ = self.child.wait();
    }
}
