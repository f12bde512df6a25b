//! The object that a user names as for kubectl: `POD`, `KIND/NAME` or `KIND NAME`.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::ApiResource;
use kube::discovery::{Discovery, Scope};
use pillion_api::names;
use pillion_embedded::resource::{self, Resource};
use serde_json::Value;

use super::read::{Parts, ReadError, Reader, api_resource};
use crate::{Failure, chain};

/// The kinds that have a pod template, and pods.
const WITH_PODS: [&str; 8] =
    ["pods", "deployments", "statefulsets", "daemonsets", "replicasets", "replicationcontrollers", "jobs", "cronjobs"];

/// What the user wrote, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Named<'a> {
    /// `None` for a pod.
    kind: Option<&'a str>,
    name: &'a str,
}

fn named(target: &[String]) -> Result<Named<'_>, String> {
    let named = match target {
        [one] => match one.split_once('/') {
            Some((kind, name)) => Named { kind: Some(kind), name },
            None => Named { kind: None, name: one },
        },
        [kind, name] if !kind.contains('/') && !name.contains('/') => Named { kind: Some(kind), name },
        [first, second] => {
            return Err(format!("{first:?} and {second:?}: one object at a time, as KIND/NAME or KIND NAME"));
        }
        _ => return Err("name a pod, or a workload as KIND/NAME".to_owned()),
    };
    if named.name.is_empty() || named.kind.is_some_and(str::is_empty) {
        return Err(format!(
            "{:?} has no {}: write KIND/NAME",
            target.join(" "),
            if named.name.is_empty() { "name" } else { "kind" }
        ));
    }
    if named.name.contains('/') {
        return Err(format!("{:?} has too many slashes: write KIND/NAME", target.join(" ")));
    }
    Ok(named)
}

/// A resource of Kubernetes' own by what kubectl accepts for it: `deployments`, `deployment`, `deploy`, `Deployment`, `deployments.apps`,
/// `deployments.v1.apps`.
fn built_in(kind: &str) -> Option<&'static Resource> {
    let kind = kind.to_lowercase();
    let (short, group) = kind.split_once('.').map_or((kind.as_str(), None), |(short, group)| (short, Some(group)));
    let is_named = |resource: &&Resource| {
        let names = [resource.plural, resource.singular];
        let is_group = group.is_none_or(|group| {
            group == resource.group
                || group
                    .strip_prefix(resource.version)
                    .is_some_and(|rest| rest.trim_start_matches('.') == resource.group)
        });
        is_group
            && (names.contains(&short)
                || resource.short_names.contains(&short)
                || resource.kind.to_lowercase() == short)
    };
    resource::all().iter().find(is_named)
}

/// Reads the object.
pub(crate) async fn find(reader: &Reader, namespace: &str, target: &[String]) -> Result<Value, Failure> {
    let Named { kind, name } = named(target).map_err(Failure::misuse)?;
    let resource = match kind {
        None => ApiResource::erase::<Pod>(&()),
        Some(kind) => match built_in(kind) {
            Some(resource) if WITH_PODS.contains(&resource.plural) => api_resource(resource),
            Some(resource) => return Err(without_template(resource.kind)),
            None => custom(reader, kind, name).await?,
        },
    };
    match reader.get(&resource, Some(namespace), name).await? {
        Some(object) => Ok(object),
        None => Err(Failure::no(not_found(reader, &resource, namespace, name, kind.is_none()).await)),
    }
}

fn without_template(kind: &str) -> Failure {
    Failure::misuse(format!("a {kind} has no pod template: name a pod, or the workload that makes its pods"))
}

/// A custom resource of the cluster, such as a CloneSet. `name` is that of the object.
async fn custom(reader: &Reader, kind: &str, name: &str) -> Result<ApiResource, Failure> {
    let wanted = kind.to_lowercase();
    let discovered = Discovery::new(reader.client()).run().await;
    let discovered = discovered
        .map_err(|error| Failure::no(format!("cannot ask the API server for its resources: {}", chain(&error))))?;
    let is_named = |resource: &ApiResource| {
        let singular = resource.kind.to_lowercase();
        [&resource.plural, &singular]
            .into_iter()
            .any(|name| *name == wanted || format!("{name}.{}", resource.group) == wanted)
    };
    // A group prefers one version, and may serve a kind in another alone: CloneSet in v1alpha1 beside SidecarSet in v1beta1.
    let all = discovered.groups_alphabetical().into_iter().flat_map(|group| {
        let preferred = group.recommended_resources().into_iter();
        preferred.chain(group.resources_by_stability())
    });
    if let Some((resource, capabilities)) = all.into_iter().find(|(resource, _)| is_named(resource)) {
        return match capabilities.scope {
            Scope::Cluster if resource.group == names::GROUP && resource.kind == names::SIDECARSET_KIND => {
                Err(Failure::misuse(format!(
                    "a SidecarSet has no pod template: `pillion rollout status {name}` shows how it is doing, and `pillion preview -f FILE` \
                     what a change of it would do"
                )))
            }
            // What makes pods is in a namespace, as its pods are.
            Scope::Cluster => Err(without_template(&resource.kind)),
            Scope::Namespaced => Ok(resource),
        };
    }
    let with_pods = resource::all().iter().filter(|resource| WITH_PODS.contains(&resource.plural));
    let known: Vec<&str> = with_pods
        .flat_map(|resource| {
            [resource.singular, resource.plural].into_iter().chain(resource.short_names.iter().copied())
        })
        .collect();
    let help = nearest(&wanted, &known).map_or_else(
        || "kinds with pods are pod, deployment, statefulset, daemonset, replicaset, replicationcontroller, job and cronjob".to_owned(),
        |known| format!("did you mean {known:?}?"),
    );
    Err(Failure::misuse(format!("the cluster has no resource {kind:?}; {help}")))
}

