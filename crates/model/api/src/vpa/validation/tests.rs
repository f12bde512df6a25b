//! The tables of `TestValidateVPA`, `TestAllowCPUBoost`, `TestAllowPerVPAConfig` and `TestVeryInvalidateVPA` in upstream's
//! `pkg/admission-controller/resource/vpa/validation_test.go`.

use serde_json::json;

use super::super::decode;
use super::*;

const ALL: Gates = Gates::ALL;

fn autoscaler(mut spec: Value) -> VerticalPodAutoscaler {
    if spec.get("targetRef").is_none() {
        spec["targetRef"] = json!({"kind": "Deployment", "name": "my-app"});
    }
    decode(json!({"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "spec": spec})).unwrap()
}

fn with_policy(mut policy: Value) -> Value {
    if policy.get("containerName").is_none() {
        policy["containerName"] = json!("loot box");
    }
    json!({"resourcePolicy": {"containerPolicies": [policy]}})
}

fn errors(spec: Value, gates: Gates) -> Vec<String> {
    validate(&autoscaler(spec), None, gates).errors.iter().map(ToString::to_string).collect()
}

fn assert_error(spec: Value, gates: Gates, error: &str) {
    assert_eq!(errors(spec.clone(), gates), [error], "{spec}");
}

#[test]
fn what_is_valid_has_neither_errors_nor_warnings() {
    for spec in [
        json!({"updatePolicy": {"updateMode": "InPlaceOrRecreate"}}),
        json!({"updatePolicy": {"updateMode": "InPlace", "minReplicas": 1}}),
        json!({
            "resourcePolicy": {"containerPolicies": [
                {"containerName": "loot box", "mode": "Auto", "minAllowed": {"cpu": "10"}, "maxAllowed": {"cpu": "100"}}
            ]},
            "updatePolicy": {"updateMode": "Off", "minReplicas": 1}
        }),
        with_policy(json!({"mode": "Off", "controlledValues": "RequestsOnly"})),
        with_policy(json!({"controlledResources": []})),
        with_policy(json!({"oomBumpUpRatio": "2", "oomMinBumpUp": "104857600"})),
        with_policy(json!({"memoryAggregationIntervalSeconds": 86400, "memoryAggregationIntervalCount": 8})),
        json!({"startupBoost": {"cpu": {"type": "Factor", "factor": 2}}}),
        json!({"startupBoost": {"cpu": {"type": "Quantity", "quantity": "100m"}}}),
        json!({"startupBoost": {}}),
        with_policy(json!({"startupBoost": {"cpu": {"type": "Factor", "factor": 2}}})),
    ] {
        assert_eq!(validate(&autoscaler(spec.clone()), None, ALL), Validation::default(), "{spec}");
    }
}

#[test]
fn the_target_is_required_when_the_object_is_created() {
    let without = VerticalPodAutoscaler::default();
    let errors: Vec<String> = validate(&without, None, ALL).errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        ["spec.targetRef: Required value: If you're using v1beta1 version of the API, please migrate to v1"]
    );
    assert_eq!(validate(&without, Some(&without), ALL), Validation::default());
}

#[test]
fn update_policies_are_checked() {
    for (policy, error) in [
        (json!({}), "spec.updatePolicy.updateMode: Required value: updateMode is required if UpdatePolicy is used"),
        (
            json!({"updateMode": "bad"}),
            r#"spec.updatePolicy.updateMode: Unsupported value: "bad": supported values: "InPlace", "InPlaceOrRecreate", "Initial", "Off", "Recreate""#,
        ),
        (
            json!({"updateMode": "Off", "minReplicas": 0}),
            "spec.updatePolicy.minReplicas: Invalid value: 0: minReplicas has to be positive",
        ),
        (
            json!({"updateMode": "Off", "evictAfterOOMSeconds": 0}),
            "spec.updatePolicy.evictAfterOOMSeconds: Invalid value: 0: must be greater than or equal to 1",
        ),
    ] {
        assert_error(json!({"updatePolicy": policy}), ALL, error);
    }
    assert_error(
        json!({"recommenders": [{"name": "test1"}, {"name": "test2"}]}),
        ALL,
        "spec.recommenders: Too many: 2: must have at most 1 item",
    );
}

#[test]
fn auto_is_accepted_with_a_warning() {
    let found = validate(&autoscaler(json!({"updatePolicy": {"updateMode": "Auto"}})), None, ALL);
    assert_eq!(found.errors, []);
    assert_eq!(
        found.warnings,
        [
            "spec.updatePolicy: \"Auto\" mode is deprecated and will be removed in a future API version. Use explicit update \
             modes like: [InPlace InPlaceOrRecreate Initial Off Recreate]. See \
             https://github.com/kubernetes/autoscaler/issues/8424 for more details."
        ]
    );
}

#[test]
fn container_policies_are_checked() {
    const AT: &str = "spec.resourcePolicy.containerPolicies[0]";
    for (policy, error) in [
        (json!({"containerName": ""}), ".containerName: Required value"),
        (json!({"mode": "bad"}), r#".mode: Unsupported value: "bad": supported values: "Auto", "Off""#),
        (
            json!({"minAllowed": {"cpu": "100"}, "maxAllowed": {"cpu": "10"}}),
            r#".maxAllowed[cpu]: Invalid value: "10": max resource for cpu is lower than min of "100""#,
        ),
        (
            json!({"minAllowed": {"cpu": "187500u"}, "maxAllowed": {"cpu": "275m"}}),
            r#".minAllowed[cpu]: Invalid value: "187500u": must be a whole number of milli CPUs"#,
        ),
        (
            json!({"minAllowed": {"cpu": "1m", "memory": "100m"}, "maxAllowed": {"cpu": "275m", "memory": "500M"}}),
            r#".minAllowed[memory]: Invalid value: "100m": must be a whole number of bytes"#,
        ),
        (
            json!({"maxAllowed": {"cpu": "187500u"}}),
            r#".maxAllowed[cpu]: Invalid value: "187500u": must be a whole number of milli CPUs"#,
        ),
        (
            json!({"minAllowed": {"cpu": "1m"}, "maxAllowed": {"cpu": "275m", "memory": "500m"}}),
            r#".maxAllowed[memory]: Invalid value: "500m": must be a whole number of bytes"#,
        ),
        (
            json!({"mode": "Off", "controlledValues": "RequestsAndLimits"}),
            ".controlledValues: Forbidden: controlledValues shouldn't be specified if container scaling mode is off",
        ),
        (
            json!({"controlledResources": ["cpu", "broken"]}),
            r#".controlledResources[1]: Unsupported value: "broken": supported values: "cpu", "memory""#,
        ),
        (json!({"oomBumpUpRatio": "-1"}), ".oomBumpUpRatio: Invalid value: -1: must be greater than or equal to 1.0"),
        (json!({"oomBumpUpRatio": "0.5"}), ".oomBumpUpRatio: Invalid value: 0.5: must be greater than or equal to 1.0"),
        (json!({"oomMinBumpUp": "-1"}), ".oomMinBumpUp: Invalid value: -1: must be greater than or equal to 0"),
        (
            json!({"memoryAggregationIntervalSeconds": -5}),
            ".memoryAggregationIntervalSeconds: Invalid value: -5: must be greater than or equal to 1",
        ),
        (
            json!({"memoryAggregationIntervalCount": 0}),
            ".memoryAggregationIntervalCount: Invalid value: 0: must be greater than or equal to 1",
        ),
    ] {
        assert_error(with_policy(policy), ALL, &format!("{AT}{error}"));
    }
}

#[test]
fn boosts_are_checked_in_both_places() {
    for (boost, error) in [
        (json!({"type": "Factor", "factor": 0}), ".cpu.factor: Invalid value: 0: must be >= 1 for type Factor"),
        (json!({"type": "Factor"}), ".cpu.factor: Required value: required when type is Factor"),
        (
            json!({"type": "Quantity", "quantity": "187500u"}),
            r#".cpu.quantity: Invalid value: "187500u": must be a whole number of milli CPUs"#,
        ),
        (json!({"type": "Quantity"}), ".cpu.quantity: Required value: required when type is Quantity"),
        (json!({"type": "bad"}), r#".cpu.type: Unsupported value: "bad": supported values: "Factor", "Quantity""#),
        (json!({}), ".cpu.type: Required value: must be either Factor or Quantity"),
    ] {
        let boost = json!({"cpu": boost});
        assert_error(json!({"startupBoost": boost}), ALL, &format!("spec.startupBoost{error}"));
        assert_error(
            with_policy(json!({"startupBoost": boost})),
            ALL,
            &format!("spec.resourcePolicy.containerPolicies[0].startupBoost{error}"),
        );
    }
}

#[test]
fn a_field_whose_gate_is_off_is_forbidden_unless_the_old_object_used_the_feature() {
    const PER_VPA: &str = "Forbidden: not supported when feature flag PerVPAConfig is disabled";
    const BOOST: &str = "Forbidden: in order to use startupBoost, you must enable feature gate CPUStartupBoost in the admission-controller args";
    for (spec, path, error) in [
        (
            json!({"updatePolicy": {"updateMode": "Off", "evictAfterOOMSeconds": 600}}),
            "spec.updatePolicy.evictAfterOOMSeconds",
            PER_VPA,
        ),
        (
            with_policy(json!({"oomBumpUpRatio": "2"})),
            "spec.resourcePolicy.containerPolicies[0].oomBumpUpRatio",
            PER_VPA,
        ),
        (with_policy(json!({"oomMinBumpUp": "1"})), "spec.resourcePolicy.containerPolicies[0].oomMinBumpUp", PER_VPA),
        (
            with_policy(json!({"memoryAggregationIntervalSeconds": 1})),
            "spec.resourcePolicy.containerPolicies[0].memoryAggregationIntervalSeconds",
            PER_VPA,
        ),
        (
            with_policy(json!({"memoryAggregationIntervalCount": 1})),
            "spec.resourcePolicy.containerPolicies[0].memoryAggregationIntervalCount",
            PER_VPA,
        ),
        (json!({"startupBoost": {"cpu": {"type": "Factor", "factor": 2}}}), "spec.startupBoost", BOOST),
        (
            with_policy(json!({"startupBoost": {"cpu": {"type": "Factor", "factor": 2}}})),
            "spec.resourcePolicy.containerPolicies[0].startupBoost",
            BOOST,
        ),
        (
            json!({"updatePolicy": {"updateMode": "InPlace"}}),
            "spec.updatePolicy.updateMode",
            "Forbidden: in order to use UpdateMode InPlace, you must enable feature gate InPlace in the admission-controller args",
        ),
    ] {
        assert_error(spec.clone(), Gates::default(), &format!("{path}: {error}"));
        let it = autoscaler(spec.clone());
        assert_eq!(validate(&it, Some(&it), Gates::default()).errors, [], "{spec}");
        let unrelated = autoscaler(json!({"startupBoost": {}}));
        assert_eq!(validate(&it, Some(&unrelated), Gates::default()).errors.len(), 1, "{spec}");
    }
}

#[test]
fn a_controlled_resource_of_the_old_object_stays_with_a_warning() {
    let it = autoscaler(with_policy(json!({"controlledResources": ["cpu", "broken"]})));
    let found = validate(&it, Some(&it), ALL);
    assert_eq!(found.errors, []);
    assert_eq!(
        found.warnings,
        [
            "spec.resourcePolicy.containerPolicies[0].controlledResources[1]: unsupported value \"broken\" is allowed only \
             because it is present in the existing VPA object; supported values: \"cpu\", \"memory\""
        ]
    );
}

/// Upstream accepts them: pods are evicted, and the API server refuses their successors.
#[test]
fn negative_bounds_and_boosts_are_refused_but_do_not_lock_an_object_that_was_stored_with_them() {
    let at = "spec.resourcePolicy.containerPolicies[0]";
    for (field, resource, amount) in
        [("minAllowed", "cpu", "-1"), ("maxAllowed", "cpu", "-1"), ("maxAllowed", "memory", "-1Gi")]
    {
        let spec = with_policy(json!({field: {resource: amount}}));
        let error =
            format!("{at}.{field}[{resource}]: Invalid value: \"{amount}\": must be greater than or equal to 0");
        assert_error(spec.clone(), ALL, &error);
        let stored = autoscaler(spec.clone());
        let mut updated = autoscaler(spec);
        updated.spec.update_policy = Some(PodUpdatePolicy { update_mode: Some(UpdateMode::Off), ..Default::default() });
        let found = validate(&updated, Some(&stored), ALL);
        assert_eq!(found.errors, []);
        assert_eq!(found.warnings, [format!("{at}.{field}[{resource}]: {amount} is negative, and is ignored")]);
        let other = autoscaler(with_policy(json!({field: {resource: "-2"}})));
        assert_eq!(validate(&other, Some(&stored), ALL).errors.len(), 1, "another negative bound is refused");
    }
    assert_eq!(errors(with_policy(json!({"minAllowed": {"cpu": "0"}, "maxAllowed": {"cpu": "0"}})), ALL), [""; 0]);
    let boost = json!({"startupBoost": {"cpu": {"type": "Quantity", "quantity": "-1"}}});
    let error = "spec.startupBoost.cpu.quantity: Invalid value: \"-1\": must be greater than or equal to 0";
    assert_error(boost.clone(), ALL, error);
    let stored = autoscaler(boost.clone());
    assert_eq!(validate(&autoscaler(boost), Some(&stored), ALL).errors, []);
}

#[test]
fn each_bound_that_was_stored_stands_by_itself() {
    let spec = |min: &str, max: &str| with_policy(json!({"minAllowed": {"cpu": min}, "maxAllowed": {"cpu": max}}));
    let rows = [
        // One of two is put right.
        (("-1", "-1"), ("-1", "2"), 0),
        (("-1", "-1"), ("0", "-1"), 0),
        (("-1", "-2"), ("-1", "-2"), 0),
        (("2", "1"), ("2", "1"), 0),
        (("2", "1"), ("3", "1"), 1),
        (("1", "2"), ("-1", "2"), 1),
    ];
    for (before, after, expected) in rows {
        let (stored, updated) = (autoscaler(spec(before.0, before.1)), autoscaler(spec(after.0, after.1)));
        let found = validate(&updated, Some(&stored), ALL);
        assert_eq!(found.errors.len(), expected, "{before:?} {after:?}: {:?}", found.errors);
    }
}

#[test]
fn every_error_is_reported_at_once() {
    let mut it = autoscaler(json!({
        "resourcePolicy": {"containerPolicies": [
            {"containerName": "loot box", "startupBoost": {"cpu": {}}, "controlledResources": ["cpu", "memory", "broken"]}
        ]},
        "startupBoost": {},
        "updatePolicy": {"minReplicas": -1, "updateMode": "bad", "evictAfterOOMSeconds": -1},
        "recommenders": [{"name": "test1"}, {"name": "test2"}]
    }));
    it.spec.target_ref = None;
    let paths: Vec<String> =
        validate(&it, None, Gates::default()).errors.iter().map(|error| error.path.to_string()).collect();
    assert_eq!(
        paths,
        [
            "spec.targetRef",
            "spec.updatePolicy.updateMode",
            "spec.updatePolicy.minReplicas",
            "spec.updatePolicy.evictAfterOOMSeconds",
            "spec.resourcePolicy.containerPolicies[0].controlledResources[2]",
            "spec.resourcePolicy.containerPolicies[0].startupBoost",
            "spec.startupBoost",
            "spec.recommenders",
        ]
    );
}
