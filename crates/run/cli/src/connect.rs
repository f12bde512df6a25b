//! The connection to a cluster: from kubectl's flags to a client.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::args::ClusterArgs;
use crate::{Failure, chain};

/// A cluster, and where in it a command looks.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// `--namespace`, or that of the kubeconfig's context, or `default`.
    pub(crate) namespace: String,
}

/// Reads the kubeconfig, or the service account of the pod that this program runs in. Nothing is sent yet.
pub(crate) async fn connect(args: &ClusterArgs) -> Result<Connection, Failure> {
    // An error means that a provider has been installed already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let config = config(args).await?;
    let namespace = args.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).map_err(|error| Failure::misuse(chain(&error)))?;
    Ok(Connection { client, namespace })
}

/// How the cluster is reached.
pub(crate) async fn config(args: &ClusterArgs) -> Result<Config, Failure> {
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    if let Some(path) = &args.kubeconfig {
        let refuse = |error: &dyn std::error::Error| {
            Failure::misuse(format!("--kubeconfig {}: {}", path.display(), chain(error)))
        };
        let kubeconfig = Kubeconfig::read_from(path).map_err(|error| refuse(&error))?;
        return Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| refuse(&error));
    }
    if args.context.is_some() {
        return Config::from_kubeconfig(&options).await.map_err(|error| Failure::misuse(chain(&error)));
    }
    Config::infer().await.map_err(|error| {
        Failure::misuse(format!("no cluster: give --kubeconfig FILE, or set KUBECONFIG: {}", chain(&error)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(kubeconfig: &std::path::Path, context: Option<&str>) -> ClusterArgs {
        ClusterArgs { kubeconfig: Some(kubeconfig.to_owned()), context: context.map(str::to_owned), namespace: None }
    }

    #[tokio::test]
    async fn the_context_decides_where_a_command_looks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let text = "
            {clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: u, user: {}}], current-context: one,
             contexts: [{name: one, context: {cluster: c, user: u}}, {name: two, context: {cluster: c, user: u, namespace: shop}}]}";
        std::fs::write(&path, text).unwrap();
        assert_eq!(connect(&args(&path, None)).await.ok().unwrap().namespace, "default");
        assert_eq!(connect(&args(&path, Some("two"))).await.ok().unwrap().namespace, "shop");
        let named = ClusterArgs { namespace: Some("mine".to_owned()), ..args(&path, Some("two")) };
        assert_eq!(connect(&named).await.ok().unwrap().namespace, "mine");
        let Err(Failure::Misuse(reasons)) = connect(&args(&path, Some("three"))).await else { panic!() };
        assert!(reasons[0].contains("three"), "{reasons:?}");
    }
}
