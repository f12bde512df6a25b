//! Keeps the serving certificate valid and trusted.

mod certificate;
mod mounted;
mod secret;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::PostParams;
use kube::core::{PartialObjectMeta, Status};

use self::certificate::{Authorities, Pair, Step};
use self::mounted::Mounted;
use crate::config::{Certificates, Config};
use crate::error::Error;
use crate::registration;
use crate::registration::touched::touched;
use crate::state::{Inner, Served};

/// What failed is tried again after this time.
const RETRY: Duration = Duration::from_secs(5);
/// A certificate whose authority is not in every bundle yet is looked at again after this time.
const UNTRUSTED: Duration = Duration::from_secs(1);

/// Certificates as this replica has them.
#[derive(Default)]
pub(crate) struct Keeper {
    /// Kept in memory, so that a Secret that somebody deletes comes back as it was.
    authorities: Option<Authorities>,
    /// What is served, and the certificate of the authority that signed it.
    served: Option<(Pair, String)>,
    /// What somebody else keeps.
    mounted: Mounted,
}

impl Keeper {
    /// Keeps the certificate until dropped.
    pub(crate) async fn run(mut self, inner: &Inner) {
        let secrets: Api<PartialObjectMeta<Secret>> =
            Api::namespaced(inner.config.client.clone(), &inner.config.namespace);
        let mut changes = match inner.config.certificates {
            Certificates::SelfSigned { .. } => touched(secrets, secret::NAME).ready_chunks(64).boxed(),
            Certificates::Folder(_) => futures::stream::pending().boxed(),
        };
        loop {
            let pause = match self.renew(inner).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, cause = error.cause(), "the certificate of the webhooks was not checked; trying again");
                    RETRY
                }
            };
            // Either way it is time to look again.
            let _ = tokio::time::timeout(pause, changes.next()).await;
        }
    }

    /// Brings the certificate to where it should be now. Returns after which time to look again.
    pub(crate) async fn renew(&mut self, inner: &Inner) -> Result<Duration, Error> {
        match &inner.config.certificates {
            Certificates::SelfSigned { lifetime } => self.renew_own(inner, *lifetime).await,
            Certificates::Folder(folder) => {
                let (served, bundle, pause) = self.mounted.renew(&inner.config, folder).await?;
                publish(inner, served, &bundle);
                Ok(pause)
            }
        }
    }

    async fn renew_own(&mut self, inner: &Inner, lifetime: SignedDuration) -> Result<Duration, Error> {
        let config = &inner.config;
        let shared = share(config, self.authorities.clone(), lifetime).await;
        let (authorities, until) = shared.or_else(|error| self.known((config.now)(), error))?;
        let authorities = self.authorities.insert(authorities);
        let bundle = authorities.bundle();
        let now = (config.now)();
        let authority = &authorities.current;
        let mut look_again = until;
        let is_current = self.served.as_ref().is_some_and(|(_, signer)| *signer == authority.certificate);
        let is_due = self.served.as_ref().is_none_or(|(pair, _)| now >= certificate::renewal(pair, lifetime));
        // The first certificate is needed before anything can be registered. Later ones wait until they are trusted everywhere.
        let is_trusted =
            is_current || self.served.is_none() || registration::is_trusted(config, &authority.certificate).await?;
        if !is_trusted {
            look_again = now.saturating_add(SignedDuration::try_from(UNTRUSTED).unwrap_or_default()).unwrap_or(now);
        } else if is_due || !is_current {
            let host = config.address.host()?;
            let hosts = [host.clone(), config.address.of_conversion().host()?];
            let pair = certificate::issue(authority, &hosts, now, lifetime)
                .map_err(|source| Error::Certificate { host: host.clone(), source })?;
            tracing::info!(%host, not_after = %pair.not_after, "new certificate of the webhooks");
            config.metrics.certificate_expires(pair.not_after.as_second());
            self.served = Some((pair, authority.certificate.clone()));
        }
        if let Some((pair, _)) = &self.served {
            let served = Served { certificate: pair.certificate.clone(), key: pair.key.clone() };
            publish(inner, served, &bundle);
            if is_trusted {
                look_again = look_again.min(certificate::renewal(pair, lifetime));
            }
        }
        let left = look_again.duration_since((config.now)());
        Ok(Duration::try_from(left).unwrap_or_default().max(Duration::from_millis(100)))
    }

    /// The authorities that this replica knows, while the Secret cannot be read or written: what is served must not expire meanwhile.
    fn known(&self, now: Timestamp, error: Error) -> Result<(Authorities, Timestamp), Error> {
        let known = self.authorities.clone().filter(|known| now < known.current.not_after);
        let Some(known) = known else { return Err(error) };
        tracing::warn!(%error, cause = error.cause(), "going on with the authority of the webhooks' certificates that is known");
        let retry = SignedDuration::try_from(RETRY).unwrap_or_default();
        Ok((known, now.saturating_add(retry).unwrap_or(now)))
    }
}

