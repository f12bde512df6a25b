//! The interfaces of the manager and of plugins, in virtual time: order, restarts, failures that stay apart, results that go elsewhere.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillion_agent::{
    Api, BoxFuture, Host, Manager, Network, Plugin, Pod, Prober, Publisher, Registry, Request, Response, Secrets,
    Store, World,
};
use pillion_assist::{Ask, Fields, Key, State, Storage};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// What has happened, in order.
static EVENTS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

fn happened(test: &str, what: &str) {
    EVENTS.lock().unwrap().push((test.to_owned(), what.to_owned()));
}

/// What has happened in one test: several run at once.
fn events(test: &str) -> Vec<String> {
    EVENTS.lock().unwrap().iter().filter(|(of, _)| of == test).map(|(_, what)| what.clone()).collect()
}

/// Does what its configuration says: `{"test": NAME, "do": "wait" | "end" | "fail" | "panic" | "store" | "ready-SECONDS"}`.
#[derive(Default)]
struct Puppet {
    name: String,
    config: Value,
    host: Option<Host>,
    store: Option<Arc<dyn Store>>,
}

impl Puppet {
    fn test(&self) -> String {
        self.config["test"].as_str().unwrap_or_default().to_owned()
    }
}

impl Plugin for Puppet {
    fn name(&self) -> &str {
        &self.name
    }

    fn init(&mut self, config: &Value, host: Host) -> Result<(), String> {
        (self.config, self.host) = (config.clone(), Some(host));
        if config["do"] == "refuse" { Err("a configuration that it cannot use".to_owned()) } else { Ok(()) }
    }

    fn start(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            happened(&self.test(), &format!("start {}", self.name));
            match self.config["do"].as_str() {
                Some("end") => Ok(()),
                Some("fail") => Err("on purpose".to_owned()),
                Some("panic") => panic!("on purpose"),
                Some("store") => {
                    self.host.as_ref().unwrap().store("result", &State::succeeded("42"));
                    std::future::pending().await
                }
                _ => std::future::pending().await,
            }
        })
    }

    fn ready(&self) -> BoxFuture<'_, ()> {
        let seconds = self.config["do"].as_str().and_then(|what| what.strip_prefix("ready-")?.parse().ok());
        Box::pin(async move {
            if let Some(seconds) = seconds {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
            }
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        happened(&self.test(), &format!("stop {}", self.name));
        Box::pin(std::future::ready(()))
    }

    fn version(&self) -> String {
        "v7".to_owned()
    }

    fn config_type(&self) -> &'static str {
        "{test, do}"
    }

    fn store(&self) -> Option<Arc<dyn Store>> {
        self.store.clone()
    }
}

/// A cluster with one Secret, whose value a test changes; it remembers what was written.
#[derive(Default)]
struct Cluster {
    written: Mutex<Vec<Value>>,
    secret: Mutex<Option<&'static str>>,
    reads: Mutex<u32>,
}

impl Api for Cluster {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, String>> {
        use base64::Engine as _;
        Box::pin(async move {
            if request.method == "GET" {
                *self.reads.lock().unwrap() += 1;
                let Some(value) = *self.secret.lock().unwrap() else {
                    return Ok(Response { status: 404, body: "{}".into() });
                };
                let value = base64::engine::general_purpose::STANDARD.encode(value);
                return Ok(Response { status: 200, body: json!({"data": {"token": value}}).to_string().into() });
            }
            self.written.lock().unwrap().push(serde_json::from_slice(&request.body).unwrap_or_default());
            Ok(Response { status: 200, body: "{}".into() })
        })
    }

    fn watch(&self, _path: String) -> BoxFuture<'_, Result<mpsc::Receiver<Value>, String>> {
        Box::pin(async { Err("there are no watches here".to_owned()) })
    }
}

fn puppet(name: &str) -> Box<dyn Plugin> {
    Box::new(Puppet { name: name.to_owned(), ..Puppet::default() })
}

