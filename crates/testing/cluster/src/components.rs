//! The components of the cluster and how each is called: command lines and configuration files, nothing that runs.

use std::path::Path;

use serde_json::{Value, json};

use crate::cgroups::CGROUP;
use crate::folder::Folder;
use crate::host::Host;
use crate::image::PAUSE;
use crate::network::{HOST_ADDRESS, NODE_ADDRESS, POD_CIDR, SERVICE_CIDR};

/// The node's name.
pub(crate) const NODE_NAME: &str = "pillion";

/// Where kube-proxy, inside the node's network, says whether its rules are in place.
pub(crate) const KUBE_PROXY_HEALTH: &str = "127.0.0.1:10256";

/// Everybody with a client certificate: the file's name, the user, the group. The users are those that the API
/// server's own roles are bound to.
pub(crate) const KUBERNETES_USERS: [(&str, &str, Option<&str>); 6] = [
    ("admin", "admin", Some("system:masters")),
    ("kube-apiserver-kubelet-client", "kube-apiserver-kubelet-client", Some("system:masters")),
    ("kube-controller-manager", "system:kube-controller-manager", None),
    ("kube-proxy", "system:kube-proxy", None),
    ("kube-scheduler", "system:kube-scheduler", None),
    ("kubelet", "system:node:pillion", Some("system:nodes")),
];

/// The ports on the host, chosen anew for every run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    /// etcd for its clients.
    pub(crate) etcd: u16,
    /// etcd for other members, of which there are none.
    pub(crate) etcd_peer: u16,
    /// The API server.
    pub(crate) kube_apiserver: u16,
}

/// etcd: on loopback, and with no care for the data.
pub(crate) fn etcd(folder: &Folder, ports: Ports) -> Vec<String> {
    let (client, peer) = (format!("http://127.0.0.1:{}", ports.etcd), format!("http://127.0.0.1:{}", ports.etcd_peer));
    vec![
        format!("--data-dir={}", folder.data("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--unsafe-no-fsync".to_owned(),
    ]
}

/// kube-apiserver: with a node, on the host's end of the node's link; alone, on loopback.
pub(crate) fn kube_apiserver(folder: &Folder, ports: Ports, with_node: bool) -> Vec<String> {
    let pki = |flag: &str, file: &str| format!("--{flag}={}", folder.pki(file).display());
    let mut arguments = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        format!("--secure-port={}", ports.kube_apiserver),
        format!("--service-cluster-ip-range={SERVICE_CIDR}"),
        pki("tls-cert-file", "kube-apiserver.crt"),
        pki("tls-private-key-file", "kube-apiserver.key"),
        pki("client-ca-file", "ca.crt"),
        pki("service-account-key-file", "service-account.pub"),
        pki("service-account-signing-key-file", "service-account.key"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        pki("requestheader-client-ca-file", "front-proxy-ca.crt"),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        pki("proxy-client-cert-file", "front-proxy-client.crt"),
        pki("proxy-client-key-file", "front-proxy-client.key"),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
    ];
    if with_node {
        arguments.extend([
            format!("--bind-address={HOST_ADDRESS}"),
            format!("--advertise-address={HOST_ADDRESS}"),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            // The node's name is in no DNS.
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            pki("kubelet-certificate-authority", "ca.crt"),
            pki("kubelet-client-certificate", "kube-apiserver-kubelet-client.crt"),
            pki("kubelet-client-key", "kube-apiserver-kubelet-client.key"),
            // Webhooks behind a Service are called at their pods' addresses: kube-proxy's rules are in the node's
            // network, not in the host's.
            "--enable-aggregator-routing=true".to_owned(),
        ]);
    } else {
        arguments.extend([
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
        ]);
    }
    arguments
}

/// kube-controller-manager, with every controller and no port.
pub(crate) fn kube_controller_manager(folder: &Folder) -> Vec<String> {
    let pki = |flag: &str, file: &str| format!("--{flag}={}", folder.pki(file).display());
    vec![
        kubeconfig(folder, "kube-controller-manager"),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
        // At its own limit it takes four seconds to start.
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=300".to_owned(),
        pki("service-account-private-key-file", "service-account.key"),
        pki("root-ca-file", "ca.crt"),
        pki("cluster-signing-cert-file", "ca.crt"),
        pki("cluster-signing-key-file", "ca.key"),
        format!("--flex-volume-plugin-dir={}", folder.data("volume-plugins").display()),
    ]
}

/// kube-scheduler, with no port.
pub(crate) fn kube_scheduler(folder: &Folder) -> Vec<String> {
    vec![kubeconfig(folder, "kube-scheduler"), "--leader-elect=false".to_owned(), "--secure-port=0".to_owned()]
}

/// kube-proxy, in the node's network.
pub(crate) fn kube_proxy(folder: &Folder) -> Vec<String> {
    vec![
        kubeconfig(folder, "kube-proxy"),
        format!("--hostname-override={NODE_NAME}"),
        "--proxy-mode=iptables".to_owned(),
        format!("--cluster-cidr={POD_CIDR}"),
        format!("--healthz-bind-address={KUBE_PROXY_HEALTH}"),
        // This one would be a setting of the whole machine.
        "--conntrack-max-per-core=0".to_owned(),
    ]
}

/// The kubelet, in the node's network.
pub(crate) fn kubelet(folder: &Folder) -> Vec<String> {
    vec![
        kubeconfig(folder, "kubelet"),
        format!("--config={}", folder.config("kubelet.json").display()),
        format!("--root-dir={}", folder.data("kubelet").display()),
        format!("--hostname-override={NODE_NAME}"),
        format!("--node-ip={NODE_ADDRESS}"),
    ]
}

/// What [`kubelet`] is given as `--config`.
pub(crate) fn kubelet_configuration(folder: &Folder, host: Host) -> Value {
    let mut configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": folder.pki("ca.crt") },
        },
        "authorization": { "mode": "Webhook" },
        "tlsCertFile": folder.pki("kubelet-server.crt"),
        "tlsPrivateKeyFile": folder.pki("kubelet-server.key"),
        "containerRuntimeEndpoint": format!("unix://{}", folder.containerd_socket().display()),
        "podLogsDir": folder.data("pod-logs"),
        "volumePluginDir": folder.data("volume-plugins"),
        "resolvConf": folder.config("resolv.conf"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{CGROUP}"),
        "failSwapOn": false,
        // A full disk of the developer's is not the test's business.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": { "memory.available": "100Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%" },
    });
    if host.cgroup_v1 {
        configuration["failCgroupV1"] = json!(false);
    }
    configuration
}

