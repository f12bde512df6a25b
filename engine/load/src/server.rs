//! A server under load: the processes that make it up, and how to reach it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use pillion_cluster::{Cluster, Options};

use crate::process::{self, Usage};

/// A server under load.
pub struct Server {
    pub name: &'static str,
    pub kubeconfig: PathBuf,
    /// Somebody else has brought it up, and wants it back as it was.
    pub outlives_the_run: bool,
    processes: Vec<u32>,
    remark: &'static str,
    owned: Owned,
}

/// What ends with the measurement.
enum Owned {
    Nothing,
    Child(Child),
    Cluster(Cluster),
}

impl Server {
    /// This program again, as an API server: it has a command `serve`, which calls [`serve`](crate::serve::serve).
    pub fn embedded(name: &'static str, folder: &Path, data: Option<&Path>) -> anyhow::Result<Server> {
        let kubeconfig = folder.join(if data.is_some() { "durable" } else { "memory" });
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").arg(&kubeconfig).args(data).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start the embedded API server")?;
        let mut said = String::new();
        BufReader::new(child.stdout.take().context("stdout is a pipe")?).read_line(&mut said)?;
        anyhow::ensure!(!said.is_empty(), "the embedded API server ended at once");
        let processes = vec![child.id()];
        Ok(Server { name, kubeconfig, outlives_the_run: false, processes, remark: "", owned: Owned::Child(child) })
    }

    /// kube-apiserver with etcd: the one of the kubeconfig, the cluster that is up, or one for this run.
    pub fn real(kubeconfig: Option<&Path>) -> anyhow::Result<Server> {
        let (kubeconfig, owned) = match (kubeconfig, Cluster::current()?) {
            (Some(kubeconfig), _) => (kubeconfig.to_owned(), Owned::Nothing),
            (None, Some(cluster)) => (cluster.kubeconfig().to_owned(), Owned::Nothing),
            (None, None) => {
                let cluster = Cluster::up(&Options { control_plane_only: true, ..Options::default() })?;
                (cluster.kubeconfig().to_owned(), Owned::Cluster(cluster))
            }
        };
        let port = kube::config::Kubeconfig::read_from(&kubeconfig)?
            .clusters
            .iter()
            .find_map(|cluster| {
                cluster.cluster.as_ref()?.server.as_ref()?.rsplit_once(':').map(|(_, port)| port.to_owned())
            })
            .context("the kubeconfig has a server with a port")?;
        let api_server = process::find("kube-apiserver", &format!("--secure-port={port}"))
            .with_context(|| format!("no kube-apiserver of this machine serves port {port}"))?;
        let storage = api_server.argument("--etcd-servers").context("kube-apiserver has an etcd")?;
        let etcd = process::find("etcd", &format!("--listen-client-urls={storage}"))
            .with_context(|| format!("no etcd of this machine serves {storage}"))?;
        let remark =
            if etcd.argument("--unsafe-no-fsync").is_some() { "; etcd does not wait for the disk" } else { "" };
        Ok(Server {
            name: "kube-apiserver + etcd",
            kubeconfig,
            outlives_the_run: matches!(owned, Owned::Nothing),
            processes: vec![api_server.id, etcd.id],
            remark,
            owned,
        })
    }

    pub fn describe(&self) -> String {
        format!("{} (processes {:?}{})", self.name, self.processes, self.remark)
    }

    /// What its processes have used so far, and hold now.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        let mut sum = Usage::default();
        for id in &self.processes {
            let usage = process::usage(*id)?;
            sum.processor += usage.processor;
            sum.resident += usage.resident;
        }
        Ok(sum)
    }

    pub fn stop(&mut self) -> anyhow::Result<()> {
        match std::mem::replace(&mut self.owned, Owned::Nothing) {
            Owned::Nothing => {}
            Owned::Child(mut child) => {
                child.kill()?;
                child.wait()?;
            }
            Owned::Cluster(cluster) => cluster.down()?,
        }
        Ok(())
    }
}

impl Drop for Server {
    /// No child outlives a run that failed.
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
