//! Starts all controllers, and keeps them running.

use futures::future::BoxFuture;
use kube::runtime::watcher;
use kube::{Api, Client};
use pillion_informer::{Cache, keep_running};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::context::Context;
use crate::cron_job;
use crate::daemon_set;
use crate::deployment;
use crate::disruption;
use crate::events_expiry;
use crate::garbage;
use crate::job;
use crate::kinds::Cached;
use crate::namespace;
use crate::node_lifecycle;
use crate::replica_set;
use crate::scheduler;
use crate::service_account;
use crate::stateful_set;
use crate::ttl_after_finished;

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

/// Runs all controllers until it is dropped.
pub async fn run(config: Config) {
    let context = Context::new(config);
    let client = &context.client;
    let mut tasks = JoinSet::new();
    follow(&mut tasks, client, &context.pods);
    follow(&mut tasks, client, &context.nodes);
    follow(&mut tasks, client, &context.replica_sets);
    follow(&mut tasks, client, &context.deployments);
    follow(&mut tasks, client, &context.stateful_sets);
    follow(&mut tasks, client, &context.daemon_sets);
    follow(&mut tasks, client, &context.revisions);
    follow(&mut tasks, client, &context.namespaces);
    follow(&mut tasks, client, &context.jobs);
    follow(&mut tasks, client, &context.cron_jobs);
    context.synced().await;
    for (name, start) in CONTROLLERS {
        let context = context.clone();
        tasks.spawn(async move { keep_running(name, || start(context.clone())).await });
    }
    // None of them ends by itself; dropping the set ends them all.
    while tasks.join_next().await.is_some() {}
}

/// Keeps a cache as the API server has it.
fn follow<K: Cached>(tasks: &mut JoinSet<()>, client: &Client, cache: &Cache<K>) {
    let (client, cache) = (client.clone(), cache.clone());
    tasks.spawn(async move {
        let name = format!("watch of {}", K::plural(&()));
        keep_running(&name, || cache.clone().run(Api::all(client.clone()), watcher::Config::default())).await;
    });
}
