//! What differs in every run becomes a word.

use std::sync::LazyLock;

use regex::Regex;

/// A pattern and its word. The order matters: what a later one would find within an earlier one's is gone by then.
static WORDS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
        (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? [+-]\d{4}( UTC)?", "<time>"),
        (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
        // kubectl logs this only if its timeout ends just while it opens a watch.
        (r#"^[A-Z]\d{4} .* "Failed to watch" err="context deadline exceeded".*\n"#, ""),
        (r"\b[A-Z]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "<log> "),
        (r#"(resourceVersion\\?"?: ?\\?")\d+"#, "$1<version>"),
        (r"(Resource Version: +)\d+", "$1<version>"),
        (r"(resource version to be \d+, was )\d+", "$1<version>"),
        (r"X509SHA256=[0-9a-f]{64}", "X509SHA256=<hash>"),
        (r"(https?://)?127\.0\.0\.1:\d+", "<server>"),
        // Two ranges of Services; addresses have not all one length.
        (r"\b(198\.18\.0|10\.96\.\d+)\.\d+\b *", "<address> "),
        (r"CLUSTER-IP +", "CLUSTER-IP "),
        (r"\bgen-[a-z0-9]{5}\b", "gen-<random>"),
        (r"kube-api-access-[a-z0-9]{5}", "kube-api-access-<random>"),
        // Names that controllers make; with what pads a column, since hashes have not all one length.
        (r"\b(hello|broken)-[a-z0-9]{5}\b *", "$1-<random> "),
        (r"\bweb-[b-df-hj-np-tv-z2-9]{6,10}(-[a-z0-9]{5})\b *", "web-<hash>-<random> "),
        (r"\bweb-[b-df-hj-np-tv-z2-9]{6,10}\b *", "web-<hash> "),
        (r"(Successfully assigned .+ to )\S+", "$1<node>"),
        (r"/[^ ]*/(LIVE|MERGED)-\d+", "<folder>/$1"),
        (r"/[^ :]*/kubectl-edit-\d+\.yaml", "<file>"),
        // Ages in a table and in a description: those of what a session makes are seconds or a few minutes.
        (r"\b(\d+[smhd]){1,2}(\x20+|$)", "<age> "),
        // Of an event that was recorded with a time of its own, more with every day.
        (r"\bover (\d+[smhdy]){1,2}\)", "over <age>)"),
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
    text = without_repairs(&text);
    for (pattern, word) in WORDS.iter() {
        text = pattern.replace_all(&text, *word).into_owned();
    }
    with_sorted_causes(text.trim_end())
}

/// Descriptions without the events of kube-apiserver's own repair loop. It watches Services and their addresses, and reports a Service
/// whose address it has not seen yet: whether that happens is chance.
fn without_repairs(text: &str) -> String {
    const REPAIR: &str = "ipallocator-repair-controller";
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    lines.retain(|line| !line.contains(REPAIR));
    if lines.len() == text.split('\n').count() {
        return text.to_owned();
    }
    while let Some(at) = (0..lines.len()).find(|&at| is_empty_table_of_events(&lines[at..])) {
        // `<none>` stands in the column of the values above it.
        let above = at.checked_sub(1).map_or("", |above| lines[above].as_str());
        let column = above.find("  ").map_or(0, |gap| above.len() - above[gap..].trim_start().len());
        lines.splice(at..at + 3, [format!("{:<column$}<none>", "Events:")]);
    }
    lines.join("\n")
}

/// Whether the lines begin with a table of events that has its two lines of headings and no event.
fn is_empty_table_of_events(lines: &[String]) -> bool {
    let [events, names, rules, rest @ ..] = lines else { return false };
    events.trim_end() == "Events:"
        && names.trim_start().starts_with("Type ")
        && rules.trim_start().starts_with("---- ")
        && rest.first().is_none_or(|line| !line.starts_with("  "))
}

/// The server goes through the properties of an object in no order, so the list of what is wrong has none.
fn with_sorted_causes(text: &str) -> String {
    let mut lines: Vec<&str> = text.split('\n').collect();
    for causes in lines.chunk_by_mut(|one, other| one.starts_with("* ") && other.starts_with("* ")) {
        causes.sort_unstable();
    }
    lines.join("\n")
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
            (r#"resourceVersion: "42""#, r#"resourceVersion: "<version>""#),
            (r#"\"resourceVersion\":\"42\""#, r#"\"resourceVersion\":\"<version>\""#),
            ("Resource Version:  42", "Resource Version:  <version>"),
            ("NAME   TYPE   CLUSTER-IP     EXTERNAL-IP", "NAME   TYPE   CLUSTER-IP EXTERNAL-IP"),
            ("It is invalid:\n* b\n* a\n[exit 1]", "It is invalid:\n* a\n* b\n[exit 1]"),
            ("CreationTimestamp:  Sun, 15 Nov 2026 05:46:37 +0000", "CreationTimestamp:  <time>"),
            ("is running at https://127.0.0.1:6443/x", "is running at <server>/x"),
            ("job.batch/gen-x7k2f created", "job.batch/gen-<random> created"),
            ("assigned shop-a1b2c/hello-x7k2f to", "assigned shop-xxxxx/hello-<random> to"),
            ("web-7c9f6d8b5d-x7k2f   1/1", "web-<hash>-<random> 1/1"),
            ("replica set web-7c9f6d8b5d from 0", "replica set web-<hash> from 0"),
            ("delay 10s timeout", "delay <age> timeout"),
            (
                "deleted\nE1118 11:20:01.123456   18 reflector.go:204] \"Failed to watch\" err=\"context deadline exceeded\" type=\"x\"\nerror: timed out",
                "deleted\nerror: timed out",
            ),
            ("318d (x3 over 2y41d)   Warning", "<age> (x3 over <age>)   Warning"),
        ] {
            assert_eq!(in_words(printed, "shop-a1b2c"), expected);
        }
    }

    #[test]
    fn events_of_the_api_servers_repair_loop_are_not_shown() {
        let table = |rows: &str| {
            format!(
                "Type:                     ClusterIP\n\
                 Events:\n\
                 \x20 Type     Reason                 Age   From                           Message\n\
                 \x20 ----     ------                 ----  ----                           -------\n\
                 {rows}\nName:  other"
            )
        };
        let repair = "  Warning  ClusterIPNotAllocated  0s    ipallocator-repair-controller  Cluster IP [IPv4]: 198.18.0.7 is not allocated; repairing";
        let other = "  Normal   Synced                 1m    somebody                       It is synced";
        let none = "Type:                     ClusterIP\nEvents:                   <none>\nName:  other";
        assert_eq!(without_repairs(&table(repair)), none);
        assert_eq!(without_repairs(&table(&format!("{repair}\n{other}"))), table(other));
        assert_eq!(without_repairs(&table(other)), table(other));
    }

    #[test]
    fn every_pattern_is_one() {
        assert_eq!(WORDS.len(), 26);
    }
}
