//! Every file of `examples/resources-policy`, and `examples/preview`, gives the output that stands beside it.
//!
//! After a change that is meant: `UPDATE_EXAMPLES=1 cargo test -p pillion examples`.

use std::path::{Path, PathBuf};
use std::process::Command;

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/resources-policy");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect();
    files.sort();
    files
}

fn inject(example: &Path, output: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pillion"));
    let command = command.args(["inject", "--now", "2026-01-01T00:00:00Z", "-o", output, "-f"]).arg(example);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}: {}", example.display(), String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}: {}", example.display(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_example_gives_its_expected_output() {
    assert_eq!(examples().len(), 7, "six stories, and the definition of the API");
    for example in examples() {
        let expected = example.with_extension("expected");
        let actual = inject(&example, "yaml");
        if std::env::var_os("UPDATE_EXAMPLES").is_some() {
            std::fs::write(&expected, &actual).unwrap();
        }
        let expected = std::fs::read_to_string(&expected).unwrap();
        assert_eq!(actual, expected, "{}", example.display());
    }
}

/// The numbers that the proposal itself gives, apart from everything else in the output.
#[test]
fn the_stories_give_the_numbers_of_the_proposal() {
    let resources = |story: &str| {
        let example = examples().into_iter().find(|path| path.file_stem().unwrap() == story).unwrap();
        let list: serde_json::Value = serde_json::from_str(&inject(&example, "json")).unwrap();
        assert_eq!((&list["kind"], &list["apiVersion"]), (&"List".into(), &"v1".into()));
        let of_pod = |pod: &serde_json::Value| {
            let lists =
                ["initContainers", "containers"].map(|list| pod["spec"][list].as_array().cloned().unwrap_or_default());
            let sidecar =
                lists.concat().into_iter().find(|c| c["name"] == "sidecar1" || c["name"] == "init-sidecar").unwrap();
            let number =
                |list: &str, resource: &str| sidecar["resources"][list][resource].as_str().unwrap_or("-").to_owned();
            format!(
                "limits {}/{}, requests {}/{}",
                number("limits", "cpu"),
                number("limits", "memory"),
                number("requests", "cpu"),
                number("requests", "memory")
            )
        };
        list["items"].as_array().unwrap().iter().map(of_pod).collect::<Vec<_>>()
    };
    assert_eq!(resources("story-1"), ["limits 100m/200Mi, requests 50m/100Mi"]);
    assert_eq!(resources("story-2"), ["limits 300m/200Mi, requests 75m/100Mi"]);
    assert_eq!(resources("story-3"), ["limits 200m/200Mi, requests 50m/100Mi"]);
    assert_eq!(resources("story-4"), ["limits -/200Mi, requests 50m/100Mi"]);
    let curve = [
        "limits 1/-, requests 0/-",
        "limits 2400m/-, requests 0/-",
        "limits 4800m/-, requests 0/-",
        "limits -/-, requests -/-",
    ];
    assert_eq!(resources("story-5"), curve);
    assert_eq!(resources("story-6"), ["limits 300m/500Mi, requests 100m/150Mi"]);
}

#[test]
fn the_preview_gives_its_expected_output() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/preview");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pillion"));
    let command = command.args(["preview", "--offline", "--base", "now.yaml", "-f", "new.yaml", "apps.yaml"]);
    let output = command.current_dir(&folder).output().unwrap();
    let (actual, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!((output.status.code(), errors.as_str()), (Some(1), "error: pods of 1 workload would be refused\n"));
    let expected = folder.join("preview.expected");
    if std::env::var_os("UPDATE_EXAMPLES").is_some() {
        std::fs::write(&expected, &actual).unwrap();
    }
    assert_eq!(actual, std::fs::read_to_string(&expected).unwrap());
    let page = std::fs::read_to_string(folder.join("../../docs/preview.md")).unwrap();
    assert!(page.contains(&actual), "docs/preview.md shows this output");
}

/// As process 1 of a container, a program without a handler ignores TERM, and its pod takes the whole grace period to end.
#[test]
fn every_example_that_runs_until_it_is_stopped_ends_on_term() {
    fn manifests(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.extension().and_then(|extension| extension.to_str()) {
                _ if entry.is_dir() => manifests(&entry, found),
                Some("yaml") => found.push(entry),
                _ => {}
            }
        }
    }
    /// The command and arguments of every object, wherever it is.
    fn commands(value: &serde_json::Value, found: &mut Vec<String>) {
        let texts = |value: &serde_json::Value| {
            let words = value.as_array().into_iter().flatten().filter_map(|word| word.as_str());
            words.collect::<Vec<_>>().join(" ")
        };
        if let Some(object) = value.as_object() {
            found.push(
                texts(&object.get("command").cloned().unwrap_or_default())
                    + " "
                    + &texts(&object.get("args").cloned().unwrap_or_default()),
            );
            object.values().for_each(|value| commands(value, found));
        }
        value.as_array().into_iter().flatten().for_each(|value| commands(value, found));
    }
    let mut files = Vec::new();
    manifests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples"), &mut files);
    let mut endless = 0;
    for file in files {
        let (documents, _) =
            pillion::manifest::parse(&file.display().to_string().into(), &std::fs::read_to_string(&file).unwrap());
        let mut all = Vec::new();
        for document in &documents {
            commands(&document.value, &mut all);
        }
        for command in all.iter().filter(|command| command.contains("while ") || command.contains("infinity")) {
            endless += 1;
            assert!(command.contains("trap "), "{}: {command:?} does not end on TERM", file.display());
        }
    }
    assert!(endless >= 5, "{endless} commands were looked at");
}
