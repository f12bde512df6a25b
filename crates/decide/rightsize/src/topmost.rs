//! Whether the target of an autoscaler is the topmost of its controllers, in upstream's words.

use crate::control::WELL_KNOWN_CONTROLLERS;
use crate::pod::Owner;

/// What is known of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controller {
    /// It exists, and has this controller of its own.
    Owned(Option<Owner>),
    /// It does not exist.
    Missing,
    /// Its kind is not one that Kubernetes brings, and nothing is known of it.
    Custom,
}

/// The topmost of the controllers above and including `target` that Kubernetes brings.
///
/// # Errors
/// A controller on the way does not exist or is a Node, or they own each other in a circle.
pub fn topmost(namespace: &str, target: &Owner, look: impl Fn(&Owner) -> Controller) -> Result<Owner, String> {
    let mut visited = vec![target.clone()];
    let mut top = target.clone();
    loop {
        let Some(last) = visited.last().cloned() else { return Ok(top) };
        let owner = match look(&last) {
            Controller::Missing => return Err(format!("{} {namespace}/{} does not exist", last.kind, last.name)),
            Controller::Custom => return Ok(top),
            Controller::Owned(owner) => owner,
        };
        let Some(owner) = owner else { return Ok(top) };
        if owner.kind == "Node" {
            let name = &owner.name;
            return Err(format!("unhandled targetRef v1 / Node / {name}, last error node is not a valid owner"));
        }
        if visited.contains(&owner) {
            return Err("cycle detected in ownership chain".to_owned());
        }
        if WELL_KNOWN_CONTROLLERS.contains(&owner.kind.as_str()) {
            top = owner.clone();
        }
        visited.push(owner);
    }
}

/// Why a target that exists cannot be served. `api_version` is that of the `targetRef`.
pub fn refuse_target(
    namespace: &str,
    api_version: &str,
    target: &Owner,
    look: impl Fn(&Owner) -> Controller,
) -> Option<String> {
    let shown = format!("{api_version}.{}/{}", target.kind, target.name);
    match topmost(namespace, target, look) {
        Ok(top) if top == *target => None,
        Ok(_) => Some(format!(
            "The target {shown} has a parent controller but it should point to a topmost well-known or scalable controller"
        )),
        Err(error) => {
            Some(format!("Error checking if target {shown} is a topmost well-known or scalable controller: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(kind: &str, name: &str) -> Owner {
        Owner { kind: kind.to_owned(), name: name.to_owned() }
    }

    /// `TestControllerFetcher` in upstream's `pkg/target/controller_fetcher/controller_fetcher_test.go`: the controllers that exist, each
    /// with its own, the target, and what comes of it. Upstream gives a custom resource that can be scaled instead of its Deployment.
    #[test]
    fn controllers_are_followed_to_the_topmost() {
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, Result<&'a str, &'a str>);
        let cases: [Case<'_>; 11] = [
            (&[], "Deployment/web", Err("Deployment shop/web does not exist")),
            (&[("Deployment/web", "")], "Deployment/web", Ok("Deployment/web")),
            (
                &[("ReplicaSet/web-1", "Deployment/web"), ("Deployment/web", "")],
                "ReplicaSet/web-1",
                Ok("Deployment/web"),
            ),
            (&[("ReplicaSet/web-1", "Deployment/web")], "ReplicaSet/web-1", Err("Deployment shop/web does not exist")),
            (&[("StatefulSet/db", "")], "StatefulSet/db", Ok("StatefulSet/db")),
            (&[("DaemonSet/log", "")], "DaemonSet/log", Ok("DaemonSet/log")),
            (&[("Job/run-1", "CronJob/run"), ("CronJob/run", "")], "Job/run-1", Ok("CronJob/run")),
            (&[("ReplicationController/old", "")], "ReplicationController/old", Ok("ReplicationController/old")),
            (&[("Deployment/web", "Deployment/web")], "Deployment/web", Err("cycle detected in ownership chain")),
            (&[("Deployment/web", "App/shop")], "Deployment/web", Ok("Deployment/web")),
            (
                &[("Deployment/web", "Node/node")],
                "Deployment/web",
                Err("unhandled targetRef v1 / Node / node, last error node is not a valid owner"),
            ),
        ];
        let parse = |text: &str| text.split_once('/').map(|(kind, name)| owner(kind, name));
        for (exist, target, wanted) in cases {
            let look = |it: &Owner| {
                let name = format!("{}/{}", it.kind, it.name);
                match exist.iter().find(|(known, _)| *known == name) {
                    Some((_, owner)) => Controller::Owned(parse(owner)),
                    None if WELL_KNOWN_CONTROLLERS.contains(&it.kind.as_str()) => Controller::Missing,
                    None => Controller::Custom,
                }
            };
            let found = topmost("shop", &parse(target).unwrap(), look).map(|it| format!("{}/{}", it.kind, it.name));
            assert_eq!(found, wanted.map(str::to_owned).map_err(str::to_owned), "{target}");
        }
    }

    /// `TestLoadVPAs` in upstream's `pkg/recommender/input/cluster_feeder_test.go`.
    #[test]
    fn a_target_that_is_not_the_topmost_is_refused_in_upstreams_words() {
        let set = owner("ReplicaSet", "web-1");
        let owned = |it: &Owner| {
            let above = (it.kind == "ReplicaSet").then(|| owner("Deployment", "web"));
            Controller::Owned(above)
        };
        assert_eq!(
            refuse_target("shop", "apps/v1", &set, owned).as_deref(),
            Some(
                "The target apps/v1.ReplicaSet/web-1 has a parent controller but it should point to a topmost well-known or scalable \
                 controller"
            )
        );
        let above = owner("Deployment", "web");
        assert_eq!(refuse_target("shop", "apps/v1", &above, owned), None);
        let missing =
            |it: &Owner| if *it == set { Controller::Owned(Some(above.clone())) } else { Controller::Missing };
        assert_eq!(
            refuse_target("shop", "apps/v1", &set, missing).as_deref(),
            Some(
                "Error checking if target apps/v1.ReplicaSet/web-1 is a topmost well-known or scalable controller: Deployment shop/web \
                 does not exist"
            )
        );
    }
}
