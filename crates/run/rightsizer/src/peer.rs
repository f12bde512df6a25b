//! Upstream's VerticalPodAutoscaler: whether it serves the same objects, and what has to happen before we do.
//!
//! Charts give its Deployments names and namespaces of their own, so that they are known by their images. That takes all Deployments of the
//! cluster, of which there may be very many: while a part waits or acts they are listed once and then watched, and only upstream's are kept. Its
//! Leases and its webhook configuration are watched as well: asking for objects that nearly never exist would be most of what an installation asks for.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use pillion_api::names::VPA_ADMISSION_LEASE;
use pillion_api::vpa::DEFAULT_RECOMMENDER;
use pillion_informer::{Cache, View};
use serde_json::Value;
use tokio::time::Instant;

use crate::admission_lease::{self, NAMESPACE};
use crate::config::Now;
use crate::requests;

/// How often it is looked for while it is in the way.
const LOOK: Duration = Duration::from_secs(10);
/// How often it is looked for while it is not.
const LOOK_ON: Duration = Duration::from_secs(15);
/// How often the log repeats what is waited for.
const REMIND: Duration = Duration::from_mins(5);
/// How long a Lease is valid that does not say so.
const LEASE_SECONDS: i32 = 15;

/// A part of upstream's autoscaler. Each of ours waits for its own only, so that parts can be mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerPart {
    Recommender,
    Updater,
    /// The admission controller.
    Admission,
}

impl PeerPart {
    /// All of them.
    pub const ALL: [PeerPart; 3] = [PeerPart::Recommender, PeerPart::Updater, PeerPart::Admission];

    /// What its manifests name the Deployment, and every chart the image.
    pub fn deployment(self) -> &'static str {
        match self {
            PeerPart::Recommender => "vpa-recommender",
            PeerPart::Updater => "vpa-updater",
            PeerPart::Admission => "vpa-admission-controller",
        }
    }

    /// The Lease that it holds.
    pub fn lease(self) -> &'static str {
        match self {
            PeerPart::Recommender => "vpa-recommender-lease",
            PeerPart::Updater => "vpa-updater",
            PeerPart::Admission => VPA_ADMISSION_LEASE,
        }
    }

    /// The webhook configuration by which objects are sent to the admission controller, as that names it itself.
    pub const CONFIGURATION: &'static str = "vpa-webhook-config";
    /// The entry of that configuration, which has this name in the configurations of charts as well.
    pub const WEBHOOK: &'static str = "vpa.k8s.io";

    /// Whether a container runs it for the autoscalers that we serve.
    fn is_run_by(self, container: &Value) -> bool {
        let image = container["image"].as_str().unwrap_or_default();
        image_name(image) == self.deployment() && !(self == PeerPart::Recommender && serves_by_name(container))
    }
}

/// `vpa-updater` of `registry.k8s.io:443/autoscaling/vpa-updater:1.5.1@sha256:…`.
fn image_name(image: &str) -> &str {
    let without_digest = image.split_once('@').map_or(image, |(image, _)| image);
    let last = without_digest.rsplit_once('/').map_or(without_digest, |(_, last)| last);
    last.split_once(':').map_or(last, |(name, _)| name)
}

