//! What a VerticalPodAutoscaler may say, with upstream's messages.
//!
//! A field whose gate is off may not be newly set; an object that used the feature before keeps it.

use pillion_quantity::{Quantity, Scale};
use serde_json::Value;

use super::{
    ContainerControlledValues, ContainerResourcePolicy, ContainerScalingMode, EvictionChangeRequirement, Gates,
    PodUpdatePolicy, ResourceList, StartupBoost, StartupBoostType, UpdateMode, VerticalPodAutoscaler,
};
use crate::field::{Error, Path};

const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// What validation found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// Why the object is rejected.
    pub errors: Vec<Error>,
    /// What the user should know all the same.
    pub warnings: Vec<String>,
}

/// Validates an object that is created, or updated from `old`.
pub fn validate(autoscaler: &VerticalPodAutoscaler, old: Option<&VerticalPodAutoscaler>, gates: Gates) -> Validation {
    let allowed = Allowed::new(old, gates);
    let mut found = Validation::default();
    let path = Path::new("spec");
    let spec = &autoscaler.spec;
    if spec.target_ref.is_none() && old.is_none() {
        let detail = "If you're using v1beta1 version of the API, please migrate to v1";
        found.errors.push(Error::required(&path.child("targetRef"), detail));
    }
    if let Some(policy) = &spec.update_policy {
        update_policy(policy, &path.child("updatePolicy"), &allowed, &mut found);
    }
    let policies = spec.resource_policy.iter().flat_map(|policy| &policy.container_policies);
    for (i, policy) in policies.enumerate() {
        let path = path.child("resourcePolicy").child("containerPolicies").index(i);
        container_policy(policy, &path, &allowed, &mut found);
    }
    if let Some(boost) = &spec.startup_boost {
        startup_boost(boost, &path.child("startupBoost"), &allowed, &mut found);
    }
    if spec.recommenders.len() > 1 {
        found.errors.push(Error::too_many(&path.child("recommenders"), spec.recommenders.len(), 1));
    }
    found
}

/// What the gates allow, or the old object already uses.
struct Allowed<'a> {
    cpu_startup_boost: bool,
    per_vpa_config: bool,
    in_place: bool,
    old: Option<&'a VerticalPodAutoscaler>,
}

impl<'a> Allowed<'a> {
    fn new(old: Option<&'a VerticalPodAutoscaler>, gates: Gates) -> Self {
        let spec = old.map(|old| &old.spec);
        let policies = || old_policies(old);
        let update_policy = spec.and_then(|spec| spec.update_policy.as_ref());
        let boosted = spec.is_some_and(|spec| spec.startup_boost.as_ref().is_some_and(|boost| boost.cpu.is_some()))
            || policies().any(|policy| policy.startup_boost.is_some());
        let configured = update_policy.is_some_and(|policy| policy.evict_after_oom_seconds.is_some())
            || policies().any(|policy| {
                policy.oom_bump_up_ratio.is_some()
                    || policy.oom_min_bump_up.is_some()
                    || policy.memory_aggregation_interval_seconds.is_some()
                    || policy.memory_aggregation_interval_count.is_some()
            });
        let in_place = update_policy.is_some_and(|policy| policy.update_mode == Some(UpdateMode::InPlace));
        Allowed {
            cpu_startup_boost: gates.cpu_startup_boost || boosted,
            per_vpa_config: gates.per_vpa_config || configured,
            in_place: gates.in_place || in_place,
            old,
        }
    }

    /// Whether the old object has the same bound of a resource for the same container.
    fn bounded_before(&self, container: &str, bound: Bound, resource: &str, amount: Quantity) -> bool {
        old_policies(self.old).any(|old| old.container_name == container && bound.of(old, resource) == Some(amount))
    }

    /// Whether the old object has a boost by the same amount.
    fn boosted_before(&self, quantity: Quantity) -> bool {
        let of_pod = self.old.into_iter().filter_map(|old| old.spec.startup_boost.as_ref());
        let mut boosts = of_pod.chain(old_policies(self.old).filter_map(|policy| policy.startup_boost.as_ref()));
        boosts.any(|boost| boost.cpu.as_ref().is_some_and(|cpu| cpu.quantity == Some(quantity)))
    }

    fn controlled_before(&self, resource: &str) -> bool {
        old_policies(self.old).any(|policy| policy.controlled_resources.iter().flatten().any(|name| name == resource))
    }
}

fn old_policies(old: Option<&VerticalPodAutoscaler>) -> impl Iterator<Item = &ContainerResourcePolicy> {
    old.into_iter().flat_map(|old| &old.spec.resource_policy).flat_map(|policy| &policy.container_policies)
}

