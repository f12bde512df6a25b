//! Writing objects: YAML, one JSON List, and the difference that an injection makes.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use comfy_table::{Table, presets};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::terminal;

/// One object as YAML that readers of YAML 1.1 and 1.2 understand alike: keys in their order, text of several lines in
/// block style, quotes where something else than a string would be read.
pub fn yaml(value: &Value) -> Result<String, serde_saphyr::ser::Error> {
    // Long text stays on its line: a folded one is hard to copy and to diff.
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(&Readable(value), options)
}

/// Objects as a stream of YAML documents.
pub fn yaml_stream<'v>(values: impl IntoIterator<Item = &'v Value>) -> Result<String, serde_saphyr::ser::Error> {
    let mut stream = YamlStream::default();
    values.into_iter().try_for_each(|value| stream.add(value))?;
    Ok(stream.finish())
}

/// A stream of YAML documents in the making.
#[derive(Debug, Default)]
pub struct YamlStream {
    text: String,
}

impl YamlStream {
    /// Adds an object.
    pub fn add(&mut self, value: &Value) -> Result<(), serde_saphyr::ser::Error> {
        if !self.text.is_empty() {
            self.text.push_str("---\n");
        }
        self.text.push_str(&yaml(value)?);
        Ok(())
    }

    /// The stream.
    pub fn finish(self) -> String {
        self.text
    }
}

/// Objects as one `List`, as `kubectl get -o json` prints several.
pub fn json_list<'v>(values: impl IntoIterator<Item = &'v Value>) -> String {
    let mut list = JsonList::default();
    values.into_iter().for_each(|value| list.add(value));
    list.finish()
}

/// A `List` in the making, as indented JSON.
#[derive(Debug, Default)]
pub struct JsonList {
    /// The items, indented, with a newline before each.
    items: String,
}

impl JsonList {
    /// Adds an object.
    pub fn add(&mut self, value: &Value) {
        if !self.items.is_empty() {
            self.items.push(',');
        }
        // Newlines within texts are escaped.
        for line in format!("{value:#}").lines() {
            self.items.push_str("\n    ");
            self.items.push_str(line);
        }
    }

    /// The list.
    pub fn finish(self) -> String {
        let mut text = self.items;
        text.insert_str(0, "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"List\",\n  \"items\": [");
        text.push_str(if text.ends_with('[') { "]\n}\n" } else { "\n  ]\n}\n" });
        text
    }
}

/// A value as indented JSON, with a newline at the end.
pub fn json_text(value: &Value) -> String {
    format!("{value:#}\n")
}

/// A table for people: columns of words under headings, indented, without lines.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((2, 0));
    }
    format!("{}\n", table.trim_fmt())
}

/// What changed, as a unified diff of the two YAML texts; empty when nothing did. It is coloured: let the stream that it
/// is written to take the colours off where they are not wanted.
pub fn diff(title: &str, before: &Value, after: &Value) -> Result<String, serde_saphyr::ser::Error> {
    diff_between([title, &format!("{title} (injected)")], before, after)
}

/// As [`diff`], with a title for each of the two.
pub(crate) fn diff_between(
    titles: [&str; 2],
    before: &Value,
    after: &Value,
) -> Result<String, serde_saphyr::ser::Error> {
    const HEADER: Style = Style::new().bold();
    const RANGE: Style = AnsiColor::Cyan.on_default();
    const ADDED: Style = AnsiColor::Green.on_default();
    const REMOVED: Style = AnsiColor::Red.on_default();

    let (before, after) = (yaml(before)?, yaml(after)?);
    let diff = TextDiff::from_lines(&before, &after);
    let mut text = String::new();
    for (i, hunk) in diff.unified_diff().context_radius(3).iter_hunks().enumerate() {
        if i == 0 {
            let [before, after] = titles;
            push_line(&mut text, HEADER, &format!("--- {before}"));
            push_line(&mut text, HEADER, &format!("+++ {after}"));
        }
        push_line(&mut text, RANGE, &hunk.header().to_string());
        for change in hunk.iter_changes() {
            let (mark, style) = match change.tag() {
                ChangeTag::Equal => (' ', Style::new()),
                ChangeTag::Insert => ('+', ADDED),
                ChangeTag::Delete => ('-', REMOVED),
            };
            push_line(&mut text, style, &format!("{mark}{}", change.value().trim_end_matches('\n')));
        }
    }
    Ok(text)
}

