//! `resourcesPolicy`: whatever can be known to fail for every pod is refused here, with its column.

use pillion_expr::{Expr, Outcome, Resource};
use serde_json::Value;

use super::refuse_unknown;
use super::role::Role;
use crate::field::{Error, Path};
use crate::sidecarset::{ResourceExpressions, ResourcesExpr, ResourcesPolicy, SidecarContainer};

/// `old` is the policy of the stored container, if the set is updated: an implausible constant in it may stay.
pub(super) fn validate(
    policy: &ResourcesPolicy,
    old: Option<&ResourcesPolicy>,
    container: &SidecarContainer,
    role: Role,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    if role == Role::Init {
        errors.push(Error::forbidden(
            path,
            "resourcesPolicy is only supported for init containers with restartPolicy Always",
        ));
    }
    if has_resources(container) {
        errors.push(Error::forbidden(path, "resourcesPolicy and resources cannot be configured together"));
        return;
    }
    validate_mode(policy, path, errors);
    let regex = path.child("targetContainersNameRegex");
    if policy.target_containers_name_regex.as_deref() == Some("") {
        errors.push(Error::required(&regex, "invalid empty regex"));
    } else if let Err(error) = policy.compile_regex() {
        let detail = format!("invalid regex pattern: {error}");
        errors.push(Error::invalid(&regex, policy.regex(), detail));
    }
    match one_spelling(
        (&policy.resources_expr, path.child("resourcesExpr")),
        (&policy.resource_expr, path.child("resourceExpr")),
        errors,
    ) {
        Some((expressions, path)) => {
            validate_expressions(expressions, old.and_then(ResourcesPolicy::expressions), &path, errors);
        }
        None => errors.push(Error::required(&path.child("resourcesExpr"), NO_EXPRESSION)),
    }
}

const NO_EXPRESSION: &str = "at least one of limits or requests must be configured";

fn has_resources(container: &SidecarContainer) -> bool {
    let has = |list: &str| {
        let list = container.container.get("resources").and_then(|resources| resources.get(list));
        list.and_then(Value::as_object).is_some_and(|list| !list.is_empty())
    };
    has("limits") || has("requests")
}

fn validate_mode(policy: &ResourcesPolicy, path: &Path, errors: &mut Vec<Error>) {
    let canonical = path.child("targetContainersMode");
    let proposal = path.child("targetContainerMode");
    match one_spelling(
        (&policy.target_containers_mode, canonical.clone()),
        (&policy.target_container_mode, proposal),
        errors,
    ) {
        None => errors.push(Error::required(&canonical, "must be sum or max")),
        Some((mode, path)) => refuse_unknown!(errors, path, Some(mode), TargetContainersMode),
    }
}

