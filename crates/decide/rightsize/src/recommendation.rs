//! Recommendations for the containers of one workload.

use pillion_api::vpa::{ContainerResourcePolicy, RecommendedContainerResources, RecommendedPodResources, ResourceList};
use pillion_expr::Resource;
use pillion_quantity::{Format, Quantity};

use crate::aggregate::Aggregate;
use crate::amount::{RESOURCES, quantity, round_up};
use crate::estimate::{Bound, Derivation, EstimatorSettings, estimate};
use crate::pod::ContainerKind;

/// A container of a workload, and its history.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub name: &'a str,
    /// Whether it is a regular container or a native sidecar.
    pub kind: ContainerKind,
    /// Its history.
    pub aggregate: &'a Aggregate,
    pub policy: Option<&'a ContainerResourcePolicy>,
}

impl Candidate<'_> {
    fn is_off(&self) -> bool {
        self.policy.is_some_and(ContainerResourcePolicy::is_off)
    }

    fn controls(&self, resource: Resource) -> bool {
        self.policy.is_none_or(|policy| policy.controls(resource.name()))
    }
}

/// What is recommended for one container, and how it was computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Name of the container.
    pub container: String,
    /// One derivation for each resource that is controlled and known, and each bound.
    pub derivations: Vec<Derivation>,
}

/// Computes recommendations, sorted by name.
///
/// A resource of which there is no sample at all is left out; so is a container with no such resource. Recommending the
/// minimum for it would shrink a pod that is only not measured yet.
pub fn recommend(candidates: &[Candidate<'_>], settings: &EstimatorSettings) -> Vec<Estimate> {
    let sized = || candidates.iter().filter(|candidate| !candidate.is_off());
    let regular = sized().filter(|candidate| candidate.kind == ContainerKind::Regular).count();
    let all = sized().count();
    let mut estimates: Vec<Estimate> = sized()
        .filter_map(|candidate| {
            // Native sidecars do not take from the minimum of the containers that were there before the gate was switched on.
            let sharing = if candidate.kind == ContainerKind::Regular { regular } else { all };
            let known = RESOURCES
                .into_iter()
                .filter(|resource| candidate.controls(*resource) && !candidate.aggregate.is_empty(*resource));
            let derivations: Vec<Derivation> = known
                .flat_map(|resource| {
                    let minimum = settings.minimum(resource, sharing);
                    Bound::ALL.map(|bound| estimate(candidate.aggregate, resource, bound, settings, minimum))
                })
                .collect();
            let container = candidate.name.to_owned();
            (!derivations.is_empty()).then_some(Estimate { container, derivations })
        })
        .collect();
    estimates.sort_by(|a, b| a.container.cmp(&b.container));
    estimates
}

/// How amounts are written into the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecommendationFormat {
    /// `--round-cpu-millicores`: amounts of CPU are rounded up to a multiple of this.
    pub round_millicores: i64,
    /// `--round-memory-bytes`: amounts of memory are rounded up to a multiple of this.
    pub round_bytes: i64,
    /// `--humanize-memory`, deprecated: amounts of memory are rounded to two decimals of their largest unit.
    pub humanize_memory: bool,
}

impl Default for RecommendationFormat {
    fn default() -> Self {
        RecommendationFormat { round_millicores: 1, round_bytes: 1, humanize_memory: false }
    }
}

impl RecommendationFormat {
    /// The recommendation as the status shows it, before it is capped.
    pub fn apply(&self, estimates: &[Estimate]) -> RecommendedPodResources {
        let container_recommendations = estimates.iter().map(|estimate| self.container(estimate)).collect();
        RecommendedPodResources { container_recommendations }
    }

    fn container(&self, estimate: &Estimate) -> RecommendedContainerResources {
        let list = |bound| -> ResourceList {
            let amounts = estimate.derivations.iter().filter(|derivation| derivation.bound == bound);
            amounts.map(|it| (it.resource.name().to_owned(), self.quantity(it.resource, it.amount))).collect()
        };
        let target = list(Bound::Target);
        RecommendedContainerResources {
            container_name: estimate.container.clone(),
            lower_bound: Some(list(Bound::Lower)),
            upper_bound: Some(list(Bound::Upper)),
            uncapped_target: Some(target.clone()),
            target,
        }
    }

