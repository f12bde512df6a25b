//! The embedded API server on a port, for as long as it is held.

use std::net::TcpListener;
use std::path::PathBuf;

use pillion_apiserver::{ApiServer, Config, Credentials};
use tempfile::TempDir;
use tokio::task::JoinHandle;

const KUBECONFIG: &str = "kubeconfig";

/// An embedded API server with nothing in it, on a free port of loopback. It ends with this value.
pub struct Embedded {
    folder: TempDir,
    serving: JoinHandle<()>,
}

impl Embedded {
    /// Starts one, in the runtime of the caller.
    pub async fn start() -> anyhow::Result<Embedded> {
        // An error means that one is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = ApiServer::new(Config::in_memory());
        server.bootstrap().await?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let credentials = Credentials::generate(address)?;
        let folder = tempfile::tempdir()?;
        credentials.write_kubeconfig(&folder.path().join(KUBECONFIG), address)?;
        let serving = tokio::spawn(async move {
            // Without a server, kubectl fails and says so.
            let _ = server.serve(listener, &credentials).await;
        });
        Ok(Embedded { folder, serving })
    }

    /// The kubeconfig of its owner.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join(KUBECONFIG)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
