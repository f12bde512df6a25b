//! What differs in every run becomes a word.

use std::sync::LazyLock;

use regex::Regex;

/// A pattern and its word. An order matters: what a later one would find within an earlier one's is gone by then.
static WORDS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
        (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? [+-]\d{4}( UTC)?", "<time>"),
        (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
        (r"\b[A-Z]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "<log> "),
        (r#"(resourceVersion"?: )"\d+""#, "$1<version>"),
        (r"(https?://)?127\.0\.0\.1:\d+", "<server>"),
        // Two ranges of Services; addresses have not all one length.
        (r"\b(198\.18\.0|10\.96\.\d+)\.\d+\b *", "<address> "),
        (r"\bgen-[a-z0-9]{5}\b", "gen-<random>"),
        (r"kube-api-access-[a-z0-9]{5}", "kube-api-access-<random>"),
        (r"/tmp/(LIVE|MERGED)-\d+", "<folder>/$1"),
        (r"/[^ :]*/kubectl-edit-\d+\.yaml", "<file>"),
        // Ages in a table and in a description: those of what a session makes are seconds or a few minutes.
        (r"\b(\d+[smhd]){1,2}(\x20+|$)", "<age> "),
        (r"<unknown>(\x20+|$)", "<unknown> "),
        (r"(?m)[ \t]+$", ""),
    ]
    .into_iter()
    .filter_map(|(pattern, word)| Some((Regex::new(&format!("(?m){pattern}")).ok()?, word)))
    .collect()
});

/// What was printed, in words that are the same in every run.
pub(crate) fn in_words(printed: &str, namespace: &str) -> String {
    // As long as the namespace, so that tables keep their columns.
    let mut text = printed.replace(namespace, &format!("{:x<width$}", "shop-", width = namespace.len()));
    for (pattern, word) in WORDS.iter() {
        text = pattern.replace_all(&text, *word).into_owned();
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_every_run_becomes_a_word() {
        for (printed, expected) in [
            ("namespace/shop-a1b2c created", "namespace/shop-xxxxx created"),
            ("web   0/1     0            0           12s   c1", "web   0/1     0            0           <age> c1"),
            ("web   ClusterIP   198.18.0.7     <none>", "web   ClusterIP   <address> <none>"),
            ("web   ClusterIP   198.18.0.213   <none>", "web   ClusterIP   <address> <none>"),
            ("uid: 0f0f0f0f-1111-2222-3333-444444444444", "uid: <uid>"),
            (r#"resourceVersion: "42""#, "resourceVersion: <version>"),
            ("CreationTimestamp:  Sun, 15 Nov 2026 05:46:37 +0000", "CreationTimestamp:  <time>"),
            ("is running at https://127.0.0.1:6443/x", "is running at <server>/x"),
            ("job.batch/gen-x7k2f created", "job.batch/gen-<random> created"),
            ("delay 10s timeout", "delay <age> timeout"),
        ] {
            assert_eq!(in_words(printed, "shop-a1b2c"), expected);
        }
    }

    #[test]
    fn every_pattern_is_one() {
        assert_eq!(WORDS.len(), 16);
    }
}
