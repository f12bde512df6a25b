//! The connection to a cluster: from kubectl's flags to kube's configuration.

use std::error::Error as _;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::args::ClusterArgs;
use crate::{Error, chain, io_reason};

/// Installs the provider of cryptography that all TLS connections of the process use.
pub fn install_crypto() {
    // An error means that a provider has been installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// How the cluster is reached.
pub async fn config(args: &ClusterArgs) -> Result<Config, Error> {
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    if let Some(path) = &args.kubeconfig {
        let refuse = |error: &KubeconfigError| {
            let why = match error {
                KubeconfigError::ReadConfig(error, _) => io_reason(error),
                error => reason(error),
            };
            Error::Misuse(format!("--kubeconfig {}: {why}", path.display()))
        };
        let kubeconfig = Kubeconfig::read_from(path).map_err(|error| refuse(&error))?;
        return Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| refuse(&error));
    }
    if args.context.is_some() {
        return Config::from_kubeconfig(&options).await.map_err(|error| Error::Misuse(reason(&error)));
    }
    Config::infer().await.map_err(|error| {
        // Outside of a pod the other reason says nothing.
        let is_in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let kubeconfig = error.source().and_then(<dyn std::error::Error>::downcast_ref).filter(|_| !is_in_pod);
        let why = kubeconfig.map_or_else(|| chain(&error), reason);
        Error::Misuse(format!("no cluster: give --kubeconfig FILE, or set KUBECONFIG: {why}"))
    })
}

fn reason(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::LoadContext(context) => format!("the kubeconfig has no context {context:?}"),
        KubeconfigError::ReadConfig(error, path) => format!("cannot read {}: {}", path.display(), io_reason(error)),
        error => chain(error),
    }
}
