//! The commands on an embedded cluster with a manager, in virtual time.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use insta::assert_snapshot;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use pillion_api::names;
use pillion_api::sidecarset::revision;
use pillion_embedded::{Config, Embedded};
use pillion_manager::{Manager, WebhookAddress};
use pillion_rollout::Target;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::Failure;
use crate::cluster::known::sidecar_sets;
use crate::cluster::read::Reader;
use crate::cluster::testing::message;
use crate::manifest;
use crate::offline::UnknownFields;
use crate::rollout::change::{self, Done};
use crate::rollout::fleet::{Fleet, revisions};
use crate::rollout::found::{Found, find};
use crate::rollout::history::entries;
use crate::rollout::plan::{self, Planned};
use crate::rollout::restart::Recreation;
use crate::rollout::status::{Outcome, Status};
use crate::rollout::text;
use crate::rollout::watch::{End, follow};

/// Where the API server finds the webhooks: a name that no network has.
const URL: &str = "https://pillion.invalid";
const REVISIONS: &str = "kruise-system";

struct Cluster {
    engine: Embedded,
    reader: Reader,
    _manager: JoinHandle<()>,
}

impl Cluster {
    /// A cluster with the set `mesh` and a StatefulSet with so many pods.
    async fn new(strategy: Value, pods: i32) -> Cluster {
        let engine = Embedded::start(Config::simulated("2026-01-01T00:00:00Z".parse().unwrap())).await.unwrap();
        let clock = engine.server().clock();
        let address = WebhookAddress::Url(URL.to_owned());
        let manager =
            Manager::new(pillion_manager::Config::new(engine.client(), Arc::new(move || clock.now()), address));
        engine.server().register_webhook(URL, manager.webhooks());
        manager.start().await.unwrap();
        manager.register().await.unwrap();
        let manager = tokio::spawn(async move { drop(manager.run().await) });
        let cluster = Cluster { reader: Reader::new(engine.client()), engine, _manager: manager };
        // Until the controllers have made what every namespace has.
        tokio::time::sleep(Duration::from_mins(1)).await;
        let set = mk_set("envoy:1.30", strategy);
        cluster.sets().create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
        let crashes = json!({"pillion.dev/simulate": "proxy: 0s exit 1 with envoy:bad"});
        let web = json!({
            "metadata": {"name": "web"},
            "spec": {
                "replicas": pods, "podManagementPolicy": "Parallel", "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}, "annotations": crashes}, "spec": {
                    "terminationGracePeriodSeconds": 1, "containers": [{"name": "app", "image": "app:1"}],
                }},
            },
        });
        let web: StatefulSet = serde_json::from_value(web).unwrap();
        let sets: Api<StatefulSet> = Api::default_namespaced(cluster.engine.client());
        sets.create(&PostParams::default(), &web).await.unwrap();
        cluster.until(|status| status.pods.updated_ready == usize::try_from(pods).unwrap()).await;
        cluster
    }

    fn sets(&self) -> Api<DynamicObject> {
        Api::all_with(self.engine.client(), &sidecar_sets("v1beta1"))
    }

    fn now(&self) -> Timestamp {
        self.engine.server().clock().now()
    }

    async fn patch(&self, patch: Value) {
        self.sets().patch("mesh", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn set_image(&self, image: &str) {
        self.patch(json!({"spec": {"containers": [{"name": "proxy", "image": image}]}})).await;
    }

    async fn found(&self) -> Found {
        find(&self.reader, "mesh").await.ok().unwrap()
    }

    async fn status(&self) -> Status {
        let found = self.found().await;
        let fleet = Fleet::read(&self.reader, &found.set, REVISIONS).await.unwrap();
        Status::of(&Target::new(found.set), &fleet.revisions, &fleet.pods)
    }

    /// Waits until the status is so.
    async fn until(&self, is_so: impl Fn(&Status) -> bool) -> Status {
        for _ in 0..10_000 {
            let status = self.status().await;
            if is_so(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("{}", text::tables(&self.status().await, self.now()));
    }

    async fn until_outcome(&self, outcome: Outcome) -> Status {
        self.until(|status| status.outcome == outcome).await
    }

    async fn undo(&self, found: &Found, to: Option<&str>) -> Result<Done, Failure> {
        let revisions = revisions(&self.reader, &found.set, REVISIONS).await?;
        let entries = entries(&found.set, &revisions, &Target::new(found.set.clone()), &[]);
        change::undo(&self.reader, found, &revisions, &entries, to).await
    }

    async fn plan(&self, set: &Value) -> Result<Vec<Planned>, Failure> {
        let (documents, broken) = manifest::parse(&"new.yaml".into(), &set.to_string());
        assert!(broken.is_empty());
        plan::plan(&self.reader, documents, REVISIONS, UnknownFields::Refuse, self.now(), &mut Vec::new()).await
    }

    async fn follow(&self, timeout: Option<Duration>, lines: &RefCell<Vec<String>>) -> Result<End, Failure> {
        let found = self.found().await;
        let show = |status: &Status| {
            let line = text::line(status);
            let mut lines = lines.borrow_mut();
            if lines.last() != Some(&line) {
                lines.push(line);
            }
            Ok(())
        };
        follow(&self.reader, &found, REVISIONS, timeout, show).await
    }

    async fn pods(&self) -> Vec<Pod> {
        let pods: Api<Pod> = Api::default_namespaced(self.engine.client());
        pods.list(&ListParams::default()).await.unwrap().items
    }
}

fn mk_set(image: &str, strategy: Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "mesh"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "proxy", "image": image}],
            "updateStrategy": strategy,
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_rollout_is_followed_to_its_end_and_undone() {
    let cluster = Cluster::new(json!({"maxUnavailable": 1}), 3).await;
    let first = revision::current_name(&cluster.found().await.set);
    let hash = cluster.found().await.set.annotation(names::HASH).unwrap().to_owned();
    cluster.set_image("envoy:1.31").await;
    let lines = RefCell::new(Vec::new());
    let end = cluster.follow(None, &lines).await.ok().unwrap();
    assert_eq!((end.failure, end.status.outcome), (None, Outcome::Complete));
    let lines = lines.into_inner();
    let second = revision::current_name(&cluster.found().await.set);
    assert_eq!(
        lines.last().unwrap(),
        &format!("SidecarSet mesh: complete: 3 of 3 pods have revision {second}"),
        "{lines:#?}"
    );
    assert!(lines.iter().any(|line| line.contains("updating") && line.contains("1 of 3 pods")), "{lines:#?}");

    let done = cluster.undo(&cluster.found().await, None).await.ok().unwrap();
    assert_eq!((done.result.as_str(), done.warnings.len()), (format!("rolled back to {first}").as_str(), 0));
    let status = cluster.until_outcome(Outcome::Complete).await;
    assert_eq!((status.latest_revision.as_str(), status.pods.updated_ready), (first.as_str(), 3));
    assert_eq!(cluster.found().await.set.annotation(names::HASH), Some(hash.as_str()), "it is the same revision");
    // By its number it goes forward again: the first one has the number 3 now.
    let done = cluster.undo(&cluster.found().await, Some("2")).await.ok().unwrap();
    assert_eq!(done.result, format!("rolled back to {second}"));
    cluster.until_outcome(Outcome::Complete).await;
    let (code, said) = message(cluster.undo(&cluster.found().await, Some(&second)).await.unwrap_err());
    assert_eq!((code, said), (1, format!("SidecarSet \"mesh\" has revision {second} already")));
}

#[tokio::test(start_paused = true)]
async fn an_undo_keeps_what_others_have_written_and_does_not_overwrite_another_revision() {
    let cluster = Cluster::new(json!({}), 1).await;
    cluster.set_image("envoy:1.31").await;
    cluster.until_outcome(Outcome::Complete).await;
    let seen = cluster.found().await;
    // Somebody changes the strategy, which is no part of a revision.
    cluster.patch(json!({"spec": {"updateStrategy": {"maxUnavailable": "50%"}}})).await;
    cluster.undo(&seen, None).await.ok().unwrap();
    let set = cluster.found().await.set;
    assert_eq!(set.spec.containers[0].image(), "envoy:1.30");
    assert_eq!(json!(set.spec.update_strategy.max_unavailable), json!("50%"));

    cluster.until_outcome(Outcome::Complete).await;
    let seen = cluster.found().await;
    cluster.set_image("envoy:1.32").await;
    let (code, said) = message(cluster.undo(&seen, None).await.unwrap_err());
    assert_eq!(code, 1);
    assert!(said.contains("was changed meanwhile") && said.ends_with("nothing was undone"), "{said}");
    assert_eq!(cluster.found().await.set.spec.containers[0].image(), "envoy:1.32");
}

#[tokio::test(start_paused = true)]
async fn a_rollout_is_paused_and_resumed() {
    let cluster = Cluster::new(json!({"maxUnavailable": 1}), 3).await;
    let done = change::pause(&cluster.reader, &cluster.found().await).await.ok().unwrap();
    assert_eq!(done.result, "paused");
    let (code, said) = message(change::pause(&cluster.reader, &cluster.found().await).await.unwrap_err());
    assert_eq!((code, said.as_str()), (1, "SidecarSet \"mesh\" is already paused"));
    cluster.set_image("envoy:1.31").await;
    cluster.until_outcome(Outcome::Paused).await;
    let lines = RefCell::new(Vec::new());
    let end = cluster.follow(Some(Duration::from_mins(5)), &lines).await.ok().unwrap();
    let failure = end.failure.unwrap();
    assert_eq!(failure, "the rollout has not ended within 300s: updateStrategy.paused is true, 3 pods left to update");
    assert_eq!(end.status.pods.updated, 0);
    change::resume(&cluster.reader, &cluster.found().await).await.ok().unwrap();
    let end = cluster.follow(None, &lines).await.ok().unwrap();
    assert_eq!((end.failure, end.status.pods.updated_ready), (None, 3));
    let (_, said) = message(change::resume(&cluster.reader, &cluster.found().await).await.unwrap_err());
    assert_eq!(said, "SidecarSet \"mesh\" is not paused");
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_has_paused_itself_is_resumed_by_an_annotation() {
    let cluster = Cluster::new(json!({"maxUnavailable": 1}), 3).await;
    cluster.set_image("envoy:bad").await;
    let stopped = cluster.until(|status| status.has_paused_itself).await;
    assert_eq!((stopped.outcome, stopped.pods.updated), (Outcome::Failed, 1));
    change::resume(&cluster.reader, &cluster.found().await).await.ok().unwrap();
    let set = cluster.found().await.set;
    let latest = revision::current_name(&set);
    assert_eq!(set.annotation(names::RESUME), Some(latest.as_str()));
    assert!(!set.spec.update_strategy.paused);
    // It goes on, whatever fails: only maxUnavailable is in its way.
    let resumed = cluster.until(|status| !status.has_paused_itself).await;
    let blocked = resumed.conditions.iter().find(|condition| condition.type_ == "Blocked").unwrap();
    assert_eq!((blocked.reason.as_str(), resumed.latest_revision), ("MaxUnavailable", latest));
    cluster.patch(json!({"spec": {"updateStrategy": {"maxUnavailable": 2}}})).await;
    cluster.until(|status| status.pods.updated == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_replaces_every_pod_within_the_limits() {
    let cluster = Cluster::new(json!({"maxUnavailable": 2}), 5).await;
    let uids = async || cluster.pods().await.iter().filter_map(ResourceExt::uid).collect::<BTreeSet<_>>();
    let before = uids().await;
    let recreation = Recreation::read(&cluster.reader, &cluster.found().await).await.ok().unwrap();
    assert!(!recreation.is_forbidden());
    assert_snapshot!(recreation.announcement().join("\n"), @"5 pods of SidecarSet mesh will be evicted and created again by their workloads, with all their containers: no API of Kubernetes restarts one container of a pod. At most 2 will be missing at a time.");
    let reported = RefCell::new(Vec::new());
    let say = |line: &str| reported.borrow_mut().push(line.to_owned());
    let fewest = async {
        let mut fewest = 5;
        loop {
            fewest = fewest.min(cluster.status().await.pods.ready);
            assert!(fewest >= 3, "only {fewest} are ready");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let once = cluster.engine.client();
    tokio::select! {
        outcome = recreation.run(&cluster.reader, &once, Some(Duration::from_mins(10)), &say) => outcome.ok().unwrap(),
        () = fewest => {}
    }
    let after = uids().await;
    assert_eq!((after.len(), after.intersection(&before).count()), (5, 0));
    assert_eq!(reported.into_inner().len(), 5);
    assert_eq!(cluster.status().await.pods.updated_ready, 5);
}

#[tokio::test(start_paused = true)]
async fn a_disruption_budget_holds_a_restart_up() {
    let cluster = Cluster::new(json!({"maxUnavailable": 2}), 2).await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    });
    let budgets: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> =
        Api::default_namespaced(cluster.engine.client());
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    let recreation = Recreation::read(&cluster.reader, &cluster.found().await).await.ok().unwrap();
    let said = RefCell::new(Vec::new());
    let say = |line: &str| said.borrow_mut().push(line.to_owned());
    let outcome = recreation.run(&cluster.reader, &cluster.engine.client(), Some(Duration::from_mins(1)), &say).await;
    let (code, failure) = message(outcome.unwrap_err());
    assert_eq!(code, 1);
    assert!(failure.contains("disruption budget"), "{failure}");
    let said = said.into_inner();
    assert!(said.iter().all(|line| line.starts_with("waiting: default/web-")), "the pods stay: {said:?}");
    assert!(said.len() <= 2, "each pod is named once: {said:?}");
    assert_eq!(cluster.pods().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_what_happens_and_writes_nothing() {
    let cluster = Cluster::new(json!({"maxUnavailable": 2}), 5).await;
    cluster.until_outcome(Outcome::Complete).await;
    let versions = async || {
        let set = cluster.sets().get("mesh").await.unwrap().resource_version();
        let pods: Vec<_> = cluster.pods().await.iter().map(ResourceExt::resource_version).collect();
        (set, pods, revisions(&cluster.reader, &cluster.found().await.set, REVISIONS).await.unwrap())
    };
    let before = versions().await;
    let new = mk_set("envoy:1.31", json!({"maxUnavailable": 2, "partition": 1}));
    let planned = cluster.plan(&new).await.ok().unwrap();
    assert_eq!(versions().await, before);
    assert_snapshot!(plan::text(&planned[0]), @"
    SidecarSet mesh: revision mesh-7b7d4d5c59 -> mesh-5cdfcfb6d4
      proxy: envoy:1.30 -> envoy:1.31
      5 pods are matched, 4 updated in 2 waves within about 2s, the partition keeps 1
      a pod takes 1s to get ready (median of 5 pods, from creation to ready)

      WAVE  BEGINS  READY  PODS  NAMES
      1     0s      1s     2     default/web-0, default/web-1
      2     1s      2s     2     default/web-2, default/web-3
    ");
    assert!(planned[0].completes);

    // What is planned happens.
    cluster.patch(json!({"spec": new["spec"]})).await;
    let status = cluster.until(|status| status.outcome == Outcome::Complete && status.pods.updated > 0).await;
    assert_eq!((status.pods.updated, status.pods.matched), (4, 5));
    assert_eq!(status.latest_revision, planned[0].to_revision);
    let old: Vec<_> = status.revisions[1].workloads[0].pods.iter().map(|pod| format!("default/{}", pod.name)).collect();
    let updated: BTreeSet<&String> = planned[0].waves.iter().flat_map(|wave| &wave.pods).collect();
    assert!(old.len() == 1 && !updated.contains(&old[0]), "{old:?} {updated:?}");

    // A change of more than images does not reach running pods.
    let mut blocked = mk_set("envoy:1.32", json!({}));
    blocked["spec"]["containers"][0]["args"] = json!(["-v"]);
    let planned = cluster.plan(&blocked).await.ok().unwrap();
    assert!(!planned[0].completes && planned[0].waves.is_empty());
    assert!(
        plan::text(&planned[0]).contains("BLOCKED NotUpgradable: 5 pods must be recreated"),
        "{}",
        plan::text(&planned[0])
    );
    let mut other = blocked.clone();
    (other["metadata"]["name"], other["spec"]["containers"][0]["name"]) = (json!("logs"), json!("logger"));
    let planned = cluster.plan(&other).await.ok().unwrap();
    assert_eq!((planned[0].from_revision.as_deref(), planned[0].matched_pods), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_not_there_is_answered_with_what_may_have_been_meant() {
    let cluster = Cluster::new(json!({}), 1).await;
    let said = async |name: &str| message(find(&cluster.reader, name).await.unwrap_err());
    assert_eq!(said("mehs").await, (1, "the cluster has no SidecarSet \"mehs\"; did you mean \"mesh\"?".to_owned()));
    assert_eq!(said("logs").await.1, "the cluster has no SidecarSet \"logs\"");
    let bare = crate::cluster::testing::TestCluster::bare().await;
    let (_, said) = message(find(&bare.reader(), "mesh").await.unwrap_err());
    assert!(said.ends_with("their CustomResourceDefinition is not installed"), "{said}");
}