/// Whether a recommender serves only the autoscalers that name it: it is meant to run beside the one of all others.
fn serves_by_name(container: &Value) -> bool {
    let words = ["command", "args"].into_iter().flat_map(|field| container[field].as_array().into_iter().flatten());
    let mut words = words.filter_map(Value::as_str);
    while let Some(word) = words.next() {
        let name = match word.strip_prefix("--recommender-name") {
            Some("") => words.next(),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        if name.is_some_and(|name| name != DEFAULT_RECOMMENDER) {
            return true;
        }
    }
    false
}

/// A Deployment of upstream's.
#[derive(Debug, PartialEq, Eq)]
struct Component {
    parts: Vec<PeerPart>,
    namespace: String,
    name: String,
    has_replicas: bool,
}

impl View for Component {
    type Object = DynamicObject;

    /// `None` for every other Deployment.
    fn of(object: DynamicObject) -> Option<Component> {
        let (namespace, name) = (object.namespace()?, object.name_any());
        let containers = object.data.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        let is_run = |part: &PeerPart| {
            (namespace == NAMESPACE && name == part.deployment())
                || containers.into_iter().flatten().any(|container| part.is_run_by(container))
        };
        let parts: Vec<PeerPart> = PeerPart::ALL.into_iter().filter(is_run).collect();
        let has_replicas = object.data.pointer("/spec/replicas").and_then(Value::as_i64) != Some(0);
        (!parts.is_empty()).then_some(Component { parts, namespace, name, has_replicas })
    }

    fn is_same(&self, old: &Component) -> bool {
        self == old
    }
}

/// How a part of upstream's autoscaler stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is none.
    Absent,
    /// It is installed, and does not run.
    Stopped,
    /// It runs.
    Serving,
}

/// A part of upstream's autoscaler as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub part: PeerPart,
    /// How it stands.
    pub standing: Standing,
    /// The namespace and the name of its Deployment. Where none was found, it is said to be where upstream's manifests have it.
    pub deployment: Option<(String, String)>,
}

impl Peer {
    /// Looks for every part, once.
    ///
    /// # Errors
    /// The API server cannot be reached or refuses.
    pub async fn find_all(client: &Client, now: Timestamp) -> Result<Vec<Peer>, kube::Error> {
        let read = |object| Component::of(object).map(Arc::new);
        let components = requests::list_in_pages(&deployments(client.clone()), read).await?;
        let mut found = Vec::new();
        for part in PeerPart::ALL {
            let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
            let lease = leases.get_opt(part.lease()).await?;
            let is_registered = part == PeerPart::Admission && {
                let all: Api<PartialObjectMeta<MutatingWebhookConfiguration>> = Api::all(client.clone());
                all.get_metadata_opt(PeerPart::CONFIGURATION).await?.is_some()
            };
            found.push(Peer::among(&components, lease.as_ref(), is_registered, part, now));
        }
        Ok(found)
    }

    /// How a part stands, where these are all of upstream's Deployments, this is its Lease, and its webhook is registered or not.
    fn among(
        components: &[Arc<Component>],
        lease: Option<&Lease>,
        is_registered: bool,
        part: PeerPart,
        now: Timestamp,
    ) -> Peer {
        let is_held = lease.is_some_and(|lease| match part {
            PeerPart::Admission => admission_lease::is_held_by_others(lease, now),
            PeerPart::Recommender | PeerPart::Updater => is_held(lease, now),
        });
        let of_part = || components.iter().filter(|component| component.parts.contains(&part));
        let running = of_part().find(|component| component.has_replicas);
        let component = running.or_else(|| of_part().next());
        let standing = if running.is_some() || is_held {
            Standing::Serving
        } else if component.is_some() || is_registered {
            Standing::Stopped
        } else {
            Standing::Absent
        };
        let deployment = component.map(|component| (component.namespace.clone(), component.name.clone()));
        Peer { part, standing, deployment }
    }

    /// Why our part must not act while it stands so, and what to do about it.
    pub fn obstacle(&self, may_take_over: bool) -> Option<String> {
        self.obstacle_and_remedy(may_take_over).map(|(obstacle, remedy)| format!("{obstacle}; {remedy}"))
    }

