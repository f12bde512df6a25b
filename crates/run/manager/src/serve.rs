//! The webhooks on a TLS port.

use std::net::TcpListener;
use std::sync::Arc;

use axum::Router;
use pillion_serve::{CertificateError, Server};
use rustls::ServerConfig;
use tokio::sync::watch;

use crate::certificate::Pair;
use crate::error::Error;
use crate::secret;

/// Serves `router` with the certificate that `served` holds, as soon as it holds one. A new one is taken for new connections.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    mut served: watch::Receiver<Option<Arc<Pair>>>,
    namespace: &str,
) -> Result<(), Error> {
    let unusable = |source| Error::Tls { secret: format!("{namespace}/{}", secret::NAME), source };
    // The sender lives as long as the manager, who is being asked.
    let Ok(first) = served.wait_for(Option::is_some).await.map(|first| first.clone()) else { return Ok(()) };
    let Some(first) = first else { return Ok(()) };
    let (shown, certificate) = watch::channel(tls(&first).map_err(unusable)?);
    let server = Server::new(listener, router).map_err(Error::Port)?.with_tls(certificate);
    let reload = async {
        while served.changed().await.is_ok() {
            let Some(pair) = served.borrow_and_update().clone() else { continue };
            match tls(&pair).map_err(unusable) {
                Ok(new) => drop(shown.send_replace(new)),
                Err(error) => tracing::error!(%error, "the certificate before stays in use"),
            }
        }
        std::future::pending().await
    };
    tokio::select! {
        () = server.run() => Ok(()),
        never = reload => never,
    }
}

fn tls(pair: &Pair) -> Result<Arc<ServerConfig>, CertificateError> {
    pillion_serve::tls(&pair.certificate, &pair.key)
}
