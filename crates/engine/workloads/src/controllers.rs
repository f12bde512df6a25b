//! Starts all controllers, and keeps them going.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::{Api, Client};
use pillion_clock::Clock;
use tokio::task::JoinSet;

use crate::context::Context;
use crate::cron_job;
use crate::daemon_set;
use crate::deployment;
use crate::disruption;
use crate::events_expiry;
use crate::garbage;
use crate::job;
use crate::namespace;
use crate::node_lifecycle;
use crate::replica_set;
use crate::scheduler;
use crate::service_account;
use crate::stateful_set;
use crate::ttl_after_finished;

/// What the controllers are given.
pub struct Config {
    /// Reaches the API server, with all rights.
    pub client: Client,
    /// Tells the time.
    pub clock: Clock,
    /// No events about what goes as it should: for scale.
    pub quiet: bool,
    /// The certificate that pods trust the API server by, in PEM; without it they are told of none.
    pub certificate_authority: Option<String>,
}

impl Config {
    /// Controllers that tell events and hand out no certificate.
    pub fn new(client: Client, clock: Clock) -> Config {
        Config { client, clock, quiet: false, certificate_authority: None }
    }
}

/// How a controller is begun.
type Start = fn(Context) -> BoxFuture<'static, ()>;

/// Every controller, by the name in messages.
const CONTROLLERS: &[(&str, Start)] = &[
    ("replicaset", |context| Box::pin(replica_set::run(context))),
    ("deployment", |context| Box::pin(deployment::run(context))),
    ("statefulset", |context| Box::pin(stateful_set::run(context))),
    ("daemonset", |context| Box::pin(daemon_set::run(context))),
    ("job", |context| Box::pin(job::run(context))),
    ("scheduler", |context| Box::pin(scheduler::run(context))),
    ("serviceaccount", |context| Box::pin(service_account::run(context))),
    ("namespace", |context| Box::pin(namespace::run(context))),
    ("garbage-collector", |context| Box::pin(garbage::run(context))),
    ("node-lifecycle", |context| Box::pin(node_lifecycle::run(context))),
    ("cronjob", |context| Box::pin(cron_job::run(context))),
    ("ttl-after-finished", |context| Box::pin(ttl_after_finished::run(context))),
    ("events-expiry", |context| Box::pin(events_expiry::run(context))),
    ("disruption", |context| Box::pin(disruption::run(context))),
];

/// A controller that has panicked is begun again after this.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs all controllers until it is dropped.
pub async fn run(config: Config) {
    let context = Context::new(config);
    let client = context.client.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(context.pods.clone().keep(Api::all(client.clone())));
    tasks.spawn(context.nodes.clone().keep(Api::all(client.clone())));
    tasks.spawn(context.replica_sets.clone().keep(Api::all(client.clone())));
    tasks.spawn(context.deployments.clone().keep(Api::all(client.clone())));
    tasks.spawn(context.stateful_sets.clone().keep(Api::all(client.clone())));
    tasks.spawn(context.daemon_sets.clone().keep(Api::all(client.clone())));
    tasks.spawn(context.revisions.clone().keep(Api::all(client.clone())));
    tasks.spawn(context.namespaces.clone().keep(Api::all(client.clone())));
    tasks.spawn(context.jobs.clone().keep(Api::all(client.clone())));
    tasks.spawn(context.cron_jobs.clone().keep(Api::all(client)));
    context.ready().await;
    for (name, start) in CONTROLLERS {
        tasks.spawn(keep_running(name, *start, context.clone()));
    }
    // Dropping the set ends what runs in it.
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a watch has ended; objects are no longer seen");
        }
    }
}

async fn keep_running(name: &str, start: Start, context: Context) {
    loop {
        // What a panic said is on standard error already.
        let panicked = AssertUnwindSafe(start(context.clone())).catch_unwind().await.is_err();
        tracing::error!(controller = name, panicked, "a controller has ended; it begins again");
        tokio::time::sleep(AGAIN).await;
    }
}