/// containerd, in the node's network.
pub(crate) fn containerd(folder: &Folder) -> Vec<String> {
    vec![format!("--config={}", folder.config("containerd.toml").display())]
}

/// What [`containerd`] is given as `--config`. Version 2 of the format is read by 1.6 and all that came after.
pub(crate) fn containerd_configuration(folder: &Folder, host: Host, cni_plugins: &Path) -> String {
    // The rules of a TOML string are those of a JSON string for any path without control characters.
    let path = |path: &Path| json!(path).to_string();
    format!(
        r#"version = 2
root = {root}
[grpc]
  address = {socket}
[plugins."io.containerd.internal.v1.opt"]
  path = {opt}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = {restrict}
  # It would load a profile into the host's kernel.
  disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "{snapshotter}"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = {cni_plugins}
  conf_dir = {cni_configuration}
"#,
        root = path(&folder.data("containerd")),
        socket = path(&folder.containerd_socket()),
        opt = path(&folder.data("containerd-opt")),
        restrict = host.oom_score_is_fixed,
        snapshotter = if host.folder_is_on_overlay { "native" } else { "overlayfs" },
        cni_plugins = path(cni_plugins),
        cni_configuration = path(&folder.config("cni")),
    )
}

/// The CNI network. Each pod has a link of its own to the node and no bridge is shared, so every packet is routed and
/// kube-proxy's rules see it, with or without `br_netfilter`.
pub(crate) fn cni_configuration() -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pillion",
        "plugins": [
            { "type": "ptp", "ipam": {
                "type": "host-local",
                "ranges": [[{ "subnet": POD_CIDR }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            }},
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    })
}

fn kubeconfig(folder: &Folder, component: &str) -> String {
    format!("--kubeconfig={}", folder.kubeconfig_of(component).display())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: Ports = Ports { etcd: 1001, etcd_peer: 1002, kube_apiserver: 1003 };
    const ABLE: Host = Host { cgroup_v1: false, oom_score_is_fixed: false, folder_is_on_overlay: false };

    fn folder() -> Folder {
        Folder::at("/c/cluster".into()).unwrap()
    }

    #[test]
    fn the_api_server_listens_where_pods_reach_it_or_on_loopback_alone() {
        let with_node = kube_apiserver(&folder(), PORTS, true);
        assert!(with_node.contains(&"--bind-address=198.18.11.1".to_owned()));
        assert!(with_node.contains(&"--enable-aggregator-routing=true".to_owned()));
        let alone = kube_apiserver(&folder(), PORTS, false);
        assert!(alone.contains(&"--bind-address=127.0.0.1".to_owned()));
        assert!(!alone.iter().any(|argument| argument.contains("kubelet")));
        for arguments in [with_node, alone] {
            assert!(arguments.contains(&"--etcd-servers=http://127.0.0.1:1001".to_owned()));
            assert!(arguments.contains(&"--secure-port=1003".to_owned()));
        }
    }

    #[test]
    fn every_file_that_a_component_is_given_is_in_the_folder() {
        let arguments = [
            etcd(&folder(), PORTS),
            kube_apiserver(&folder(), PORTS, true),
            kube_controller_manager(&folder()),
            kube_scheduler(&folder()),
            kube_proxy(&folder()),
            kubelet(&folder()),
            containerd(&folder()),
        ]
        .concat();
        let paths: Vec<_> = arguments.iter().filter_map(|argument| argument.split_once("=/")).collect();
        assert!(paths.len() > 20);
        for (flag, path) in paths {
            assert!(path.starts_with("c/cluster/"), "{flag}=/{path}");
        }
    }

    #[test]
    fn a_limit_of_the_host_is_worked_around_where_it_is_and_only_there() {
        let limited = Host { cgroup_v1: true, oom_score_is_fixed: true, folder_is_on_overlay: true };
        assert_eq!(kubelet_configuration(&folder(), ABLE).get("failCgroupV1"), None);
        assert_eq!(kubelet_configuration(&folder(), limited)["failCgroupV1"], false);
        let configuration = |host| containerd_configuration(&folder(), host, Path::new("/cni"));
        assert!(configuration(ABLE).contains("restrict_oom_score_adj = false"));
        assert!(configuration(ABLE).contains("snapshotter = \"overlayfs\""));
        assert!(configuration(limited).contains("restrict_oom_score_adj = true"));
        assert!(configuration(limited).contains("snapshotter = \"native\""));
    }

    #[test]
    fn the_kubelet_is_the_user_that_the_node_authorizer_knows_by_the_name_of_the_node() {
        let user = format!("system:node:{NODE_NAME}");
        assert!(KUBERNETES_USERS.contains(&("kubelet", user.as_str(), Some("system:nodes"))));
    }
}
