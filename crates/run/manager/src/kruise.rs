//! An OpenKruise that serves SidecarSets: how it is found, and what has to happen before its objects are served by somebody else.

pub(crate) mod wait;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::coordination::v1::Lease;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, Client};
use pillion_api::names;
use pillion_informer::{Cache, State};
use serde_json::Value;

/// The name of its `MutatingWebhookConfiguration`.
pub const KRUISE_MUTATING: &str = "kruise-mutating-webhook-configuration";
/// The name of its `ValidatingWebhookConfiguration`.
pub const KRUISE_VALIDATING: &str = "kruise-validating-webhook-configuration";
/// The name of the Lease that its leader renews.
pub const KRUISE_LEASE: &str = "kruise-manager";

/// What its chart and its manifests name the Deployment.
const DEPLOYMENT: &str = "kruise-controller-manager";
/// How long a Lease is valid that does not say so.
const LEASE_DURATION: Duration = Duration::from_secs(15);

/// What is known about an OpenKruise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kruise {
    /// Its webhook configurations by which SidecarSets are sent to it: kind and name.
    pub configurations: Vec<(&'static str, &'static str)>,
    pub namespace: String,
    /// When its leader renewed the Lease last, and for how long that is valid. `None` if nobody holds it.
    pub lease: Option<(Timestamp, Duration)>,
}

/// How an OpenKruise and SidecarSets stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is no OpenKruise, or it has stopped and left nothing that is in the way.
    Absent,
    /// It runs. Its controller acts on SidecarSets as long as they are defined, whatever is sent to its webhooks.
    Serving,
    /// It does not run, but SidecarSets and pods are sent to it.
    Stopped,
}

impl Kruise {
    /// Looks for an OpenKruise. Its namespace is the one in its webhook configurations, or else `namespace`.
    ///
    /// # Errors
    /// The API server cannot be reached or refuses.
    pub async fn find(client: &Client, namespace: &str) -> Result<Kruise, kube::Error> {
        let mutating = get::<MutatingWebhookConfiguration>(client, KRUISE_MUTATING).await?;
        let validating = get::<ValidatingWebhookConfiguration>(client, KRUISE_VALIDATING).await?;
        let found = Kruise::registered(&mutating, &validating, namespace);
        let leases: Api<Lease> = Api::namespaced(client.clone(), &found.namespace);
        let lease = leases.get_opt(KRUISE_LEASE).await?;
        Ok(found.with_lease(lease.as_ref()))
    }

    /// What its webhook configurations say; `null` stands for one that does not exist.
    pub fn registered(mutating: &Value, validating: &Value, namespace: &str) -> Kruise {
        let mut found = Kruise { configurations: Vec::new(), namespace: namespace.to_owned(), lease: None };
        for (kind, name, configuration) in [
            ("MutatingWebhookConfiguration", KRUISE_MUTATING, mutating),
            ("ValidatingWebhookConfiguration", KRUISE_VALIDATING, validating),
        ] {
            let entries = configuration["webhooks"].as_array().into_iter().flatten();
            let Some(entry) = entries.into_iter().find(|entry| is_for_sidecar_sets(entry)) else { continue };
            found.configurations.push((kind, name));
            if let Some(namespace) = entry["clientConfig"]["service"]["namespace"].as_str() {
                namespace.clone_into(&mut found.namespace);
            }
        }
        found
    }

