//! How much memory the program takes for its input, whichever way it is written.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::Folder;

/// How many times the size of more input the program may take more.
const MOST: u64 = 5;

/// How many objects a small and a large input have. The small one is there for what the program takes anyway.
const OBJECTS: [usize; 2] = [150, 400];

const SET: &str = "\
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: mesh}
spec:
  selector: {matchLabels: {app: web}}
  containers: [{name: proxy, image: envoy:1.30}]
";

/// A Deployment of about 6 kB, most of which is small values.
fn deployment(i: usize) -> Value {
    let env: Vec<Value> = (0..60)
        .map(|j| json!({"name": format!("SETTING_{j}"), "value": format!("the value number {j} of the workload number {i}")}))
        .collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("web-{i}"), "namespace": "shop"},
        "spec": {"template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": "web:1", "env": env}]},
        }},
    })
}

/// So many objects in each of the four ways to write them, with the name of the file.
fn written(count: usize) -> [(&'static str, String); 4] {
    let objects: Vec<Value> = (0..count).map(deployment).collect();
    // The kind comes last, as `kubectl get` writes it.
    let list = json!({"apiVersion": "v1", "items": objects, "kind": "List"});
    let yaml = |value: &Value| pillion::render::yaml(value).unwrap();
    [
        ("list.json", list.to_string()),
        ("stream.json", objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")),
        ("list.yaml", yaml(&list)),
        ("stream.yaml", objects.iter().map(yaml).collect::<Vec<_>>().join("---\n")),
    ]
}

/// The most memory that the program has had, in bytes. It prints at once what it has made, which is more than a pipe takes: when the first byte
/// arrives the program has all of it in memory, and cannot end.
fn peak(folder: &Folder, arguments: &[&str]) -> u64 {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pillion"))
        .args(arguments)
        .current_dir(folder.0.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let printed = std::io::copy(&mut stdout, &mut std::io::sink()).unwrap();
    assert!(child.wait().unwrap().success() && printed > 65_536, "{printed} bytes");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

#[test]
fn memory_is_a_small_multiple_of_the_input_whichever_way_it_is_written() {
    for (small, large) in written(OBJECTS[0]).into_iter().zip(written(OBJECTS[1])) {
        let name = large.0;
        let more = (large.1.len() - small.1.len()) as u64;
        let folders = [small, large].map(|(name, text)| Folder::with(&[("set.yaml", SET), (name, &text)]));
        for command in [&["inject"][..], &["preview", "--offline", "-o", "json"]] {
            let arguments = [command, &["-f", "set.yaml", name]].concat();
            let [small, large] = folders.each_ref().map(|folder| peak(folder, &arguments));
            let taken = large.saturating_sub(small);
            assert!(taken <= MOST * more, "{} of {name} takes {} kB for {} kB", command[0], taken / 1024, more / 1024);
        }
    }
}