impl Cluster {
    /// What was written to the pod since the last call: its labels, and its conditions with their status and message.
    fn written(&self) -> Vec<String> {
        let mut said = Vec::new();
        for body in std::mem::take(&mut *self.written.lock().unwrap()) {
            said.extend(body["metadata"]["labels"].as_object().map(|labels| json!(labels).to_string()));
            for condition in body["status"]["conditions"].as_array().into_iter().flatten() {
                let text = |key: &str| condition[key].as_str().unwrap_or_default();
                said.push(format!("{} {} {}", text("type"), text("status"), text("message")));
            }
        }
        said
    }
}

/// Answers with the last part of a URL's path, and remembers when.
#[derive(Default)]
struct Echo {
    looks: Mutex<Vec<(String, Instant)>>,
}

impl Prober for Echo {
    fn look<'a>(&'a self, ask: &'a Ask, _secrets: &'a Secrets, _timeout: Duration) -> BoxFuture<'a, State> {
        Box::pin(async move {
            let Ask::Http(http) = ask else { return State::Unknown("not a URL".to_owned()) };
            let answer = http.url.path.trim_start_matches('/').to_owned();
            self.looks.lock().unwrap().push((answer.clone(), Instant::now()));
            State::succeeded(&answer)
        })
    }
}

fn manager() -> (Arc<Manager>, Arc<Cluster>) {
    manager_with(Arc::new(Network), None)
}

fn manager_with(prober: Arc<dyn Prober>, pod_info: Option<std::path::PathBuf>) -> (Arc<Manager>, Arc<Cluster>) {
    let api = Arc::new(Cluster::default());
    let (manager, publisher) = agent(Arc::clone(&api) as Arc<dyn Api>, prober, pod_info);
    let running = Arc::clone(&api);
    tokio::spawn(async move { publisher.run(&*running).await });
    (manager, api)
}

/// The parts of an agent, of which nothing runs yet.
fn agent(
    api: Arc<dyn Api>,
    prober: Arc<dyn Prober>,
    pod_info: Option<std::path::PathBuf>,
) -> (Arc<Manager>, Publisher) {
    let began = Instant::now();
    let fields = Fields::from([("POD_NAME".into(), "web-0".into()), ("POD_NAMESPACE".into(), "default".into())]);
    let pod = Pod::from_fields(fields).unwrap();
    let origin = jiff::Timestamp::from_second(1_767_225_600).unwrap();
    let clock = Arc::new(move || origin + jiff::SignedDuration::try_from(began.elapsed()).unwrap());
    let publisher = Publisher::new(pod.name.clone(), clock);
    let mut registry = Registry::new();
    registry.insert("a".to_owned(), || puppet("a"));
    registry.insert("b".to_owned(), || puppet("b"));
    registry.insert("c".to_owned(), || puppet("c"));
    let manager = Manager::new(World {
        pod: Arc::new(pod),
        api,
        prober,
        publisher: publisher.clone(),
        registry: Arc::new(registry),
        plugin_dir: "/nowhere".into(),
        pod_info,
    });
    (manager, publisher)
}

/// A configuration of plugins: name, boot order and what it does.
fn config(test: &str, policy: &str, plugins: &[(&str, u32, &str)]) -> String {
    let line = |(name, order, what): &(&str, u32, &str)| {
        format!("- {{name: {name}, bootOrder: {order}, config: {{test: {test}, do: {what}}}}}\n")
    };
    format!("restartpolicy: {policy}\nplugins:\n{}", plugins.iter().map(line).collect::<String>())
}

fn health(manager: &Manager, name: &str) -> (String, u32) {
    let status = manager.plugin_status(name).unwrap();
    (status.health, status.restarts)
}

