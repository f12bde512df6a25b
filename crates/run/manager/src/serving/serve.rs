//! The webhooks on a TLS port.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use pillion_serve::{CertificateError, Server};
use rustls::ServerConfig;
use tokio::sync::watch;

use crate::error::Error;
use crate::state::{Inner, Served};

/// Serves `router` as soon as there is a certificate; a new one is shown to new connections. Ends when the manager does, after `delay` and when
/// what was asked is answered, but not later than `grace` after that.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    inner: &Inner,
    delay: Duration,
    grace: Duration,
) -> Result<(), Error> {
    let mut served = inner.served.subscribe();
    // The sender is in `inner`: there is no error.
    let Ok(first) = served.wait_for(Option::is_some).await.map(|first| first.clone()) else { return Ok(()) };
    let Some(first) = first else { return Ok(()) };
    let unusable = |source| Error::Tls { place: "the webhooks' certificate".to_owned(), source };
    let (shown, certificate) = watch::channel(tls(&first).map_err(unusable)?);
    let server = Server::new(listener, router).map_err(Error::Port)?.with_tls(certificate);
    let handle = server.handle();
    let reload = async {
        while served.changed().await.is_ok() {
            let Some(new) = served.borrow_and_update().clone() else { continue };
            match tls(&new).map_err(unusable) {
                Ok(new) => drop(shown.send_replace(new)),
                Err(error) => tracing::error!(%error, "the certificate before stays in use"),
            }
        }
        std::future::pending::<()>().await;
    };
    let stop = async {
        inner.stopped().await;
        // Until every node has noticed that this replica is no longer ready, it is still called. API servers call over HTTP/1.1, and would not
        // repeat a call whose connection is closed under it.
        handle.drain();
        tokio::time::sleep(delay).await;
        handle.stop(grace);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = server.run() => {}
        () = reload => {}
        () = stop => {}
    }
    Ok(())
}

/// API servers call webhooks over HTTP/1.1. With HTTP/2, one caller that reads nothing could hold the room of many answers.
fn tls(served: &Served) -> Result<Arc<ServerConfig>, CertificateError> {
    pillion_serve::tls_http1(&served.certificate, &served.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_2_is_not_offered() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let served = Served { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() };
        assert_eq!(tls(&served).unwrap().alpn_protocols, [b"http/1.1"]);
    }
}