/// Makes what is served and trusted known, if it is new.
fn publish(inner: &Inner, served: Served, bundle: &str) {
    inner.bundle.send_if_modified(|known| {
        let is_new = known.as_deref() != Some(bundle);
        if is_new {
            *known = Some(bundle.into());
        }
        is_new
    });
    inner.served.send_if_modified(|known| {
        let is_new = known.as_deref() != Some(&served);
        if is_new {
            *known = Some(Arc::new(served));
        }
        is_new
    });
}

/// The authorities that all replicas share, and until when they stay as they are. Whichever replica is first does what is to be done.
async fn share(
    config: &Config,
    mut known: Option<Authorities>,
    lifetime: SignedDuration,
) -> Result<(Authorities, Timestamp), Error> {
    let namespace = config.namespace.as_str();
    let secrets: Api<Secret> = Api::namespaced(config.client.clone(), namespace);
    let what = || format!("keep the webhooks' authority in Secret {namespace}/{}", secret::NAME);
    loop {
        let stored = secrets.get_opt(secret::NAME).await.map_err(Error::api(what()))?;
        let shared = stored.as_ref().and_then(secret::read);
        let now = (config.now)();
        let step = certificate::plan(shared.as_ref(), now, lifetime);
        if let (Step::Keep(until), Some(shared)) = (step, shared.clone()) {
            return Ok((shared, until));
        }
        let lost = known.take().filter(|known| shared.is_none() && now < known.current.not_after);
        let taken = match lost {
            Some(known) => known,
            None => certificate::carry_out(step, shared, now, lifetime)
                .map_err(|source| Error::Certificate { host: "the webhooks' authority".to_owned(), source })?,
        };
        tracing::info!(?step, not_after = %taken.current.not_after, "authority of the webhooks' certificates");
        let new = secret::write(&taken, namespace, stored.as_ref());
        let written = match stored {
            Some(_) => secrets.replace(secret::NAME, &PostParams::default(), &new).await,
            None => secrets.create(&PostParams::default(), &new).await,
        };
        match written {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() || status.is_conflict() => {}
            Err(kube::Error::Api(status)) if is_namespace_missing(&status, namespace) => {
                create_namespace(config).await?;
            }
            Err(error) => return Err(Error::api(what())(error)),
        }
    }
}

fn is_namespace_missing(status: &Status, namespace: &str) -> bool {
    status.is_not_found() && status.message.contains(&format!("namespaces {namespace:?} not found"))
}

async fn create_namespace(config: &Config) -> Result<(), Error> {
    let namespaces: Api<Namespace> = Api::all(config.client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(config.namespace.clone());
    match namespaces.create(&PostParams::default(), &namespace).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => created.map(drop).map_err(Error::api(format!("create namespace {:?}", config.namespace))),
    }
}
