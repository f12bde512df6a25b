//! An API server on a port of this machine, for kubectl: `cargo run -p pillion-apiserver --example serve -- KUBECONFIG [FOLDER]`.
//!
//! Writes a kubeconfig to the first argument; keeps objects in the folder of the second, or in memory.
#![allow(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use std::net::TcpListener;
use std::path::PathBuf;

use pillion_apiserver::{ApiServer, Config, Credentials};
use pillion_store::{Options, Store};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let kubeconfig = arguments.next().ok_or("say where to write the kubeconfig")?;
    let mut config = Config::in_memory();
    if let Some(folder) = arguments.next() {
        config.store = Store::open(&folder, Options::default())?;
    }
    // An error means that one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = ApiServer::new(config);
    server.bootstrap().await?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let credentials = Credentials::generate(address)?;
    credentials.write_kubeconfig(&kubeconfig, address)?;
    println!("export KUBECONFIG={}", kubeconfig.display());
    server.serve(listener, &credentials).await?;
    Ok(())
}
