//! Acquiring the lease.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::runtime::watcher;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::candidate::Candidate;
use crate::config::{Config, InvalidConfig};
use crate::leadership::Leadership;
use crate::record::{self, Observation};

/// A candidate for the leadership. Clones are the same candidate.
#[derive(Clone)]
pub struct Elector {
    candidate: Arc<Candidate>,
}

impl Elector {
    /// A candidate that has done nothing yet.
    ///
    /// # Errors
    /// The settings could not work, or could let two lead at once.
    pub fn new(config: Config) -> Result<Elector, InvalidConfig> {
        config.check()?;
        Ok(Elector { candidate: Arc::new(Candidate::new(config)) })
    }

    /// The identity of the leader as far as this candidate knows, which is its own while it leads.
    ///
    /// It is for people and metrics. What only a leader may do belongs into [`Leadership::hold`].
    pub fn leader(&self) -> watch::Receiver<Option<String>> {
        self.candidate.leader.subscribe()
    }

    /// Waits until this candidate leads. It may take for ever, and may be dropped at any time.
    pub async fn acquire(&self) -> Leadership {
        let elector = self.clone();
        let mut acquiring = self.candidate.start(async move { elector.acquire_here().await });
        match acquiring.join_next().await {
            Some(Ok(leadership)) => leadership,
            // Its runtime has ended.
            _ => std::future::pending().await,
        }
    }

    async fn acquire_here(&self) -> Leadership {
        let candidate = &self.candidate;
        let (lease, identity) = (&candidate.config.name, &candidate.config.identity);
        let mut events = candidate.watch();
        let mut known = None;
        loop {
            let sent = Instant::now();
            match tokio::time::timeout(candidate.config.request_timeout(), candidate.attempt(&mut known)).await {
                Ok(Ok(Some(held))) => {
                    tracing::info!(lease, identity, "this process leads");
                    candidate.report(Some(identity));
                    return Leadership::new(Arc::clone(candidate), held, sent);
                }
                Ok(Ok(None)) => {}
                Ok(Err(error)) => tracing::warn!(lease, identity, %error, "the lease could not be acquired"),
                Err(_) => tracing::warn!(lease, identity, "the lease could not be acquired: no answer in time"),
            }
            candidate.wait(&mut events, &mut known).await;
        }
    }
}

impl Candidate {
    /// Takes the lease if it is free. Returns it if it is ours now.
    async fn attempt(&self, known: &mut Option<Observation>) -> kube::Result<Option<Lease>> {
        let options = PostParams::default();
        let Some(found) = self.leases.get_opt(&self.config.name).await? else {
            *known = None;
            let created = self.leases.create(&options, &record::held(&self.config, None)).await;
            return unless_another_was_faster(created);
        };
        let observation = self.observe(known, found);
        if observation.taken_until(&self.config).is_some_and(|until| Instant::now() < until) {
            return Ok(None);
        }
        let ours = record::held(&self.config, Some(&observation.lease));
        unless_another_was_faster(self.leases.replace(&self.config.name, &options, &ours).await)
    }

    /// Waits until another attempt makes sense: the lease was released or deleted, or has expired.
    async fn wait(&self, events: &mut BoxStream<'_, watcher::Event<Lease>>, known: &mut Option<Observation>) {
        // If the lease seems to be free and could not be acquired all the same, something is wrong: not too fast.
        let retry = Instant::now() + self.config.jittered_retry();
        loop {
            let expires = known.as_ref().and_then(|known| known.taken_until(&self.config));
            let lease = tokio::select! {
                biased;
                Some(event) = events.next() => match event {
                    watcher::Event::Apply(lease) | watcher::Event::InitApply(lease) => lease,
                    watcher::Event::Delete(_) => return self.report(None),
                    watcher::Event::Init | watcher::Event::InitDone => continue,
                },
                () = tokio::time::sleep_until(expires.map_or(retry, |expires| expires.max(retry))) => return,
            };
            let observation = self.observe(known, lease);
            if observation.taken_until(&self.config).is_none() {
                return;
            }
        }
    }

    fn observe<'a>(&self, known: &'a mut Option<Observation>, lease: Lease) -> &'a Observation {
        let observation = Observation::after(known.take(), lease, Instant::now());
        self.report(observation.holder());
        known.insert(observation)
    }

    /// The Lease, as a watch reports it. Where the watch is not allowed, the lease is still acquired when it expires.
    fn watch(&self) -> BoxStream<'static, watcher::Event<Lease>> {
        let named = watcher::Config::default().fields(&format!("metadata.name={}", self.config.name));
        pillion_informer::watch(self.leases.clone(), named).boxed()
    }
}

/// A conflict means that another candidate has it.
fn unless_another_was_faster(written: kube::Result<Lease>) -> kube::Result<Option<Lease>> {
    match written {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(None),
        Err(error) => Err(error),
    }
}
