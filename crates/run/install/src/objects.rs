//! Objects of any kind: their names, who manages them, and how they are read, applied and deleted.

use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use pillion_api::names::MANAGED_BY;
use pillion_manager::ControllerName;
use serde_json::Value;
use tokio::time::Instant;

use crate::error::Error;
use crate::manifests::{OURS, SELECTOR, manifests};
use crate::options::Options;

/// The manager of the fields that an installation writes.
pub(crate) const FIELD_MANAGER: &str = "pillion-install";

/// Receives a line for each step.
pub(crate) type Say<'a> = &'a (dyn Fn(&str) + Sync);

/// What could not be watched is asked for this often.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// An object of a cluster: kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) resource: ApiResource,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl Place {
    pub(crate) fn of(manifest: &Value) -> Place {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let metadata = &manifest["metadata"];
        let resource = resource(
            manifest["apiVersion"].as_str().unwrap_or_default(),
            manifest["kind"].as_str().unwrap_or_default(),
        );
        Place { resource, namespace: text(&metadata["namespace"]), name: text(&metadata["name"]).unwrap_or_default() }
    }

    /// An object by name.
    pub(crate) fn new(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Place {
        let (resource, namespace) = (resource(api_version, kind), namespace.map(str::to_owned));
        Place { resource, namespace, name: name.to_owned() }
    }

    fn of_live(resource: &ApiResource, live: &DynamicObject) -> Place {
        Place { resource: resource.clone(), namespace: live.namespace(), name: live.name_any() }
    }

    pub(crate) fn is(&self, kind: &str) -> bool {
        self.resource.kind == kind
    }

    pub(crate) fn api(&self, client: &Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }

    /// The object as it is stored.
    pub(crate) async fn get(&self, client: &Client) -> Result<Option<DynamicObject>, Error> {
        self.api(client).get_opt(&self.name).await.map_err(Error::api(format!("read {self}")))
    }

    /// Applies a manifest. Says whether that has changed anything.
    pub(crate) async fn apply(&self, client: &Client, manifest: &Value, say: Say<'_>) -> Result<(), Error> {
        let before = self.get(client).await?;
        // Whoever else writes fields of an installation is overruled: it is ours, or it would not have come to this.
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let applied = self.api(client).patch(&self.name, &parameters, &Patch::Apply(manifest)).await;
        let applied = applied.map_err(Error::api(format!("apply {self}")))?;
        let done = match before {
            None => "created",
            Some(before) if before.resource_version() == applied.resource_version() => "unchanged",
            Some(_) => "configured",
        };
        say(&format!("{self} {done}"));
        Ok(())
    }

    /// Deletes the object, if it is there.
    pub(crate) async fn delete(&self, client: &Client, say: Say<'_>) -> Result<(), Error> {
        match self.api(client).delete(&self.name, &DeleteParams::background()).await {
            Ok(_) => say(&format!("{self} deleted")),
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => return Err(Error::api(format!("delete {self}"))(error)),
        }
        Ok(())
    }

    /// Waits until the object is not there any more.
    pub(crate) async fn is_gone(&self, client: &Client, timeout: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + timeout;
        while self.get(client).await?.is_some() {
            if Instant::now() >= deadline {
                return Err(Error::NotGone { what: self.to_string(), seconds: timeout.as_secs() });
            }
            tokio::time::sleep(TICK).await;
        }
        Ok(())
    }
}

/// As kubectl names objects: `deployment.apps/pillion-manager`.
impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.resource.kind.to_ascii_lowercase())?;
        if !self.resource.group.is_empty() {
            write!(formatter, ".{}", self.resource.group)?;
        }
        write!(formatter, "/{}", self.name)?;
        match &self.namespace {
            Some(namespace) => write!(formatter, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Who manages an object.
pub(crate) enum Manager {
    /// An installation by this program.
    Ours,
    /// A release of Helm.
    Helm(String),
    /// Somebody else.
    Other(Option<String>),
}

pub(crate) fn manager_of(live: &DynamicObject) -> Manager {
    match live.labels().get(MANAGED_BY).map(String::as_str) {
        Some(OURS) => Manager::Ours,
        Some("Helm") => Manager::Helm(live.annotations().get("meta.helm.sh/release-name").cloned().unwrap_or_default()),
        other => Manager::Other(other.map(str::to_owned)),
    }
}

/// Everything that an installation by this program has put into the cluster, in the order of kinds in which it was applied.
pub(crate) async fn installed(client: &Client) -> Result<Vec<Place>, Error> {
    let mut found = Vec::new();
    for resource in kinds() {
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        match all.list(&ListParams::default().labels(SELECTOR)).await {
            Ok(live) => found.extend(live.iter().map(|live| Place::of_live(&resource, live))),
            // A cluster that is older than the kind has none of it.
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => return Err(Error::api(format!("list {}", resource.plural))(error)),
        }
    }
    Ok(found)
}

/// The kinds of what an installation may have put into the cluster, whichever parts it had.
pub(crate) fn kinds() -> Vec<ApiResource> {
    let mut kinds = Vec::new();
    for manifest in manifests(&Options { controllers: ControllerName::ALL.to_vec(), ..Options::default() }) {
        let resource = Place::of(&manifest).resource;
        if !kinds.contains(&resource) {
            kinds.push(resource);
        }
    }
    kinds
}
