//! `resourcePolicy`: bounds for the recommendations of single containers.

use pillion_quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resource_list::quantity_schema;
use super::{ResourceList, StartupBoost};

/// The `containerName` of a policy for every container that has none of its own.
pub const ALL_CONTAINERS: &str = "*";

/// Policies by container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourcePolicy {
    /// One policy for each container, and one named `*` for the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub container_policies: Vec<ContainerResourcePolicy>,
}

impl PodResourcePolicy {
    /// The policy of a container: the first with its name, else the last one for all containers.
    pub fn of(&self, container: &str) -> Option<&ContainerResourcePolicy> {
        let policies = &self.container_policies;
        let own = policies.iter().find(|policy| policy.container_name == container);
        own.or_else(|| policies.iter().rev().find(|policy| policy.container_name == ALL_CONTAINERS))
    }
}

/// How the recommendation of one container is computed and bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerResourcePolicy {
    /// Name of the container, or `*` for those without a policy of their own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container_name: String,
    /// Whether the container is sized at all. Default Auto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ContainerScalingMode>,
    /// The least that is recommended. Default: no minimum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_allowed: Option<ResourceList>,
    /// The most that is recommended. Default: no maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_allowed: Option<ResourceList>,
    /// The resources that are sized. Default cpu and memory; an empty list means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controlled_resources: Option<Vec<String>>,
    /// Whether limits are sized in proportion to requests. Default `RequestsAndLimits`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controlled_values: Option<ContainerControlledValues>,
    /// What the memory of a container is multiplied by after it was OOM killed. Needs the feature gate `PerVPAConfig`.
    #[serde(rename = "oomBumpUpRatio", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity_schema")]
    pub oom_bump_up_ratio: Option<Quantity>,
    /// The least that memory grows by after a container was OOM killed. Needs the feature gate `PerVPAConfig`.
    #[serde(rename = "oomMinBumpUp", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity_schema")]
    pub oom_min_bump_up: Option<Quantity>,
    /// Seconds of one interval of which only the peak of memory usage counts. Needs the feature gate `PerVPAConfig`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub memory_aggregation_interval_seconds: Option<i32>,
    /// How many such intervals without a sample make the history expire. Needs the feature gate `PerVPAConfig`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub memory_aggregation_interval_count: Option<i64>,
    /// More CPU while the container starts; replaces the pod's. Needs the feature gate `CPUStartupBoost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_boost: Option<StartupBoost>,
}

impl ContainerResourcePolicy {
    /// Whether the container is left alone.
    pub fn is_off(&self) -> bool {
        self.mode == Some(ContainerScalingMode::Off)
    }

    /// Whether a resource is sized.
    pub fn controls(&self, resource: &str) -> bool {
        match &self.controlled_resources {
            None => matches!(resource, "cpu" | "memory"),
            Some(resources) => resources.iter().any(|name| name == resource),
        }
    }

    /// `minAllowed` and `maxAllowed` of a resource, as far as they can be used. Validation refuses the others, but they may have been stored
    /// before it did: a negative bound counts as absent, and so does a minimum above the maximum.
    pub fn bounds(&self, resource: &str) -> (Option<Quantity>, Option<Quantity>) {
        let of = |list: &Option<ResourceList>| list.as_ref()?.get(resource).filter(|bound| !bound.is_negative());
        let (min, max) = (of(&self.min_allowed), of(&self.max_allowed));
        (min.filter(|min| max.is_none_or(|max| *min <= max)), max)
    }

