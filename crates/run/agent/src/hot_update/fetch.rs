//! Fetches files: by HTTP, or the layer of an artifact in a registry.

use std::io::Write as _;

use hyper::Method;
use pillion_assist::{HotUpdate, Security, Source, Trigger, Url, check_host};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::directory::{Directory, hex};
use crate::fault;
use crate::http::{self, Connector, Request, collect, read};
use crate::prober::{Secrets, credential};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) sha256: String,
    pub(crate) size: u64,
}

/// No more redirects are followed.
const REDIRECTS: usize = 5;
/// A manifest of a registry is not longer.
const MANIFEST: usize = 4 << 20;

/// Fetches into one of the agent's own files, and checks size and digest on the way.
pub(crate) async fn fetch(
    trigger: &Trigger,
    config: &HotUpdate,
    security: &Security,
    secrets: &Secrets,
    directory: &Directory,
    name: &str,
) -> Result<Fetched, String> {
    let mut headers = Vec::new();
    for (name, value) in &config.headers {
        headers.push((name.clone(), credential(value, secrets)?));
    }
    let client =
        Client { connector: Connector::new(http::connector()).public_only(!security.permissive), security, headers };
    let work = client.fetch(trigger, config, directory, name);
    let seconds = config.fetch_timeout.as_secs();
    tokio::time::timeout(config.fetch_timeout, work).await.unwrap_or_else(|_| {
        Err(format!("the download took longer than {seconds} s; raise `fetchTimeoutSeconds` if this is meant"))
    })
}

struct Client<'a> {
    connector: Connector,
    security: &'a Security,
    headers: Vec<(String, String)>,
}

impl Client<'_> {
    async fn fetch(
        &self,
        trigger: &Trigger,
        config: &HotUpdate,
        directory: &Directory,
        name: &str,
    ) -> Result<Fetched, String> {
        let (response, digest) = match &trigger.source {
            Source::Http(url) => (self.get(url.clone(), None).await?, None),
            Source::Oci { registry, repository, reference } => {
                let (digest, url) = self.layer(registry, repository, reference).await?;
                (self.get(url, None).await?, Some(digest))
            }
        };
        let too_long =
            || format!("the file is longer than {} bytes; raise `maxBytes` if this is meant", config.max_bytes);
        let announced =
            response.headers().get("content-length").and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|announced| announced > config.max_bytes) {
            return Err(too_long());
        }
        let mut file = directory.create(name).map_err(|error| error.to_string())?;
        let (mut hash, mut size, mut body) = (Sha256::new(), 0u64, response.into_body());
        while let Some(data) = read(&mut body).await? {
            size += data.len() as u64;
            if size > config.max_bytes {
                return Err(too_long());
            }
            hash.update(&data);
            file.write_all(&data).map_err(|error| error.to_string())?;
            fault::point("fetching");
        }
        file.sync_all().map_err(|error| error.to_string())?;
        let sha256 = hex(&hash.finalize());
        fault::point("fetched");
        if let Some(wanted) = trigger.size.filter(|wanted| *wanted != size) {
            return Err(format!("the file has {size} bytes and not {wanted}"));
        }
        for wanted in [trigger.sha256.as_ref(), digest.as_ref()].into_iter().flatten() {
            if *wanted != sha256 {
                return Err(format!("the SHA-256 of the file is {sha256} and not {wanted}"));
            }
        }
        Ok(Fetched { sha256, size })
    }

    /// A GET that follows redirects to allowed hosts, and takes only 200 for an answer.
    async fn get(&self, mut url: Url, accept: Option<&str>) -> Result<hyper::Response<hyper::body::Incoming>, String> {
        let first = url.clone();
        for _ in 0..=REDIRECTS {
            check_host(&url, self.security).map_err(|refusal| refusal.message().to_owned())?;
            // Credentials belong to the host that they were given for.
            let same = (url.https, &url.host, url.port) == (first.https, &first.host, first.port);
            let mut headers = if same { self.headers.clone() } else { Vec::new() };
            headers.extend(accept.map(|media| ("Accept".to_owned(), media.to_owned())));
            let shown = url.without_query();
            let request = Request { method: Method::GET, url: url.clone(), headers, body: None };
            let response = self.connector.send(request).await?;
            let status = response.status();
            if status.is_redirection() {
                let location = response.headers().get("location").and_then(|value| value.to_str().ok());
                let location = location.ok_or_else(|| format!("{shown} answered {status} without a location"))?;
                url = redirected(&url, location)?;
                continue;
            }
            if status.as_u16() == 200 {
                return Ok(response);
            }
            return Err(format!("{shown} answered {status}"));
        }
        Err(format!("{} redirects more than {REDIRECTS} times", first.without_query()))
    }

    /// The digest and the URL of an artifact's first layer.
    async fn layer(&self, registry: &Url, repository: &str, reference: &str) -> Result<(String, Url), String> {
        const MEDIA: &str =
            "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";
        let at = |path: String| Url { path, ..registry.clone() };
        let response = self.get(at(format!("/v2/{repository}/manifests/{reference}")), Some(MEDIA)).await?;
        let manifest = collect(response.into_body(), MANIFEST).await?;
        if let Some(wanted) = reference.strip_prefix("sha256:") {
            let found = hex(&Sha256::digest(&manifest));
            if found != wanted {
                return Err(format!("the SHA-256 of the manifest is {found} and not {wanted}"));
            }
        }
        let manifest: Value =
            serde_json::from_slice(&manifest).map_err(|error| format!("the manifest is not JSON: {error}"))?;
        let layers = manifest["layers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let [layer] = layers else {
            return Err(format!("the artifact has {} layers; an update has one", layers.len()));
        };
        let digest = layer["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
        let digest = digest.filter(|digest| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let digest = digest.ok_or("the layer of the artifact has no SHA-256")?.to_owned();
        let url = at(format!("/v2/{repository}/blobs/sha256:{digest}"));
        Ok((digest, url))
    }
}

fn redirected(from: &Url, location: &str) -> Result<Url, String> {
    if location.starts_with('/') && !location.starts_with("//") {
        return Ok(Url { path: location.to_owned(), ..from.clone() });
    }
    let next = Url::parse(location)?;
    if from.https && !next.https {
        return Err(format!("the redirect to {} gives up TLS", next.without_query()));
    }
    Ok(next)
}
