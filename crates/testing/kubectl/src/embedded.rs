//! The embedded API server on a port, for as long as it is held.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use axum_server::Handle;
use pillion_apiserver::{ApiServer, Config, Credentials};
use tempfile::TempDir;

/// An embedded API server with nothing in it, on a free port of loopback. It ends with this value.
pub struct Embedded {
    folder: TempDir,
    handle: Handle<SocketAddr>,
}

impl Embedded {
    /// Starts one, in the runtime of the caller.
    pub async fn start() -> anyhow::Result<Embedded> {
        // An error means that it was told before, which is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let server = ApiServer::new(Config::in_memory());
        server.bootstrap().await?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let credentials = Credentials::generate(address)?;
        let embedded = Embedded { folder: tempfile::tempdir()?, handle: Handle::new() };
        credentials.write_kubeconfig(&embedded.kubeconfig(), address)?;
        let handle = embedded.handle.clone();
        tokio::spawn(async move { server.serve(listener, &credentials, handle).await });
        Ok(embedded)
    }

    /// The kubeconfig of its owner.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.handle.shutdown();
    }
}
