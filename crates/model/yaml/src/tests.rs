use std::fmt::Write as _;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;

fn parse_ok(text: &str) -> Vec<Document> {
    parse(text, Options::default()).unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
}

fn value_of(text: &str) -> Value {
    let documents = parse_ok(&format!("value: {text}\n"));
    assert_eq!(documents.len(), 1, "{text}");
    documents[0].value["value"].clone()
}

fn broken(text: &str) -> String {
    let errors = parse(text, Options::default()).err().unwrap_or_default();
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The position of a dotted path.
fn locate(document: &Document, path: &str) -> String {
    let steps = path.split('.').map(|step| step.parse().map_or(Step::Key(step), Step::Index));
    document.position(steps).to_string()
}

#[test]
fn plain_scalars_mean_what_they_mean_to_kubectl() {
    // Each pair was checked against sigs.k8s.io/yaml 1.6.0.
    for (text, expected) in [
        ("", json!(null)),
        ("~", json!(null)),
        ("Null", json!(null)),
        ("nULL", json!("nULL")),
        ("yes", json!(true)),
        ("On", json!(true)),
        ("y", json!(true)),
        ("yEs", json!("yEs")),
        ("NO", json!(false)),
        ("off", json!(false)),
        ("n", json!(false)),
        ("-0", json!(0)),
        ("007", json!(7)),
        ("08", json!(8)),
        ("0o17", json!(15)),
        ("-0x10", json!(-16)),
        ("0xg", json!("0xg")),
        ("0b101", json!(5)),
        ("0b2", json!("0b2")),
        ("1_000", json!(1000)),
        ("_1", json!("_1")),
        ("+5", json!(5)),
        ("++5", json!("++5")),
        ("1e3", json!(1000)),
        (".5", json!(0.5)),
        ("5.", json!(5)),
        (".", json!(".")),
        ("1.2.3", json!("1.2.3")),
        ("1e", json!("1e")),
        ("1e400", json!("1e400")),
        ("9223372036854775807", json!(9_223_372_036_854_775_807_i64)),
        ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
        ("18446744073709551616", json!(18_446_744_073_709_551_616_f64)),
        ("-9223372036854775808", json!(-9_223_372_036_854_775_808_i64)),
        ("2001-01-01", json!("2001-01-01")),
        ("2001-12-14T21:59:43.10-05:00", json!("2001-12-14T21:59:43.10-05:00")),
        ("12:30:45", json!("12:30:45")),
        ("100m", json!("100m")),
        ("'yes'", json!("yes")),
        ("\"0x10\"", json!("0x10")),
        ("|\n  1", json!("1\n")),
        ("!!str 12", json!("12")),
        ("!!int '12'", json!(12)),
        ("!!float 1", json!(1)),
        ("!!null ~", json!(null)),
        ("!custom 12", json!("12")),
        ("! 12", json!("12")),
        ("!<tag:yaml.org,2002:int> 5", json!(5)),
        ("{1: a, on: b, 1.5: c, 0x10: d}", json!({"1": "a", "true": "b", "1.5": "c", "16": "d"})),
        ("\"\\ud83d\\ude00\"", json!("😀")),
    ] {
        assert_eq!(value_of(text), expected, "{text}");
    }
}

#[test]
fn anchors_aliases_and_merge_keys_are_followed_as_kubectl_follows_them() {
    assert_eq!(value_of("\n  a: &x {p: 1}\n  b: *x"), json!({"a": {"p": 1}, "b": {"p": 1}}));
    assert_eq!(value_of("\n  a: &x {p: 1, q: 2}\n  b: {<<: *x, q: 3}")["b"], json!({"p": 1, "q": 3}));
    assert_eq!(value_of("\n  a: &x {p: 1, q: 2}\n  b: {q: 3, <<: *x}")["b"], json!({"q": 2, "p": 1}));
    assert_eq!(value_of("{<<: [{p: 1}, {p: 2, q: 3}]}"), json!({"p": 1, "q": 3}));
    assert_eq!(value_of("{<<: {<<: {p: 1}, q: 2}}"), json!({"p": 1, "q": 2}));
    assert_eq!(value_of("{!!merge <<: {p: 1}}"), json!({"p": 1}));
    assert_eq!(value_of("{'<<': {p: 1}}"), json!({"<<": {"p": 1}}));
    assert_eq!(value_of("\n  &k a: 1\n  b: *k"), json!({"a": 1, "b": "a"}));
}

#[test]
fn keys_stay_in_the_order_in_which_they_were_written() {
    let value = value_of("{z: 1, a: 2, m: {x: 3, b: 4}}");
    assert_eq!(value.to_string(), r#"{"z":1,"a":2,"m":{"x":3,"b":4}}"#);
}

#[test]
fn documents_without_content_are_skipped() {
    for text in ["", "\n", "# nothing\n", "---\n", "---\n---\n# x\n---\n...\n", "\u{feff}", "~", "  \r\n"] {
        assert!(parse_ok(text).is_empty(), "{text:?}");
    }
}

#[test]
fn documents_are_split_at_markers_whatever_the_line_ends() {
    let kinds = |text: &str| {
        let documents = parse_ok(text);
        documents.iter().filter_map(|document| document.value["kind"].as_str()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(kinds("kind: A\n---\nkind: B\n--- # more\nkind: C\n...\nkind: D\n"), "A B C D");
    assert_eq!(kinds("\u{feff}kind: A\r\n---\r\nkind: B\r\ntext: |\r\n  --- no\r\n---   \r\nkind: C"), "A B C");
    assert_eq!(kinds("%YAML 1.1\n---\nkind: A\n...\n%YAML 1.2\n---\nkind: B\n"), "A B");
    assert_eq!(kinds("--- {kind: A}\n--- {kind: B}"), "A B");
}

#[test]
fn json_is_read_one_value_or_many() {
    let documents = parse_ok("\n{\"kind\": \"A\", \"n\": 1.0}\n{\"kind\":\n\t\"B\"} {\"kind\":\"C\"}");
    assert_eq!(documents.iter().map(|document| &document.value["kind"]).collect::<Vec<_>>(), ["A", "B", "C"]);
    assert_eq!(locate(&documents[0], "n"), "2:20");
    assert_eq!(locate(&documents[1], "kind"), "3:2");
    assert_eq!(locate(&documents[2], "kind"), "4:15");
    // A flow mapping is YAML, though it starts as JSON does.
    assert_eq!(parse_ok("{kind: A, on: yes}\n---\n{\"kind\": \"B\"}")[0].value, json!({"kind": "A", "true": true}));
    let long_key = format!("{{\"kind\":\"A\",\"{}\":1}}", "k".repeat(5000));
    assert_eq!(parse_ok(&long_key)[0].value.as_object().map(serde_json::Map::len), Some(2));
}

#[test]
fn a_json_file_is_held_to_json() {
    let json = Options { json: true, ..Options::default() };
    let errors = parse("{\"kind\": \"A\"}\n{\"kind\": \"B\",}", json).unwrap_err();
    assert_snapshot!(errors[0], @r#"
    2:14: key must be a string
      {"kind": "B",}
                   ^
    "#);
    assert!(parse("", json).unwrap().is_empty());
}

#[test]
fn a_field_is_located_by_its_value_and_a_missing_one_by_what_is_around_it() {
    let documents = parse_ok(
        "kind: Pod
metadata:
  labels: &labels {app: web}
spec:
  containers:
  - name: a
    args: [x, y]
    script: |
      one
  - image: b
  selector: *labels
",
    );
    let locate = |at: &str| locate(&documents[0], at);
    assert_eq!(locate("metadata.labels.app"), "3:25");
    assert_eq!(locate("spec"), "4:1");
    assert_eq!(locate("spec.containers.0.args.1"), "7:15");
    assert_eq!(locate("spec.containers.0.script"), "8:5");
    assert_eq!(locate("spec.containers.1"), "10:5");
    assert_eq!(locate("spec.containers.1.name"), "10:5");
    assert_eq!(locate("spec.containers.7.name"), "5:3");
    assert_eq!(locate("spec.selector"), "11:13");
    assert_eq!(locate("status.phase"), "1:1");
}

#[test]
fn what_kubectl_refuses_is_refused() {
    for text in [
        "kind: A\na: *nobody",
        "kind: A\na: &self [*self]",
        "kind: A\n{a: b}: c",
        "kind: A\n~: c",
        "kind: A\n<<: 5",
        "kind: A\n<<: [5]",
        "kind: A\nv: !!int x",
        "kind: A\nv: !!bool 1",
        "kind: A\nv: @b",
        "kind: A\nv: {{ .Values.x }}",
        "kind: A\nv: a: b",
        "kind: A\nv:\n  - a\n b: c",
        "kind: A\nv: \"\\q\"",
        "kind: A\nv: \u{7}",
    ] {
        let (documents, mistakes) = parse_lossy(text, Options::default());
        assert_eq!((documents.len(), mistakes.len()), (0, 1), "{text}");
        assert_eq!(mistakes[0].position.line, if text.contains("\n b") { 4 } else { 2 }, "{text}");
    }
}

#[test]
fn a_template_is_recognised() {
    assert_snapshot!(broken("kind: Pod\nmetadata:\n  name: {{ .Release.Name }}-web\n"), @r"
    3:10: a key must be a string, this is a mapping; if this is a template, render it first
        name: {{ .Release.Name }}-web
               ^
    ");
}

#[test]
fn a_long_line_is_cut_around_the_caret() {
    let text = format!("kind: A\nv: {{a: {}, b: @x, c: {}}}", "1".repeat(200), "2".repeat(200));
    assert_snapshot!(broken(&text), @r"
    2:213: unexpected character: `@'
      …1111111111111111111111111111111111111111111111111111111, b: @x, c: 222222222222222222222222222222222…
                                                                   ^
    ");
}

#[test]
fn a_billion_laughs_end_early() {
    let mut text = "kind: A\na0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for i in 1..30 {
        let aliases = vec![format!("*a{}", i - 1); 10].join(", ");
        writeln!(text, "a{i}: &a{i} [{aliases}]").unwrap();
    }
    assert!(broken(&text).contains("the aliases expand to too much"));
    // The count goes over all documents of a text.
    let bomb = format!("kind: A\ntext: &x {}\nmore: [{}]\n---\n", "x".repeat(100_000), vec!["*x"; 100].join(", "));
    assert!(broken(&bomb.repeat(10)).contains("the aliases expand to too much"));
    // Nested anchors would copy what is below them once per level.
    let nested = format!("kind: A\nv: {}{}{}", "&a [".repeat(120), "x".repeat(500_000), "]".repeat(120));
    assert!(broken(&nested).contains("the aliases expand to too much"));
}

#[test]
fn depth_is_bounded_also_through_aliases() {
    let flow = |depth: usize| format!("kind: A\nv: {}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(broken(&flow(120)), "");
    assert!(broken(&flow(100_000)).starts_with("2:"));
    let block: String = (0..1000).fold("kind: A\n".to_owned(), |text, i| text + &" ".repeat(i) + "v:\n");
    assert!(!broken(&block).is_empty());
    let mut chain = format!("kind: A\na0: &a0 {}{}\n", "[".repeat(50), "]".repeat(50));
    for i in 1..5 {
        writeln!(chain, "a{i}: &a{i} {}*a{}{}", "[".repeat(50), i - 1, "]".repeat(50)).unwrap();
    }
    assert!(broken(&chain).contains("nested more than 128 levels deep"));
}

#[test]
fn of_a_key_that_is_given_twice_the_last_value_counts_if_that_is_wanted() {
    let last = Options { last_key_wins: true, ..Options::default() };
    assert_eq!(parse("a: 1\nb: 2\na: 3\n", last).unwrap()[0].value, json!({"a": 3, "b": 2}));
    let (_, mistakes) = parse_lossy("a: 1\nb: 2\na: 3\n", Options::default());
    assert_eq!(mistakes[0].problem, Problem::DuplicateKey { key: "a".to_owned(), line: 1 });
}

#[test]
fn the_items_of_a_list_keep_their_positions() {
    let mut documents = parse_ok("kind: List\nitems:\n- a: 1\n- {b: 2}\n");
    let items = documents[0].take_items("items").unwrap();
    assert_eq!(items.iter().map(|item| &item.value).collect::<Vec<_>>(), [&json!({"a": 1}), &json!({"b": 2})]);
    assert_eq!((locate(&items[0], "a"), locate(&items[1], "b")), ("3:6".to_owned(), "4:7".to_owned()));
    assert!(documents[0].take_items("kind").is_none());
}

/// The items of lists and the documents, as `kind-of-list/name@position`.
fn objects(text: &str) -> Vec<String> {
    let mut objects = Vec::new();
    let mistakes = for_each_object(text, Options::default(), |object, list| {
        let list = list.map(|list| format!("{} {}/", list.api_version, list.kind)).unwrap_or_default();
        objects.push(format!("{list}{}@{}", object.value["name"].as_str().unwrap_or("?"), locate(&object, "name")));
    });
    assert_eq!(mistakes, [], "{text}");
    objects
}

#[test]
fn lists_are_split_wherever_their_kind_is_written() {
    let block = "apiVersion: v1\nitems:\n- name: a\n- {name: b}\nkind: List\nmetadata: {}\n";
    assert_eq!(objects(block), ["v1 List/a@3:9", "v1 List/b@4:10"]);
    let stream = format!(
        "name: x\n---\n{block}---\nkind: PodList\nitems: [{{name: c}}]\n--- \n  kind: List\n  items:\n  - name: d\n"
    );
    let expected = ["x@1:7", "v1 List/a@5:9", "v1 List/b@6:10", " PodList/c@11:16", " List/d@15:11"];
    assert_eq!(objects(&stream), expected);
    let json = "{\"items\": [{\"name\": \"a\"},\n {\"é\": \"\\u00e9\\\"\", \"name\": \"b\"}], \"kind\": \"List\"} {\"name\": \"c\"}";
    assert_eq!(objects(json), [" List/a@1:21", " List/b@2:28", "c@2:60"]);
}

#[test]
fn lists_in_lists_are_split_and_empty_ones_are_nothing() {
    let inner = "{\"kind\": \"PodList\", \"items\": [{\"name\": \"a\"}, {\"name\": \"b\"}]}";
    let outer = format!(
        "{{\"items\": [{inner}, {{\"name\": \"c\"}}, {{\"kind\": \"List\", \"items\": []}}], \"kind\": \"List\"}}"
    );
    for text in [outer.clone(), format!("--- {outer}\n--- {{\"kind\": \"List\", \"items\": []}}")] {
        let names: Vec<String> =
            objects(&text).iter().filter_map(|it| Some(it.split_once('@')?.0.to_owned())).collect();
        assert_eq!(names, [" PodList/a", " PodList/b", " List/c"], "{text}");
    }
}

#[test]
fn a_list_stays_whole_where_its_items_are_not_all_written_there() {
    for text in [
        "kind: AllowList\nitems: [a, b]",
        "kind: Menu\nitems: [{name: a}]",
        "items: [{name: a}]",
        "kind: List\nx: &x {name: a}\nitems: [*x]",
        "kind: List\nitems: &x [{name: a}]\nother: *x",
        "x: &x {kind: List}\n<<: *x\nitems: [{name: a}]",
        "items: [{name: a}]\nkind: List\n<<: {items: [{name: b}]}",
        "kind: List\nitems: null",
    ] {
        assert_eq!(objects(text).len(), 1, "{text}");
        assert_eq!(objects(text)[0].split('@').next(), Some("?"), "{text}");
    }
}

#[test]
fn what_is_wrong_in_a_list_is_found_and_the_next_document_is_read() {
    let mut names = Vec::new();
    let text = "kind: List\nitems:\n- {name: a}\n- {name: b, name: c}\n- {name: d}\n---\nname: e\n";
    let mistakes = for_each_object(text, Options::default(), |object, _| names.push(object.value["name"].clone()));
    assert_eq!(names, ["a", "e"]);
    assert_eq!(mistakes.iter().map(|mistake| mistake.position.to_string()).collect::<Vec<_>>(), ["4:13"]);
}

#[test]
fn json_is_read_as_serde_reads_it() {
    let text =
        r#"{"a": [1, -0.5, 1e2, true, false, null, [], {}], "é\u00e9\"": "\\", "b": {"c": ["x\/y\n", ""]}, "": 0}"#;
    let mut expected: Value = serde_json::from_str(text).unwrap();
    // A number that is whole is an integer, as in YAML.
    expected["a"][2] = json!(100);
    assert_eq!(parse(text, Options { json: true, ..Options::default() }).unwrap()[0].value, expected);
    assert_eq!(parse_ok(text)[0].value, expected);
    let errors = parse("{\"a\": \"\\ud800\"}", Options { json: true, ..Options::default() }).unwrap_err();
    assert_eq!((errors.len(), errors[0].position.to_string().as_str()), (1, "1:7"));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "(?s)[ \\n\\t:,\\-\\[\\]{}&*!|>'\"#%@a01<?.\u{feff}é]{0,80}") {
        let _ = parse(&text, Options::default());
    }

    #[test]
    fn no_json_text_makes_it_panic(text in "\\{[ \\n\":,\\[\\]{}a01\\\\ué]{0,60}") {
        let _ = parse(&text, Options { json: true, last_key_wins: true });
        let _ = parse(&text, Options::default());
    }
}
