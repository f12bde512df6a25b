//! The embedded API server as a process of its own.

use std::net::TcpListener;
use std::path::Path;

use pillion_apiserver::{ApiServer, Config, Credentials};
use pillion_store::{Options, Store};

/// Serves until the process is killed. The kubeconfig is there when the port is.
pub async fn serve(kubeconfig: &Path, data: Option<&Path>) -> anyhow::Result<()> {
    let mut config = Config::in_memory();
    if let Some(data) = data {
        config.store = Store::open(data, Options::default())?;
    }
    let server = ApiServer::new(config);
    server.bootstrap().await?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let credentials = Credentials::generate(address)?;
    credentials.write_kubeconfig(kubeconfig, address)?;
    println!("{address}");
    server.serve(listener, &credentials).await?;
    Ok(())
}