fn update_policy(policy: &PodUpdatePolicy, path: &Path, allowed: &Allowed<'_>, found: &mut Validation) {
    let mode_path = path.child("updateMode");
    match &policy.update_mode {
        None => {
            found.errors.push(Error::required(&mode_path, "updateMode is required if UpdatePolicy is used"));
        }
        Some(UpdateMode::Unknown(mode)) => {
            found.errors.push(Error::not_supported(&mode_path, mode.as_str(), &UpdateMode::SUPPORTED));
        }
        Some(UpdateMode::Auto) => found.warnings.push(format!(
            "{path}: \"Auto\" mode is deprecated and will be removed in a future API version. Use explicit update modes \
             like: [{}]. See https://github.com/kubernetes/autoscaler/issues/8424 for more details.",
            UpdateMode::SUPPORTED.join(" ")
        )),
        Some(UpdateMode::InPlace) if !allowed.in_place => {
            let detail =
                "in order to use UpdateMode InPlace, you must enable feature gate InPlace in the admission-controller args";
            found.errors.push(Error::forbidden(&mode_path, detail));
        }
        Some(_) => {}
    }
    if let Some(replicas) = policy.min_replicas.filter(|replicas| *replicas <= 0) {
        found.errors.push(Error::invalid(&path.child("minReplicas"), replicas, "minReplicas has to be positive"));
    }
    for (i, requirement) in policy.eviction_requirements.iter().enumerate() {
        if let EvictionChangeRequirement::Unknown(change) = &requirement.change_requirement {
            let path = path.child("evictionRequirements").index(i).child("changeRequirement");
            let supported = ["TargetHigherThanRequests", "TargetLowerThanRequests"];
            found.errors.push(Error::not_supported(&path, change.as_str(), &supported));
        }
    }
    if let Some(seconds) = policy.evict_after_oom_seconds {
        let path = path.child("evictAfterOOMSeconds");
        per_vpa(&path, allowed, &mut found.errors, || at_least_one(&path, seconds.into()));
    }
}

fn container_policy(policy: &ContainerResourcePolicy, path: &Path, allowed: &Allowed<'_>, found: &mut Validation) {
    let errors = &mut found.errors;
    if policy.container_name.is_empty() {
        errors.push(Error::required(&path.child("containerName"), ""));
    }
    if let Some(ContainerScalingMode::Unknown(mode)) = &policy.mode {
        errors.push(Error::not_supported(&path.child("mode"), mode.as_str(), &["Auto", "Off"]));
    }
    bounds(policy, path, allowed, found);
    let errors = &mut found.errors;
    let values_path = path.child("controlledValues");
    match &policy.controlled_values {
        Some(ContainerControlledValues::Unknown(values)) => {
            let supported = ["RequestsAndLimits", "RequestsOnly"];
            errors.push(Error::not_supported(&values_path, values.as_str(), &supported));
        }
        Some(ContainerControlledValues::RequestsAndLimits) if policy.is_off() => {
            let detail = "controlledValues shouldn't be specified if container scaling mode is off";
            errors.push(Error::forbidden(&values_path, detail));
        }
        _ => {}
    }
    for (i, resource) in policy.controlled_resources.iter().flatten().enumerate() {
        let path = path.child("controlledResources").index(i);
        match resource.as_str() {
            "cpu" | "memory" => {}
            resource if allowed.controlled_before(resource) => found.warnings.push(format!(
                "{path}: unsupported value {resource:?} is allowed only because it is present in the existing VPA object; \
                 supported values: \"cpu\", \"memory\""
            )),
            resource => errors.push(Error::not_supported(&path, resource, &["cpu", "memory"])),
        }
    }
    if let Some(ratio) = policy.oom_bump_up_ratio {
        let path = path.child("oomBumpUpRatio");
        per_vpa(&path, allowed, errors, || {
            let is_less = ratio.milli_value() < 1000;
            is_less.then(|| Error::invalid(&path, shown_ratio(ratio), "must be greater than or equal to 1.0"))
        });
    }
    if let Some(bytes) = policy.oom_min_bump_up {
        let path = path.child("oomMinBumpUp");
        per_vpa(&path, allowed, errors, || {
            let shown = i64::try_from(bytes.value()).unwrap_or(i64::MIN);
            bytes.is_negative().then(|| Error::invalid(&path, shown, NOT_NEGATIVE))
        });
    }
    if let Some(seconds) = policy.memory_aggregation_interval_seconds {
        let path = path.child("memoryAggregationIntervalSeconds");
        per_vpa(&path, allowed, errors, || at_least_one(&path, seconds.into()));
    }
    if let Some(count) = policy.memory_aggregation_interval_count {
        let path = path.child("memoryAggregationIntervalCount");
        per_vpa(&path, allowed, errors, || at_least_one(&path, count));
    }
    if let Some(boost) = &policy.startup_boost {
        startup_boost(boost, &path.child("startupBoost"), allowed, found);
    }
}

/// One of the two bounds of a resource.
#[derive(Clone, Copy)]
enum Bound {
    Min,
    Max,
}

impl Bound {
    fn field(self) -> &'static str {
        match self {
            Bound::Min => "minAllowed",
            Bound::Max => "maxAllowed",
        }
    }

    fn all(self, policy: &ContainerResourcePolicy) -> Option<&ResourceList> {
        match self {
            Bound::Min => policy.min_allowed.as_ref(),
            Bound::Max => policy.max_allowed.as_ref(),
        }
    }

    fn of(self, policy: &ContainerResourcePolicy, resource: &str) -> Option<Quantity> {
        self.all(policy)?.get(resource)
    }
}

