//! The volumes of a pod: what the node puts into them, and how they are kept up to date.

mod payload;

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount, ServiceAccountTokenProjection, Volume as Spec};
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use pillion_quantity::Quantity;

use crate::config::Config;
use crate::environment::EnvironmentError;
use crate::runtime::{Volume, VolumeFile};
use crate::sources::{SourceError, Sources, Wanted};

/// Files of a volume by their path.
pub(crate) type Files = BTreeMap<String, VolumeFile>;

/// The volumes of a pod as they were last made.
#[derive(Debug, Default)]
pub(crate) struct Mounted {
    pub(crate) volumes: Vec<Volume>,
    tokens: BTreeMap<(String, String), Token>,
}

/// A token of a service account.
#[derive(Debug, Clone)]
struct Token {
    text: Bytes,
    renew_at: Timestamp,
}

/// Why a volume cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VolumeError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Field(#[from] EnvironmentError),
    #[error("configmap references non-existent config key: {0}")]
    NoConfigKey(String),
    #[error("references non-existent secret key: {0}")]
    NoSecretKey(String),
    #[error("failed to fetch token: {0}")]
    Token(String),
    #[error(
        "this node has no volumes of that kind: use emptyDir, configMap, secret, downwardAPI, projected or hostPath"
    )]
    Unsupported,
}

/// A volume that cannot be made, by its name.
pub(crate) type Failure = (String, VolumeError);

/// Makes all volumes of a pod; tokens of `before` are used as long as they are young. Without `real` files nobody can read tokens or claims.
pub(crate) async fn mount(config: &Config, pod: &Pod, before: &Mounted, real: bool) -> Result<Mounted, Vec<Failure>> {
    let namespace = pod.namespace().unwrap_or_default();
    let specs: Vec<&Spec> = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).collect();
    let specs: Vec<&Spec> = specs.into_iter().filter(|spec| real || !needs_a_reader(spec)).collect();
    let mut wanted = Wanted::by_volumes(pod);
    if !real {
        // The certificate authority comes with every token.
        wanted.config_maps.remove("kube-root-ca.crt");
    }
    let sources = Sources::fetch(&config.client, &namespace, wanted).await;
    let mut mounted = Mounted::default();
    let mut failures = Vec::new();
    for spec in specs {
        match tokens(config, pod, spec, before).await {
            Ok(tokens) => mounted.tokens.extend(tokens),
            Err(error) => {
                failures.push((spec.name.clone(), error));
                continue;
            }
        }
        match payload::content(spec, pod, &sources, &mounted.tokens, &config.capacity) {
            Ok(content) => mounted.volumes.push(Volume { name: spec.name.clone(), content }),
            Err(error) => failures.push((spec.name.clone(), error)),
        }
    }
    if failures.is_empty() { Ok(mounted) } else { Err(failures) }
}

/// Volumes that matter to nobody but a process.
fn needs_a_reader(spec: &Spec) -> bool {
    let projected = spec.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    projected.into_iter().any(|source| source.service_account_token.is_some()) || spec.persistent_volume_claim.is_some()
}

/// The tokens that a volume projects.
async fn tokens(
    config: &Config,
    pod: &Pod,
    spec: &Spec,
    before: &Mounted,
) -> Result<Vec<((String, String), Token)>, VolumeError> {
    let mut tokens = Vec::new();
    let sources = spec.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    for projection in sources.filter_map(|source| source.service_account_token.as_ref()) {
        let key = (spec.name.clone(), projection.path.clone());
        let young = before.tokens.get(&key).filter(|token| config.clock.now() < token.renew_at);
        let token = match young {
            Some(token) => token.clone(),
            None => request(config, pod, projection).await?,
        };
        tokens.push((key, token));
    }
    Ok(tokens)
}

async fn request(config: &Config, pod: &Pod, projection: &ServiceAccountTokenProjection) -> Result<Token, VolumeError> {
    let accounts: Api<ServiceAccount> = Api::namespaced(config.client.clone(), &pod.namespace().unwrap_or_default());
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
    let bound = BoundObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
    };
    let spec = TokenRequestSpec {
        audiences: projection.audience.iter().filter(|audience| !audience.is_empty()).cloned().collect(),
        bound_object_ref: Some(bound),
        expiration_seconds: projection.expiration_seconds,
    };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await;
    let answer = answer.map_err(|error| VolumeError::Token(error.to_string()))?;
    let status = answer.status.ok_or_else(|| VolumeError::Token("the API server gave none".into()))?;
    let now = config.clock.now();
    Ok(Token { text: status.token.into(), renew_at: renew_at(now, status.expiration_timestamp.0) })
}

/// A token is renewed after 80 % of its life, or after a day.
fn renew_at(now: Timestamp, end: Timestamp) -> Timestamp {
    let life = end.duration_since(now);
    let young = (life / 5).saturating_mul(4).min(SignedDuration::from_hours(24));
    now.checked_add(young).unwrap_or(end)
}

/// The volumes whose content is another than before.
pub(crate) fn changed<'a>(before: &Mounted, after: &'a Mounted) -> impl Iterator<Item = &'a Volume> {
    let known: BTreeMap<String, Volume> =
        before.volumes.iter().map(|volume| (volume.name.clone(), volume.clone())).collect();
    after.volumes.iter().filter(move |volume| known.get(&volume.name) != Some(volume))
}

/// Whether something in the volumes can change while the pod runs.
pub(crate) fn changes(pod: &Pod) -> bool {
    let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.any(|volume| {
        volume.config_map.is_some()
            || volume.secret.is_some()
            || volume.downward_api.is_some()
            || volume.projected.is_some()
    })
}

/// How long to wait after a failed attempt: half a second, doubled each time, two minutes and two seconds at most.
pub(crate) fn pause(tries: u32) -> SignedDuration {
    let millis = 500_i64.saturating_mul(1 << tries.saturating_sub(1).min(10));
    SignedDuration::from_millis(millis.min(122_000))
}

fn bytes(quantity: Option<&k8s_openapi::apimachinery::pkg::api::resource::Quantity>) -> Option<u64> {
    let quantity: Quantity = quantity?.0.parse().ok()?;
    u64::try_from(quantity.value()).ok().filter(|bytes| *bytes > 0)
}

/// The message of the event for a volume that cannot be set up.
pub(crate) fn message((volume, error): &Failure) -> String {
    format!("MountVolume.SetUp failed for volume \"{volume}\" : {error}")
}