    /// The same with what its Lease says.
    #[must_use]
    pub fn with_lease(mut self, lease: Option<&Lease>) -> Kruise {
        let spec = lease.and_then(|lease| lease.spec.as_ref());
        let held = spec.filter(|spec| spec.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty()));
        self.lease = held.and_then(|spec| {
            let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            Some((spec.renew_time.as_ref()?.0, seconds.map_or(LEASE_DURATION, Duration::from_secs)))
        });
        self
    }

    /// How it stands now.
    pub fn standing(&self, now: Timestamp) -> Standing {
        let is_running = self.lease.is_some_and(|(renewed, duration)| {
            SignedDuration::try_from(duration).is_ok_and(|duration| now.duration_since(renewed) < duration)
        });
        match (is_running, self.configurations.is_empty()) {
            (true, _) => Standing::Serving,
            (false, true) => Standing::Absent,
            (false, false) => Standing::Stopped,
        }
    }

    /// Why SidecarSets must not be served by somebody else while it stands so, and what to do about it. `may_take_over` says whether the user wants that.
    pub fn obstacle(&self, standing: Standing, may_take_over: bool) -> Option<String> {
        let (stop, delete) = (self.stop_command(), self.delete_command());
        match (standing, may_take_over) {
            (Standing::Absent, _) => None,
            (Standing::Serving, false) => {
                Some(format!("OpenKruise serves SidecarSets; stop it (`{stop}`), then start with --take-over=kruise"))
            }
            (Standing::Serving, true) => Some(format!("OpenKruise still serves SidecarSets; stop it: `{stop}`")),
            (Standing::Stopped, false) => Some(format!(
                "OpenKruise does not run, but its webhooks for SidecarSets are registered; delete them (`{delete}`), or install with \
                 --take-over=kruise, which does so"
            )),
            (Standing::Stopped, true) => Some(format!(
                "OpenKruise has stopped, but its webhooks for SidecarSets are still registered; delete them: `{delete}`"
            )),
        }
    }

    /// How it is stopped; its CRDs and its objects stay.
    pub fn stop_command(&self) -> String {
        format!("kubectl --namespace={} scale deployment {DEPLOYMENT} --replicas=0", self.namespace)
    }

    /// How its webhook configurations are deleted.
    pub fn delete_command(&self) -> String {
        let names = self.configurations.iter().map(|(kind, name)| format!(" {}/{name}", kind.to_ascii_lowercase()));
        format!("kubectl delete{}", names.collect::<String>())
    }
}

/// What watches know of an OpenKruise. This needs no requests while none is installed.
pub(crate) struct WatchedKruise {
    /// Where its Lease is as long as no webhook configuration of it says otherwise.
    namespace: String,
    mutating: Cache<MutatingWebhookConfiguration>,
    validating: Cache<ValidatingWebhookConfiguration>,
    leases: Cache<Lease>,
}

impl WatchedKruise {
    pub(crate) fn new(namespace: &str) -> WatchedKruise {
        WatchedKruise {
            namespace: namespace.to_owned(),
            mutating: Cache::new(),
            validating: Cache::new(),
            leases: Cache::new(),
        }
    }

    /// Keeps what is known as it is in the cluster, until dropped.
    pub(crate) async fn run(&self, client: &Client) {
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let leases = Api::namespaced(client.clone(), &self.namespace);
        tokio::select! {
            () = self.mutating.clone().run(Api::all(client.clone()), named(KRUISE_MUTATING)) => {}
            () = self.validating.clone().run(Api::all(client.clone()), named(KRUISE_VALIDATING)) => {}
            () = self.leases.clone().run(leases, named(KRUISE_LEASE)) => {}
        }
    }

    /// Whether there is no OpenKruise; false until everything is known.
    pub(crate) fn is_absent(&self, now: Timestamp) -> bool {
        let states = [self.mutating.state(), self.validating.state(), self.leases.state()];
        let failures = [self.mutating.failure(), self.validating.failure(), self.leases.failure()];
        if states.iter().any(|state| *state != State::Synced) || failures.iter().any(Option::is_some) {
            return false;
        }
        let mutating = self.mutating.get("", KRUISE_MUTATING).and_then(|it| serde_json::to_value(&*it).ok());
        let validating = self.validating.get("", KRUISE_VALIDATING).and_then(|it| serde_json::to_value(&*it).ok());
        let lease = self.leases.get(&self.namespace, KRUISE_LEASE);
        let found = Kruise::registered(&mutating.unwrap_or_default(), &validating.unwrap_or_default(), &self.namespace);
        found.with_lease(lease.as_deref()).standing(now) == Standing::Absent
    }
}

