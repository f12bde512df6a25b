//! `pillion inject` and `pillion why`

use insta::assert_snapshot;
use serde_json::Value;

use crate::Folder;

const NOW: &str = "--now=2026-01-01T00:00:00Z";

const SET: &str = "\
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata:
  name: mesh
spec:
  selector:
    matchLabels: {app: web}
  containers:
  - name: proxy
    image: envoy:1.30
    resourcesPolicy:
      targetContainersMode: sum
      targetContainersNameRegex: ^app.*$
      resourcesExpr:
        limits:
          cpu: max(cpu*50%, 50m)
        requests:
          cpu: cpu*50% - 50m
";

fn pod(name: &str, label: &str, limit: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels:
    app: {label}
spec:
  containers:
  - name: app
    image: web:1
    resources:
      limits:
        cpu: {limit}
"
    )
}

#[test]
fn a_pod_is_injected() {
    let folder = Folder::with(&[("set.yaml", SET), ("pod.yaml", &pod("a", "web", "600m"))]);
    assert_snapshot!(folder.run(&["inject", "-f", "set.yaml", "-f", "pod.yaml", NOW]), @r#"
    exit 0
    --- stdout
    apiVersion: v1
    kind: Pod
    metadata:
      name: a
      labels:
        app: web
      annotations:
        kruise.io/sidecarset-hash: '{"mesh":{"updateTimestamp":"2026-01-01T00:00:00Z","hash":"x8cvwdw27cf4bb54wd6bzxd4d46fxcwwf9b7fz6dxx7966x629w7w4f9ddd58f97","sidecarSetName":"mesh","sidecarList":["proxy"],"controllerRevision":"mesh-559d8ff47c"}}'
        kruise.io/sidecarset-hash-without-image: '{"mesh":{"updateTimestamp":"2026-01-01T00:00:00Z","hash":"wxcz449c9ww5w4dc4468dx4vc88zwb4cdzbcb4ccw7bzz8fzb2bv25w4dvx92f94","sidecarSetName":"mesh","sidecarList":["proxy"]}}'
        kruise.io/sidecarset-injected-list: mesh
    spec:
      containers:
      - name: proxy
        image: envoy:1.30
        imagePullPolicy: IfNotPresent
        terminationMessagePath: /dev/termination-log
        terminationMessagePolicy: File
        env:
        - name: IS_INJECTED
          value: "true"
        resources:
          limits:
            cpu: 300m
          requests:
            cpu: 250m
      - name: app
        image: web:1
        resources:
          limits:
            cpu: 600m
    "#);
    assert_snapshot!(folder.run(&["inject", "-f", ".", NOW, "-o", "diff"]), @r#"
    exit 0
    --- stdout
    --- Pod/a
    +++ Pod/a (injected)
    @@ -4,8 +4,25 @@
       name: a
       labels:
         app: web
    +  annotations:
    +    kruise.io/sidecarset-hash: '{"mesh":{"updateTimestamp":"2026-01-01T00:00:00Z","hash":"x8cvwdw27cf4bb54wd6bzxd4d46fxcwwf9b7fz6dxx7966x629w7w4f9ddd58f97","sidecarSetName":"mesh","sidecarList":["proxy"],"controllerRevision":"mesh-559d8ff47c"}}'
    +    kruise.io/sidecarset-hash-without-image: '{"mesh":{"updateTimestamp":"2026-01-01T00:00:00Z","hash":"wxcz449c9ww5w4dc4468dx4vc88zwb4cdzbcb4ccw7bzz8fzb2bv25w4dvx92f94","sidecarSetName":"mesh","sidecarList":["proxy"]}}'
    +    kruise.io/sidecarset-injected-list: mesh
     spec:
       containers:
    +  - name: proxy
    +    image: envoy:1.30
    +    imagePullPolicy: IfNotPresent
    +    terminationMessagePath: /dev/termination-log
    +    terminationMessagePolicy: File
    +    env:
    +    - name: IS_INJECTED
    +      value: "true"
    +    resources:
    +      limits:
    +        cpu: 300m
    +      requests:
    +        cpu: 250m
       - name: app
         image: web:1
         resources:
    "#);
}

#[test]
fn every_workload_is_injected_and_everything_else_passes_through_in_its_place() {
    let template = "{metadata: {labels: {app: web}}, spec: {containers: [{name: app, image: web:1, resources: {limits: {cpu: 1}}}]}}";
    let mut documents =
        vec!["apiVersion: v1\nkind: Service\nmetadata: {name: first}\nspec: {ports: [{port: 80}]}\n".to_owned()];
    for (version, kind) in [
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "ReplicaSet"),
        ("batch/v1", "Job"),
        ("v1", "ReplicationController"),
    ] {
        documents.push(format!(
            "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: w}}\nspec: {{template: {template}}}\n"
        ));
    }
    documents.push(format!(
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: w}}\nspec: {{jobTemplate: {{spec: {{template: {template}}}}}}}\n"
    ));
    documents.push(
        "apiVersion: example.com/v1\nkind: Custom\nmetadata: {name: last}\nunknown: {deep: [yes, 1.50, '1.50']}\n"
            .to_owned(),
    );
    let folder = Folder::with(&[("set.yaml", SET)]);
    let shown =
        folder.run_with_input(&["inject", "-f", "set.yaml", "-f", "-", "-o", "json", NOW], &documents.join("---\n"));
    let list: Value = serde_json::from_str(shown.strip_prefix("exit 0\n--- stdout\n").unwrap()).unwrap();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&Value::from("v1"), &Value::from("List")));
    let items = list["items"].as_array().unwrap();
    let containers: Vec<String> = items
        .iter()
        .map(|item| {
            let spec = ["/spec/template/spec", "/spec/jobTemplate/spec/template/spec"]
                .iter()
                .find_map(|path| item.pointer(path));
            let names = spec.map(|spec| {
                spec["containers"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect::<Vec<_>>()
            });
            format!(
                "{}: {}",
                item["kind"].as_str().unwrap(),
                names.map_or("untouched".to_owned(), |names| names.join(","))
            )
        })
        .collect();
    assert_snapshot!(containers.join("\n"), @"
    Service: untouched
    Deployment: proxy,app
    StatefulSet: proxy,app
    DaemonSet: proxy,app
    ReplicaSet: proxy,app
    Job: proxy,app
    ReplicationController: proxy,app
    CronJob: proxy,app
    Custom: untouched
    ");
    assert_eq!(items.last().unwrap()["unknown"].to_string(), r#"{"deep":[true,1.5,"1.50"]}"#);
}

#[test]
fn a_limit_range_counts_in_its_namespace() {
    let range = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: r, namespace: shop}\nspec: {limits: [{type: Container, default: {cpu: 300m}}]}\n";
    let bare = pod("a", "web", "1").split("    resources:").next().unwrap().to_owned();
    let folder = Folder::with(&[("a-set.yaml", SET), ("b-range.yaml", range), ("c-pod.yaml", &bare)]);
    let shown = folder.run(&["inject", "-f", ".", "-n", "shop", NOW, "-o", "diff"]);
    assert!(shown.contains("+        cpu: 150m"), "{shown}");
    // In another namespace there is no limit, and so none for the sidecar.
    let shown = folder.run(&["inject", "-f", ".", NOW, "-o", "diff"]);
    assert!(!shown.contains("+      limits:"), "{shown}");
}

#[test]
fn a_pod_that_would_be_refused_is_reported_and_nothing_is_printed() {
    let negative = pod("small", "web", "50m");
    let unmatched = pod("other", "web", "1").replace("name: app\n", "name: main\n");
    let folder = Folder::with(&[
        ("set.yaml", SET),
        ("good.yaml", &pod("good", "web", "1")),
        ("bad/a.yaml", &negative),
        ("bad/b.yaml", &unmatched),
    ]);
    assert_snapshot!(folder.run(&["inject", "-f", ".", NOW]), @r#"
    exit 1
    --- stderr
    error: ./bad/a.yaml:1:1: Pod/small: SidecarSet "mesh", container "proxy": calculation result is negative: requests.cpu = cpu*50% - 50m is -25m for cpu = 50m
    error: ./bad/b.yaml:1:1: Pod/other: SidecarSet "mesh", container "proxy": no containers match the regex pattern "^app.*$" of resourcesPolicy (the pod's own containers: main); its expression "max(cpu*50%, 50m)" has nothing to compute from
    "#);
}

#[test]
fn a_pod_that_a_limit_range_refuses_is_reported_and_nothing_is_printed() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/preview");
    let (apps, new) = (format!("{example}/apps.yaml"), format!("{example}/new.yaml"));
    let refusal = "LimitRange: maximum cpu usage per Pod is 1, but limit is 1200m";
    let shown = Folder::new().run(&["inject", "-f", &apps, "-f", &new, NOW]);
    assert!(shown.starts_with("exit 1\n--- stderr\nerror: ") && shown.lines().count() == 3, "{shown}");
    assert!(shown.ends_with(&format!(": StatefulSet/notebook in namespace lab: {refusal}\n")), "{shown}");
    let shown = Folder::new().run(&["why", "-f", &apps, "-f", &new, NOW]);
    assert!(shown.contains(&format!("\n  REFUSED: {refusal}\n")), "{shown}");
}

#[test]
fn objects_of_one_name_in_two_namespaces_have_titles_of_their_own() {
    let place = |namespace: &str| format!("  name: web\n  namespace: {namespace}\n");
    let pods = ["a", "b"].map(|namespace| pod("web", "web", "1").replace("  name: web\n", &place(namespace)));
    let folder = Folder::with(&[("set.yaml", SET), ("pods.yaml", &pods.join("---\n"))]);
    let shown = folder.run(&["inject", "-f", ".", NOW, "-o", "diff"]);
    for namespace in ["a", "b"] {
        let title = format!("Pod/web in namespace {namespace}");
        assert!(shown.contains(&format!("--- {title}\n+++ {title} (injected)\n")), "{shown}");
    }
}

#[test]
fn everything_that_is_wrong_is_reported_with_its_place() {
    let set = SET.replace("cpu*50% - 50m", "cpu*cpu").replace("    image: envoy:1.30\n", "");
    let folder = Folder::with(&[("set.yaml", &set), ("twice.yaml", &format!("{SET}---\n{SET}"))]);
    assert_snapshot!(folder.run(&["inject", "-f", "set.yaml"]), @r#"
    exit 1
    --- stderr
    error: set.yaml:17:16: spec.containers[0].resourcesPolicy.resourcesExpr.requests.cpu: Invalid value: "cpu*cpu": invalid expression: column 4: two quantities cannot be multiplied; one side must be a number, such as `2` or `50%`
    error: set.yaml:9:5: spec.containers[0].image: Required value
    "#);
    assert_snapshot!(folder.run(&["inject", "-f", "twice.yaml"]), @r#"
    exit 1
    --- stderr
    error: twice.yaml:23:9: SidecarSet "mesh" is there twice, first at twice.yaml:4:9
    "#);
}

#[test]
fn fields_that_sidecar_sets_do_not_have_are_errors_unless_a_flag_makes_them_warnings() {
    let with = |line: &str| SET.replace("    image: envoy:1.30\n", &format!("    image: envoy:1.30\n    {line}\n"));
    let folder = Folder::with(&[
        ("newer.yaml", &with("brandNew: {}")),
        ("misspelt.yaml", &with("imagePulPolicy: Always")),
        ("pod.yaml", &pod("a", "web", "600m")),
    ]);
    let rows = [
        (
            "newer.yaml",
            r#"newer.yaml:11:15: unknown field "spec.containers[0].brandNew""#,
            "; --allow-unknown-fields accepts fields of newer versions",
        ),
        (
            "misspelt.yaml",
            r#"misspelt.yaml:11:21: unknown field "spec.containers[0].imagePulPolicy": did you mean "imagePullPolicy"?"#,
            "",
        ),
    ];
    let commands: [&[&str]; 3] = [&["inject"], &["why"], &["preview", "--offline"]];
    for (command, (file, said, hint)) in commands.iter().flat_map(|command| rows.map(|row| (command, row))) {
        let arguments = [command, &["-f", file, "pod.yaml"][..]].concat();
        assert_eq!(folder.run(&arguments), format!("exit 1\n--- stderr\nerror: {said}{hint}\n"), "{arguments:?}");
        let shown = folder.run(&[&arguments[..], &["--allow-unknown-fields"]].concat());
        let (stdout, stderr) = shown.split_once("--- stderr\n").unwrap_or_else(|| panic!("{arguments:?}: {shown}"));
        assert!(stdout.starts_with("exit 0\n") && stdout.contains("proxy"), "{arguments:?}: {shown}");
        assert_eq!(stderr, format!("Warning: {said}\n"), "{arguments:?}");
    }
}

#[test]
fn broken_documents_are_shown_and_nothing_is_printed() {
    let folder = Folder::with(&[
        ("a.yaml", "kind: Pod\nmetadata:\n\tname: a\n---\nkind: Pod\nspec: [\n"),
        ("b.json", "{\"kind\": \"Pod\",\n \"spec\": }\n"),
        ("c.yaml", &pod("fine", "web", "1")),
    ]);
    assert_snapshot!(folder.run(&["inject", "-f", "."]), @r#"
    exit 1
    --- stderr
    error: ./a.yaml:3:2: tabs disallowed within this context (block indentation)
      	name: a
      	^
    error: ./a.yaml:6:7: unclosed bracket '['
      spec: [
            ^
    error: ./b.json:2:10: expected value
       "spec": }
               ^
    "#);
}

#[test]
fn a_file_that_is_not_there_is_a_wrong_use() {
    assert_snapshot!(Folder::new().run(&["inject", "-f", "nothing.yaml"]), @"
    exit 2
    --- stderr
    error: nothing.yaml: No such file or directory
    ");
    assert_snapshot!(Folder::new().run(&["why"]), @"
    exit 2
    --- stderr
    error: the following required arguments were not provided:
      <POD|--filename <FILE>...>

    Usage: pillion why <POD|--filename <FILE>...>

    For more information, try '--help'.
    ");
}

#[test]
fn a_lowered_request_is_a_warning() {
    let set = SET.replace("cpu*50% - 50m", "cpu*60%");
    let folder = Folder::with(&[("set.yaml", &set), ("pod.yaml", &pod("a", "web", "1"))]);
    let shown = folder.run(&["inject", "-f", ".", NOW]);
    let (_, stderr) = shown.split_once("--- stderr\n").unwrap();
    assert_snapshot!(stderr, @r#"Warning: Pod/a: SidecarSet "mesh", container "proxy": requests.cpu 600m is above the limit 500m and was lowered to it"#);
}

#[test]
fn why_says_what_matches_and_where_values_come_from() {
    let folder = Folder::with(&[
        ("set.yaml", SET),
        ("a.yaml", &pod("a", "web", "600m")),
        ("b.yaml", &pod("b", "job", "1")),
        ("c.yaml", &pod("c", "web", "50m")),
    ]);
    assert_snapshot!(folder.run(&["why", "-f", ".", NOW]), @r#"
    exit 0
    --- stdout
    Pod/a
      SIDECARSET  MATCHED  REASON
      mesh        yes      selector app=web matches

      DECISIONS
      mesh: injects proxy
      mesh/proxy: limits.cpu = max(cpu*50%, 50m) = 300m, with cpu = 600m, the sum of the limits of app
      mesh/proxy: requests.cpu = cpu*50% - 50m = 250m, with cpu = 600m, the sum of the requests of app

      ORDER
      containers: proxy, app

    Pod/b
      SIDECARSET  MATCHED  REASON
      mesh        no       selector wants app=web of the pod; it has "job"

      ORDER
      containers: app

    Pod/c
      SIDECARSET  MATCHED  REASON
      mesh        yes      selector app=web matches

      DECISIONS
      mesh: injects proxy
      mesh/proxy: limits.cpu = max(cpu*50%, 50m) = 50m, with cpu = 50m, the sum of the limits of app

      REFUSED: SidecarSet "mesh", container "proxy": calculation result is negative: requests.cpu = cpu*50% - 50m is -25m for cpu = 50m
    "#);
    let json = folder.run(&["why", "-f", "set.yaml", "a.yaml", NOW, "-o", "json"]);
    let json: Value = serde_json::from_str(json.strip_prefix("exit 0\n--- stdout\n").unwrap()).unwrap();
    assert_eq!(json[0]["object"], "Pod/a");
    assert_eq!(json[0]["sidecarSets"][0]["matched"], true);
}

#[test]
fn colours_are_for_those_who_see_and_want_them() {
    let folder = Folder::with(&[("set.yaml", SET), ("pod.yaml", &pod("a", "web", "1"))]);
    let green = "\u{1b}[32m+  - name: proxy";
    for (variable, expected) in [("TERM", false), ("CLICOLOR_FORCE", true), ("NO_COLOR", false)] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_pillion"))
            .args(["inject", "-f", ".", "-o", "diff"])
            .current_dir(folder.0.path())
            .env_clear()
            .env(variable, "1")
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().contains(green), expected, "{variable}");
    }
}

#[test]
fn an_object_without_a_pod_has_nothing_to_explain() {
    let folder = Folder::with(&[("set.yaml", SET)]);
    assert_snapshot!(folder.run(&["why", "-f", "."]), @"
    exit 1
    --- stderr
    error: there is no pod and no workload in these manifests
    ");
}

#[test]
fn a_template_comes_out_the_same_whenever_it_is_injected() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers: [{name: app, image: app, resources: {limits: {cpu: 1}}}]\n";
    let folder = Folder::with(&[("set.yaml", SET), ("web.yaml", deployment)]);
    let first = folder.run(&["inject", "-f", ".", "--now", "2026-01-01T00:00:00Z"]);
    let second = folder.run(&["inject", "-f", ".", "--now", "2026-01-02T00:00:00Z"]);
    assert!(first.contains("IS_INJECTED"), "{first}");
    assert_eq!(first, second, "a pipeline would roll the workload out with each run");
}

#[test]
fn a_malformed_template_is_an_error_where_it_stands() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  template:\n    spec:\n      containers: {name: app}\n";
    let shown = Folder::with(&[("web.yaml", deployment)]).run(&["inject", "-f", "web.yaml"]);
    insta::assert_snapshot!(shown, @r#"
    exit 1
    --- stderr
    error: web.yaml:7:19: spec.template.spec.containers: Invalid value: {"name":"app"}: must be a list
    "#);
}

#[test]
fn a_malformed_limit_range_is_an_error_where_it_stands() {
    let range = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: r}\nspec:\n  limits:\n  - type: Container\n    default: {cpu: abc}\n";
    let shown = Folder::with(&[("range.yaml", range)]).run(&["inject", "-f", "range.yaml"]);
    assert!(shown.contains(r#"range.yaml:7:20: spec.limits[0].default.cpu: Invalid value: "abc""#), "{shown}");
}

#[test]
fn no_character_of_the_data_is_lost_in_a_pipe() {
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"a": "x\u007fy\u001b[1mz"}}, "spec": {"containers": [{"name": "app"}]}}"#;
    let shown = Folder::with(&[("pod.json", pod)]).run(&["inject", "-f", "pod.json", "-o", "json"]);
    assert!(shown.contains("x\u{7f}y") && shown.contains("[1mz"), "{shown:?}");
}

/// The most memory that an injection of so many pods has held, in KiB.
fn memory_of_an_injection(pods: usize) -> u64 {
    let text = (0..pods).map(|number| pod(&format!("a-{number}"), "web", "1")).collect::<Vec<_>>().join("---\n");
    let folder = Folder::with(&[("set.yaml", SET), ("pods.yaml", &text)]);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_pillion"))
        .args(["inject", "-f", "."])
        .current_dir(folder.0.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Nothing is printed before everything is injected, and then the program waits: a pipe does not hold so much.
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    most.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_pod_among_many_costs_little_more_memory_than_its_text() {
    let (few, many) = (500, 3_500);
    let each = memory_of_an_injection(many).saturating_sub(memory_of_an_injection(few)) * 1024 / (many - few) as u64;
    // Its text and that of the injected pod take 1.5 KiB; all documents at once took 10 KiB each.
    assert!(each < 5 * 1024, "{each} bytes for each pod");
}

#[test]
fn a_stream_of_very_many_documents_is_read_in_linear_time() {
    // Quadratic reading took minutes for this; the test would not end.
    let one = "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"m\"}}\n";
    let folder = Folder::with(&[("stream.json", &one.repeat(20_000)), ("broken.yaml", &"a: [\n---\n".repeat(20_000))]);
    assert!(folder.run(&["inject", "-f", "stream.json"]).starts_with("exit 0"));
    assert!(folder.run(&["inject", "-f", "broken.yaml"]).starts_with("exit 1"));
}

/// A Job of `main` and `log`, whose pods have these annotations; the commands are known if `commands`.
fn job(annotations: &str, commands: bool, variables: &str) -> String {
    let command = if commands { "command: [/run], " } else { "" };
    format!(
        "apiVersion: batch/v1
kind: Job
metadata: {{name: backup}}
spec:
  template:
    metadata: {{annotations: {{{annotations}}}}}
    spec:
      restartPolicy: Never
      containers:
      - {{name: main, {command}image: backup:1}}
      - {{name: log, {command}image: log:1, env: [{variables}]}}
"
    )
}

const STRICT: &str = "pillion.dev/sidecars: log, pillion.dev/sidecar-mode: Strict";

/// A Job, the flags; the init containers and the containers, the record, and what is said.
type Way = (String, &'static [&'static str], [&'static [&'static str]; 2], Option<&'static str>, &'static str);

/// What `inject` makes of a Job's pods and what `why` says of it, in each way in which sidecars end.
#[test]
fn marked_sidecars_are_rewritten_offline_and_why_says_how_they_end() {
    const ON: &str = "--feature-gates=SidecarField=true";
    let kruise = "{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: \"true\"}";
    let ways: [Way; 6] = [
        (
            job("pillion.dev/sidecars: log", false, ""),
            &[],
            [&[], &["main", "log"]],
            None,
            "pod/log: warning: the mark as a sidecar by the annotation pillion.dev/sidecars has no effect: the feature gate SidecarField is off",
        ),
        (
            job("pillion.dev/sidecars: log", false, ""),
            &[ON],
            [&["log"], &["main"]],
            None,
            "pod/log: ends when the work is done, as the annotation pillion.dev/sidecars says; mode Native: a native sidecar, last in \
             initContainers: it starts before the work, ends after it, and is restarted whatever its exit code is; an error of it does not fail the pod",
        ),
        (
            job(STRICT, true, ""),
            &[ON, "--wrap-image=pillion:1"],
            [&["pillion-wrap"], &["main", "log"]],
            Some(r#"{"method":"Wrap","sidecars":["log"]}"#),
            "pod/log: ends when the work is done, as the annotation pillion.dev/sidecars says; mode Strict: pillion-wrap runs all commands of the \
             pod: all rules of KEP-0008 hold",
        ),
        (
            job(STRICT, false, ""),
            &[ON, "--wrap-image=pillion:1"],
            [&[], &["main", "log"]],
            Some(r#"{"method":"Phase","sidecars":["log"]}"#),
            "mode Strict: the manager writes the pod's terminal phase, because the command of container \"main\" is not in the manifest: all \
             rules of KEP-0008 hold but the reason Completed",
        ),
        (
            job(STRICT, true, ""),
            &[ON],
            [&[], &["main", "log"]],
            Some(r#"{"method":"Phase","sidecars":["log"]}"#),
            "because the manager has no image with pillion-wrap (--wrap-image)",
        ),
        (
            job("", false, kruise),
            &[ON],
            [&[], &["main", "log"]],
            Some(r#"{"method":"Phase","sidecars":["log"]}"#),
            "because Kruise's variables ask for it",
        ),
    ];
    for (manifest, flags, lists, record, said) in ways {
        let folder = Folder::with(&[("job.yaml", &manifest)]);
        let inject = [&["inject", "-f", "job.yaml", "-o", "json", NOW], flags].concat();
        let shown = folder.run(&inject);
        let output = shown.strip_prefix("exit 0\n--- stdout\n").unwrap_or_else(|| panic!("{shown}"));
        let (output, _) = output.split_once("--- stderr").unwrap_or((output, ""));
        let list: Value = serde_json::from_str(output).unwrap();
        let job = list.get("items").map_or(&list, |items| &items[0]);
        let template = &job["spec"]["template"];
        let names = |list: &str| -> Vec<&str> {
            let containers = template["spec"][list].as_array().into_iter().flatten();
            containers.map(|container| container["name"].as_str().unwrap()).collect()
        };
        assert_eq!(
            [names("initContainers"), names("containers")],
            lists.map(<[&str]>::to_vec),
            "{flags:?}\n{manifest}"
        );
        let recorded = template["metadata"]["annotations"].get("pillion.dev/sidecar-record");
        assert_eq!(recorded.and_then(Value::as_str), record, "{flags:?}\n{manifest}");
        let why = folder.run(&[&["why", "-f", "job.yaml", NOW], flags].concat());
        assert!(why.contains(said), "{flags:?}\n{manifest}\n{why}");
    }
}