    fn quantity(&self, resource: Resource, amount: i64) -> Quantity {
        match resource {
            Resource::Cpu => quantity(resource, round_up(amount, self.round_millicores)),
            Resource::Memory => {
                let amount = round_up(amount, self.round_bytes);
                if self.humanize_memory { humanize(amount) } else { quantity(resource, amount) }
            }
        }
    }
}

/// Two decimals of the largest binary unit up to Ti, as the text of that quantity is parsed: a fraction of a byte stays.
fn humanize(bytes: i64) -> Quantity {
    let power = (63 - bytes.max(1).leading_zeros()) / 10;
    if power == 0 {
        return quantity(Resource::Memory, bytes);
    }
    let unit = 1_i128 << (10 * power.min(4));
    let (hundredths, rest) = ((i128::from(bytes) * 100) / unit, (i128::from(bytes) * 100) % unit);
    // Upstream formats with `%.2f`: a half is rounded to the even digit.
    let is_up = rest * 2 > unit || (rest * 2 == unit && hundredths % 2 == 1);
    let hundredths = hundredths + i128::from(is_up);
    Quantity::from_nanos(hundredths * unit * 10_000_000, Format::BinarySi)
}

#[cfg(test)]
mod tests {
    //! The tables of upstream's `pkg/recommender/logic/recommender_test.go` and `pkg/recommender/model/types_test.go`.

    use jiff::Timestamp;
    use pillion_api::vpa::ContainerScalingMode;

    use super::*;
    use crate::settings::SampleSettings;

    fn small() -> Aggregate {
        let mut aggregate = Aggregate::new(&SampleSettings::default(), Timestamp::UNIX_EPOCH);
        aggregate.add_cpu(1, Timestamp::UNIX_EPOCH.into());
        aggregate.add_peak(1, Timestamp::UNIX_EPOCH.into(), Timestamp::UNIX_EPOCH.into());
        aggregate
    }

    fn candidate<'a>(name: &'a str, aggregate: &'a Aggregate) -> Candidate<'a> {
        Candidate { name, kind: ContainerKind::Regular, aggregate, policy: None }
    }

