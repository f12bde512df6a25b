//! A certificate that somebody else keeps in a folder: a mounted Secret, such as cert-manager writes.
//!
//! Replicas read it at different times, since each kubelet updates its mounts once a minute or so. So a certificate of another authority is
//! served only after API servers have been asked to trust that authority, and the authority before is trusted until every replica has
//! followed.

use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::config::Config;
use crate::error::Error;
use crate::registration;
use crate::state::Served;

/// A mounted Secret is updated once a minute or so.
const LOOK: Duration = Duration::from_secs(10);
/// A certificate whose authority is not in every bundle yet is looked at again after this time.
const UNTRUSTED: Duration = Duration::from_secs(1);
/// For how long an authority is trusted that is not in the folder any more.
const KEPT: SignedDuration = SignedDuration::from_hours(1);

/// What was read from the folder.
#[derive(Default)]
pub(crate) struct Mounted {
    /// What is served, and the authority that came with it.
    served: Option<(Served, String)>,
    /// The authorities, and when each was read last. The current one is the last.
    authorities: Vec<(String, Timestamp)>,
}

impl Mounted {
    /// Reads the folder again. Returns what is to be served, what API servers are to trust, and after which time to look again.
    pub(crate) async fn renew(&mut self, config: &Config, folder: &Path) -> Result<(Served, String, Duration), Error> {
        let (new, authority) = read(folder).await?;
        let unusable = |source| Error::Tls { place: folder.display().to_string(), source };
        pillion_serve::tls(&new.certificate, &new.key).map_err(unusable)?;
        let now = (config.now)();
        self.authorities.retain(|(known, at)| *known != authority && now.duration_since(*at) < KEPT);
        self.authorities.push((authority.clone(), now));
        let is_trusted = match &self.served {
            Some((_, before)) if *before != authority => registration::is_trusted(config, &authority).await?,
            _ => true,
        };
        let (served, pause) = match &self.served {
            Some((served, _)) if !is_trusted => (served.clone(), UNTRUSTED),
            _ => (self.served.insert((new, authority)).0.clone(), LOOK),
        };
        Ok((served, self.bundle(), pause))
    }

    /// Without an authority of its own the certificate is one that API servers trust anyway, unless they are given a bundle.
    fn bundle(&self) -> String {
        if self.authorities.last().is_none_or(|(authority, _)| authority.is_empty()) {
            return String::new();
        }
        let authorities = self.authorities.iter().map(|(authority, _)| authority.trim());
        authorities.filter(|authority| !authority.is_empty()).flat_map(|authority| [authority, "\n"]).collect()
    }
}

/// The certificate and the authority in a folder. Without `ca.crt` the authority is empty.
async fn read(folder: &Path) -> Result<(Served, String), Error> {
    let text = async |name: &str| {
        let file = folder.join(name);
        tokio::fs::read_to_string(&file).await.map_err(|source| Error::File { file: file.clone(), source })
    };
    let served = Served { certificate: text("tls.crt").await?, key: text("tls.key").await? };
    let authority = match text("ca.crt").await {
        Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => String::new(),
        authority => authority?,
    };
    Ok((served, authority))
}