fn is_for_sidecar_sets(entry: &Value) -> bool {
    let has = |rule: &Value, key: &str, wanted: &str| {
        rule[key].as_array().into_iter().flatten().any(|value| value == wanted || value == "*")
    };
    let mut rules = entry["rules"].as_array().into_iter().flatten();
    rules.any(|rule| has(rule, "apiGroups", names::GROUP) && has(rule, "resources", "sidecarsets"))
}

/// The object as it is; `null` if it does not exist.
async fn get<K>(client: &Client, name: &str) -> Result<Value, kube::Error>
where
    K: kube::Resource<DynamicType = ()>,
{
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    let live = api.get_opt(name).await?;
    Ok(live.and_then(|live| serde_json::to_value(live).ok()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn configuration(resource: &str) -> Value {
        json!({"webhooks": [{
            "name": "msidecarset.kb.io",
            "clientConfig": {"service": {"namespace": "openkruise", "name": "kruise-webhook-service"}},
            "rules": [{"apiGroups": ["apps.kruise.io"], "apiVersions": ["v1beta1"], "resources": [resource]}],
        }]})
    }

    fn kruise(resource: &str, renewed: Option<&str>) -> Kruise {
        let lease = renewed.map(|renewed| {
            let spec = json!({"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": renewed});
            serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()
        });
        Kruise::registered(&configuration(resource), &Value::Null, "kruise-system").with_lease(lease.as_ref())
    }

    #[test]
    fn it_serves_sidecar_sets_while_its_lease_is_renewed_and_is_in_the_way_while_they_are_sent_to_it() {
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let (fresh, old) = (Some("2026-01-01T00:00:50.000000Z"), Some("2026-01-01T00:00:45.000000Z"));
        let rows = [
            ("sidecarsets", fresh, Standing::Serving),
            ("sidecarsets", old, Standing::Stopped),
            ("sidecarsets", None, Standing::Stopped),
            ("clonesets", fresh, Standing::Serving),
            ("clonesets", old, Standing::Absent),
            ("clonesets", Some("9999-12-30T22:00:00.000000Z"), Standing::Serving),
            ("*", None, Standing::Stopped),
        ];
        for (resource, renewed, expected) in rows {
            assert_eq!(kruise(resource, renewed).standing(now), expected, "{resource} {renewed:?}");
        }
    }

    #[test]
    fn a_lease_that_was_given_back_is_held_by_nobody() {
        let spec = json!({"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": "2026-01-01T00:00:00.000000Z"});
        let lease = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        assert_eq!(kruise("sidecarsets", None).with_lease(Some(&lease)).lease, None);
    }

    #[test]
    fn every_obstacle_comes_with_the_command_that_removes_it() {
        let kruise = kruise("sidecarsets", None);
        let obstacle = |standing, may_take_over| kruise.obstacle(standing, may_take_over).unwrap();
        insta::assert_snapshot!(obstacle(Standing::Serving, false), @"OpenKruise serves SidecarSets; stop it (`kubectl --namespace=openkruise scale deployment kruise-controller-manager --replicas=0`), then start with --take-over=kruise");
        insta::assert_snapshot!(obstacle(Standing::Serving, true), @"OpenKruise still serves SidecarSets; stop it: `kubectl --namespace=openkruise scale deployment kruise-controller-manager --replicas=0`");
        insta::assert_snapshot!(obstacle(Standing::Stopped, false), @"OpenKruise does not run, but its webhooks for SidecarSets are registered; delete them (`kubectl delete mutatingwebhookconfiguration/kruise-mutating-webhook-configuration`), or install with --take-over=kruise, which does so");
        insta::assert_snapshot!(obstacle(Standing::Stopped, true), @"OpenKruise has stopped, but its webhooks for SidecarSets are still registered; delete them: `kubectl delete mutatingwebhookconfiguration/kruise-mutating-webhook-configuration`");
        assert_eq!(kruise.obstacle(Standing::Absent, false), None);
    }
}
