//! Placeholders for texts that differ from run to run.

use std::collections::HashMap;

use pillion_cluster::image::{PAUSE, SCENARIOS, SHELL};

use super::record::Record;

/// The texts to replace with their placeholders. The longest comes first, so that no part of a text is replaced as another one.
pub(super) struct Placeholders(Vec<(String, String)>);

impl Placeholders {
    /// Generated names become numbers, in the order in which objects were created. Pods of a ReplicaSet are equal, so all of them have
    /// the same placeholder.
    pub(super) fn new(namespace: &str, records: &[Record]) -> Placeholders {
        let mut placeholders: Vec<(String, String)> =
            [(namespace, "NAMESPACE"), (SHELL, "SHELL"), (PAUSE, "PAUSE"), (SCENARIOS, "SCENARIOS")]
                .map(|(text, word)| (text.to_owned(), word.to_owned()))
                .into();
        placeholders.extend(named_after_revisions(records));
        for record in records {
            placeholders.push((record.text("/metadata/uid").to_owned(), "UID".to_owned()));
            placeholders.push((record.text("/status/podIP").to_owned(), "IP".to_owned()));
        }
        let mut placeholders = Placeholders(placeholders).in_order();
        let mut counts = HashMap::new();
        let mut pods = Vec::new();
        for pod in records.iter().filter(|record| record.kind == "Pod") {
            let stem = pod.text("/metadata/generateName");
            if stem.is_empty() || owner(pod, "kind") == "StatefulSet" {
                continue;
            }
            let number = counts.entry(stem).and_modify(|count| *count += 1).or_insert(1);
            let suffix = if owner(pod, "kind") == "ReplicaSet" { "?".to_owned() } else { number.to_string() };
            pods.push((pod.text("/metadata/name").to_owned(), format!("{}{suffix}", placeholders.replace(stem))));
        }
        placeholders.0.extend(pods);
        placeholders.in_order()
    }

    pub(super) fn replace(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    fn in_order(mut self) -> Placeholders {
        self.0.retain(|(text, _)| !text.is_empty());
        self.0.sort_by(|(one, _), (other, _)| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        Placeholders(self.0)
    }
}

/// A `ReplicaSet` and a `ControllerRevision` are named after a hash, which depends on the implementation: the first one is 1.
fn named_after_revisions(records: &[Record]) -> Vec<(String, String)> {
    let mut counts = HashMap::new();
    let mut placeholders = Vec::new();
    for record in records.iter().filter(|record| matches!(record.kind, "ReplicaSet" | "ControllerRevision")) {
        let parent = owner(record, "name");
        if parent.is_empty() {
            continue;
        }
        let number = counts.entry((record.kind, parent)).and_modify(|count| *count += 1).or_insert(1);
        placeholders.push((record.text("/metadata/name").to_owned(), format!("{parent}-{number}")));
    }
    placeholders
}

/// A field of the first owner.
pub(super) fn owner<'a>(record: &'a Record, field: &str) -> &'a str {
    record.text(&format!("/metadata/ownerReferences/0/{field}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn record(kind: &'static str, metadata: Value) -> Record {
        Record { kind, object: json!({"metadata": metadata}), ..Record::default() }
    }

    #[test]
    fn generated_names_become_numbers() {
        let of = |kind: &str, name: &str| json!([{"kind": kind, "name": name}]);
        let records = [
            record(
                "ReplicaSet",
                json!({"name": "web-5d4f", "uid": "11-22", "ownerReferences": of("Deployment", "web")}),
            ),
            record("ReplicaSet", json!({"name": "web-77aa", "ownerReferences": of("Deployment", "web")})),
            record(
                "Pod",
                json!({"name": "web-77aa-x1x1x", "generateName": "web-77aa-", "ownerReferences": of("ReplicaSet", "web-77aa")}),
            ),
            record("Pod", json!({"name": "work-abcde", "generateName": "work-", "ownerReferences": of("Job", "work")})),
            record("Pod", json!({"name": "work-fghij", "generateName": "work-", "ownerReferences": of("Job", "work")})),
            record("Pod", json!({"name": "db-0", "generateName": "db-", "ownerReferences": of("StatefulSet", "db")})),
        ];
        let placeholders = Placeholders::new("jobs-xyz", &records);
        let table = [
            ("Created pod: web-77aa-x1x1x", "Created pod: web-2-?"),
            ("Scaled up replica set web-5d4f", "Scaled up replica set web-1"),
            ("pod=work-fghij_jobs-xyz(11-22)", "pod=work-2_NAMESPACE(UID)"),
            ("work-abcde db-0", "work-1 db-0"),
        ];
        for (text, expected) in table {
            assert_eq!(placeholders.replace(text), expected);
        }
    }
}