    /// The same, apart.
    pub fn obstacle_and_remedy(&self, may_take_over: bool) -> Option<(String, String)> {
        let part = self.part.deployment();
        let upstream = format!("{part} of the VerticalPodAutoscaler project");
        let place = self.deployment.as_ref().map(|(namespace, name)| (namespace.as_str(), name.as_str()));
        let (namespace, name) = place.unwrap_or((NAMESPACE, part));
        let stop = format!("kubectl --namespace={namespace} scale deployment {name} --replicas=0");
        match (self.standing, may_take_over) {
            (Standing::Absent, _) | (Standing::Stopped, true) => None,
            (Standing::Serving, false) => {
                Some((format!("{upstream} runs"), format!("stop it (`{stop}`), then start with --take-over=vpa")))
            }
            (Standing::Serving, true) => Some((format!("{upstream} still runs"), format!("stop it: `{stop}`"))),
            (Standing::Stopped, false) => Some((
                format!("{upstream} is installed, but does not run"),
                "delete it, or start with --take-over=vpa".to_owned(),
            )),
        }
    }
}

fn is_held(lease: &Lease, now: Timestamp) -> bool {
    let Some(spec) = &lease.spec else { return false };
    let is_named = spec.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty());
    let lasts = SignedDuration::from_secs(i64::from(spec.lease_duration_seconds.unwrap_or(LEASE_SECONDS)));
    let renewed = spec.renew_time.as_ref().map(|time| time.0);
    is_named && renewed.is_some_and(|renewed| now.duration_since(renewed) < lasts)
}

fn deployments(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &ApiResource::erase::<Deployment>(&()))
}

/// What is known of a part of upstream's autoscaler, by watches.
struct Watched {
    part: PeerPart,
    components: Cache<Component>,
    leases: Cache<Lease>,
    /// Its webhook configuration, of the admission controller.
    configurations: Cache<PartialObjectMeta<MutatingWebhookConfiguration>>,
}

impl Watched {
    fn new(part: PeerPart) -> Watched {
        Watched { part, components: Cache::new(), leases: Cache::new(), configurations: Cache::new() }
    }

    /// Keeps what is known as it is in the cluster, until `looking` ends.
    async fn run_while(&self, client: &Client, looking: impl Future<Output = ()>) {
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let client = self.components.client(client);
        let components = self.components.clone().run(deployments(client.clone()), watcher::Config::default());
        let leases = Api::namespaced(client.clone(), NAMESPACE);
        let leases = self.leases.clone().run(leases, named(self.part.lease()));
        let configurations = async {
            if self.part == PeerPart::Admission {
                self.configurations.clone().run(Api::all(client), named(PeerPart::CONFIGURATION)).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = looking => {}
            () = components => {}
            () = leases => {}
            () = configurations => {}
        }
    }

    /// How the part stands, once all is known.
    async fn look(&self, now: &Now) -> Result<Peer, String> {
        let synced = async {
            self.components.synced().await;
            self.leases.synced().await;
            if self.part == PeerPart::Admission {
                self.configurations.synced().await;
            }
        };
        if tokio::time::timeout(LOOK, synced).await.is_err() {
            let failures = [self.components.failure(), self.leases.failure(), self.configurations.failure()];
            let failure = failures.into_iter().flatten().next();
            return Err(
                failure.map_or_else(|| "its Deployments and Leases are not listed yet".to_owned(), |it| it.error)
            );
        }
        let lease = self.leases.get(NAMESPACE, self.part.lease());
        let is_registered = !self.configurations.is_empty();
        Ok(Peer::among(&self.components.list(), lease.as_deref(), is_registered, self.part, now()))
    }
}

/// Returns when upstream's part, which did not act so far, is there.
pub async fn until_there(client: &Client, now: &Now, part: PeerPart, may_take_over: bool) {
    let watched = Watched::new(part);
    let looking = async {
        loop {
            tokio::time::sleep(LOOK_ON).await;
            match watched.look(now).await.map(|peer| peer.obstacle(may_take_over)) {
                Ok(None) => {}
                Ok(Some(obstacle)) => {
                    tracing::warn!("standing by in the place of {}: {obstacle}", part.deployment());
                    return;
                }
                Err(error) => tracing::debug!(error, part = part.deployment(), "cannot read whether it runs"),
            }
        }
    };
    watched.run_while(client, looking).await;
}

/// Returns when upstream's part does not act any more. Until then the log says what is waited for.
pub async fn until_alone(client: &Client, now: &Now, part: PeerPart, may_take_over: bool) {
    let watched = Watched::new(part);
    let looking = async {
        let mut logged: Option<(String, Instant)> = None;
        loop {
            let obstacle = match watched.look(now).await {
                Ok(peer) => peer.obstacle(may_take_over),
                Err(error) => Some(format!("cannot read whether {} runs: {error}", part.deployment())),
            };
            let Some(obstacle) = obstacle else { break };
            if logged.as_ref().is_none_or(|(before, at)| *before != obstacle || at.elapsed() >= REMIND) {
                tracing::warn!("waiting: {obstacle}");
                logged = Some((obstacle, Instant::now()));
            }
            tokio::time::sleep(LOOK).await;
        }
        if logged.is_some() {
            tracing::info!("{} does not run any more; going on", part.deployment());
        }
    };
    watched.run_while(client, looking).await;
}

#[cfg(test)]
mod tests {
    use kube::api::{Patch, PatchParams, PostParams};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_runs_is_in_the_way_and_what_is_left_over_only_without_take_over() {
        let peer = |standing| Peer { part: PeerPart::Updater, standing, deployment: None };
        let obstacle = |standing, may| peer(standing).obstacle(may);
        assert_eq!(obstacle(Standing::Absent, false), None);
        assert_eq!(obstacle(Standing::Stopped, true), None);
        assert!(obstacle(Standing::Stopped, false).unwrap().contains("--take-over=vpa"));
        let stop = "kubectl --namespace=kube-system scale deployment vpa-updater --replicas=0";
        assert!(obstacle(Standing::Serving, true).unwrap().contains(stop));
        assert!(obstacle(Standing::Serving, false).unwrap().contains(stop));
        let deployment = Some(("vpa".to_owned(), "release-updater".to_owned()));
        let elsewhere = Peer { deployment, ..peer(Standing::Serving) }.obstacle(true).unwrap();
        assert!(elsewhere.contains("kubectl --namespace=vpa scale deployment release-updater --replicas=0"));
    }

