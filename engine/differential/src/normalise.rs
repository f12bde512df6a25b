//! What may differ between two runs becomes a word: `<rv of create>`, `<uid of list 2>`, `<time>`. The same value is the
//! same word for as long as a conversation lasts, so that an update that wrote nothing is seen to have written nothing.
//! A word is named after the step that first showed its value, so that one difference does not rename what comes after.
//! Words replace values and nothing else: a message keeps every other letter.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// A pattern that is known to be one.
#[expect(clippy::expect_used, reason = "every pattern is a constant of this file, and compiled by its tests")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

static UID: LazyLock<Regex> = LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"));
static TOKEN: LazyLock<Regex> = LazyLock::new(|| pattern(r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]+"));
static VOLUME: LazyLock<Regex> = LazyLock::new(|| pattern("kube-api-access-[a-z0-9]{5}"));
/// Versions in messages: of objects after the first words, of the whole store after the others.
static OBJECT_VERSION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"(ResourceVersion in (?:precondition: |object meta: |record \()|resourceVersion\\*":\\*")(\d+)"#)
});
static STORE_VERSION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"(too old resource version: \d+ \(|Too large resource version: \d+, current: |resourceVersion: ")\d+"#)
});
/// In tables: `5s`, and `3 (5s ago)` where a container has restarted.
static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d+ \()?(?:\d+[ydhms])+( ago\))?$"));
/// The letters of generated names.
const GENERATED: &str = "[bcdfghjklmnpqrstvwxz2456789]{5}";

/// Turns answers of one conversation into what can be compared.
#[derive(Debug, Default)]
pub(crate) struct Normaliser {
    /// Values that have a name in the corpus, such as the namespace's.
    names: Vec<(String, String)>,
    /// The conversation's own text: what it says is not random.
    said: String,
    generated: Vec<Regex>,
    /// The step that is being played, and how many words of a sort it has brought so far.
    step: String,
    of_step: HashMap<&'static str, usize>,
    words: HashMap<(&'static str, String), String>,
}

impl Normaliser {
    pub(crate) fn new(said: String) -> Self {
        Self { said, ..Self::default() }
    }

    /// From now on, `value` is written as `name`.
    pub(crate) fn name(&mut self, value: &str, name: &str) {
        self.names.push((value.to_owned(), name.to_owned()));
        // The longer first: one may be a part of the other.
        self.names.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
    }

    /// From now on, new words are of this step.
    pub(crate) fn step(&mut self, name: &str) {
        name.clone_into(&mut self.step);
        self.of_step.clear();
    }

    /// From now on, names that are generated for this request are known.
    pub(crate) fn sent(&mut self, body: &Value) {
        let metadata = &body["metadata"];
        let prefix = metadata["generateName"].as_str().filter(|_| metadata["name"].is_null()).unwrap_or_default();
        // Whole names only: `a-` and five letters also occur within UIDs and within longer names.
        if !prefix.is_empty()
            && let Ok(generated) = Regex::new(&format!(r"((?:^|[^a-z0-9.-]){}){GENERATED}\b", regex::escape(prefix)))
        {
            self.generated.push(generated);
        }
    }

    /// A body, a watch event or a review.
    pub(crate) fn value(&mut self, value: &Value) -> Value {
        if value["type"] == "BOOKMARK" { self.walk("", &without_versions(value)) } else { self.walk("", value) }
    }