/// That the object is not there, and what may have been meant. Whatever cannot be read says nothing.
async fn not_found(reader: &Reader, resource: &ApiResource, namespace: &str, name: &str, is_bare: bool) -> String {
    let kind = resource.kind.to_lowercase();
    let kind = if resource.group.is_empty() { kind } else { format!("{kind}.{}", resource.group) };
    let message = format!("{kind} {name:?} is not in namespace {namespace:?}");
    let name_of = |object: Value| object["metadata"]["name"].as_str().map(str::to_owned);
    let of = |namespace: Value| namespace["metadata"]["namespace"].as_str().map(str::to_owned);
    let same_name = ListParams::default().fields(&format!("metadata.name={name}"));
    // A workload's name is quickly typed where that of a pod is wanted.
    if is_bare {
        for resource in
            resource::all().iter().filter(|other| other.plural != "pods" && WITH_PODS.contains(&other.plural))
        {
            if let Ok(Some(_)) = reader.get(&api_resource(resource), Some(namespace), name).await {
                return format!("{message}; did you mean {}/{name}?", resource.singular);
            }
        }
    }
    let here: Result<Vec<String>, ReadError> =
        reader.list(resource, Some(namespace), Parts::Metadata, &ListParams::default(), name_of).await;
    if let Some(near) = here.ok().as_ref().and_then(|names| nearest(name, names)) {
        return format!("{message}; did you mean {near:?}?");
    }
    let elsewhere = reader.list(resource, None, Parts::Metadata, &same_name, of).await.unwrap_or_default();
    match elsewhere.first() {
        Some(other) => format!("{message}; there is one in namespace {other:?}: add -n {other}"),
        None => message,
    }
}

/// The name that this one begins, or from which it differs by few letters.
pub(crate) fn nearest<'k, S: AsRef<str>>(name: &str, known: &'k [S]) -> Option<&'k str> {
    let known = || known.iter().map(AsRef::as_ref);
    let begins = |known: &&str| name.len() > 2 && known.starts_with(name);
    let distance = |known: &&str| strsim::osa_distance(known, name);
    known().find(begins).or_else(|| known().min_by_key(distance).filter(|best| distance(best) <= best.len() / 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(target: &[&str]) -> Result<(Option<String>, String), String> {
        let target: Vec<String> = target.iter().map(|part| (*part).to_owned()).collect();
        named(&target).map(|named| (named.kind.map(str::to_owned), named.name.to_owned()))
    }

    #[test]
    fn an_object_is_named_as_for_kubectl() {
        assert_eq!(parts(&["web-0"]), Ok((None, "web-0".to_owned())));
        assert_eq!(parts(&["deploy/web"]), Ok((Some("deploy".to_owned()), "web".to_owned())));
        assert_eq!(parts(&["deploy", "web"]), Ok((Some("deploy".to_owned()), "web".to_owned())));
        for (target, said) in [
            (vec!["deploy/"], "has no name"),
            (vec!["/web"], "has no kind"),
            (vec!["a/b/c"], "too many slashes"),
            (vec!["deploy/web", "deploy/api"], "one object at a time"),
        ] {
            assert!(parts(&target).unwrap_err().contains(said), "{target:?}");
        }
    }

    #[test]
    fn a_kind_has_all_the_names_that_kubectl_knows() {
        for name in ["deploy", "deployment", "deployments", "Deployment", "deployments.apps", "deployments.v1.apps"] {
            assert_eq!(built_in(name).map(|resource| resource.plural), Some("deployments"), "{name}");
        }
        for (name, plural) in [
            ("po", "pods"),
            ("sts", "statefulsets"),
            ("ds", "daemonsets"),
            ("rs", "replicasets"),
            ("rc", "replicationcontrollers"),
            ("cj", "cronjobs"),
            ("job.batch", "jobs"),
            ("pods.v1.", "pods"),
        ] {
            assert_eq!(built_in(name).map(|resource| resource.plural), Some(plural), "{name}");
        }
        assert!(built_in("deployments.example.com").is_none() && built_in("deplyo").is_none());
    }

    #[test]
    fn the_nearest_name_is_one_that_begins_the_same_or_differs_little() {
        let known = ["web-5d8f9c7b6-x2k4p", "api-0", "deployment"];
        assert_eq!(nearest("web", &known), Some("web-5d8f9c7b6-x2k4p"));
        assert_eq!(nearest("api-1", &known), Some("api-0"));
        assert_eq!(nearest("deplyoment", &known), Some("deployment"));
        assert_eq!(nearest("zzz", &known), None);
        assert_eq!(nearest("x", &[] as &[&str]), None);
    }
}
