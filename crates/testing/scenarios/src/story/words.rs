//! What differs from run to run, and the word that stands for it.

use std::collections::HashMap;

use pillion_cluster::image::{PAUSE, SCENARIOS, SHELL};

use super::chronicle::Subject;

/// The texts to replace, the longest first, so that no part of one is taken for another.
pub(super) struct Words(Vec<(String, String)>);

impl Words {
    /// Generated names become numbers, in the order in which objects were made. Pods of a ReplicaSet are equal, so they are not told
    /// apart.
    pub(super) fn new(namespace: &str, subjects: &[Subject]) -> Words {
        let mut words: Vec<(String, String)> =
            [(namespace, "NAMESPACE"), (SHELL, "SHELL"), (PAUSE, "PAUSE"), (SCENARIOS, "SCENARIOS")]
                .map(|(text, word)| (text.to_owned(), word.to_owned()))
                .into();
        words.extend(made_for_revisions(subjects));
        for subject in subjects {
            words.push((subject.text("/metadata/uid").to_owned(), "UID".to_owned()));
            words.push((subject.text("/status/podIP").to_owned(), "IP".to_owned()));
        }
        let mut words = Words(words).in_order();
        let mut counts = HashMap::new();
        let mut pods = Vec::new();
        for pod in subjects.iter().filter(|subject| subject.kind == "Pod") {
            let stem = pod.text("/metadata/generateName");
            if stem.is_empty() || owner(pod, "kind") == "StatefulSet" {
                continue;
            }
            let number = counts.entry(stem).and_modify(|count| *count += 1).or_insert(1);
            let suffix = if owner(pod, "kind") == "ReplicaSet" { "?".to_owned() } else { number.to_string() };
            pods.push((pod.text("/metadata/name").to_owned(), format!("{}{suffix}", words.replace(stem))));
        }
        words.0.extend(pods);
        words.in_order()
    }

    /// The text with the words in it.
    pub(super) fn replace(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    fn in_order(mut self) -> Words {
        self.0.retain(|(text, _)| !text.is_empty());
        self.0.sort_by(|(one, _), (other, _)| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        Words(self.0)
    }
}

/// A `ReplicaSet` and a `ControllerRevision` are named after a hash, which is ours to choose: the first is 1.
fn made_for_revisions(subjects: &[Subject]) -> Vec<(String, String)> {
    let mut counts = HashMap::new();
    let mut words = Vec::new();
    for subject in subjects.iter().filter(|subject| matches!(subject.kind, "ReplicaSet" | "ControllerRevision")) {
        let parent = owner(subject, "name");
        if parent.is_empty() {
            continue;
        }
        let number = counts.entry((subject.kind, parent)).and_modify(|count| *count += 1).or_insert(1);
        words.push((subject.text("/metadata/name").to_owned(), format!("{parent}-{number}")));
    }
    words
}

/// A field of the first owner.
pub(super) fn owner<'a>(subject: &'a Subject, field: &str) -> &'a str {
    subject.text(&format!("/metadata/ownerReferences/0/{field}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    fn subject(kind: &'static str, metadata: Value) -> Subject {
        Subject {
            kind,
            object: json!({"metadata": metadata}),
            phases: Vec::new(),
            lives: BTreeMap::new(),
            is_gone: false,
        }
    }

    #[test]
    fn generated_names_become_numbers() {
        let of = |kind: &str, name: &str| json!([{"kind": kind, "name": name}]);
        let subjects = [
            subject(
                "ReplicaSet",
                json!({"name": "web-5d4f", "uid": "11-22", "ownerReferences": of("Deployment", "web")}),
            ),
            subject("ReplicaSet", json!({"name": "web-77aa", "ownerReferences": of("Deployment", "web")})),
            subject(
                "Pod",
                json!({"name": "web-77aa-x1x1x", "generateName": "web-77aa-", "ownerReferences": of("ReplicaSet", "web-77aa")}),
            ),
            subject(
                "Pod",
                json!({"name": "work-abcde", "generateName": "work-", "ownerReferences": of("Job", "work")}),
            ),
            subject(
                "Pod",
                json!({"name": "work-fghij", "generateName": "work-", "ownerReferences": of("Job", "work")}),
            ),
            subject("Pod", json!({"name": "db-0", "generateName": "db-", "ownerReferences": of("StatefulSet", "db")})),
        ];
        let words = Words::new("jobs-xyz", &subjects);
        let table = [
            ("Created pod: web-77aa-x1x1x", "Created pod: web-2-?"),
            ("Scaled up replica set web-5d4f", "Scaled up replica set web-1"),
            ("pod=work-fghij_jobs-xyz(11-22)", "pod=work-2_NAMESPACE(UID)"),
            ("work-abcde db-0", "work-1 db-0"),
        ];
        for (text, expected) in table {
            assert_eq!(words.replace(text), expected);
        }
    }
}
