//! A candidate: its settings, and who leads as far as it knows.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::Config;

/// What acquiring the lease and holding it share.
pub(crate) struct Candidate {
    pub(crate) config: Config,
    pub(crate) leases: Api<Lease>,
    pub(crate) leader: watch::Sender<Option<String>>,
}

impl Candidate {
    pub(crate) fn new(config: Config) -> Candidate {
        let leases = Api::namespaced(config.client.clone(), &config.namespace);
        Candidate { config, leases, leader: watch::Sender::new(None) }
    }

    /// Starts a task where requests are sent from. Dropping the set ends it.
    pub(crate) fn start<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinSet<T> {
        let mut tasks = JoinSet::new();
        match &self.config.runtime {
            Some(runtime) => tasks.spawn_on(task, runtime),
            None => tasks.spawn(task),
        };
        tasks
    }

    /// Remembers who leads.
    pub(crate) fn report(&self, leader: Option<&str>) {
        self.leader.send_if_modified(|known| {
            let is_new = known.as_deref() != leader;
            if is_new {
                *known = leader.map(str::to_owned);
            }
            is_new
        });
    }
}
