//! The node's network: a namespace of its own, with one link to the host.
//!
//! ```text
//!   host                                    node (network namespace)
//!   etcd, kube-apiserver, …                 containerd, kubelet, kube-proxy
//!   pillion0 198.18.11.1 ──────────────────  198.18.11.2 eth0
//!     routes to pods and Services            ├── pod 198.18.10.2
//!                                            └── pod 198.18.10.3
//! ```
//!
//! kube-proxy's rules, the kubelet's ports, the pods' links and every `net.*` setting are inside; the host's own
//! firewall and settings are not touched. There is no route out, so traffic stays on the machine. The host's end is
//! gone with the namespace, and that with its last process.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use nix::sched::{CloneFlags, setns, unshare};

use crate::process::on_a_thread;

/// The host's end of the link.
pub(crate) const LINK: &str = "pillion0";
/// The host's address on the link: where the API server listens, for the host and for pods.
pub(crate) const HOST_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 11, 1);
/// The node's own address.
pub(crate) const NODE_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 11, 2);
/// The addresses of pods.
pub(crate) const POD_CIDR: &str = "198.18.10.0/24";
/// The addresses of Services.
pub(crate) const SERVICE_CIDR: &str = "198.18.0.0/24";
/// The address of the Service `kubernetes`: the first one of the range.
pub(crate) const KUBERNETES_SERVICE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// A network namespace; it lives as long as this handle or a process in it.
#[derive(Debug)]
pub(crate) struct NodeNetwork(File);

impl NodeNetwork {
    /// Makes the namespace and its link. The calling process must be process 1 of its own process namespace, which is
    /// how `ip` learns where the host's end belongs.
    pub(crate) fn create() -> anyhow::Result<Self> {
        let namespace = on_a_thread(|| -> anyhow::Result<File> {
            unshare(CloneFlags::CLONE_NEWNET).context("cannot make a network namespace")?;
            let namespace = File::open("/proc/thread-self/ns/net").context("cannot open the network namespace")?;
            ip("link set lo up")?;
            ip(&format!("link add eth0 type veth peer name {LINK} netns 1"))?;
            ip(&format!("address add {NODE_ADDRESS}/30 dev eth0"))?;
            ip("link set eth0 up")?;
            // Nothing goes to the host for a Service: kube-proxy's rules rewrite the destination. But there has to be a
            // route before they are asked.
            ip(&format!("route add {SERVICE_CIDR} via {HOST_ADDRESS}"))?;
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("cannot let the node forward")?;
            Ok(namespace)
        })?;
        ip(&format!("address add {HOST_ADDRESS}/30 dev {LINK}"))?;
        ip(&format!("link set {LINK} up"))?;
        for range in [POD_CIDR, SERVICE_CIDR] {
            ip(&format!("route add {range} via {NODE_ADDRESS}"))?;
        }
        Ok(Self(namespace))
    }

    /// Runs `work` in the namespace. What it spawns stays there.
    pub(crate) fn within<T: Send>(&self, work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
        on_a_thread(|| {
            setns(&self.0, CloneFlags::CLONE_NEWNET).context("cannot enter the node's network namespace")?;
            work()
        })
    }
}

/// Takes the link away, if it is there.
pub(crate) fn remove_link() -> anyhow::Result<()> {
    if Path::new("/sys/class/net").join(LINK).exists() {
        // It may be going away by itself, with its namespace.
        if let Err(error) = ip(&format!("link delete {LINK}"))
            && Path::new("/sys/class/net").join(LINK).exists()
        {
            return Err(error);
        }
    }
    Ok(())
}

fn ip(arguments: &str) -> anyhow::Result<()> {
    let output =
        Command::new("ip").args(arguments.split(' ')).stdin(Stdio::null()).output().context("cannot run ip")?;
    if !output.status.success() {
        bail!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
