//! Events, of the core group and of `events.k8s.io`: the same objects with other names for some fields.

use jiff::Timestamp;
use serde_json::Value;

use super::format::{int, name, since, text, text_or};
use super::{Column, Table, name_column, string, wide};

const COLUMNS: &[Column] = &[
    string("Last Seen", "Time since it last happened."),
    string("Type", "Whether it is normal or a warning."),
    string("Reason", "One word for what happened."),
    string("Object", "What it happened to."),
    wide("Subobject", "The part of the object."),
    wide("Source", "Who says so."),
    string("Message", "What happened."),
    wide("First Seen", "Time since it first happened."),
    wide("Count", "How often it happened."),
    name_column(1),
];

pub(super) const TABLES: &[Table] = &[
    Table {
        group: "",
        kind: "Event",
        columns: COLUMNS,
        cells: |event, now| {
            cells(
                event,
                &Names {
                    object: &event["involvedObject"],
                    message: &event["message"],
                    source: &event["source"],
                    reporter: &event["reportingComponent"],
                    first: &event["firstTimestamp"],
                    last: &event["lastTimestamp"],
                    count: &event["count"],
                },
                now,
            )
        },
    },
    Table {
        group: "events.k8s.io",
        kind: "Event",
        columns: COLUMNS,
        cells: |event, now| {
            cells(
                event,
                &Names {
                    object: &event["regarding"],
                    message: &event["note"],
                    source: &event["deprecatedSource"],
                    reporter: &event["reportingController"],
                    first: &event["deprecatedFirstTimestamp"],
                    last: &event["deprecatedLastTimestamp"],
                    count: &event["deprecatedCount"],
                },
                now,
            )
        },
    },
];

/// The fields that the two groups name differently.
struct Names<'a> {
    object: &'a Value,
    message: &'a Value,
    source: &'a Value,
    reporter: &'a Value,
    first: &'a Value,
    last: &'a Value,
    count: &'a Value,
}

fn cells(event: &Value, names: &Names<'_>, now: Timestamp) -> Vec<Value> {
    let first = if names.first.is_null() { &event["eventTime"] } else { names.first };
    let series = &event["series"];
    let (last, count) = if series.is_null() {
        // An event of the newer group that happened once has no count.
        let count = if int(names.count) == 0 { 1 } else { int(names.count) };
        (if names.last.is_null() { first } else { names.last }, count)
    } else {
        (&series["lastObservedTime"], int(&series["count"]))
    };
    let kind = text(&names.object["kind"]).to_lowercase();
    let target = match text(&names.object["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = text_or(&names.source["component"], text(names.reporter));
    let source = match text_or(&names.source["host"], text(&event["reportingInstance"])) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    };
    vec![
        since(last, now).into(),
        text(&event["type"]).into(),
        text(&event["reason"]).into(),
        target.into(),
        text(&names.object["fieldPath"]).into(),
        source.into(),
        text(names.message).trim().into(),
        since(first, now).into(),
        count.into(),
        name(event),
    ]
}
