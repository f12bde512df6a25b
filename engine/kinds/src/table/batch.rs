//! Jobs, and what starts them on a schedule.

use jiff::Timestamp;
use serde_json::Value;

use super::duration::human;
use super::format::{age, condition, containers, count, int, name, pointer_or, selector_cell, since, text, with};
use super::{AGE, Column, NAME, Table, boolean, integer, string, wide};

const CONTAINERS: Column = wide("Containers", "Names of the template's containers.");
const IMAGES: Column = wide("Images", "Images of the template's containers.");
const SELECTOR: Column = wide("Selector", "Labels of the pods that belong to it.");

pub(super) const TABLES: &[Table] = &[
    Table {
        group: "batch",
        kind: "Job",
        columns: &[
            NAME,
            string("Status", "How far the job is, or how it ended."),
            string("Completions", "Pods that succeeded, of those that have to."),
            string("Duration", "How long the job ran, or has been running."),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: job,
    },
    Table {
        group: "batch",
        kind: "CronJob",
        columns: &[
            NAME,
            string("Schedule", "When it starts jobs, in cron's notation."),
            string("Timezone", "Time zone that the schedule is in."),
            boolean("Suspend", "Whether it starts no further jobs."),
            integer("Active", "Jobs of it that are running."),
            string("Last Schedule", "Time since it last started a job."),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: cron_job,
    },
];

fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let cells = vec![
        name(object),
        job_status(object).into(),
        completions(object).into(),
        job_duration(&object["status"], now).into(),
        age(object, now),
    ];
    with(with(cells, containers(&spec["template"])), [selector_cell(&spec["selector"])])
}

fn job_status(object: &Value) -> &'static str {
    let holds = |kind| condition(&object["status"]["conditions"], kind) == Some("True");
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if !object["metadata"]["deletionTimestamp"].is_null() => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(object: &Value) -> String {
    let succeeded = int(&object["status"]["succeeded"]);
    match (object["spec"]["completions"].as_i64(), int(&object["spec"]["parallelism"])) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(status: &Value, now: Timestamp) -> String {
    let time = |field| text(&status[field]).parse::<Timestamp>().ok();
    time("startTime")
        .map_or_else(String::new, |start| human(time("completionTime").unwrap_or(now).duration_since(start)))
}

fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let last = &status["lastScheduleTime"];
    let job = &spec["jobTemplate"]["spec"];
    let suspend = spec["suspend"].as_bool().map_or("<unset>", |suspend| if suspend { "True" } else { "False" });
    let cells = vec![
        name(object),
        text(&spec["schedule"]).into(),
        pointer_or(&spec["timeZone"], "<none>").into(),
        suspend.into(),
        count(&status["active"]).into(),
        if last.is_null() { "<none>".into() } else { since(last, now).into() },
        age(object, now),
    ];
    with(with(cells, containers(&job["template"])), [selector_cell(&job["selector"])])
}
