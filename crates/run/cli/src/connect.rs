//! The connection to a cluster: from kubectl's flags to a client.

use kube::client::ClientBuilder;
use kube::{Client, Config};
use pillion_manager_program::connect::{config, install_crypto};
use thiserror::Error;
use tower::BoxError;
use tower::util::MapErrLayer;

use crate::args::ClusterArgs;
use crate::{Failure, chain};

/// A cluster, and where in it a command looks.
pub(crate) struct Connection {
    pub(crate) client: Client,
    config: Config,
    /// `--namespace`, or that of the kubeconfig's context, or `default`.
    pub(crate) namespace: String,
}

/// There is no answer, or none that can be trusted.
#[derive(Debug, Error)]
#[error("cannot talk to the API server at {server}")]
struct Unreachable {
    server: String,
    source: BoxError,
}

/// Reads the kubeconfig, or the service account of the pod that this program runs in. Nothing is sent yet.
pub(crate) async fn connect(args: &ClusterArgs) -> Result<Connection, Failure> {
    install_crypto();
    let config = config(args).await?;
    let namespace = args.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    Ok(Connection { client: client(config.clone())?, config, namespace })
}

impl Connection {
    /// A client for requests that must not be repeated behind our back: a 429 to an eviction is an answer.
    pub(crate) fn once(&self) -> Result<Client, Failure> {
        let mut config = self.config.clone();
        config.default_retry = false;
        client(config)
    }
}

fn client(config: Config) -> Result<Client, Failure> {
    let server = config.cluster_url.to_string();
    let unreachable = move |source: BoxError| {
        if source.is::<kube::Error>() {
            return source;
        }
        Unreachable { server: server.trim_end_matches('/').to_owned(), source }.into()
    };
    let builder = ClientBuilder::try_from(config).map_err(|error| Failure::misuse(chain(&error)))?;
    Ok(builder.with_layer(&MapErrLayer::new(unreachable)).build())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::http::StatusCode;
    use k8s_openapi::api::core::v1::Pod;
    use kube::Api;
    use kube::api::EvictParams;

    use super::*;

    #[tokio::test]
    async fn a_request_that_must_not_be_repeated_is_sent_once_and_others_until_there_is_an_answer() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let not_now = move || {
            let is_third = counted.fetch_add(1, Ordering::Relaxed) == 2;
            async move { if is_third { StatusCode::FORBIDDEN } else { StatusCode::TOO_MANY_REQUESTS } }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(not_now)).await });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let text = format!(
            "{{clusters: [{{name: c, cluster: {{server: '{server}'}}}}], users: [{{name: u, user: {{}}}}], current-context: one, \
             contexts: [{{name: one, context: {{cluster: c, user: u}}}}]}}"
        );
        std::fs::write(&path, text).unwrap();
        let connection = connect(&args(&path, None)).await.ok().unwrap();
        let code = |client: Client| async move {
            let pods: Api<Pod> = Api::default_namespaced(client);
            match pods.evict("web-0", &EvictParams::default()).await {
                Err(kube::Error::Api(status)) => status.code,
                answer => panic!("{answer:?}"),
            }
        };
        assert_eq!((code(connection.once().ok().unwrap()).await, asked.load(Ordering::Relaxed)), (429, 1));
        assert_eq!((code(connection.client).await, asked.load(Ordering::Relaxed)), (403, 3));
    }

    fn args(kubeconfig: &std::path::Path, context: Option<&str>) -> ClusterArgs {
        ClusterArgs { kubeconfig: Some(kubeconfig.to_owned()), context: context.map(str::to_owned), namespace: None }
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_named() {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let client = client(Config::new(format!("http://{nobody}").parse().unwrap())).ok().unwrap();
        let text = chain(&client.apiserver_version().await.unwrap_err());
        assert!(text.contains(&format!("cannot talk to the API server at http://{nobody}: ")), "{text}");
        assert_eq!(text.matches("onnect").count(), text.matches("Connect").count() + 1, "{text}");
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
        assert_eq!(reasons, [format!("--kubeconfig {}: the kubeconfig has no context \"three\"", path.display())]);
        let nowhere = folder.path().join("nowhere");
        let Err(Failure::Misuse(reasons)) = connect(&args(&nowhere, None)).await else { panic!() };
        assert!(reasons[0].ends_with("nowhere: No such file or directory"), "{reasons:?}");
    }
}
