//! The API server as a pod finds it: the service account's token and certificate.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::BytesMut;
use hyper::Method;
use pillion_assist::Url;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::api::{Api, BoxFuture, Request, Response};
use crate::http::{self, Connector, collect, read};

/// No answer of the API server that the agent asks for is longer: ConfigMaps and Secrets have 1 MiB.
const LONGEST: usize = 4 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);

/// The API server of the pod's cluster.
pub struct InCluster {
    connector: Connector,
    server: Url,
    token: PathBuf,
}

impl InCluster {
    /// From the environment and the files that every pod has.
    ///
    /// # Errors
    /// This is not a pod, or the service account's token is not mounted.
    pub fn from_environment(account: &Path) -> Result<InCluster, String> {
        let variable = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set: this is not a pod"));
        let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        InCluster::new(&format!("https://{host}:{port}"), account)
    }

    /// A server, and a directory with `token` and `ca.crt`.
    ///
    /// # Errors
    /// The URL or the certificate cannot be read.
    pub fn new(server: &str, account: &Path) -> Result<InCluster, String> {
        let server = Url::parse(server)?;
        let tls = if server.https {
            http::trusting(&account.join("ca.crt")).map_err(|error| {
                format!("{error}; the agent needs the service account's token: do not set automountServiceAccountToken to false")
            })?
        } else {
            http::connector()
        };
        Ok(InCluster { connector: Connector::new(tls), server, token: account.join("token") })
    }

    async fn open(&self, request: Request) -> Result<hyper::Response<hyper::body::Incoming>, String> {
        // The kubelet renews the token, so that it is read each time.
        let token = tokio::fs::read_to_string(&self.token).await;
        let token = token.map_err(|error| format!("{}: {error}", self.token.display()))?;
        let method = Method::from_bytes(request.method.as_bytes()).map_err(|error| error.to_string())?;
        let message = http::Request {
            method,
            url: Url { path: request.path, ..self.server.clone() },
            headers: vec![
                ("Authorization".to_owned(), format!("Bearer {}", token.trim())),
                ("Accept".to_owned(), "application/json".to_owned()),
            ],
            body: (!request.media.is_empty()).then_some((request.media, request.body)),
        };
        self.connector.send(message).await
    }
}

impl Api for InCluster {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, String>> {
        Box::pin(async move {
            let exchange = async {
                let response = self.open(request).await?;
                let status = response.status().as_u16();
                Ok(Response { status, body: collect(response.into_body(), LONGEST).await? })
            };
            tokio::time::timeout(TIMEOUT, exchange)
                .await
                .unwrap_or_else(|_| Err("there was no answer in time".to_owned()))
        })
    }

    fn watch(&self, path: String) -> BoxFuture<'_, Result<mpsc::Receiver<Value>, String>> {
        Box::pin(async move {
            let request = Request { method: "GET", path, media: "", body: bytes::Bytes::new() };
            let response = tokio::time::timeout(TIMEOUT, self.open(request)).await;
            let response = response.unwrap_or_else(|_| Err("there was no answer in time".to_owned()))?;
            if response.status().as_u16() != 200 {
                return Err(format!("{}", response.status()));
            }
            let (sender, receiver) = mpsc::channel(4);
            tokio::spawn(async move {
                let (mut body, mut rest) = (response.into_body(), BytesMut::new());
                loop {
                    let data = tokio::select! {
                        data = read(&mut body) => data,
                        () = sender.closed() => return,
                    };
                    let Ok(Some(data)) = data else { return };
                    rest.extend_from_slice(&data);
                    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                        let line = rest.split_to(end + 1);
                        let Ok(value) = serde_json::from_slice(&line) else { return };
                        if sender.send(value).await.is_err() {
                            return;
                        }
                    }
                    if rest.len() > LONGEST {
                        return;
                    }
                }
            });
            Ok(receiver)
        })
    }
}