fn push_line(text: &mut String, style: Style, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{style}{}{style:#}", terminal::clean(line));
}

/// A value whose texts are quoted with more care: JSON (Kruise keeps some in annotations) is in single quotes, without
/// a backslash at every double quote, and what begins with a tab is never in block style, which kubectl could not read.
struct Readable<'v>(&'v Value);

impl Serialize for Readable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) if text.starts_with(['{', '[', '"']) && !text.chars().any(needs_escape) => {
                serde_saphyr::SingleQuoted(text).serialize(serializer)
            }
            Value::String(text) if text.trim_start_matches([' ', '\n']).starts_with('\t') => {
                serde_saphyr::DoubleQuoted(text).serialize(serializer)
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Readable)),
            Value::Object(object) => {
                let mut map = serializer.serialize_map(Some(object.len()))?;
                for (key, value) in object {
                    map.serialize_entry(key, &Readable(value))?;
                }
                map.end()
            }
            other => other.serialize(serializer),
        }
    }
}

/// Whether a character cannot stand in single quotes on one line; the unusual ones are left to double quotes as well.
fn needs_escape(c: char) -> bool {
    c.is_control() || c == '\'' || !(c.is_ascii() || c.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;
    use crate::manifest;

    #[test]
    fn a_difference_has_nothing_that_a_terminal_would_act_on() {
        let text =
            diff("a \u{1b}[2J", &json!({"a": 1}), &json!({"a": "\u{1b}]0;\u{7}", "\u{9b}2J": "\u{7f}"})).unwrap();
        let own = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[36m"];
        let rest = own.into_iter().fold(text, |text, colour| text.replace(colour, ""));
        assert!(!rest.contains(|letter: char| letter.is_control() && letter != '\n'), "{rest:?}");
    }

    fn read_back(text: &str) -> Vec<Value> {
        let (documents, broken) = manifest::parse(&"rendered.yaml".into(), text);
        assert_eq!(broken, [], "{text}");
        documents.into_iter().map(|document| document.value).collect()
    }

    #[test]
    fn yaml_looks_as_kubectl_writes_it() {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "web",
                "labels": {},
                "annotations": {"a/hash": r#"{"mesh":"abc"}"#, "note": "it's {\"a\"}", "b": "{\"it's\"}"},
            },
            "spec": {
                "hostPID": false,
                "containers": [
                    {"name": "a", "image": "nginx:1.14.2", "args": ["--x=1", "", "on", "1e3", "-c", "echo \"hi\""]},
                    {"name": "b", "env": [], "command": ["sh", "-c", "set -e\nexec app\n"], "tty": null},
                ],
            },
        });
        assert_snapshot!(yaml(&pod).unwrap(), @r#"
        apiVersion: v1
        kind: Pod
        metadata:
          name: web
          labels: {}
          annotations:
            a/hash: '{"mesh":"abc"}'
            note: it's {"a"}
            b: "{\"it's\"}"
        spec:
          hostPID: false
          containers:
          - name: a
            image: nginx:1.14.2
            args:
            - --x=1
            - ""
            - "on"
            - "1e3"
            - -c
            - echo "hi"
          - name: b
            env: []
            command:
            - sh
            - -c
            - |
              set -e
              exec app
            tty: null
        "#);
    }

    #[test]
    fn what_a_reader_of_yaml_1_1_would_not_take_for_a_string_is_quoted() {
        let texts = [
            "",
            " ",
            "~",
            "null",
            "Null",
            "yes",
            "No",
            "on",
            "OFF",
            "y",
            "N",
            "true",
            "False",
            "0",
            "-1",
            "+1",
            "1.5",
            ".5",
            "5.",
            "1e3",
            "0x10",
            "0o7",
            "0b1",
            "010",
            "1_000",
            "12:30:45",
            "190:20:30.15",
            ".inf",
            "-.Inf",
            ".nan",
            "2001-01-01",
            "2001-12-14T21:59:43Z",
            "<<",
            "=",
            "- a",
            "-",
            "?",
            "? a",
            ":",
            "a: b",
            "a:",
            "a #b",
            "#a",
            "&a",
            "*a",
            "!a",
            "|",
            ">",
            "%a",
            "@a",
            "`a`",
            "'a'",
            "\"a\"",
            "{a}",
            "[a]",
            ",a",
            " a",
            "a ",
            "\ta",
            "a\t",
            "---",
            "...",
            "--- a",
            "\u{feff}a",
        ];
        for text in texts {
            let written = yaml(&json!({"kind": "Test", "value": text})).unwrap();
            let quoted =
                ["kind: Test\nvalue: \"", "kind: Test\nvalue: '"].iter().any(|start| written.starts_with(start));
            assert!(quoted, "{text:?} gives {written}");
            assert_eq!(read_back(&written)[0]["value"], json!(text), "{written}");
            let written = yaml(&json!({"kind": "Test", "keys": {text: 1}})).unwrap();
            assert_eq!(read_back(&written)[0]["keys"], json!({text: 1}), "{written}");
        }
    }

    #[test]
    fn text_that_begins_with_a_tab_is_not_in_block_style() {
        for text in ["\tall:\n", "\n\tall:\n\tx", "  \tall:\n"] {
            let written = yaml(&json!({"kind": "Test", "value": text})).unwrap();
            assert!(written.starts_with("kind: Test\nvalue: \""), "{written}");
            assert_eq!(read_back(&written)[0]["value"], json!(text), "{written}");
        }
    }

    #[test]
    fn several_objects_are_a_stream_or_a_list() {
        let (a, b) = (json!({"kind": "A"}), json!({"kind": "B", "text": "x\n"}));
        let stream = yaml_stream([&a, &b]).unwrap();
        assert_snapshot!(stream, @r"
        kind: A
        ---
        kind: B
        text: |
          x
        ");
        assert_eq!(read_back(&stream), [a.clone(), b.clone()]);
        assert_eq!(yaml_stream([]).unwrap(), "");
        for values in [vec![], vec![&a], vec![&a, &b]] {
            let whole = json_text(&json!({"apiVersion": "v1", "kind": "List", "items": values}));
            assert_eq!(json_list(values), whole);
        }
        let list = json_list([&a, &b]);
        assert!(list.starts_with("{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"List\",\n  \"items\": [\n"));
        assert_eq!(read_back(&list), [a, b]);
    }

    #[test]
    fn a_diff_shows_what_was_added_and_nothing_where_nothing_was() {
        let before = json!({"kind": "Pod", "spec": {"containers": [{"name": "app"}], "nodeName": "n"}});
        let after =
            json!({"kind": "Pod", "spec": {"containers": [{"name": "app"}, {"name": "proxy"}], "nodeName": "m"}});
        let plain = anstream::adapter::strip_str(&diff("Pod/web", &before, &after).unwrap()).to_string();
        assert_snapshot!(plain, @r#"
        --- Pod/web
        +++ Pod/web (injected)
        @@ -2,4 +2,5 @@
         spec:
           containers:
           - name: app
        -  nodeName: "n"
        +  - name: proxy
        +  nodeName: m
        "#);
        assert_eq!(diff("Pod/web", &before, &before).unwrap(), "");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            any::<String>(),
            "[ -~]{0,12}",
            "[\\n\\t\\r a:#'\"\\-{}\\[\\],&*!|>%@`]{0,12}",
            "[yYnNoOfFtTrRuUeEsSlL~]{1,5}",
            "[-+.0-9eExXoObB_:TZ]{1,10}",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            // Whole doubles come back as integers, as they do from kubectl.
            any::<f64>().prop_filter("a fraction", |f| f.is_finite() && f.fract() != 0.0).prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((text.clone(), inner), 0..6)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn what_is_written_is_read_back(value in any_json()) {
            let object = json!({"kind": "Test", "value": value});
            let written = yaml(&object).unwrap();
            prop_assert_eq!(read_back(&written), [object.clone()], "{}", written);
            prop_assert_eq!(read_back(&json_text(&object)), [object]);
        }
    }
}