    /// Any text, such as a warning.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (value, name) in &self.names {
            text = text.replace(value.as_str(), name);
        }
        for generated in std::mem::take(&mut self.generated) {
            text = self.numbered("generated", &generated, &text);
            self.generated.push(generated);
        }
        text = self.numbered("uid", &UID, &text);
        text = OBJECT_VERSION
            .replace_all(&text, |found: &Captures<'_>| format!("{}{}", &found[1], self.word("rv", &found[2])))
            .into_owned();
        text = STORE_VERSION.replace_all(&text, "$1<rv>").into_owned();
        text = TOKEN.replace_all(&text, "<token>").into_owned();
        text = VOLUME.replace_all(&text, "kube-api-access-<random>").into_owned();
        let said = &self.said;
        TIME.replace_all(&text, |found: &Captures<'_>| match found.get(1) {
            // Go shows its layout of a time by this example.
            _ if said.contains(&found[0]) || found[0].starts_with("2006-01-02T15:04:05") => found[0].to_owned(),
            Some(fraction) => format!("<time{}>", "0".repeat(fraction.len()).replacen('0', ".", 1)),
            None => "<time>".to_owned(),
        })
        .into_owned()
    }

    /// Every match becomes a word with a number; the first group, if there is one, stays.
    fn numbered(&mut self, sort: &'static str, what: &Regex, text: &str) -> String {
        what.replace_all(text, |found: &Captures<'_>| {
            let stays = found.get(1).map_or("", |group| group.as_str());
            // Without the character before a name, which is not the same everywhere.
            let value = found[0].trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric() && letter != '$');
            if self.said.contains(value) {
                return found[0].to_owned();
            }
            format!("{stays}{}", self.word(sort, value))
        })
        .into_owned()
    }

    fn word(&mut self, sort: &'static str, value: &str) -> String {
        let new = || {
            let count = self.of_step.entry(sort).or_default();
            *count += 1;
            if *count == 1 {
                format!("<{sort} of {}>", self.step)
            } else {
                format!("<{sort} {count} of {}>", self.step)
            }
        };
        self.words.entry((sort, value.to_owned())).or_insert_with(new).clone()
    }

    fn walk(&mut self, key: &str, value: &Value) -> Value {
        match value {
            Value::String(text) => self.field(key, text).into(),
            Value::Number(number) if key.ends_with("odePort") && !self.said.contains(&number.to_string()) => {
                "<nodePort>".into()
            }
            Value::Array(items) => {
                let mut items: Vec<Value> = items.iter().map(|item| self.walk(key, item)).collect();
                if key == "causes" && items.iter().all(|cause| cause["reason"] == "FieldManagerConflict") {
                    // The server goes through the managers in no order.
                    items.sort_by_cached_key(ToString::to_string);
                }
                if key == "managedFields" {
                    // Within an operation the server sorts by time, in whole seconds: whether two writes fall into the
                    // same second is chance.
                    items.sort_by_cached_key(|entry| {
                        ["operation", "manager", "subresource", "apiVersion"].map(|key| entry[key].to_string())
                    });
                }
                items.into()
            }
            Value::Object(object) => self.object(object).into(),
            other => other.clone(),
        }
    }

    fn object(&mut self, object: &Map<String, Value>) -> Map<String, Value> {
        // In one order, so that words are numbered alike on both sides.
        let mut sorted: Vec<(String, &Value)> = object.iter().map(|(key, value)| (self.text(key), value)).collect();
        sorted.sort_by(|left, right| left.0.cmp(&right.0));
        // The metadata of a list is of the whole store.
        let is_list = object.contains_key("items") || object.contains_key("rows");
        let mut normal = Map::new();
        for (key, value) in sorted {
            let value = match (key.as_str(), value) {
                ("metadata", Value::Object(metadata)) if is_list => {
                    let mut holder = Value::Object(Map::from_iter([("metadata".to_owned(), metadata.clone().into())]));
                    store_version(&mut holder);
                    self.walk("metadata", &holder["metadata"])
                }
                ("resources", value) if self.is_ours(object.get("groupVersion").unwrap_or(&Value::Null)) => {
                    self.walk("resources", &without_hashes(value))
                }
                ("rows", value) => self.walk("rows", &without_ages(value)),
                ("columnDefinitions", value) => self.walk("columnDefinitions", &without_descriptions(value)),
                ("extra", value) if is_credential(value) => continue,
                _ => self.walk(&key, value),
            };
            normal.insert(key, value);
        }
        normal
    }

    /// Whether a group has a name of this run.
    fn is_ours(&mut self, group_version: &Value) -> bool {
        group_version.as_str().is_some_and(|text| self.text(text) != text)
    }

    fn field(&mut self, key: &str, text: &str) -> String {
        let is_version = !text.is_empty() && text != "0" && text.bytes().all(|byte| byte.is_ascii_digit());
        match key {
            "resourceVersion" if is_version => self.word("rv", text),
            "continue" if !text.is_empty() => "<continue>".to_owned(),
            "serverAddress" => "<server>".to_owned(),
            "clusterIP" | "clusterIPs" if text.contains(['.', ':']) && !self.said.contains(text) => {
                self.word("clusterIP", text)
            }
            _ => self.text(text),
        }
    }
}

fn store_version(object: &mut Value) {
    if let Some(version) = object.pointer_mut("/metadata/resourceVersion").filter(|version| version.is_string()) {
        *version = "<rv>".into();
    }
}

/// A bookmark without its version, which is that of the whole store: others may have written to it. In a table the only row has it.
fn without_versions(bookmark: &Value) -> Value {
    let mut bookmark = bookmark.clone();
    let Some(object) = bookmark.get_mut("object") else { return bookmark };
    store_version(object);
    let rows = object.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten();
    rows.filter_map(|row| row.get_mut("object")).for_each(store_version);
    bookmark
}

/// The resources of a group whose name is random, and with it the hash of its names.
fn without_hashes(resources: &Value) -> Value {
    let mut resources = resources.clone();
    for hash in resources.as_array_mut().into_iter().flatten().filter_map(|item| item.get_mut("storageVersionHash")) {
        *hash = "<hash>".into();
    }
    resources
}