    fn deployment(namespace: &str, name: &str, replicas: u32, container: Value) -> Value {
        let labels = json!({"app": name});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        })
    }

    #[test]
    fn a_part_is_known_by_its_image_or_by_the_name_that_upstreams_manifests_give_it() {
        use PeerPart::{Admission, Recommender, Updater};
        let parts = |namespace: &str, name: &str, container: Value| {
            let object = serde_json::from_value(deployment(namespace, name, 1, container)).unwrap();
            Component::of(object).map(|component| component.parts).unwrap_or_default()
        };
        let rows = [
            ("registry.k8s.io/autoscaling/vpa-updater:1.5.1", vec![Updater]),
            ("registry.example.com:5000/vpa-recommender@sha256:0123", vec![Recommender]),
            ("mirror/vpa-admission-controller:1.5.1@sha256:0123", vec![Admission]),
            ("vpa-updater", vec![Updater]),
            ("example.com/vpa-updater/exporter:1", vec![]),
            ("example.com/my-vpa-updater:1", vec![]),
            ("example.com/app:vpa-updater", vec![]),
            ("", vec![]),
        ];
        for (image, expected) in rows {
            assert_eq!(parts("vpa", "a", json!({"name": "a", "image": image})), expected, "{image}");
        }
        let other = json!({"name": "a", "image": "a"});
        assert_eq!(parts("kube-system", "vpa-recommender", other.clone()), [Recommender]);
        assert_eq!(parts("shop", "vpa-recommender", other), []);
        // One that serves only the autoscalers that name it is no peer of ours.
        let rows = [
            (json!(["--v=4", "--recommender-name=default"]), vec![Recommender]),
            (json!(["--recommender-name=frugal"]), vec![]),
            (json!(["--recommender-name", "frugal"]), vec![]),
        ];
        for (args, expected) in rows {
            let container = json!({"name": "a", "image": "vpa-recommender", "args": args});
            assert_eq!(parts("vpa", "a", container), expected, "{args}");
        }
    }

    async fn cluster() -> Client {
        let clock = pillion_clock::Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
        let in_memory = pillion_apiserver::Config::in_memory();
        let server = pillion_apiserver::ApiServer::new(pillion_apiserver::Config { clock, ..in_memory });
        server.bootstrap().await.unwrap();
        Client::new(server.router(), "default")
    }

    async fn create(client: &Client, object: Value) {
        let api: Api<DynamicObject> = Api::namespaced_with(
            client.clone(),
            object["metadata"]["namespace"].as_str().unwrap(),
            &ApiResource::erase::<Deployment>(&()),
        );
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    fn updater(replicas: u32) -> Value {
        let container = json!({"name": "updater", "image": "registry.k8s.io/autoscaling/vpa-updater:1.5.1"});
        deployment("default", "release-vertical-pod-autoscaler-updater", replicas, container)
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_chart_has_installed_is_found_among_all_deployments() {
        let client = cluster().await;
        let find = async || {
            let found = Peer::find_all(&client, "2026-01-01T00:00:00Z".parse().unwrap()).await.unwrap();
            found.into_iter().map(|peer| (peer.standing, peer.deployment)).collect::<Vec<_>>()
        };
        // More than one page.
        for i in 0..=requests::PAGE {
            create(&client, deployment("default", &format!("a-{i}"), 0, json!({"name": "a", "image": "a"}))).await;
        }
        let absent = (Standing::Absent, None);
        assert_eq!(find().await, [absent.clone(), absent.clone(), absent.clone()]);
        create(&client, updater(0)).await;
        let place = Some(("default".to_owned(), "release-vertical-pod-autoscaler-updater".to_owned()));
        assert_eq!(find().await[1], (Standing::Stopped, place));
        // The one that runs is the one to be stopped.
        let container = json!({"name": "updater", "image": "vpa-updater:1"});
        create(&client, deployment("default", "vpa-updater", 1, container)).await;
        let place = Some(("default".to_owned(), "vpa-updater".to_owned()));
        assert_eq!(find().await, [absent.clone(), (Standing::Serving, place), absent]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_a_chart_installs_later_is_noticed_and_so_is_its_end() {
        let client = cluster().await;
        let now: Now = Arc::new(|| "2026-01-01T00:00:00Z".parse().unwrap());
        until_alone(&client, &now, PeerPart::Updater, false).await;
        let there = tokio::spawn({
            let (client, now) = (client.clone(), Arc::clone(&now));
            async move { until_there(&client, &now, PeerPart::Updater, true).await }
        });
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(!there.is_finished());
        create(&client, updater(1)).await;
        tokio::time::timeout(2 * LOOK_ON, there).await.unwrap().unwrap();

        let alone = tokio::spawn({
            let (client, now) = (client.clone(), Arc::clone(&now));
            async move { until_alone(&client, &now, PeerPart::Updater, true).await }
        });
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(!alone.is_finished());
        let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
        let in_default: Api<Deployment> = Api::namespaced(client.clone(), "default");
        let name = "release-vertical-pod-autoscaler-updater";
        in_default.patch(name, &PatchParams::default(), &none).await.unwrap();
        tokio::time::timeout(2 * LOOK, alone).await.unwrap().unwrap();
    }

    #[test]
    fn a_lease_counts_while_it_is_renewed() {
        let lease = |holder: &str| -> Lease {
            serde_json::from_value(serde_json::json!({"metadata": {}, "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"
            }}))
            .unwrap()
        };
        let at = |text: &str| text.parse().unwrap();
        assert!(is_held(&lease("a"), at("2026-01-01T00:00:14Z")));
        assert!(!is_held(&lease("a"), at("2026-01-01T00:00:15Z")));
        assert!(!is_held(&lease(""), at("2026-01-01T00:00:14Z")));
    }
}
