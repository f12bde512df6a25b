//! Pods: how many containers are ready, and the one word for what the pod is doing.

use jiff::Timestamp;
use serde_json::Value;

use super::format::{age, condition, containers, int, items, labels, name, since, text, text_or};
use super::{AGE, NAME, Table, string, wide};

pub(super) const TABLES: &[Table] = &[
    Table {
        group: "",
        kind: "Pod",
        columns: &[
            NAME,
            string("Ready", "Containers that are ready, of all that are to run."),
            string("Status", "What the pod is doing, or what is wrong with it."),
            string("Restarts", "How often its containers were restarted, and when last."),
            AGE,
            wide("IP", "Address of the pod."),
            wide("Node", "Node that the pod runs on."),
            wide("Nominated Node", "Node that is being freed for the pod."),
            wide("Readiness Gates", "Conditions beyond its containers that hold, of those it waits for."),
        ],
        cells: pod,
    },
    Table {
        group: "",
        kind: "PodTemplate",
        columns: &[
            NAME,
            string("Containers", "Names of the template's containers."),
            string("Images", "Images of the template's containers."),
            string("Pod Labels", "Labels of the template."),
        ],
        cells: |object, _| {
            let [containers, images] = containers(&object["template"]);
            vec![name(object), containers, images, labels(&object["template"]["metadata"]["labels"]).into()]
        },
    },
];

fn pod(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let mut progress = Progress { reason: start_reason(status), ..Progress::default() };
    let sidecars = items(&spec["initContainers"]).iter().filter(|container| is_sidecar(container)).count();
    let total = items(&spec["containers"]).len() + sidecars;

    let initializing = progress.read_init(spec, status);
    if !initializing || condition(&status["conditions"], "Initialized") == Some("True") {
        progress.read_main(status);
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        if status["reason"] == "NodeLost" {
            "Unknown".clone_into(&mut progress.reason);
        } else if !matches!(text(&status["phase"]), "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut progress.reason);
        }
    }
    vec![
        name(pod),
        format!("{}/{total}", progress.ready).into(),
        progress.reason.as_str().into(),
        progress.restarts.cell(now).into(),
        age(pod, now),
        text_or(&status["podIPs"][0]["ip"], text_or(&status["podIP"], "<none>")).into(),
        text_or(&spec["nodeName"], "<none>").into(),
        text_or(&status["nominatedNodeName"], "<none>").into(),
        readiness_gates(spec, status).into(),
    ]
}

/// What the containers' statuses tell.
#[derive(Default)]
struct Progress {
    reason: String,
    ready: usize,
    restarts: Restarts,
    sidecar_restarts: Restarts,
}

#[derive(Clone, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count = self.count.saturating_add(int(&container["restartCount"]));
        let finished = text(&container["lastState"]["terminated"]["finishedAt"]).parse().ok();
        self.last = self.last.max(finished);
    }

    fn cell(&self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count != 0 => format!("{} ({} ago)", self.count, since(&last.to_string().into(), now)),
            _ => self.count.to_string(),
        }
    }
}

impl Progress {
    /// Reads the init containers up to the first that is not done; true if there is one.
    fn read_init(&mut self, spec: &Value, status: &Value) -> bool {
        let declared = items(&spec["initContainers"]);
        for (index, container) in items(&status["initContainerStatuses"]).iter().enumerate() {
            let sidecar = declared.iter().find(|init| init["name"] == container["name"]).is_some_and(is_sidecar);
            self.restarts.add(container);
            if sidecar {
                self.sidecar_restarts.add(container);
            }
            let terminated = &container["state"]["terminated"];
            let waiting = text(&container["state"]["waiting"]["reason"]);
            if !terminated.is_null() && int(&terminated["exitCode"]) == 0 {
                continue;
            }
            if sidecar && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            self.reason = if !terminated.is_null() {
                format!("Init:{}", termination(terminated))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{}", declared.len())
            };
            return true;
        }
        false
    }

    /// Reads the containers, last first, so that the first one has the last word.
    fn read_main(&mut self, status: &Value) {
        self.restarts = self.sidecar_restarts.clone();
        let mut running = false;
        let mut error = None;
        for container in items(&status["containerStatuses"]).iter().rev() {
            self.restarts.add(container);
            let state = &container["state"];
            let waiting = text(&state["waiting"]["reason"]);
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if !state["terminated"].is_null() {
                self.reason = termination(&state["terminated"]);
                if int(&state["terminated"]["exitCode"]) != 0 {
                    error = Some(self.reason.clone());
                }
            } else if container["ready"] == true && !state["running"].is_null() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            let ready = items(&status["conditions"])
                .iter()
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
            self.reason = match error {
                _ if running && ready => "Running".to_owned(),
                Some(error) => error,
                None if running => "NotReady".to_owned(),
                None => "Completed".to_owned(),
            };
        }
    }
}

fn start_reason(status: &Value) -> String {
    let gated = items(&status["conditions"])
        .iter()
        .any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated");
    if gated { "SchedulingGated".to_owned() } else { text_or(&status["reason"], text(&status["phase"])).to_owned() }
}

fn termination(terminated: &Value) -> String {
    match (text(&terminated["reason"]), int(&terminated["signal"])) {
        ("", 0) => format!("ExitCode:{}", int(&terminated["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn readiness_gates(spec: &Value, status: &Value) -> String {
    let gates = items(&spec["readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let holds = |gate: &&Value| condition(&status["conditions"], text(&gate["conditionType"])) == Some("True");
    format!("{}/{}", gates.iter().filter(holds).count(), gates.len())
}

#[cfg(test)]
mod tests;
