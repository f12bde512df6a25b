//! The entries of the ConfigMap `sidecar-result`, and which of them a new pod follows.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
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
    pub size: u64,
    /// What the last update came to.
    pub result: String,
    /// When.
    pub time: Timestamp,
}

/// The ConfigMap in the pod's namespace that keeps what each pod runs.
pub const RESULTS: &str = "sidecar-result";
/// Longer entries are not read, and the policy of the agents refuses them.
pub const LONGEST_ENTRY: usize = 4096;
/// The clocks of nodes may differ by this much.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

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

/// The entries that a pod with an empty directory may follow, those of its workload: the one that was updated last is the first, so that a
/// rollback stays rolled back. What others have written is not trusted: what `read_entry` refuses is passed over, and the caller checks what
/// is found like a request.
pub fn entries_of(data: &BTreeMap<String, String>, workload: &str, now: Timestamp) -> Vec<Entry> {
    let entries = data.iter().filter_map(|(pod, text)| read_entry(pod, text, now));
    let mut entries: Vec<Entry> =
        entries.filter(|entry| entry.workload == workload && entry.trigger().is_ok()).collect();
    entries.sort_by(|a, b| {
        let version = |entry: &Entry| Version::parse(&entry.version).ok();
        b.time.cmp(&a.time).then_with(|| version(b).cmp(&version(a)))
    });
    entries
}

/// The entry of a pod; `None` if it cannot be read, is too long, comes from the future or claims a workload that the pod's name does not have.
pub(crate) fn read_entry(pod: &str, text: &str, now: Timestamp) -> Option<Entry> {
    if text.len() > LONGEST_ENTRY {
        return None;
    }
    let entry: Entry = serde_json::from_str(text).ok()?;
    (entry.time.duration_since(now) <= SKEW && belongs(pod, &entry.workload)).then_some(entry)
}

/// Whether a pod of this name can be of this workload: a policy keeps the keys true to the pods, and the names of pods begin with the workload's.
fn belongs(pod: &str, workload: &str) -> bool {
    let Some(rest) = pod.strip_prefix(workload) else { return false };
    match rest.strip_prefix('-').map(|rest| rest.split_once('-')) {
        None => rest.is_empty(),
        Some(None) => is_generated(&rest[1..]) || is_ordinal(&rest[1..]),
        Some(Some((hash, suffix))) => (1..=10).contains(&hash.len()) && is_alphabet(hash) && is_generated(suffix),
    }
}

fn is_alphabet(text: &str) -> bool {
    text.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b))
}

/// What generated names end in: five characters of this alphabet.
fn is_generated(suffix: &str) -> bool {
    suffix.len() == 5 && is_alphabet(suffix)
}

fn is_ordinal(suffix: &str) -> bool {
    !suffix.is_empty() && suffix.bytes().all(|b| b.is_ascii_digit())
}

/// The workload of a pod, from what the downward API says: a pod has no right to read its owners.
pub fn workload_of(pod: &str, template_hash: Option<&str>) -> String {
    if let Some(hash) = template_hash.filter(|hash| !hash.is_empty())
        && let Some((workload, _)) = pod.rsplit_once(&format!("-{hash}-"))
    {
        return workload.to_owned();
    }
    match pod.rsplit_once('-') {
        Some((workload, suffix)) if is_generated(suffix) || is_ordinal(suffix) => workload.to_owned(),
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

    fn versions(data: &BTreeMap<String, String>, workload: &str) -> Vec<String> {
        let now = Timestamp::from_second(1000).unwrap();
        entries_of(data, workload, now).into_iter().map(|entry| entry.version).collect()
    }

    #[test]
    fn a_new_pod_follows_the_last_update_of_its_workload() {
        let data = data(&[
            ("web-1", entry("web", "v2", 10)),
            ("web-2", entry("web", "v1", 20)),
            ("db-0", entry("db", "v999", 99)),
        ]);
        assert_eq!(versions(&data, "web"), ["v1", "v2"], "a rollback stays rolled back");
        assert_eq!(versions(&data, "other"), Vec::<String>::new(), "the entries of other workloads are theirs");
    }

    #[test]
    fn nobody_speaks_for_another_workload_or_from_the_future() {
        let data = data(&[
            ("web-1", entry("web", "v1", 10)),
            ("db-0", entry("web", "v2", 20)),
            ("web-evil-0", entry("web", "v3", 20)),
            ("web-2", entry("web", "v4", 9_999_999)),
            ("web-6b7f9c5d4-x2v5k", entry("web", "v5", 5)),
            ("web", entry("web", "v6", 4)),
        ]);
        assert_eq!(versions(&data, "web"), ["v1", "v5", "v6"]);
    }

    #[test]
    fn poisoned_entries_are_passed_over() {
        let mut poisoned = data(&[("web-1", entry("web", "v2", 10))]);
        poisoned.insert("web-2".into(), "not json".into());
        poisoned.insert("web-3".into(), "[".repeat(100_000));
        for (index, change) in [("../../etc/passwd", "v999"), ("app.conf", "latest")].into_iter().enumerate() {
            let bad = Entry { file: change.0.into(), version: change.1.into(), ..entry("web", "v1", 99) };
            poisoned.insert(format!("web-1{index}"), serde_json::to_string(&bad).unwrap());
        }
        assert_eq!(versions(&poisoned, "web"), ["v2"]);
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
