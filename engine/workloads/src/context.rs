//! What every controller shares.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Client;
use pillion_clock::Clock;
use pillion_events::Recorder;
use pillion_informer::Cache;

use crate::config::Config;
use crate::cron_job_view::CronJobView;
use crate::job_view::JobView;
use crate::kinds::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use crate::pod::PodView;

/// What every controller shares. Clones share the same caches.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    /// In PEM, for the ConfigMap that pods trust the API server by.
    pub(crate) certificate_authority: Option<String>,
    pub(crate) pods: Cache<PodView>,
    pub(crate) nodes: Cache<Node>,
    pub(crate) replica_sets: Cache<ReplicaSet>,
    pub(crate) deployments: Cache<Deployment>,
    pub(crate) stateful_sets: Cache<StatefulSet>,
    pub(crate) daemon_sets: Cache<DaemonSet>,
    pub(crate) revisions: Cache<ControllerRevision>,
    pub(crate) namespaces: Cache<Namespace>,
    pub(crate) jobs: Cache<JobView>,
    pub(crate) cron_jobs: Cache<CronJobView>,
    quiet: bool,
}

impl Context {
    pub(crate) fn new(config: Config) -> Context {
        Context {
            client: config.client,
            clock: config.clock,
            certificate_authority: config.certificate_authority,
            quiet: config.quiet,
            pods: Cache::new(),
            nodes: Cache::new(),
            replica_sets: Cache::new(),
            deployments: Cache::new(),
            stateful_sets: Cache::new(),
            daemon_sets: Cache::new(),
            revisions: Cache::new(),
            namespaces: Cache::new(),
            jobs: Cache::new(),
            cron_jobs: Cache::new(),
        }
    }

    /// Records events as a component. Make it once for each controller: it has a writer of its own.
    pub(crate) fn recorder(&self, component: &str) -> Recorder {
        let clock = self.clock;
        let recorder = Recorder::new(self.client.clone(), move || clock.now(), component);
        if self.quiet { recorder.quiet() } else { recorder }
    }

    /// Returns when all caches are synced.
    pub(crate) async fn synced(&self) {
        self.pods.synced().await;
        self.nodes.synced().await;
        self.replica_sets.synced().await;
        self.deployments.synced().await;
        self.stateful_sets.synced().await;
        self.daemon_sets.synced().await;
        self.revisions.synced().await;
        self.namespaces.synced().await;
        self.jobs.synced().await;
        self.cron_jobs.synced().await;
    }
}