/// The proposal and Kruise spell two fields differently. Either will do, but not both.
fn one_spelling<'a, T>(
    canonical: (&'a Option<T>, Path),
    proposal: (&'a Option<T>, Path),
    errors: &mut Vec<Error>,
) -> Option<(&'a T, Path)> {
    match (canonical, proposal) {
        ((Some(value), path), (None, _)) | ((None, _), (Some(value), path)) => Some((value, path)),
        ((None, _), (None, _)) => None,
        ((Some(value), path), (Some(_), other)) => {
            errors.push(Error::forbidden(&other, format!("is another spelling of `{path}`: give one of them")));
            Some((value, path))
        }
    }
}

fn validate_expressions(
    expressions: &ResourcesExpr,
    old: Option<&ResourcesExpr>,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let old_limits = old.and_then(|old| old.limits.as_ref());
    let old_requests = old.and_then(|old| old.requests.as_ref());
    let lists = [("limits", &expressions.limits, old_limits), ("requests", &expressions.requests, old_requests)];
    let mut given = false;
    for (name, list, old) in lists {
        let Some(list) = list else { continue };
        given |= validate_list(list, old, &path.child(name), errors);
    }
    if !given {
        errors.push(Error::required(path, NO_EXPRESSION));
    }
}

/// Whether there is an expression in the list at all.
fn validate_list(
    list: &ResourceExpressions,
    old: Option<&ResourceExpressions>,
    path: &Path,
    errors: &mut Vec<Error>,
) -> bool {
    for name in list.other.keys() {
        errors.push(Error::forbidden(&path.child(name), "only cpu and memory have expressions"));
    }
    let mut given = !list.other.is_empty();
    let (old_cpu, old_memory) = old.map_or((None, None), |old| (old.cpu.as_deref(), old.memory.as_deref()));
    for (expression, old, resource) in
        [(&list.cpu, old_cpu, Resource::Cpu), (&list.memory, old_memory, Resource::Memory)]
    {
        // An empty expression is none: Kruise's fields are plain strings.
        let Some(source) = expression.as_deref().filter(|source| !source.is_empty()) else { continue };
        given = true;
        if let Err(detail) = check_expression(source, old == Some(source), resource) {
            errors.push(Error::invalid(&path.child(resource.name()), source, detail));
        }
    }
    given
}

/// An expression that is stored already may have an implausible result: older versions accepted it.
fn check_expression(source: &str, is_stored: bool, resource: Resource) -> Result<(), String> {
    let expression = Expr::parse(source, resource).map_err(|error| match error.help() {
        Some(help) => format!("invalid expression: {error}; {help}"),
        None => format!("invalid expression: {error}"),
    })?;
    // A constant is the same for every pod.
    if let Some(Outcome::Negative(value)) = expression.constant(resource) {
        return Err(format!("the result is always negative: {value}"));
    }
    match expression.implausible(resource) {
        Some(implausible) if !is_stored => Err(format!("not a plausible amount of {resource}: {implausible}")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{container, container_errors, errors, lines, set};
    use super::super::{Context, validate_update};
    use crate::sidecarset::SidecarSet;

    fn policy_errors(policy: &Value) -> String {
        container_errors(json!({"resourcesPolicy": policy}))
    }

    fn expression_errors(list: &str, resource: &str, expression: &str) -> String {
        policy_errors(&json!({"targetContainersMode": "sum", "resourcesExpr": {list: {resource: expression}}}))
    }

    /// The rows of Kruise's `sidecarset_resources_policy_test.go`.
    #[test]
    fn expressions_that_kruise_takes_are_taken() {
        for (resource, expression) in [
            ("cpu", "cpu*50%"),
            ("cpu", "max(cpu*50%, 50m)"),
            ("cpu", "min(cpu*50%, 100m)"),
            ("cpu", "0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)"),
            ("cpu", "max( cpu * 0.5 , 50m )"),
            ("cpu", "max(min(cpu*50%, 100m), 50m)"),
            ("memory", "max(memory*50%, 100Mi)"),
            ("memory", "100Mi"),
        ] {
            for list in ["limits", "requests"] {
                assert_eq!(expression_errors(list, resource, expression), "", "{expression}");
            }
        }
    }

    /// Kruise tries each expression with 1, and so refuses what works for larger pods.
    #[test]
    fn an_expression_that_is_negative_for_small_pods_only_is_taken() {
        for (resource, expression) in [("cpu", "cpu-2"), ("memory", "memory*50%-10Mi")] {
            assert_eq!(expression_errors("limits", resource, expression), "");
        }
    }

    #[test]
    fn an_expression_that_cannot_work_is_refused_with_its_column() {
        let errors = |expressions: &[(&str, &str)]| {
            let of = |(resource, expression): &(&str, &str)| expression_errors("limits", resource, expression);
            expressions.iter().map(of).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(
            errors(&[
                ("cpu", "invalid expression @#$"),
                ("cpu", "max(cpu*50%, 50m"),
                ("cpu", "max(cpu*50%)"),
                ("cpu", "invalidvar * 50%"),
                ("cpu", "cpu +*/ 50%"),
                ("memory", "bad_memory_expr"),
                ("cpu", "memory*50%"),
                ("cpu", "cpu*cpu"),
                ("memory", "100mi"),
                ("cpu", "1-2"),
                ("memory", "10Mi-1Gi"),
            ]),
            @r#"
        spec.containers[0].resourcesPolicy.resourcesExpr.limits.cpu: Invalid value: "invalid expression @#$": invalid expression: column 1: unknown name `invalid`; the variables are `cpu` and `memory`, the functions `max` and `min`
        spec.containers[0].resourcesPolicy.resourcesExpr.limits.cpu: Invalid value: "max(cpu*50%, 50m": invalid expression: column 4: this parenthesis is never closed
        spec.containers[0].resourcesPolicy.resourcesExpr.limits.cpu: Invalid value: "max(cpu*50%)": invalid expression: column 1: `max` takes two or more arguments, not 1
        spec.containers[0].resourcesPolicy.resourcesExpr.limits.cpu: Invalid value: "invalidvar * 50%": invalid expression: column 1: unknown name `invalidvar`; the variables are `cpu` and `memory`, the functions `max` and `min`
        spec.containers[0].resourcesPolicy.resourcesExpr.limits.cpu: Invalid value: "cpu +*/ 50%": invalid expression: column 6: a value is expected here, not `*`; there is no power operator
        spec.containers[0].resourcesPolicy.resourcesExpr.limits.memory: Invalid value: "bad_memory_expr": invalid expression: column 1: unknown name `bad_memory_expr`; the variables are `cpu` and `memory`, the functions `max` and `min`
        spec.containers[0].resourcesPolicy.resourcesExpr.limits.cpu: Invalid value: "memory*50%": invalid expression: column 1: `memory` cannot be used in a cpu expression; the variable of this expression is `cpu`
        spec.containers[0].resourcesPolicy.resourcesExpr.limits.cpu: Invalid value: "cpu*cpu": invalid expression: column 4: two quantities cannot be multiplied; one side must be a number, such as `2` or `50%`
        spec.containers[0].resourcesPolicy.resourcesExpr.limits.memory: Invalid value: "100mi": invalid expression: column 4: unknown unit `mi`; did you mean `100Mi`?
        spec.containers[0].resourcesPolicy.resourcesExpr.limits.cpu: Invalid value: "1-2": the result is always negative: -1
        spec.containers[0].resourcesPolicy.resourcesExpr.limits.memory: Invalid value: "10Mi-1Gi": the result is always negative: -1014Mi
        "#
        );
    }

    #[test]
    fn a_constant_that_no_container_can_work_with_is_refused_with_the_likely_one() {
        insta::assert_snapshot!(expression_errors("limits", "memory", "100m"), @r#"spec.containers[0].resourcesPolicy.resourcesExpr.limits.memory: Invalid value: "100m": not a plausible amount of memory: `m` is a thousandth of a byte; did you mean `100M`?"#);
        insta::assert_snapshot!(expression_errors("requests", "cpu", "100Mi"), @r#"spec.containers[0].resourcesPolicy.resourcesExpr.requests.cpu: Invalid value: "100Mi": not a plausible amount of cpu: `Mi` is a unit of memory; did you mean `100m`?"#);
        assert_eq!(expression_errors("limits", "memory", "memory-512Ki"), "");
    }

    #[test]
    fn an_implausible_constant_that_is_stored_may_stay_until_it_is_changed() {
        let mk = |name: &str, spelling: &str, memory: &str, image: &str| {
            let policy = json!({"targetContainersMode": "sum", spelling: {"limits": {"memory": memory}}});
            let sized = container(json!({"name": name, "image": image, "resourcesPolicy": policy}));
            set("test", json!({"containers": [container(json!({"name": "first"})), sized]}))
        };
        let old = mk("proxy", "resourcesExpr", "100m", "proxy:1");
        let update = |new: &SidecarSet| lines(&validate_update(new, &old, &Context::default()));
        assert_eq!(update(&mk("proxy", "resourcesExpr", "100m", "proxy:2")), "");
        assert_eq!(update(&mk("proxy", "resourceExpr", "100m", "proxy:2")), "", "the other spelling is the same field");
        assert_eq!(update(&mk("proxy", "resourcesExpr", "100M", "proxy:2")), "");
        let mut moved = mk("proxy", "resourcesExpr", "100m", "proxy:2");
        moved.spec.containers.reverse();
        assert_eq!(update(&moved), "", "a container is known by its name");
        for changed in
            [mk("proxy", "resourcesExpr", "200m", "proxy:1"), mk("other", "resourcesExpr", "100m", "proxy:1")]
        {
            let errors = update(&changed);
            assert!(errors.contains("not a plausible amount of memory"), "{errors}");
        }
    }

    #[test]
    fn a_policy_is_for_containers_that_keep_running_and_have_no_resources() {
        let policy = json!({"targetContainersMode": "max", "resourcesExpr": {"requests": {"cpu": "cpu"}}});
        let init = container(json!({"name": "init", "resourcesPolicy": policy}));
        insta::assert_snapshot!(errors(json!({"initContainers": [init]})), @"spec.initContainers[0].resourcesPolicy: Forbidden: resourcesPolicy is only supported for init containers with restartPolicy Always");
        let native = container(json!({"name": "native", "restartPolicy": "Always", "resourcesPolicy": policy}));
        assert_eq!(errors(json!({"initContainers": [native]})), "");
        for resources in [json!({"limits": {"cpu": "1"}}), json!({"requests": {"cpu": 1}})] {
            insta::allow_duplicates! {
                insta::assert_snapshot!(
                    container_errors(json!({"resources": resources, "resourcesPolicy": policy})),
                    @"spec.containers[0].resourcesPolicy: Forbidden: resourcesPolicy and resources cannot be configured together"
                );
            }
        }
        assert_eq!(container_errors(json!({"resources": {}, "resourcesPolicy": policy})), "");
    }

    #[test]
    fn either_spelling_is_good_and_both_are_not() {
        let expressions = json!({"limits": {"cpu": "cpu"}});
        assert_eq!(policy_errors(&json!({"targetContainerMode": "sum", "resourceExpr": expressions})), "");
        assert_eq!(policy_errors(&json!({"targetContainerMode": "max", "resourcesExpr": expressions})), "");
        insta::assert_snapshot!(
            policy_errors(&json!({
                "targetContainerMode": "sum", "targetContainersMode": "sum",
                "resourceExpr": expressions, "resourcesExpr": expressions
            })),
            @"
        spec.containers[0].resourcesPolicy.targetContainerMode: Forbidden: is another spelling of `spec.containers[0].resourcesPolicy.targetContainersMode`: give one of them
        spec.containers[0].resourcesPolicy.resourceExpr: Forbidden: is another spelling of `spec.containers[0].resourcesPolicy.resourcesExpr`: give one of them
        "
        );
        // The path has the user's spelling.
        insta::assert_snapshot!(
            policy_errors(&json!({"targetContainerMode": "avg", "resourceExpr": {"limits": {"cpu": "x"}}})),
            @r#"
        spec.containers[0].resourcesPolicy.targetContainerMode: Unsupported value: "avg": supported values: "sum", "max"
        spec.containers[0].resourcesPolicy.resourceExpr.limits.cpu: Invalid value: "x": invalid expression: column 1: unknown name `x`; the variables are `cpu` and `memory`, the functions `max` and `min`
        "#
        );
    }

    #[test]
    fn a_policy_is_whole() {
        insta::assert_snapshot!(policy_errors(&json!({})), @"
        spec.containers[0].resourcesPolicy.targetContainersMode: Required value: must be sum or max
        spec.containers[0].resourcesPolicy.resourcesExpr: Required value: at least one of limits or requests must be configured
        ");
        insta::assert_snapshot!(
            policy_errors(&json!({"targetContainersMode": "sum", "resourcesExpr": {"limits": {}, "requests": {"cpu": ""}}})),
            @"spec.containers[0].resourcesPolicy.resourcesExpr: Required value: at least one of limits or requests must be configured"
        );
        insta::assert_snapshot!(expression_errors("limits", "ephemeral-storage", "1Gi"), @"spec.containers[0].resourcesPolicy.resourcesExpr.limits.ephemeral-storage: Forbidden: only cpu and memory have expressions");
    }

    #[test]
    fn a_regex_compiles() {
        let regex = |regex: Value| {
            let expressions = json!({"limits": {"cpu": "cpu"}});
            policy_errors(&json!({
                "targetContainersMode": "sum", "targetContainersNameRegex": regex, "resourcesExpr": expressions
            }))
        };
        for pattern in ["^app.*$", "^app{", "[[]", r"\Qapp.\E"] {
            assert_eq!(regex(json!(pattern)), "", "{pattern}");
        }
        assert_eq!(regex(Value::Null), "", "the default is .*");
        insta::assert_snapshot!(regex(json!("")), @"spec.containers[0].resourcesPolicy.targetContainersNameRegex: Required value: invalid empty regex");
        insta::assert_snapshot!(regex(json!("[invalid(regex")), @r#"spec.containers[0].resourcesPolicy.targetContainersNameRegex: Invalid value: "[invalid(regex": invalid regex pattern: error parsing regexp: missing closing ]: `[invalid(regex`"#);
        insta::assert_snapshot!(regex(json!("(a{1000}){1000}")), @r#"spec.containers[0].resourcesPolicy.targetContainersNameRegex: Invalid value: "(a{1000}){1000}": invalid regex pattern: error parsing regexp: invalid repeat count: `{1000}`"#);
    }
}
