//! The example of `examples/agent`, as docs/agent.md says to try it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, LogParams};
use nix::sys::signal::Signal;

use super::up::{Place, client, until};

/// Ports of the manifests, which are the same for everybody who tries them.
const PORTS: [&str; 2] = ["18080", "15000"];

/// A file of this name anywhere in a folder.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    entries.map(|entry| entry.path()).find_map(|path| {
        if path.is_dir() && !path.is_symlink() {
            return find(&path, name);
        }
        (path.file_name()? == name).then_some(path)
    })
}

/// The answer to a form that is posted, as `curl -d` does.
fn post(address: &str, path: &str, form: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = form.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}");
    write!(stream, "{head}\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n{form}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_probe_changes_a_label_and_a_process_reloads_a_file() {
    let place = Place::new();
    let listeners = PORTS.map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let ports = listeners.map(|listener| listener.local_addr().unwrap().port().to_string());
    fs::create_dir(place.path("agent")).unwrap();
    for file in ["1-config.yaml", "2-sidecarset.yaml", "3-game.yaml"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/agent").join(file);
        let text = fs::read_to_string(from).unwrap();
        let text = PORTS.iter().zip(&ports).fold(text, |text, (port, free)| text.replace(port, free));
        let text = text.replace("replicas: 1", "replicas: 2");
        fs::write(place.path("agent").join(file), text).unwrap();
    }
    let mut up = place.up(&["agent"]);
    let line = up.line_with("export KUBECONFIG=");
    let (runtime, client) = client(Path::new(line.split_once('=').unwrap().1));
    let pods: Api<Pod> = Api::default_namespaced(client);
    let with_label = |value: &str| {
        let all = runtime.block_on(pods.list(&ListParams::default())).unwrap().items;
        let has_it = |pod: &Pod| pod.labels().get("gameserver-idle").is_some_and(|label| label == value);
        all.into_iter().filter(has_it).collect::<Vec<_>>()
    };

    // Each game has the ports for itself, and so has each agent.
    until("two idle games", || (with_label("true").len() == 2).then_some(()));
    let state = find(&place.path(""), "state").expect("the game has a state");
    fs::write(state, "allocated").unwrap();
    let busy = until("a busy game", || with_label("false").pop());
    let cost = busy.annotations().get("controller.kubernetes.io/pod-deletion-cost");
    assert_eq!((cost.map(String::as_str), with_label("true").len()), (Some("10"), 1));

    let name = busy.name_any();
    let ip = busy.status.and_then(|status| status.pod_ip).expect("a pod has an address");
    let [game, agent] = ports.map(|port| format!("{ip}:{port}"));
    let sha256 = "bf82a1f776f4ae229c00e9974d34cd6aa80ca2215d4e92b7768c43c30607a663";
    let update = |sha256: &str| {
        let form = format!("version=v2&url=http://{game}/level-2.txt&file=level.txt&sha256={sha256}");
        post(&agent, "/hot-update", &form)
    };
    let refused = update(sha256);
    assert!(!refused.starts_with("HTTP/1.1 200"), "another checksum: {refused}");
    let answer = update("b0432a2a38e52bad4c57121add13963f193578dac7e8d45b0b019d842511a153");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let log =
        || runtime.block_on(pods.logs(&name, &LogParams { container: Some("game".into()), ..LogParams::default() }));
    let text = until("the reload", || log().ok().filter(|text| text.contains("level 2")));
    assert_eq!(text, "playing level 1\nplaying level 2\n");
    up.signal(Signal::SIGINT);
    up.end();
}
