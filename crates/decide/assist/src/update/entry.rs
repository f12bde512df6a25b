//! The entries of the ConfigMap `sidecar-result`, and which of them a new pod follows.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::trigger::{Refusal, Trigger};
use super::version::Version;

/// What one pod runs, as it is stored under the pod's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The workload that the pod belongs to.
    pub workload: String,
    /// The version that the pod runs.
    pub version: String,
    /// Where it was fetched; without the query, which may be a signature.
    pub url: String,
    /// The name of the file.
    pub file: String,
    /// The SHA-256 of what was fetched.
    pub sha256: String,
    /// Its size.
    pub size: u64,
    /// What the last update came to.
    pub result: String,
    /// When.
    pub time: Timestamp,
}

/// Longer entries are not read.
const LONGEST: usize = 4096;

impl Entry {
    /// The update that brings a pod to this entry.
    ///
    /// # Errors
    /// The entry makes no sense.
    pub fn trigger(&self) -> Result<Trigger, Refusal> {
        let size = self.size.to_string();
        Trigger::read(|name| match name {
            "version" => Some(&self.version),
            "url" => Some(&self.url),
            "file" => Some(&self.file),
            "sha256" => Some(&self.sha256),
            "size" => Some(&size),
            _ => None,
        })
    }
}

/// The entry that a pod with an empty directory follows: the one of its workload that was updated last, so that a rollback stays rolled
/// back. What others have written is not trusted: what cannot be read is passed over, and whatever is found goes through the same checks as
/// a request.
pub fn latest(data: &BTreeMap<String, String>, workload: &str) -> Option<Entry> {
    let read = |text: &String| (text.len() <= LONGEST).then(|| serde_json::from_str::<Entry>(text).ok()).flatten();
    let others = data.values().filter_map(read).filter(|entry| entry.workload == workload && entry.trigger().is_ok());
    others.max_by(|a, b| {
        let version = |entry: &Entry| Version::parse(&entry.version).ok();
        a.time.cmp(&b.time).then_with(|| version(a).cmp(&version(b)))
    })
}

/// The workload of a pod, from what the downward API says: a pod has no right to read its owners.
pub fn workload_of(pod: &str, template_hash: Option<&str>) -> String {
    if let Some(hash) = template_hash.filter(|hash| !hash.is_empty())
        && let Some((workload, _)) = pod.rsplit_once(&format!("-{hash}-"))
    {
        return workload.to_owned();
    }
    // What generated names end in: five characters of this alphabet.
    let generated =
        |suffix: &str| suffix.len() == 5 && suffix.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b));
    let ordinal = |suffix: &str| !suffix.is_empty() && suffix.bytes().all(|b| b.is_ascii_digit());
    match pod.rsplit_once('-') {
        Some((workload, suffix)) if generated(suffix) || ordinal(suffix) => workload.to_owned(),
        _ => pod.to_owned(),
    }
}

#[cfg(test)]
impl Entry {
    /// The entry of a pod of this workload, for tests.
    pub(crate) fn sample(workload: &str, version: &str, second: i64) -> Entry {
        Entry {
            workload: workload.into(),
            version: version.into(),
            url: "https://cdn.example.com/app.conf".into(),
            file: "app.conf".into(),
            sha256: "a".repeat(64),
            size: 3,
            result: String::new(),
            time: Timestamp::from_second(second).unwrap(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(workload: &str, version: &str, second: i64) -> Entry {
        Entry::sample(workload, version, second)
    }

    fn data(entries: &[(&str, Entry)]) -> BTreeMap<String, String> {
        entries.iter().map(|(pod, entry)| ((*pod).to_owned(), serde_json::to_string(entry).unwrap())).collect()
    }

    #[test]
    fn a_new_pod_follows_the_last_update_of_its_workload() {
        let data = data(&[
            ("web-a", entry("web", "v2", 10)),
            ("web-b", entry("web", "v1", 20)),
            ("db-0", entry("db", "v999", 99)),
        ]);
        assert_eq!(latest(&data, "web").unwrap().version, "v1", "a rollback stays rolled back");
        assert_eq!(latest(&data, "other"), None, "the entries of other workloads are theirs");
    }

    #[test]
    fn poisoned_entries_are_passed_over() {
        let mut poisoned = data(&[("web-a", entry("web", "v2", 10))]);
        poisoned.insert("web-b".into(), "not json".into());
        poisoned.insert("web-c".into(), "[".repeat(100_000));
        for (index, change) in [("../../etc/passwd", "v999"), ("app.conf", "latest")].into_iter().enumerate() {
            let bad = Entry { file: change.0.into(), version: change.1.into(), ..entry("web", "v1", 99) };
            poisoned.insert(format!("bad-{index}"), serde_json::to_string(&bad).unwrap());
        }
        assert_eq!(latest(&poisoned, "web").unwrap().version, "v2");
    }

    #[test]
    fn the_workload_is_in_the_name() {
        let table = [
            ("web-6b7f9c5d4-x2v5k", Some("6b7f9c5d4"), "web"),
            ("web-6b7f9c5d4-x2v5k", None, "web-6b7f9c5d4"),
            ("agent-x2v5k", None, "agent"),
            ("db-0", None, "db"),
            ("db-12", Some(""), "db"),
            ("alone", None, "alone"),
            ("my-pod", None, "my-pod"),
        ];
        for (pod, hash, expected) in table {
            assert_eq!(workload_of(pod, hash), expected, "{pod}");
        }
    }
}