#[tokio::test(start_paused = true)]
async fn plugins_start_in_their_order_and_stop_in_the_other() {
    let (manager, _) = manager();
    let text = config("order", "Always", &[("a", 3, "wait"), ("b", 1, "wait"), ("c", 2, "wait")]);
    manager.load_config(&text).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    manager.stop().await;
    assert_eq!(events("order"), ["start b", "start c", "start a", "stop a", "stop c", "stop b"]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_waits_until_those_before_it_are_ready_or_have_failed() {
    let (manager, _) = manager();
    // Each started after so many seconds: the second has failed at once.
    let text = config("boot", "Never", &[("a", 1, "ready-10"), ("b", 2, "fail"), ("c", 3, "wait")]);
    manager.load_config(&text).await.unwrap();
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(events("boot"), ["start a"]);
    assert_eq!(health(&manager, "c").0, "Starting");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(events("boot"), ["start a", "start b", "start c"]);
    // One that never gets ready is waited for, and not for ever; those of one order do not wait for each other.
    let (manager, _) = manager_with(Arc::new(Network), None);
    let text = config("slow", "Always", &[("a", 1, "ready-100000"), ("b", 1, "wait"), ("c", 2, "wait")]);
    manager.load_config(&text).await.unwrap();
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(events("slow"), ["start a", "start b"]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(events("slow"), ["start a", "start b", "start c"]);
    manager.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_start_is_not_reported_as_a_failure() {
    let api = Arc::new(Cluster::default());
    let (manager, publisher) = agent(Arc::clone(&api) as Arc<dyn Api>, Arc::new(Network), None);
    let text = config("start", "Always", &[("a", 1, "ready-5"), ("b", 2, "wait")]);
    let load = async {
        manager.load_config(&text).await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
    };
    // As in the program: what is reported is written before any other task runs.
    tokio::select! {
        biased;
        () = load => {}
        () = publisher.run(&*api) => {}
    }
    assert_eq!(api.written(), ["pillion.dev/Agent True a, b"]);
}

/// A cluster with one pod, which answers with it.
struct OnePod {
    pod: Mutex<Value>,
    writes: Mutex<u32>,
}

impl Api for OnePod {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, String>> {
        Box::pin(async move {
            let mut pod = self.pod.lock().unwrap();
            if !request.path.ends_with("?dryRun=All") {
                *self.writes.lock().unwrap() += 1;
                let body: Value = serde_json::from_slice(&request.body).unwrap();
                for (key, value) in body["metadata"]["annotations"].as_object().into_iter().flatten() {
                    pod["metadata"]["annotations"][key] = value.clone();
                }
            }
            Ok(Response { status: 200, body: pod.to_string().into() })
        })
    }

    fn watch(&self, _path: String) -> BoxFuture<'_, Result<mpsc::Receiver<Value>, String>> {
        Box::pin(async { Err("there are no watches here".to_owned()) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_somebody_else_has_changed_is_written_again() {
    let pod = json!({"metadata": {"name": "web-0", "annotations": {}}});
    let api = Arc::new(OnePod { pod: Mutex::new(pod), writes: Mutex::default() });
    let (manager, publisher) = agent(Arc::clone(&api) as Arc<dyn Api>, Arc::new(Network), None);
    let running = Arc::clone(&api);
    tokio::spawn(async move { publisher.run(&*running).await });
    let storage = Storage::from(Key::Annotation("state".into()));
    manager.store_data("somebody", &storage, "idle");
    tokio::time::sleep(Duration::from_hours(24)).await;
    assert_eq!(*api.writes.lock().unwrap(), 1, "nothing is written while nothing differs");
    for change in [json!({"state": "busy"}), json!({})] {
        api.pod.lock().unwrap()["metadata"]["annotations"] = change;
        tokio::time::sleep(Duration::from_mins(11)).await;
        assert_eq!(api.pod.lock().unwrap()["metadata"]["annotations"]["state"], "idle");
    }
    assert_eq!(*api.writes.lock().unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_ends_is_restarted_as_the_policy_says_and_no_other_is() {
    // With what becomes of one that ends, and of one that fails or panics, within a minute: after 10 s, 20 s and so on.
    for (policy, ended, failed) in [
        ("Always", ("Waiting", 2), ("Waiting", 2)),
        ("OnFailure", ("Ended", 0), ("Waiting", 2)),
        ("Never", ("Ended", 0), ("Failed", 0)),
    ] {
        for (what, (expected, restarts)) in [("end", ended), ("fail", failed), ("panic", failed)] {
            let (manager, _) = manager();
            let test = format!("{policy}-{what}");
            manager.load_config(&config(&test, policy, &[("a", 1, what), ("b", 2, "wait")])).await.unwrap();
            tokio::time::sleep(Duration::from_mins(1)).await;
            assert_eq!(health(&manager, "a"), (expected.to_owned(), restarts), "{test}");
            assert_eq!(health(&manager, "b"), ("Running".to_owned(), 0), "{test}");
            let starts = events(&test).iter().filter(|event| *event == "start b").count();
            assert_eq!(starts, 1, "{test}");
        }
    }
}

/// A store that keeps everything.
struct Own(Mutex<Vec<(String, String)>>);

impl Store for Own {
    fn store(&self, source: &str, _storage: &Storage, state: &State) {
        self.0.lock().unwrap().push((source.to_owned(), state.message().to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn plugins_are_added_and_removed_and_store_where_they_are_asked_to() {
    let (manager, api) = manager();
    manager.load_config("plugins: []\nstatusCondition: ''\n").await.unwrap();
    assert_eq!(manager.version(), env!("CARGO_PKG_VERSION"));
    let storage = Storage::from(Key::Annotation("answer".into()));
    let settings = json!({"test": "added", "do": "store"});
    manager.add_plugin(puppet("mine"), settings.clone(), storage.clone()).await.unwrap();
    assert!(manager.add_plugin(puppet("mine"), settings.clone(), storage.clone()).await.unwrap_err().contains("mine"));
    let refused = manager.add_plugin(puppet("other"), json!({"do": "refuse"}), storage.clone()).await;
    assert_eq!(refused.unwrap_err(), "a configuration that it cannot use");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let status = manager.plugin_status("mine").unwrap();
    assert_eq!((status.version.as_str(), status.config_type.as_str(), status.running), ("v7", "{test, do}", true));
    manager.store_data("somebody", &Storage::from(Key::Annotation("word".into())), "hello");
    tokio::time::sleep(Duration::from_secs(1)).await;
    manager.remove_plugin("mine").await.unwrap();
    assert!(manager.remove_plugin("mine").await.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let annotations = |value: Value| json!({"metadata": {"annotations": value}});
    let expected = [json!({"answer": "42"}), json!({"word": "hello"}), json!({"answer": null})].map(annotations);
    assert_eq!(*api.written.lock().unwrap(), expected);

    // A store of its own gets the result, and the API server does not.
    let own = Arc::new(Own(Mutex::default()));
    let store: Arc<dyn Store> = Arc::clone(&own) as Arc<dyn Store>;
    let plugin = Puppet { name: "own".into(), store: Some(store), ..Puppet::default() };
    manager.add_plugin(Box::new(plugin), settings, storage).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*own.0.lock().unwrap(), [("own/result".to_owned(), "42".to_owned())]);
    assert_eq!(api.written.lock().unwrap().len(), expected.len());
}

#[tokio::test(start_paused = true)]
async fn secrets_are_read_again() {
    let (manager, api) = manager();
    let following = Arc::clone(&manager);
    tokio::spawn(async move { following.follow_secrets().await });
    manager.load_config("tokenSecretRef: {name: agent, key: token}\nplugins: []\n").await.unwrap();
    // As long as it is missing, ever more slowly.
    tokio::time::sleep(Duration::from_hours(1)).await;
    let reads = *api.reads.lock().unwrap();
    assert!((60..75).contains(&reads), "{reads} reads in an hour");
    for token in ["one", "two"] {
        *api.secret.lock().unwrap() = Some(token);
        tokio::time::sleep(Duration::from_secs(70)).await;
        assert_eq!(manager.token().as_deref(), Some(token));
    }
    *api.secret.lock().unwrap() = None;
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(manager.token(), None, "a Secret that is deleted opens nothing");
}

#[tokio::test(start_paused = true)]
async fn what_an_endpoint_has_marked_goes_with_it_and_the_marks_of_others_stay() {
    let config = |names: &[&str]| {
        let line = |name: &&str| {
            format!(
                "    - {{url: 'http://game/{name}', storageConfig: {{type: InKube, inKube: {{labelKey: {name}, conditionType: x/{name}}}}}}}\n"
            )
        };
        let endpoints: String = names.iter().map(line).collect();
        format!("statusCondition: ''\nplugins:\n- name: http_probe\n  config:\n    endpoints:\n{endpoints}")
    };
    let gone = "Unknown the agent does not probe this any more";
    for (after, removed) in [(["a"], "b"), (["b"], "a")] {
        let (manager, api) = manager_with(Arc::new(Echo::default()), None);
        manager.load_config(&config(&["a", "b"])).await.unwrap();
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(api.written(), [r#"{"a":"a","b":"b"}"#, "x/a True a", "x/b True b"]);
        manager.load_config(&config(&after)).await.unwrap();
        // Before the first look at what is left, and after it.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let expected = [json!({removed: null}).to_string(), format!("x/{removed} {gone}")];
        assert_eq!(api.written(), expected, "{after:?}");
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(api.written(), Vec::<String>::new(), "{after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_of_the_annotation_goes_on_while_others_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    // As the kubelet does it: the file is whole whenever it is read.
    let annotate = |probes: &[(&str, &str)]| {
        let probe = |(name, path): &(&str, &str)| {
            let get = json!({"path": path, "port": 80});
            json!({"name": format!("marker#{name}"), "containerName": "main", "podConditionType": format!("x/{name}"),
                   "probe": {"httpGet": get, "initialDelaySeconds": 600, "periodSeconds": 10}})
        };
        let probes: Vec<Value> = probes.iter().map(probe).collect();
        let line = format!("kruise.io/podprobe={}\n", json!(json!(probes).to_string()));
        std::fs::write(folder.path().join("new"), line).unwrap();
        std::fs::rename(folder.path().join("new"), folder.path().join("annotations")).unwrap();
    };
    let prober = Arc::new(Echo::default());
    annotate(&[("idle", "/idle")]);
    let (manager, api) = manager_with(Arc::clone(&prober) as Arc<dyn Prober>, Some(folder.path().to_owned()));
    manager.load_config("plugins: []\nstatusCondition: ''\n").await.unwrap();
    let nothing: [&str; 0] = [];
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!(api.written(), nothing);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(api.written(), ["x/idle True idle"]);
    // Another comes, and comes first.
    annotate(&[("ahead", "/ahead"), ("idle", "/idle")]);
    tokio::time::sleep(Duration::from_secs(570)).await;
    assert_eq!(api.written(), nothing);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(api.written(), ["x/ahead True ahead"]);
    assert_eq!(manager.plugin_status("pod_probe").unwrap().message, "marker#ahead: ahead; marker#idle: idle");
    let looks: Vec<Instant> =
        prober.looks.lock().unwrap().iter().filter(|(what, _)| what == "idle").map(|(_, at)| *at).collect();
    assert!(looks.windows(2).all(|pair| pair[1] - pair[0] == Duration::from_secs(10)), "{looks:?}");
    // One that is changed keeps its condition, and does not wait again.
    annotate(&[("ahead", "/ahead"), ("idle", "/busy")]);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(api.written(), ["x/idle True busy"]);
    annotate(&[("idle", "/busy")]);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(api.written(), ["x/ahead Unknown the agent does not probe this any more"]);
}
