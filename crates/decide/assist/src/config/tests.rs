use std::time::Duration;

use super::*;

pub(crate) fn fields() -> Fields {
    Fields::from([("POD_NAME".into(), "web-1".into()), ("POD_NAMESPACE".into(), "games".into())])
}

fn read_sample(text: &str) -> Config {
    Config::parse(text, Some(&fields())).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

fn errors(text: &str) -> Vec<String> {
    Config::parse(text, Some(&fields())).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn the_first_configuration_of_the_proposal_is_read_whole() {
    let config = read_sample(include_str!("samples/proposal-1.yaml"));
    assert_eq!(config.warnings, Vec::<String>::new());
    let names: Vec<_> = config.plugins.iter().map(|plugin| (plugin.name.as_str(), plugin.boot_order)).collect();
    assert_eq!(names, [("http_probe", 0), ("hot_update", 1)], "the lower boot order comes first");
    let Kind::HttpProbe(endpoints) = &config.plugins[0].kind else { panic!() };
    let [endpoint] = endpoints.as_slice() else { panic!() };
    assert_eq!((endpoint.timeout, endpoint.start_delay), (Duration::from_secs(30), Duration::from_mins(1)));
    assert_eq!(endpoint.interval, Duration::from_secs(5));
    let Storage::InKube(kube) = &endpoint.storage else { panic!() };
    let [Key::Annotation(annotation), Key::Field(target, pointer)] = kube.results.as_slice() else {
        panic!("{kube:?}")
    };
    assert_eq!((annotation.as_str(), pointer.as_str()), ("http_probe", "/spec/opsState"));
    assert_eq!(target.path(None), "/apis/game.kruise.io/v1alpha1/namespaces/games/gameservers/web-1");
    assert_eq!(kube.policies.len(), 3);
    let cost = Key::Annotation("controller.kubernetes.io/pod-deletion-cost".into());
    assert_eq!(kube.policies[0].values[&cost], "-10");
    let Kind::HotUpdate(update) = &config.plugins[1].kind else { panic!() };
    assert_eq!(update.file_dir, "/app/downloads");
    assert_eq!(
        update.reload,
        Reload::Signal { process: "nginx: master process nginx".into(), signal: "SIGHUP".into() }
    );
    assert_eq!(config.resources, Resources { cpu: Some("100m".into()), memory: Some("128Mi".into()) });
    assert_eq!((config.restart_policy, config.start_order), (RestartPolicy::Always, StartOrder::Before));
    assert_eq!(config.security, Security::default());
}

#[test]
fn variables_are_left_alone_outside_of_a_pod() {
    let text = "listen: '${SELF:IP}:${SELF:PORT}'\ntokenSecretRef: {name: a, key: b}\nplugins: [{name: http_probe, config: {endpoints: [{url: 'http://${SELF:IP}:${SELF:PORT}/x', storageConfig: {type: InKube, inKube: {labelKey: a}}}]}}]";
    assert_eq!(Config::parse(text, None).map(|config| config.plugins.len()), Ok(1));
    assert!(Config::parse(&text.replace("http://", "nothing://"), None).is_err());
}

#[test]
fn the_other_configurations_of_the_proposal_are_read() {
    let second = read_sample(include_str!("samples/proposal-2.yaml"));
    let names: Vec<_> = second.plugins.iter().map(|plugin| plugin.name.as_str()).collect();
    assert_eq!(names, ["plugin-a", "plugin-b"]);
    assert_eq!(second.storages().next(), Some(&Storage::from(Key::Annotation("xxx".into()))));
    assert_eq!(read_sample(include_str!("samples/proposal-3.yaml")).plugins.len(), 1);
    assert_eq!(read_sample(include_str!("samples/proposal-4.yaml")).plugins.len(), 1);
}

#[test]
fn spellings_of_both_decoders_of_the_go_agent_are_taken() {
    let text = "
plugins:
- name: http_probe
  bootOrder: 7
  config: {STARTDELAYSECONDS: 0, endpoints: [{URL: http://localhost:1, expectedstatuscode: 200}]}
restartPolicy: never
sidecarStartOrder: After
resources: {cpu: 1, memory: 1Gi}
";
    let config = read_sample(text);
    assert_eq!(config.plugins[0].boot_order, 7);
    assert_eq!((config.restart_policy, config.start_order), (RestartPolicy::Never, StartOrder::After));
    assert_eq!(config.resources.cpu.as_deref(), Some("1"));
}

#[test]
fn as_printed_the_proposal_is_answered_with_the_place_and_the_mend() {
    let printed = "plugins:
    - name: http_probe
      config:
        endpoints:
          - url: \"http://localhost:8080\"
            storageConfig:
              type: InKube
              inKube:
              annotationKey: http_probe
               target:
                   group:  game.kruise.io
";
    let errors = errors(printed);
    assert!(errors[0].starts_with("10:") || errors[0].starts_with("9:"), "{errors:?}");
    assert!(errors[0].contains("two deeper than `inKube:`"), "{errors:?}");
    let placeholder = "plugins:\n    - name: plugin-a\n      config:\n        '''\n        storageConfig:\n            type: InKube\n";
    assert!(self::errors(placeholder)[0].contains("placeholder"), "{:?}", self::errors(placeholder));
    // What is YAML and means something else.
    let shallow = "plugins:\n- name: http_probe\n  config:\n    endpoints:\n    - url: http://a\n      storageConfig:\n        type: InKube\n        inKube:\n        annotationKey: x\n";
    assert!(self::errors(shallow)[0].contains("two deeper than `inKube:`"), "{:?}", self::errors(shallow));
}

#[test]
fn mistakes_come_with_their_places() {
    let table = [
        ("", "1:1: the configuration is empty"),
        ("plugins: 3", "1:10: this is a number, and must be a list"),
        ("plugins: []\nrestartpolicy: Sometimes", "2:16: \"Sometimes\" is not one of Always, OnFailure, Never"),
        ("plugins: []\nlisten: 0.0.0.0:5000", "2:9: an address off loopback needs `tokenSecretRef"),
        ("plugins: []\nlisten: here", "2:9: \"here\" is not an address"),
        ("plugins: [{name: ../x}]", "1:11: \"../x\" is not a name of a plugin"),
        ("plugins: [{name: hot_update}]", "1:11: the plugin hot_update needs a `config`"),
        (
            "plugins: [{name: hot_update, config: {loadPatchType: signal, signal: {processName: x, signalName: SIGKILL}}}]",
            "\"SIGKILL\" is not a signal",
        ),
        (
            "plugins: [{name: hot_update, config: {loadPatchType: none, fileDir: /app/../etc}}]",
            "must be an absolute path",
        ),
        (
            "plugins: [{name: http_probe, config: {endpoints: [{url: 'ftp://x'}]}}]",
            "it must begin with http:// or https://",
        ),
        (
            "plugins: [{name: http_probe, config: {endpoints: [{url: 'http://${SELF:NODE}'}]}}]",
            "${SELF:NODE} is not set",
        ),
        (
            "plugins: [{name: http_probe, config: {endpoints: [{url: 'http://x', storageConfig: {type: InKube, inKube: {conditionType: Ready}}}]}}]",
            "the condition Ready belongs to Kubernetes",
        ),
        (
            "plugins: [{name: http_probe, config: {endpoints: [{url: 'http://x', storageConfig: {type: InKube, inKube: {jsonPath: /spec/x}}}]}}]",
            "needs a `target`",
        ),
    ];
    for (text, expected) in table {
        let errors = errors(text);
        assert!(errors.iter().any(|error| error.contains(expected)), "{text}\n{errors:?}");
    }
}

#[test]
fn unknown_keys_are_ignored_with_a_warning() {
    let config = read_sample("plugins: []\nplugin: 1\n");
    assert_eq!(config.warnings.len(), 1);
    assert!(config.warnings[0].starts_with("2:9: the key \"plugin\" is not known here"), "{:?}", config.warnings);
}

#[test]
fn permissive_is_the_go_agent_and_is_warned_of() {
    let config = read_sample("plugins: []\nsecurity: permissive\n");
    assert_eq!((config.security.listen.as_str(), config.security.require_checksum), (":5000", false));
    assert!(config.warnings[0].contains("everybody who reaches port 5000"));
}

#[test]
fn outside_of_a_pod_variables_stay() {
    let config = Config::parse(include_str!("samples/proposal-3.yaml"), None).unwrap();
    let named = |key: &Key| matches!(key, Key::Field(target, _) if target.name == "${SELF:POD_NAME}");
    assert!(config.storages().next().unwrap().keys().any(named));
}

#[test]
fn every_secret_of_a_configuration_is_found() {
    let text = "
tokenSecretRef: {name: a, key: token}
plugins:
- name: http_probe
  config: {endpoints: [{url: http://x, headers: {Authorization: {secretKeyRef: {name: b, key: k}}, Accept: x}}]}
- name: hot_update
  config: {loadPatchType: none, headers: {Authorization: {secretKeyRef: {name: c, key: k}}}}
";
    let config = read_sample(text);
    assert_eq!(config.secrets().iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[test]
fn an_ops_state_without_a_target_goes_to_the_game_server_of_the_pod() {
    let text = "
plugins:
- name: http_probe
  config:
    endpoints:
    - url: http://x
      storageConfig: {type: InKube, inKube: {markerPolices: [{state: idle, gameServerOpsState: WaitToBeDeleted}]}}
";
    let config = read_sample(text);
    let storage = config.storages().next().unwrap();
    let path = "/apis/game.kruise.io/v1alpha1/namespaces/games/gameservers/web-1";
    let Storage::InKube(InKube { results, policies }) = storage else { panic!() };
    let Some((Key::Field(target, pointer), value)) = policies[0].values.first_key_value() else { panic!() };
    assert_eq!((target.path(None).as_str(), pointer.as_str()), (path, "/spec/opsState"));
    assert_eq!((value, results.len()), (&"WaitToBeDeleted".into(), 0));
}

/// A configuration with one endpoint, whose `storageConfig` is in the sixth line.
fn stored(storage: &str) -> String {
    format!(
        "plugins:\n- name: http_probe\n  config:\n    endpoints:\n    - url: http://x\n      storageConfig: {storage}\n"
    )
}

#[test]
fn the_type_chooses_the_storage() {
    let kube = Storage::from(Key::Label("a".into()));
    let metric = Storage::HttpMetric(HttpMetric { name: "players".into() });
    let table = [
        ("{type: InKube, inKube: {labelKey: a}}", &kube),
        ("{type: HTTPMetric, httpMetric: {metricName: players}}", &metric),
        // A template may leave the other section empty.
        ("{type: httpmetric, httpMetric: {metricName: players}, inKube: null}", &metric),
        // The only section needs no type.
        ("{httpMetric: {metricName: players}}", &metric),
        ("null", &Storage::Nowhere),
    ];
    for (text, expected) in table {
        let config = read_sample(&stored(text));
        assert_eq!(config.storages().collect::<Vec<_>>(), [expected], "{text}");
    }
}

#[test]
fn a_section_of_another_type_is_refused_at_its_place() {
    let table = [
        (
            "{type: InKube, inKube: {labelKey: a}, httpMetric: {metricName: b}}",
            "6:72: `type` is InKube, so `httpMetric` is not used: remove it, or set `type: HTTPMetric`",
        ),
        (
            "{type: HTTPMetric, httpMetric: {metricName: b}, inKube: {labelKey: a}}",
            "6:78: `type` is HTTPMetric, so `inKube` is not used: remove it, or set `type: InKube`",
        ),
        ("{type: HTTPMetric, inKube: {labelKey: a}}", "6:22: `httpMetric` is missing"),
        ("{type: InKube}", "6:22: `inKube` is missing"),
        (
            "{inKube: {labelKey: a}, httpMetric: {metricName: b}}",
            "6:22: `type` is missing: set it to InKube or HTTPMetric",
        ),
        ("{}", "6:22: `type` is missing"),
        ("{type: ConfigMap, inKube: {labelKey: a}}", "6:29: \"ConfigMap\" is not one of InKube, HTTPMetric"),
        ("{type: HTTPMetric, httpMetric: {}}", "6:53: `metricName` is missing"),
    ];
    for (text, expected) in table {
        let errors = errors(&stored(text));
        assert!(errors.iter().any(|error| error.starts_with(expected)), "{text}\n{errors:#?}");
    }
}

#[test]
fn a_storage_names_all_that_it_writes() {
    let keys = |text: &str| {
        let config = read_sample(&stored(text));
        config.storages().flat_map(Storage::keys).cloned().collect::<Vec<_>>()
    };
    let policy = "{state: idle, labels: {c: x}, annotations: {d: x}, gameServerOpsState: x}";
    let found =
        keys(&format!("{{type: InKube, inKube: {{annotationKey: a, conditionType: b, markerPolicies: [{policy}]}}}}"));
    let target = Target {
        group: "game.kruise.io".into(),
        version: "v1alpha1".into(),
        resource: "gameservers".into(),
        namespace: "games".into(),
        name: "web-1".into(),
    };
    let expected = [
        Key::Annotation("a".into()),
        Key::Condition("b".into()),
        Key::Annotation("d".into()),
        Key::Label("c".into()),
        Key::Field(target, "/spec/opsState".into()),
    ];
    assert_eq!(found, expected);
    assert_eq!(keys("{type: HTTPMetric, httpMetric: {metricName: players}}"), []);
}
