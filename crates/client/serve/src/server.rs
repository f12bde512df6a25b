//! The server: accepts, makes room, stops.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::bounds::Bounds;
use crate::connection::{self, Shared};
use crate::registry::Registry;

/// After an error of the system, such as too many open files, the next attempt is made after this time.
const PAUSE: Duration = Duration::from_millis(20);

/// A server on a port. It serves while [`Server::run`] is polled; dropping that future closes every connection.
#[must_use = "a server does nothing until it runs"]
pub struct Server {
    listener: TcpListener,
    shared: Shared,
    stop: watch::Sender<Option<Duration>>,
}

/// Stops a server from elsewhere.
#[derive(Clone, Debug)]
pub struct Handle {
    stop: watch::Sender<Option<Duration>>,
    draining: Arc<AtomicBool>,
}

impl Handle {
    /// From now on every answer is the last one of its HTTP/1.1 connection, and says so. A server that is about to stop calls this first: a
    /// connection that it closes between two requests may be closed under a request that is on its way, which clients do not repeat.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// No new connections, and no new requests on those there are. Requests that are under way have this long to end.
    pub fn stop(&self, grace: Duration) {
        self.drain();
        self.stop.send_replace(Some(grace));
    }
}

impl Server {
    /// A server of plain HTTP on this port. Call it inside a runtime.
    ///
    /// # Errors
    /// The listener cannot be used.
    pub fn new(listener: std::net::TcpListener, router: Router) -> io::Result<Server> {
        listener.set_nonblocking(true)?;
        let shared = Shared {
            router,
            bounds: Bounds::default(),
            tls: None,
            draining: Arc::default(),
            stopping: watch::channel(false).1,
        };
        Ok(Server { listener: TcpListener::from_std(listener)?, shared, stop: watch::Sender::new(None) })
    }

    /// The same with TLS. New connections see the newest certificate.
    pub fn with_tls(mut self, tls: watch::Receiver<Arc<rustls::ServerConfig>>) -> Server {
        self.shared.tls = Some(tls);
        self
    }

    /// The same with other bounds.
    pub fn with_bounds(mut self, bounds: Bounds) -> Server {
        self.shared.bounds = bounds;
        self
    }

    /// What stops it.
    pub fn handle(&self) -> Handle {
        Handle { stop: self.stop.clone(), draining: Arc::clone(&self.shared.draining) }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is stopped and every request has been answered, or their time is over.
    pub async fn run(self) {
        let Server { listener, mut shared, stop } = self;
        let (stopping, is_stopping) = watch::channel(false);
        shared.stopping = is_stopping;
        let (registry, limit) = (Arc::new(Registry::default()), shared.bounds.connections_here());
        let mut connections = JoinSet::new();
        let mut stops = stop.subscribe();
        let grace = loop {
            tokio::select! {
                biased;
                grace = stopped(&mut stops) => break grace,
                Some(_) = connections.join_next() => {}
                accepted = accept(&listener) => match accepted {
                    Ok(stream) => {
                        // Without a place the stream is dropped: every connection is busy answering.
                        if let Some(place) = registry.enter(limit) {
                            connections.spawn(connection::serve(stream, place, shared.clone()));
                        }
                    }
                    Err(error) if is_of_the_connection(&error) => {}
                    Err(error) => {
                        let made_room = registry.close_one();
                        tracing::warn!(%error, connections = registry.len(), made_room, "cannot accept a connection");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
            }
        };
        drop(listener);
        stopping.send_replace(true);
        let drained = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, drained).await.is_err() {
            tracing::warn!(connections = registry.len(), "requests were still under way when the server stopped");
        }
    }
}

/// Returns how long requests may go on, once the server is to stop.
async fn stopped(stops: &mut watch::Receiver<Option<Duration>>) -> Duration {
    // The server holds a sender itself: there is no error.
    stops.wait_for(Option::is_some).await.ok().and_then(|grace| *grace).unwrap_or_default()
}

async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    // Without it, the first answer on a new TLS connection waits for the client's delayed acknowledgement.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Whether an error of `accept` is about one connection that is gone already.
fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_are_sent_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_client, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), accept(&listener));
        assert!(accepted.unwrap().nodelay().unwrap());
    }
}
