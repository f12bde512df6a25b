//! The volume claims of a StatefulSet: made before their pods, and owned so that they go when they should.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use pillion_events::Recorder;
use serde_json::json;

use super::identity;
use crate::error::Error;
use crate::kinds::StatefulSet;
use crate::pod::PodView;
use crate::write::{self, controller_reference, reference};

/// Makes the claims of a number that do not exist.
pub(super) async fn ensure(client: &Client, recorder: &Recorder, set: &StatefulSet, ordinal: i32) -> Result<(), Error> {
    let namespace = set.namespace().unwrap_or_default();
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
    for claim in identity::claims(set, ordinal) {
        let name = claim["metadata"]["name"].as_str().unwrap_or_default();
        match api.get_opt(name).await? {
            Some(found) if found.metadata.deletion_timestamp.is_some() => {
                return Err(Error::Object(format!("pvc {name} is being deleted")));
            }
            Some(_) => {}
            None => {
                let outcome =
                    write::create::<PersistentVolumeClaim>(client, &namespace, &claim).await.map_err(Error::from);
                record(recorder, set, name, ordinal, outcome.as_ref().err());
                outcome.map_err(|error| Error::Object(format!("failed to create PVC {name}: {}", error.message())))?;
            }
        }
    }
    Ok(())
}

fn record(recorder: &Recorder, set: &StatefulSet, claim: &str, ordinal: i32, error: Option<&Error>) {
    let (pod, name, about) = (identity::pod_name(set, ordinal), set.name_any(), reference(set));
    match error {
        None => {
            let message = format!("Create Claim {claim} Pod {pod} in StatefulSet {name} success");
            recorder.normal(&about, "SuccessfulCreate", message);
        }
        Some(error) => {
            let why = error.message();
            let message = format!("Create Claim {claim} for Pod {pod} in StatefulSet {name} failed error: {why}");
            recorder.warning(&about, "FailedCreate", message);
        }
    }
}

/// Makes the claims of a pod belong to whom the retention policy says: the set, the pod, or nobody.
pub(super) async fn retain(
    client: &Client,
    recorder: &Recorder,
    set: &StatefulSet,
    pod: &PodView,
    condemned: bool,
) -> Result<(), Error> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &set.namespace().unwrap_or_default());
    let Some(ordinal) = identity::ordinal(&pod.name_any()) else { return Ok(()) };
    for template in &set.spec.volume_claim_templates {
        let name = identity::claim_name(set, template, ordinal);
        let Some(claim) = api.get_opt(&name).await? else { continue };
        match owners(claim.owner_references(), set, pod, condemned) {
            Owners::Right => {}
            Owners::Anothers => {
                let message = format!(
                    "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
                );
                recorder.warning(&reference(set), "ConflictingController", message);
            }
            Owners::ShouldBe(owners) => {
                let version = claim.resource_version();
                let patch = json!({"metadata": {"resourceVersion": version, "ownerReferences": owners}});
                api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
            }
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq)]
enum Owners {
    Right,
    /// Somebody else's claim is left alone.
    Anothers,
    ShouldBe(Vec<OwnerReference>),
}

fn owners(present: &[OwnerReference], set: &StatefulSet, pod: &PodView, condemned: bool) -> Owners {
    let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
    let deletes = |when: Option<&String>| when.is_some_and(|when| when == "Delete");
    let when_scaled = deletes(policy.and_then(|policy| policy.when_scaled.as_ref()));
    let when_deleted = deletes(policy.and_then(|policy| policy.when_deleted.as_ref()));
    let (of_set, of_pod) = (controller_reference(set), controller_reference(pod));
    let is_same = |owner: &OwnerReference, one: &OwnerReference| owner.kind == one.kind && owner.name == one.name;
    let mut owners: Vec<OwnerReference> = Vec::new();
    for owner in present {
        let (is_set, is_pod) = (is_same(owner, &of_set), is_same(owner, &of_pod));
        let stale = is_set && owner.uid != of_set.uid || is_pod && owner.uid != of_pod.uid;
        if stale {
            // Of a set or a pod that is gone: the claim goes with it, and is created again.
            return Owners::Right;
        }
        if !is_set && !is_pod {
            if owner.controller == Some(true) && (when_scaled || when_deleted) {
                return Owners::Anothers;
            }
            owners.push(owner.clone());
        }
    }
    if when_scaled && condemned {
        owners.push(of_pod);
    } else if when_deleted {
        owners.push(of_set);
    }
    if owners == present { Owners::Right } else { Owners::ShouldBe(owners) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_belongs_to_whom_the_policy_says() {
        let pod: PodView = serde_json::from_value(json!({"metadata": {"name": "web-0", "uid": "pod"}})).unwrap();
        for (when_scaled, when_deleted, condemned, expected) in [
            ("Retain", "Retain", false, None),
            ("Retain", "Retain", true, None),
            ("Retain", "Delete", false, Some("set")),
            ("Retain", "Delete", true, Some("set")),
            ("Delete", "Retain", false, None),
            ("Delete", "Retain", true, Some("pod")),
            ("Delete", "Delete", false, Some("set")),
            ("Delete", "Delete", true, Some("pod")),
        ] {
            let policy = json!({"whenScaled": when_scaled, "whenDeleted": when_deleted});
            let spec = json!({"persistentVolumeClaimRetentionPolicy": policy});
            let set: StatefulSet =
                serde_json::from_value(json!({"metadata": {"name": "web", "uid": "set"}, "spec": spec})).unwrap();
            let what = format!("scaled {when_scaled}, deleted {when_deleted}, condemned {condemned}");
            let uids = match owners(&[], &set, &pod, condemned) {
                Owners::ShouldBe(owners) => {
                    assert_eq!(self::owners(&owners, &set, &pod, condemned), Owners::Right, "{what}");
                    owners.into_iter().map(|owner| owner.uid).collect()
                }
                other => {
                    assert_eq!(other, Owners::Right, "{what}");
                    Vec::new()
                }
            };
            assert_eq!(uids, expected.into_iter().collect::<Vec<_>>(), "{what}");
        }
    }
}
