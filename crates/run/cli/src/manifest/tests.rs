use std::fs;

use insta::assert_snapshot;

use super::*;

fn parse_ok(text: &str) -> Vec<Document> {
    let (documents, broken) = parse(&"test.yaml".into(), text);
    assert_eq!(broken, [], "{text}");
    documents
}

fn broken(text: &str) -> String {
    let (_, broken) = parse(&"test.yaml".into(), text);
    broken.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn path(text: &str) -> field::Path {
    text.split('.').fold(field::Path::root(), |path, step| match step.parse() {
        Ok(index) => path.index(index),
        Err(_) => path.child(step),
    })
}

#[test]
fn lists_are_flattened_and_typed_lists_say_the_kind_of_their_items() {
    let documents = parse_ok(
        "apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a}}
- apiVersion: v1
  kind: PodList
  items:
  - metadata: {name: b}
    spec: {}
---
apiVersion: apps/v1
kind: DeploymentList
items: [{metadata: {name: c}}]
---
kind: AllowList
spec: {}
",
    );
    let titles: Vec<_> = documents.iter().map(|d| format!("{} {}", d.api_version(), d.title())).collect();
    assert_eq!(titles, ["v1 Pod/a", "v1 Pod/b", "apps/v1 Deployment/c", " AllowList/"]);
    assert_eq!(documents[1].locate(&path("metadata.name")), "test.yaml:8:22");
    assert_eq!(documents[1].locate(&path("spec")), "test.yaml:9:11");
}

#[test]
fn every_broken_document_is_shown_with_its_line_and_a_caret() {
    assert_snapshot!(broken("kind: A\n---\na: \"open\n---\nkind: B\n---\nkind: C\nspec:\n\tcontainers: []\n---\nspec: [1, 2\n---\nkind: D\nname: x\nname: y\n---\n- 1\n---\nspec: {}\n---\nkind: E\nv: .inf\n"), @r#"
    test.yaml:4:1: invalid indentation in multiline quoted scalar
      ---
      ^
    test.yaml:9:2: tabs disallowed within this context (block indentation)
      	containers: []
      	^
    test.yaml:11:7: unclosed bracket '['
      spec: [1, 2
            ^
    test.yaml:15:1: key "name" is already set in this mapping, on line 14
      name: y
      ^
    test.yaml:22:4: JSON has no such number; quote it if it is text
      v: .inf
         ^
    test.yaml:17:1: a manifest is a mapping with apiVersion and kind, this is a list
      - 1
      ^
    test.yaml:19:1: kind: Required value
      spec: {}
      ^
    "#);
}

#[test]
fn files_folders_and_stdin_are_read_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("b/inner")).unwrap();
    fs::create_dir_all(at(".git")).unwrap();
    for (name, text) in [
        ("z.yaml", "kind: Z"),
        ("a.yml", "kind: A"),
        ("b/inner/c.json", "{\"kind\": \"C\"}"),
        ("notes.txt", "not: [read"),
        (".git/config.yaml", "kind: Hidden"),
    ] {
        fs::write(at(name), text).unwrap();
    }
    let paths = ["-".into(), folder.path().to_owned(), at("z.yaml")];
    let documents = read(&paths, &mut "kind: Piped".as_bytes()).unwrap();
    assert_eq!(documents.iter().map(Document::kind).collect::<Vec<_>>(), ["Piped", "A", "C", "Z", "Z"]);
    assert_eq!(&*documents[0].source, "<stdin>");
    assert!(documents[2].source.ends_with("b/inner/c.json"));
}

#[test]
fn all_that_cannot_be_read_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    let text = folder.path().join("latin1.yaml");
    fs::create_dir(&empty).unwrap();
    fs::write(&text, b"kind: A\nname: caf\xe9\n").unwrap();
    let errors =
        read(&[folder.path().join("none.yaml"), empty, text, "-".into()], &mut "kind: [".as_bytes()).unwrap_err();
    let shown = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert_snapshot!(shown.replace(&folder.path().display().to_string(), "DIR"), @r"
    DIR/none.yaml: No such file or directory
    DIR/empty: no *.yaml, *.yml or *.json file in it
    DIR/latin1.yaml:2:10: not UTF-8 text
      name: caf�
               ^
    <stdin>:1:7: unclosed bracket '['
      kind: [
            ^
    ");
}