/// A negative bound is refused, because the API server would refuse pods that request it, and so is a maximum below its minimum. An object
/// that was stored with one can still be updated, so that other fields can be changed and finalizers removed.
fn bounds(policy: &ContainerResourcePolicy, path: &Path, allowed: &Allowed<'_>, found: &mut Validation) {
    let was_there =
        |bound, resource: &str, amount| allowed.bounded_before(&policy.container_name, bound, resource, amount);
    for bound in [Bound::Min, Bound::Max] {
        for (resource, amount) in bound.all(policy).into_iter().flat_map(ResourceList::iter) {
            let path = path.child(bound.field()).key(resource);
            resolution(resource, amount, &path, &mut found.errors);
            if !amount.is_negative() {
                continue;
            }
            if was_there(bound, resource, amount) {
                found.warnings.push(format!("{path}: {amount} is negative, and is ignored"));
            } else {
                found.errors.push(Error::invalid(&path, amount.to_string(), NOT_NEGATIVE));
            }
        }
    }
    for (resource, least) in policy.min_allowed.iter().flat_map(ResourceList::iter) {
        let Some(most) = Bound::Max.of(policy, resource).filter(|most| !most.is_negative() && *most < least) else {
            continue;
        };
        let path = path.child("maxAllowed").key(resource);
        let detail = format!("max resource for {resource} is lower than min of \"{least}\"");
        if was_there(Bound::Min, resource, least) && was_there(Bound::Max, resource, most) {
            found.warnings.push(format!("{path}: {detail}, which is ignored"));
        } else {
            found.errors.push(Error::invalid(&path, most.to_string(), detail));
        }
    }
}

fn startup_boost(boost: &StartupBoost, path: &Path, allowed: &Allowed<'_>, found: &mut Validation) {
    let errors = &mut found.errors;
    if !allowed.cpu_startup_boost {
        let detail = "in order to use startupBoost, you must enable feature gate CPUStartupBoost in the admission-controller args";
        errors.push(Error::forbidden(path, detail));
        return;
    }
    let Some(cpu) = &boost.cpu else { return };
    let path = path.child("cpu");
    match &cpu.boost_type {
        Some(StartupBoostType::Factor) => match cpu.factor {
            None => errors.push(Error::required(&path.child("factor"), "required when type is Factor")),
            Some(factor) if factor < 1 => {
                errors.push(Error::invalid(&path.child("factor"), factor, "must be >= 1 for type Factor"));
            }
            Some(_) => {}
        },
        Some(StartupBoostType::Quantity) => match cpu.quantity {
            None => errors.push(Error::required(&path.child("quantity"), "required when type is Quantity")),
            Some(quantity) => {
                let path = path.child("quantity");
                resolution("cpu", quantity, &path, errors);
                if quantity.is_negative() && allowed.boosted_before(quantity) {
                    found.warnings.push(format!("{path}: {quantity} is negative, and is ignored"));
                } else if quantity.is_negative() {
                    errors.push(Error::invalid(&path, quantity.to_string(), NOT_NEGATIVE));
                }
            }
        },
        Some(StartupBoostType::Unknown(name)) if !name.is_empty() => {
            errors.push(Error::not_supported(&path.child("type"), name.as_str(), &["Factor", "Quantity"]));
        }
        Some(StartupBoostType::Unknown(_)) | None => {
            errors.push(Error::required(&path.child("type"), "must be either Factor or Quantity"));
        }
    }
}

/// CPU is counted in thousandths and memory in bytes; finer amounts would be rounded silently.
fn resolution(resource: &str, amount: Quantity, path: &Path, errors: &mut Vec<Error>) {
    let (scale, detail) = match resource {
        "cpu" => (Scale::Milli, "must be a whole number of milli CPUs"),
        "memory" => (Scale::One, "must be a whole number of bytes"),
        _ => return,
    };
    if amount.round_up(scale) != amount {
        errors.push(Error::invalid(path, amount.to_string(), detail));
    }
}

/// A field that overrides a flag of the components.
fn per_vpa(path: &Path, allowed: &Allowed<'_>, errors: &mut Vec<Error>, check: impl FnOnce() -> Option<Error>) {
    if allowed.per_vpa_config {
        errors.extend(check());
    } else {
        errors.push(Error::forbidden(path, "not supported when feature flag PerVPAConfig is disabled"));
    }
}

fn at_least_one(path: &Path, value: i64) -> Option<Error> {
    (value < 1).then(|| Error::invalid(path, value, "must be greater than or equal to 1"))
}

/// As Go shows a float: whole numbers without a fraction.
fn shown_ratio(ratio: Quantity) -> Value {
    let milli = i64::try_from(ratio.milli_value()).unwrap_or(i64::MIN);
    #[expect(clippy::cast_precision_loss, reason = "only shown")]
    let float = milli as f64 / 1000.0;
    if milli % 1000 == 0 { (milli / 1000).into() } else { float.into() }
}

#[cfg(test)]
mod tests;
