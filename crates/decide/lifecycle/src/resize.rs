//! Whether a running container is to be given other resources, and whether it has to be restarted for that.

use k8s_openapi::api::core::v1::ResourceRequirements;

use crate::facts::Attempt;
use crate::resources;
use crate::view::View;

/// What the resources of the spec mean for a running container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resize {
    /// It has them.
    No,
    /// It can be given them as it runs.
    InPlace,
    /// Its `resizePolicy` asks for a restart.
    Restart,
}

pub(crate) fn of(view: &View<'_>, attempt: &Attempt) -> Resize {
    let (Some(spec), Some(given)) = (view.spec, &attempt.resources) else { return Resize::No };
    let wanted = view.resources();
    let mut answer = Resize::No;
    for name in ["cpu", "memory"] {
        if amounts(&wanted, name) == amounts(given, name) {
            continue;
        }
        let policy = spec.resize_policy.iter().flatten().find(|policy| policy.resource_name == name);
        if policy.is_some_and(|policy| policy.restart_policy == "RestartContainer") {
            return Resize::Restart;
        }
        answer = Resize::InPlace;
    }
    answer
}

fn amounts(resources: &ResourceRequirements, name: &str) -> [pillion_quantity::Quantity; 2] {
    [&resources.requests, &resources.limits].map(|list| resources::amount(list.as_ref(), name))
}
