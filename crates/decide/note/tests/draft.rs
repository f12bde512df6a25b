//! The patch of a draft, for any pod and any sequence of steps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot be set up stops there")]

use json_patch::PatchOperation;
use pillion_api::pod::{Object, Pod};
use pillion_note::{ContainerKey, ContainerList, Draft, Position};
use proptest::prelude::*;
use serde_json::{Value, json};

const LISTS: [ContainerList; 2] = [ContainerList::InitContainers, ContainerList::Containers];

/// What a step of admission can do to a draft. A number picks one of the containers that there are.
#[derive(Clone, Debug)]
enum Step {
    SetAnnotation(&'static str, &'static str),
    SetField(&'static str, Value),
    Insert(ContainerList, Position),
    Replace(usize),
    Change(usize, Vec<&'static str>, Value),
    Move(usize, ContainerList),
    Remove(usize),
    AddVolume,
    AddSecret(&'static str),
    Deduplicate,
}

/// The same pod, changed by hand: what the draft has to be equal to.
struct Model {
    pod: Value,
    /// The containers of both lists with their keys, in order; whether each was inserted at the front.
    containers: [Vec<(ContainerKey, bool, Value)>; 2],
}

impl Model {
    fn new(pod: &Value, draft: &Draft<'_>) -> Model {
        let containers = LISTS.map(|list| {
            draft.containers(list).map(|(key, container)| (key, false, Value::Object(container.0.clone()))).collect()
        });
        Model { pod: pod.clone(), containers }
    }

    fn pick(&self, number: usize) -> Option<(usize, usize)> {
        let all: Vec<(usize, usize)> =
            (0..2).flat_map(|list| (0..self.containers[list].len()).map(move |i| (list, i))).collect();
        (!all.is_empty()).then(|| all[number % all.len()])
    }

    fn append(&mut self, list: &str, value: Value) {
        let spec = self.spec();
        if spec[list].is_null() {
            spec[list] = json!([]);
        }
        spec[list].as_array_mut().unwrap().push(value);
    }

    fn spec(&mut self) -> &mut Value {
        if self.pod["spec"].is_null() {
            self.pod["spec"] = json!({});
        }
        &mut self.pod["spec"]
    }

    fn into_pod(mut self) -> Value {
        let containers = std::mem::take(&mut self.containers);
        for (name, list) in ["initContainers", "containers"].into_iter().zip(containers) {
            let list: Vec<Value> = list.into_iter().map(|(_, _, container)| container).collect();
            if !list.is_empty() || self.pod["spec"][name].is_array() {
                self.spec()[name] = Value::Array(list);
            }
        }
        self.pod
    }
}

fn index(list: ContainerList) -> usize {
    usize::from(list == ContainerList::Containers)
}

fn object(value: &Value) -> Object {
    value.as_object().unwrap().clone()
}

fn set(value: &mut Value, path: &[&str], new: &Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let parent = parents.iter().fold(value, |value, key| {
        if !value.get(*key).is_some_and(Value::is_object) {
            value[*key] = json!({});
        }
        &mut value[*key]
    });
    parent[*last] = new.clone();
}

/// Takes a step in the draft and in the model.
fn take(step: &Step, number: usize, draft: &mut Draft<'_>, model: &mut Model) {
    match step {
        Step::SetAnnotation(key, value) => {
            draft.set_annotation(*key, *value);
            set(&mut model.pod, &["metadata", "annotations", key], &json!(value));
            assert_eq!(draft.annotation(key), Some(*value));
        }
        Step::SetField(name, value) => {
            draft.set_field(name, value.clone());
            model.spec()[*name] = value.clone();
            assert_eq!(draft.field(name), Some(value));
        }
        Step::Insert(list, position) => {
            let container = json!({"name": format!("inserted-{number}"), "image": "sidecar:1"});
            let key = draft.insert(*list, *position, object(&container));
            let containers = &mut model.containers[index(*list)];
            let is_first = *position == Position::First;
            let at = if is_first { containers.iter().filter(|(_, first, _)| *first).count() } else { containers.len() };
            containers.insert(at, (key, is_first, container));
        }
        Step::Replace(pick) => {
            let Some((list, i)) = model.pick(*pick) else { return };
            let container = json!({"name": "replaced", "image": format!("other:{number}")});
            draft.replace(model.containers[list][i].0, object(&container));
            assert!(!draft.is_own(model.containers[list][i].0));
            model.containers[list][i].2 = container;
        }
        Step::Change(pick, path, value) => {
            let Some((list, i)) = model.pick(*pick) else { return };
            let (key, _, container) = &mut model.containers[list][i];
            set(container, path, value);
            let changed = draft.container_mut(*key).unwrap();
            *changed = object(container);
        }
        Step::Move(pick, to) => {
            let Some((list, i)) = model.pick(*pick) else { return };
            let (key, _, container) = model.containers[list].remove(i);
            let was_own = draft.is_own(key);
            draft.move_last(key, *to);
            assert_eq!(draft.is_own(key), was_own);
            model.containers[index(*to)].push((key, false, container));
        }
        Step::Remove(pick) => {
            let Some((list, i)) = model.pick(*pick) else { return };
            let (key, _, _) = model.containers[list].remove(i);
            draft.remove(key);
            assert!(draft.container(key).is_none());
        }
        Step::AddVolume => {
            let volume = json!({"name": format!("volume-{number}"), "emptyDir": {}});
            draft.add_volume(object(&volume));
            model.append("volumes", volume);
        }
        Step::AddSecret(name) => {
            draft.add_image_pull_secret(object(&json!({"name": name})));
            model.append("imagePullSecrets", json!({"name": name}));
        }
        Step::Deduplicate => {
            draft.deduplicate_image_pull_secrets();
            let secrets = model.pod.pointer_mut("/spec/imagePullSecrets").and_then(Value::as_array_mut);
            if let Some(secrets) = secrets {
                let mut seen = Vec::new();
                secrets.retain(|secret| {
                    let is_first = !seen.contains(&secret["name"]);
                    seen.push(secret["name"].clone());
                    is_first
                });
            }
        }
    }
}

fn any_list() -> impl Strategy<Value = ContainerList> {
    prop::sample::select(LISTS.to_vec())
}

fn any_step() -> impl Strategy<Value = Step> {
    let pick = 0..8_usize;
    let paths = vec![
        vec!["resources", "limits", "cpu"],
        vec!["resources", "requests", "memory"],
        vec!["image"],
        vec!["env"],
        vec!["restartPolicy"],
        vec!["a/b~c"],
    ];
    let values = vec![json!("1"), json!("2"), json!([{"name": "A", "value": "1"}]), json!({"deep": [1, 2]})];
    prop_oneof![
        (prop::sample::select(vec!["a", "b/c~d"]), prop::sample::select(vec!["1", "2"]))
            .prop_map(|(key, value)| Step::SetAnnotation(key, value)),
        prop::sample::select(vec![
            ("shareProcessNamespace", json!(true)),
            ("shareProcessNamespace", json!(false)),
            ("serviceAccountName", json!("agent")),
        ])
        .prop_map(|(name, value)| Step::SetField(name, value)),
        (any_list(), prop::sample::select(vec![Position::First, Position::Last]))
            .prop_map(|(list, position)| Step::Insert(list, position)),
        pick.clone().prop_map(Step::Replace),
        (pick.clone(), prop::sample::select(paths), prop::sample::select(values))
            .prop_map(|(pick, path, value)| Step::Change(pick, path, value)),
        (pick.clone(), any_list()).prop_map(|(pick, list)| Step::Move(pick, list)),
        pick.prop_map(Step::Remove),
        Just(Step::AddVolume),
        prop::sample::select(vec!["s1", "s2"]).prop_map(Step::AddSecret),
        Just(Step::Deduplicate),
    ]
}

/// A pod with fields that nobody knows, and with parts absent, null or empty.
fn any_pod() -> impl Strategy<Value = Value> {
    let container = (
        prop::sample::select(vec!["app", "second", "third"]),
        prop::option::of(prop::sample::select(vec!["1", "500m"])),
    )
        .prop_map(|(name, cpu)| match cpu {
            Some(cpu) => {
                json!({"name": name, "future": {"x": [1]}, "resources": {"limits": {"cpu": cpu}, "claims": []}})
            }
            None => json!({"name": name, "image": "app:1", "env": [{"name": "A", "value": "0"}]}),
        });
    let containers = || {
        prop_oneof![
            Just(None),
            Just(Some(Value::Null)),
            prop::collection::vec(container.clone(), 0..4).prop_map(|list| Some(Value::Array(list))),
        ]
    };
    let secrets =
        prop_oneof![Just(None), Just(Some(json!([{"name": "s1"}, {"name": "s2", "future": 1}, {"name": "s1"}])))];
    let annotations = prop_oneof![Just(None), Just(Some(Value::Null)), Just(Some(json!({"a": "1", "kept": "yes"})))];
    let shared = prop::option::of(any::<bool>().prop_map(Value::Bool));
    let volumes = prop_oneof![Just(None), Just(Some(Value::Null)), Just(Some(json!([{"name": "data", "future": 1}])))];
    let parts = (containers(), containers(), secrets, shared, volumes);
    (parts, annotations, 0..4_u8).prop_map(|((init, app, secrets, shared, volumes), annotations, shape)| {
        let mut pod = json!({"apiVersion": "v1", "future": {"y": 1}});
        if shape != 0 {
            pod["metadata"] = json!({"name": "p", "labels": {"app": "a"}});
            if let Some(annotations) = annotations {
                pod["metadata"]["annotations"] = annotations;
            }
        }
        if shape != 1 {
            pod["spec"] = json!({"nodeName": "n", "future": [{"z": 1}]});
            for (name, value) in [
                ("initContainers", init),
                ("containers", app),
                ("imagePullSecrets", secrets),
                ("shareProcessNamespace", shared),
                ("volumes", volumes),
            ] {
                if let Some(value) = value {
                    pod["spec"][name] = value;
                }
            }
        }
        pod
    })
}

/// Whether the operation is about something that one of the steps can have decided.
fn is_decided(operation: &PatchOperation, steps: &[Step]) -> bool {
    let path = operation.path().to_string();
    let has = |wanted: &dyn Fn(&Step) -> bool| steps.iter().any(wanted);
    match path.split('/').skip(1).collect::<Vec<_>>().as_slice() {
        ["metadata"] | ["metadata", "annotations", ..] => has(&|step| matches!(step, Step::SetAnnotation(..))),
        ["spec"] => matches!(operation, PatchOperation::Add(add) if add.value == json!({})),
        ["spec", "volumes", ..] => has(&|step| matches!(step, Step::AddVolume)),
        ["spec", "imagePullSecrets", ..] => has(&|step| matches!(step, Step::AddSecret(_) | Step::Deduplicate)),
        ["spec", "initContainers" | "containers", _] if matches!(operation, PatchOperation::Replace(_)) => {
            has(&|step| matches!(step, Step::Replace(_)))
        }
        ["spec", "initContainers" | "containers"] | ["spec", "initContainers" | "containers", _] => {
            has(&|step| matches!(step, Step::Insert(..) | Step::Move(..) | Step::Remove(_)))
        }
        ["spec", "initContainers" | "containers", _, field, ..] => {
            let field = field.replace("~1", "/").replace("~0", "~");
            has(&|step| matches!(step, Step::Change(_, path, _) if path[0] == field))
        }
        ["spec", field] => has(&|step| matches!(step, Step::SetField(name, _) if name == field)),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn the_patch_turns_the_one_into_the_other_and_touches_nothing_else(
        pod in any_pod(), steps in prop::collection::vec(any_step(), 0..12),
    ) {
        let before = Pod::new(pod.clone()).unwrap();
        let mut draft = Draft::new(&before);
        let mut model = Model::new(&pod, &draft);
        for (number, step) in steps.iter().enumerate() {
            take(step, number, &mut draft, &mut model);
        }
        let patch = draft.patch();
        let mut patched = pod.clone();
        json_patch::patch(&mut patched, &patch).unwrap();
        prop_assert_eq!(&patched, &model.into_pod());
        prop_assert_eq!(&patched, &draft.to_value());
        for operation in &patch.0 {
            prop_assert!(is_decided(operation, &steps), "{operation} was decided by none of {steps:?}");
        }
        if patched == pod {
            prop_assert!(patch.0.is_empty(), "{patch} changes nothing");
        }
    }
}

#[test]
fn a_changed_container_is_patched_where_it_changed_and_nowhere_else() {
    let pod = Pod::new(json!({"spec": {"containers": [
        {"name": "init-like"}, {"name": "app", "future": 1, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
    ]}}))
    .unwrap();
    let mut draft = Draft::new(&pod);
    let app = draft.original(ContainerList::Containers, "app").unwrap();
    draft.container_mut(app).unwrap()["resources"]["limits"]["cpu"] = json!("2");
    draft.insert(ContainerList::Containers, Position::First, object(&json!({"name": "proxy"})));
    assert_eq!(
        serde_json::to_value(draft.patch()).unwrap(),
        json!([
            {"op": "add", "path": "/spec/containers/0", "value": {"name": "proxy"}},
            {"op": "replace", "path": "/spec/containers/2/resources/limits/cpu", "value": "2"},
        ])
    );
}

#[test]
fn a_container_that_moves_is_the_pods_own_and_keeps_every_field() {
    let pod = Pod::new(json!({"spec": {"containers": [{"name": "app"}, {"name": "logs", "future": 1}]}})).unwrap();
    let mut draft = Draft::new(&pod);
    let logs = draft.original(ContainerList::Containers, "logs").unwrap();
    draft.move_last(logs, ContainerList::InitContainers);
    draft.container_mut(logs).unwrap().insert("restartPolicy".to_owned(), json!("Always"));
    assert!(draft.is_own(logs));
    assert_eq!(
        serde_json::to_value(draft.patch()).unwrap(),
        json!([
            {"op": "add", "path": "/spec/initContainers", "value": [{"name": "logs", "future": 1, "restartPolicy": "Always"}]},
            {"op": "remove", "path": "/spec/containers/1"},
        ])
    );
}
