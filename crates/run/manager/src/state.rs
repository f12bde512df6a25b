//! What the manager and its webhooks share.

use std::sync::{Arc, Mutex};

use pillion_informer::with_deadlines;
use pillion_pods::Pods;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::caches::autoscalers::Rightsizing;
use crate::caches::cluster::View;
use crate::caches::pending::Pending;
use crate::caches::watches::Caches;
use crate::config::Config;
use crate::places::{Lines, Registration};

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) caches: Caches,
    /// The pods, for the controllers that need them.
    pub(crate) pods: Pods,
    pub(crate) places: Lines,
    /// Whether API servers have places confirmed.
    pub(crate) registration: Registration,
    /// The cluster as the caches know it.
    pub(crate) views: watch::Sender<Arc<View>>,
    /// The autoscalers of new pods.
    pub(crate) rightsizing: Rightsizing,
    /// What the caches do not know yet.
    pub(crate) pending: Pending,
    /// The certificate to serve, once there is one.
    pub(crate) served: watch::Sender<Option<Arc<Served>>>,
    /// What API servers are to trust, once that is known.
    pub(crate) bundle: watch::Sender<Option<Arc<str>>>,
    /// What has to happen before the manager does anything about SidecarSets.
    pub(crate) waiting: watch::Sender<Option<String>>,
    /// Whether API servers send pods to the webhooks.
    pub(crate) registered: watch::Sender<bool>,
    /// Why the webhooks could not be registered the last time.
    pub(crate) unregistered: watch::Sender<Option<String>>,
    /// Whether the manager is to end.
    pub(crate) stopping: watch::Sender<bool>,
    /// What keeps the caches current. It ends with the last router and the last clone of the manager.
    pub(crate) watches: Mutex<JoinSet<()>>,
}

/// A serving certificate and its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Inner {
    pub(crate) fn new(config: Config) -> Inner {
        let (client, evicting) = (with_deadlines(&config.client), config.evicting.as_ref().map(with_deadlines));
        let config = Config { client, evicting, ..config };
        let pods = Pods::new(config.client.clone());
        Inner {
            rightsizing: Rightsizing::new(&config, pods.clone()),
            config,
            caches: Caches::default(),
            pods,
            places: Lines::default(),
            registration: Registration::default(),
            views: watch::Sender::new(Arc::new(View::default())),
            pending: Pending::default(),
            served: watch::Sender::new(None),
            bundle: watch::Sender::new(None),
            waiting: watch::Sender::new(None),
            registered: watch::Sender::new(false),
            unregistered: watch::Sender::new(None),
            stopping: watch::Sender::new(false),
            watches: Mutex::default(),
        }
    }

    /// Returns when every cache is synced and decisions can be made.
    pub(crate) async fn filled(&self) {
        // The sender is in `self`: there is no error.
        let _ = self.views.subscribe().wait_for(|view| view.is_filled).await;
    }

    /// Whether nobody else serves SidecarSets.
    pub(crate) fn is_alone(&self) -> bool {
        self.waiting.borrow().is_none()
    }

    /// Returns when the manager is to end.
    pub(crate) async fn stopped(&self) {
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }
}