/// The columns of a table. What they are is for people, and in our own words.
fn without_descriptions(columns: &Value) -> Value {
    let mut columns = columns.clone();
    for column in columns.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        column.shift_remove("description");
    }
    columns
}

/// What a user is known by besides the name: the hash of the client's certificate, where it has one.
fn is_credential(extra: &Value) -> bool {
    extra
        .as_object()
        .is_some_and(|extra| extra.len() == 1 && extra.contains_key("authentication.kubernetes.io/credential-id"))
}

/// The rows of a table, whose ages change by the second.
fn without_ages(rows: &Value) -> Value {
    let mut rows = rows.clone();
    for row in rows.as_array_mut().into_iter().flatten() {
        for cell in row["cells"].as_array_mut().into_iter().flatten() {
            if let Some(text) = cell.as_str() {
                *cell = AGE.replace(text, "${1}<age>${2}").into_owned().into();
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_version_is_the_same_word() {
        let mut normaliser = Normaliser::new(String::new());
        let object = |version: &str| json!({"metadata": {"resourceVersion": version}});
        let answers = [("create", "7"), ("update", "9"), ("get", "7")].map(|(step, version)| {
            normaliser.step(step);
            normaliser.value(&object(version))
        });
        assert_eq!(answers, [object("<rv of create>"), object("<rv of update>"), object("<rv of create>")]);
    }

    #[test]
    fn the_version_of_a_list_is_of_the_store_and_those_of_its_items_are_not() {
        let list = json!({"metadata": {"resourceVersion": "12", "continue": "abc"},
            "items": [{"metadata": {"resourceVersion": "7"}}]});
        let mut normaliser = Normaliser::default();
        normaliser.step("list");
        assert_eq!(
            normaliser.value(&list),
            json!({"metadata": {"resourceVersion": "<rv>", "continue": "<continue>"},
                "items": [{"metadata": {"resourceVersion": "<rv of list>"}}]})
        );
    }

    #[test]
    fn the_version_of_a_bookmark_is_of_the_store_in_a_table_as_well() {
        let metadata = |version: &str| json!({"metadata": {"resourceVersion": version}});
        let table = |version: &str| json!({"metadata": {}, "rows": [{"cells": [], "object": metadata(version)}]});
        for object in [&metadata as &dyn Fn(&str) -> Value, &table] {
            let event = |version: &str| json!({"type": "BOOKMARK", "object": object(version)});
            assert_eq!(Normaliser::default().value(&event("12")), event("<rv>"));
        }
    }

    #[test]
    fn what_the_corpus_says_stays() {
        let mut normaliser = Normaliser::new("renewTime: 2001-02-03T04:05:06Z".to_owned());
        normaliser.name("pods-abcde", "$ns");
        assert_eq!(
            normaliser
                .text("2001-02-03T04:05:06Z 2026-01-01T00:00:00Z 2026-01-01T00:00:00.123456Z pods-abcde.example.com"),
            "2001-02-03T04:05:06Z <time> <time.000000> $ns.example.com"
        );
    }

    #[test]
    fn messages_keep_everything_but_versions_uids_and_generated_names() {
        let mut normaliser = Normaliser::default();
        normaliser.step("create");
        normaliser.sent(&json!({"metadata": {"generateName": "job-"}}));
        assert_eq!(
            normaliser.text(
                "pods \"job-x7k2f\" is invalid; too old resource version: 1 (334); Precondition failed: UID in precondition: \
                 0f9a7c5e-0000-4000-8000-000000000001, UID in object meta: 0f9a7c5e-0000-4000-8000-000000000002"
            ),
            "pods \"job-<generated of create>\" is invalid; too old resource version: 1 (<rv>); Precondition failed: UID in precondition: \
             <uid of create>, UID in object meta: <uid 2 of create>"
        );
    }

    #[test]
    fn a_generated_name_is_replaced_where_it_stands_alone_and_not_within_a_uid_or_another_name() {
        let mut normaliser = Normaliser::default();
        normaliser.step("create");
        normaliser.sent(&json!({"metadata": {"generateName": "a-"}}));
        assert_eq!(
            normaliser
                .text("a-bcdfg /pods/a-bcdfg \"a-bcdfg\" 0f9a7c5e-0000-4000-9e7a-bcdf24567890 data-bcdfg a-bcdfgh"),
            "a-<generated of create> /pods/a-<generated of create> \"a-<generated of create>\" <uid of create> data-bcdfg a-bcdfgh"
        );
    }

    #[test]
    fn managed_fields_that_differ_in_time_only_have_one_order() {
        let entry = |manager: &str| json!({"manager": manager, "operation": "Update"});
        let fields = |a: &str, b: &str| json!({"metadata": {"managedFields": [entry(a), entry(b)]}});
        assert_eq!(Normaliser::default().value(&fields("b", "a")), fields("a", "b"));
    }
}