    /// The bounds that [`ContainerResourcePolicy::bounds`] leaves out, each with its reason.
    pub fn unusable_bounds(&self) -> impl Iterator<Item = String> {
        let listed = |list: &Option<ResourceList>| list.clone().unwrap_or_default();
        let (min, max) = (listed(&self.min_allowed), listed(&self.max_allowed));
        let name = &self.container_name;
        let negative = |field: &'static str, list: &ResourceList| -> Vec<String> {
            let negative = list.iter().filter(|(_, amount)| amount.is_negative());
            negative
                .map(|(resource, amount)| format!("{field} of {resource} for {name:?} is {amount}, which is negative"))
                .collect()
        };
        let mut unusable = negative("minAllowed", &min);
        unusable.extend(negative("maxAllowed", &max));
        for (resource, least) in min.iter() {
            let most = max.get(resource).filter(|most| !most.is_negative() && *most < least);
            unusable.extend(most.map(|most| {
                format!("minAllowed of {resource} for {name:?} is {least}, which is above maxAllowed ({most})")
            }));
        }
        unusable.into_iter()
    }

    /// Whether limits are left alone.
    pub fn requests_only(&self) -> bool {
        self.controlled_values == Some(ContainerControlledValues::RequestsOnly)
    }
}

/// Whether a container is sized.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContainerScalingMode {
    /// It is.
    Auto,
    /// It is left alone.
    Off,
    /// A value that this version does not know; validation rejects it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

/// Which values of a container are set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContainerControlledValues {
    /// Requests, and limits in proportion to them.
    RequestsAndLimits,
    /// Requests.
    RequestsOnly,
    /// A value that this version does not know; validation rejects it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, mode: ContainerScalingMode) -> ContainerResourcePolicy {
        ContainerResourcePolicy { container_name: name.to_owned(), mode: Some(mode), ..Default::default() }
    }

    /// `TestGetContainerResourcePolicy` in upstream's `pkg/utils/vpa/api_test.go`, and what happens with duplicates.
    #[test]
    fn the_first_policy_with_the_name_wins_and_else_the_last_wildcard() {
        use ContainerScalingMode::{Auto, Off};
        let policies = PodResourcePolicy {
            container_policies: vec![policy("*", Auto), policy("app", Auto), policy("app", Off), policy("*", Off)],
        };
        assert_eq!(policies.of("app").unwrap().mode, Some(Auto));
        assert_eq!(policies.of("other").unwrap().mode, Some(Off));
        assert_eq!(PodResourcePolicy::default().of("app"), None);
    }

    #[test]
    fn bounds_that_validation_refuses_are_left_out_with_a_reason() {
        let list =
            |cpu: &str| -> Option<ResourceList> { serde_json::from_value(serde_json::json!({"cpu": cpu})).unwrap() };
        let of = |min: &str, max: &str| {
            let policy = ContainerResourcePolicy {
                container_name: "app".to_owned(),
                min_allowed: list(min),
                max_allowed: list(max),
                ..Default::default()
            };
            let shown = |bound: Option<Quantity>| bound.map_or_else(|| "-".to_owned(), |bound| bound.to_string());
            let (least, most) = policy.bounds("cpu");
            (shown(least), shown(most), policy.unusable_bounds().collect::<Vec<_>>().join("; "))
        };
        let words = |least: &str, most: &str, why: &str| (least.to_owned(), most.to_owned(), why.to_owned());
        assert_eq!(of("1", "2"), words("1", "2", ""));
        assert_eq!(of("0", "0"), words("0", "0", ""));
        assert_eq!(of("1", "-1"), words("1", "-", "maxAllowed of cpu for \"app\" is -1, which is negative"));
        assert_eq!(of("-1m", "2"), words("-", "2", "minAllowed of cpu for \"app\" is -1m, which is negative"));
        let crossed = "minAllowed of cpu for \"app\" is 3, which is above maxAllowed (2)";
        assert_eq!(of("3", "2"), words("-", "2", crossed));
    }

    #[test]
    fn an_empty_list_of_controlled_resources_controls_nothing() {
        let mut it = policy("app", ContainerScalingMode::Auto);
        assert!(it.controls("cpu") && it.controls("memory") && !it.controls("nvidia.com/gpu"));
        it.controlled_resources = Some(Vec::new());
        assert!(!it.controls("cpu") && !it.controls("memory"));
    }
}