    fn targets(candidates: &[Candidate<'_>]) -> Vec<String> {
        let recommended = RecommendationFormat::default().apply(&recommend(candidates, &EstimatorSettings::default()));
        let shown = |it: &RecommendedContainerResources| {
            let amounts: Vec<String> = it.target.iter().map(|(_, amount)| amount.to_string()).collect();
            format!("{} {}", it.container_name, amounts.join(" "))
        };
        recommended.container_recommendations.iter().map(shown).collect()
    }

    #[test]
    fn the_minimum_of_a_pod_is_split_over_its_containers() {
        let small = small();
        assert_eq!(targets(&[candidate("a", &small)]), ["a 25m 250Mi"]);
        assert_eq!(targets(&[candidate("b", &small), candidate("a", &small)]), ["a 12m 125Mi", "b 12m 125Mi"]);
    }

    /// The first bucket of memory ends at 10 MB and that of CPU at 10m: what is shown above is the minimum.
    #[test]
    fn native_sidecars_do_not_change_the_minimum_of_the_others() {
        let small = small();
        let sidecar = Candidate { kind: ContainerKind::NativeSidecar, ..candidate("mesh", &small) };
        assert_eq!(targets(&[candidate("app", &small), sidecar]), ["app 25m 250Mi", "mesh 12m 125Mi"]);
    }

    #[test]
    fn only_controlled_resources_of_containers_that_are_not_off_are_recommended() {
        let small = small();
        let memory =
            ContainerResourcePolicy { controlled_resources: Some(vec!["memory".into()]), ..Default::default() };
        let none = ContainerResourcePolicy { controlled_resources: Some(vec![]), ..Default::default() };
        let off = ContainerResourcePolicy { mode: Some(ContainerScalingMode::Off), ..Default::default() };
        let with = |name, policy| Candidate { policy: Some(policy), ..candidate(name, &small) };
        let estimates = targets(&[with("memory", &memory), with("off", &off)]);
        assert_eq!(estimates, ["memory 250Mi"]);
        assert!(targets(&[with("none", &none)]).is_empty());
    }

    /// Upstream recommends the minimum, with an upper bound that is the minimum as well.
    #[test]
    fn a_container_that_was_never_measured_gets_no_recommendation() {
        let unknown = Aggregate::new(&SampleSettings::default(), Timestamp::UNIX_EPOCH);
        assert!(targets(&[candidate("a", &unknown)]).is_empty());
        let small = small();
        // It still has its share of the minimum: the other does not shrink when its first sample comes.
        assert_eq!(targets(&[candidate("a", &unknown), candidate("b", &small)]), ["b 12m 125Mi"]);
    }

    #[test]
    fn a_container_known_only_from_an_oom_kill_gets_memory() {
        let mut it = Aggregate::new(&SampleSettings::default(), Timestamp::UNIX_EPOCH);
        it.add_peak(1 << 30, Timestamp::UNIX_EPOCH.into(), Timestamp::UNIX_EPOCH.into());
        let recommended = RecommendationFormat::default()
            .apply(&recommend(&[candidate("a", &it)], &EstimatorSettings::default()))
            .container_recommendations;
        assert_eq!(recommended[0].target.get("cpu"), None);
        assert!(recommended[0].target.get("memory").unwrap() > "1Gi".parse().unwrap());
        assert_eq!(recommended[0].upper_bound.as_ref().unwrap().get("memory").unwrap().value(), 100_000_000_000_000);
    }

    /// `TestHumanizeMemoryQuantity`, and halves of a hundredth.
    #[test]
    fn memory_is_humanised_to_two_decimals() {
        for (bytes, shown) in [
            (1024, "1.00Ki"),
            (1 << 20, "1.00Mi"),
            (1 << 30, "1.00Gi"),
            (1 << 40, "1.00Ti"),
            (1 << 50, "1024.00Ti"),
            (256 << 20, "256.00Mi"),
            (3 << 29, "1.50Gi"),
            (1537, "1.50Ki"),
            (1_050_000, "1.00Mi"),
            (839_500_000, "800.61Mi"),
            (4_992_073_454, "4.65Gi"),
            (6_499_152_537, "6.05Gi"),
            (16_357_476_492, "15.23Gi"),
            (4_022_251_530, "3.75Gi"),
            (13_580_968_030, "12.65Gi"),
            (15_530_468_536, "14.46Gi"),
            (1152, "1.12Ki"),
            (1408, "1.38Ki"),
            (1000, "1000"),
            (0, "0"),
        ] {
            assert_eq!(humanize(bytes), shown.parse().unwrap(), "{bytes}");
        }
    }

    /// `TestResourcesAsResourceList`: millicores, bytes, whether memory is humanised, both roundings, and what is shown.
    #[test]
    fn amounts_are_shown_as_the_flags_say() {
        for (cpu, memory, humanize_memory, round_millicores, round_bytes, shown) in [
            (1000, 1024, false, 1, 1, ("1", "1Ki")),
            (1000, 262_144_000, true, 1, 1, ("1", "250Mi")),
            (1000, 262_144_000, true, 1, 268_435_456, ("1", "256Mi")),
            (1000, 839_500_000, true, 3, 1, ("1002m", "800.61Mi")),
            (0, 0, false, 2, 1, ("0", "0")),
            (1_231_241, 839_500_000, false, 13, 1, ("1231243m", "839500000")),
            (1_231_241, 839_500_000, false, 13, 134_217_728, ("1231243m", "896Mi")),
            (100, 100, false, 0, -5, ("100m", "100")),
        ] {
            let format = RecommendationFormat { round_millicores, round_bytes, humanize_memory };
            let of = (format.quantity(Resource::Cpu, cpu), format.quantity(Resource::Memory, memory));
            assert_eq!(of, (shown.0.parse().unwrap(), shown.1.parse().unwrap()), "{cpu} {memory}");
        }
        // As Kubernetes prints a fraction of a byte.
        let format = RecommendationFormat { humanize_memory: true, ..RecommendationFormat::default() };
        assert_eq!(format.quantity(Resource::Memory, 839_500_000).to_string(), "839500431360m");
    }

    #[test]
    fn amounts_are_rounded_up_as_the_flags_say() {
        let small = small();
        let format = RecommendationFormat { round_millicores: 10, round_bytes: 268_435_456, humanize_memory: true };
        let recommended = format.apply(&recommend(&[candidate("a", &small)], &EstimatorSettings::default()));
        let target = &recommended.container_recommendations[0].target;
        assert_eq!(
            (target.get("cpu").unwrap().to_string(), target.get("memory").unwrap().to_string()),
            ("30m".into(), "256Mi".into())
        );
    }
}
