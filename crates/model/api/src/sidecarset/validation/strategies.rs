//! How running pods are updated, and how new ones are injected.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pillion_rules::format::{self, dns_subdomain, label_value};

use super::{Context, Revision, refuse_unknown, selectors};
use crate::field::{Error, Path};
use crate::sidecarset::{
    InjectRevision, InjectRevisionPolicy, InjectStrategy, InjectionStrategy, OnMissing, PriorityStrategy, ScatterTerm,
    ServiceAccount, SidecarSetSpec, UpdateStrategy, UpdateStrategyType,
};

/// `old` is what is stored, if the set is updated.
pub(super) fn validate(
    spec: &SidecarSetSpec,
    old: Option<&SidecarSetSpec>,
    context: &Context<'_>,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    validate_injection(&spec.injection_strategy, context.revisions, &path.child("injectionStrategy"), errors);
    if let Some(short_form) = &spec.inject_strategy {
        let path = path.child("injectStrategy");
        if spec.injection_strategy.revision.is_some() {
            errors.push(Error::forbidden(&path, "may not be given together with `injectionStrategy.revision`"));
        }
        validate_short_form(short_form, context.revisions, &path, errors);
    }
    let old_priority = old.and_then(|old| old.update_strategy.priority_strategy.as_ref());
    validate_update(&spec.update_strategy, old_priority, &path.child("updateStrategy"), errors);
    if let Some(account) = &spec.service_account {
        validate_service_account(account, &path.child("serviceAccount"), errors);
    }
    // It becomes the label of a revision, which could not be created otherwise.
    if let Some(version) = &spec.custom_version {
        format::check(label_value(version), version, &path.child("customVersion"), errors);
    }
}

fn validate_injection(
    strategy: &InjectionStrategy,
    revisions: Option<&[Revision<'_>]>,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    refuse_unknown!(errors, path.child("failurePolicy"), &strategy.failure_policy, FailurePolicy);
    if let Some(repair) = &strategy.repair {
        let path = path.child("repair");
        refuse_unknown!(errors, path.child("policy"), &repair.policy, RepairPolicy);
    }
    if let Some(revision) = &strategy.revision {
        validate_revision(revision, revisions, &path.child("revision"), errors);
    }
}

fn refuse_unknown_policy(policy: Option<&InjectRevisionPolicy>, path: &Path, errors: &mut Vec<Error>) {
    refuse_unknown!(errors, path.child("policy"), policy, InjectRevisionPolicy);
}

fn validate_revision(
    revision: &InjectRevision,
    revisions: Option<&[Revision<'_>]>,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    refuse_unknown_policy(revision.policy.as_ref(), path, errors);
    refuse_unknown!(errors, path.child("onMissing"), &revision.on_missing, OnMissing);
    // A set with this value may be created before its revision, and may outlive it.
    let revisions = revisions.filter(|_| revision.on_missing != Some(OnMissing::Latest));
    match (&revision.revision_name, &revision.custom_version) {
        (None, None) => {
            errors.push(Error::required(path, "revisionName and customVersion cannot be empty simultaneously"));
        }
        (Some(name), _) => must_exist(revisions, |known| known.name == name, name, &path.child("revisionName"), errors),
        (None, Some(version)) => must_exist(
            revisions,
            |known| known.custom_version == Some(version),
            version,
            &path.child("customVersion"),
            errors,
        ),
    }
}

/// `injectStrategy`: one name of one revision, and a policy only where there is a choice.
fn validate_short_form(
    strategy: &InjectStrategy,
    revisions: Option<&[Revision<'_>]>,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    refuse_unknown_policy(strategy.policy.as_ref(), path, errors);
    let (name, at) = match (&strategy.controller_revision, &strategy.revision) {
        (Some(name), None) => (name, path.child("controllerRevision")),
        (None, Some(name)) => (name, path.child("revision")),
        (None, None) => {
            errors.push(Error::required(path, "must specify one of: `controllerRevision` or `revision`"));
            return;
        }
        (Some(_), Some(_)) => {
            errors
                .push(Error::forbidden(&path.child("revision"), "may not be given together with `controllerRevision`"));
            return;
        }
    };
    if strategy.controller_revision.is_some() && strategy.policy.is_some() {
        errors.push(Error::forbidden(
            &path.child("policy"),
            "may only be given with `revision`: `controllerRevision` is for every new pod",
        ));
    }
    must_exist(revisions, |known| known.name == name, name, &at, errors);
}

fn must_exist(
    revisions: Option<&[Revision<'_>]>,
    is_it: impl Fn(&Revision<'_>) -> bool,
    name: &str,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    if name.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    let Some(revisions) = revisions else { return };
    let reason = match revisions.iter().find(|known| is_it(known)).map(|known| known.other_owner) {
        Some(None) => return,
        Some(Some(owner)) => {
            format!("it belongs to SidecarSet {owner:?}, and a set can only pin revisions of its own")
        }
        None => "the set has no such revision".to_owned(),
    };
    errors.push(Error::invalid(path, name, format!("Cannot find specific ControllerRevision, err: {reason}")));
}

/// Whatever the type: a `NotUpdate` set is switched to `RollingUpdate` one day, and its partition counts for injection.
fn validate_update(
    strategy: &UpdateStrategy,
    old_priority: Option<&PriorityStrategy>,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    refuse_unknown!(errors, path.child("type"), &strategy.strategy, UpdateStrategyType);
    // Under `NotUpdate` both together say which new pods get an older revision.
    let rolling = strategy.strategy != Some(UpdateStrategyType::NotUpdate);
    let is_partitioned = strategy.partition.as_ref().is_some_and(|partition| *partition != IntOrString::Int(0));
    if rolling && is_partitioned && strategy.selector.is_some() {
        errors.push(Error::forbidden(&path.child("selector"), "Partition and Selector cannot be used together"));
    }
    if let Some(selector) = &strategy.selector {
        selectors::validate(selector, &path.child("selector"), errors);
    }
    for (count, name) in [(&strategy.partition, "partition"), (&strategy.max_unavailable, "maxUnavailable")] {
        if let Some(IntOrString::String(text)) = count {
            validate_percentage(text, &path.child(name), errors);
        }
    }
    if let Some(priority) = &strategy.priority_strategy {
        validate_priority(priority, old_priority, &path.child("priorityStrategy"), errors);
    }
    validate_scatter(&strategy.scatter_strategy, &path.child("scatterStrategy"), errors);
}

/// More than 100% is allowed, as in Kubernetes.
fn validate_percentage(text: &str, path: &Path, errors: &mut Vec<Error>) {
    let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    if digits.and_then(|digits| digits.parse::<i32>().ok()).is_none() {
        errors.push(Error::invalid(path, text, "must be an integer or percentage (e.g '5%')"));
    }
}

fn validate_priority(
    strategy: &PriorityStrategy,
    old: Option<&PriorityStrategy>,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    if !strategy.weight_priority.is_empty() && !strategy.order_priority.is_empty() {
        errors.push(Error::forbidden(path, "only one of weightPriority and orderPriority can be used"));
    }
    for (i, term) in strategy.weight_priority.iter().enumerate() {
        let path = path.child("weightPriority").index(i);
        let is_stored = old.is_some_and(|old| old.weight_priority.contains(term));
        if !(0..=100).contains(&term.weight) && !is_stored {
            let detail = "weight must be valid number in the range 0-100";
            errors.push(Error::invalid(&path.child("weight"), term.weight, detail));
        }
        selectors::validate(&term.match_selector, &path.child("matchSelector"), errors);
    }
    for (i, term) in strategy.order_priority.iter().enumerate() {
        if term.ordered_key.is_empty() {
            let path = path.child("orderPriority").index(i).child("orderedKey");
            errors.push(Error::required(&path, "order key can not be empty"));
        }
    }
}

fn validate_scatter(terms: &[ScatterTerm], path: &Path, errors: &mut Vec<Error>) {
    let mut seen = BTreeSet::new();
    for (i, term) in terms.iter().enumerate() {
        let (key, value) = (term.key.as_str(), term.value.as_str());
        if key.is_empty() {
            errors.push(Error::required(&path.index(i).child("key"), "key should not be empty"));
        } else if !seen.insert((key, value)) {
            errors.push(Error::invalid(&path.index(i), key, format!("duplicated key={key} value={value}")));
        }
    }
}

fn validate_service_account(account: &ServiceAccount, path: &Path, errors: &mut Vec<Error>) {
    let name = path.child("name");
    if account.name.is_empty() {
        errors.push(Error::required(&name, ""));
    } else {
        format::check(dns_subdomain(&account.name), &account.name, &name, errors);
    }
    refuse_unknown!(errors, path.child("policy"), &account.policy, ServiceAccountPolicy);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{errors, lines, set};
    use super::*;

    #[test]
    fn an_update_strategy_is_checked_whatever_its_type() {
        let strategy = |kind: &str| {
            errors(json!({"updateStrategy": {
                "type": kind,
                "partition": "5",
                "maxUnavailable": -1,
                "progressDeadlineSeconds": 0,
                "scatterStrategy": [{"key": "", "value": "a"}, {"key": "a", "value": "*"}, {"key": "a", "value": "*"}],
                "priorityStrategy": {
                    "orderPriority": [{"orderedKey": "a"}, {"orderedKey": ""}],
                    "weightPriority": [
                        {"weight": 0, "matchSelector": {"matchLabels": {"a": "b"}}}, {"weight": 101, "matchSelector": {}}
                    ],
                },
            }}))
        };
        assert_eq!(strategy("RollingUpdate"), strategy("NotUpdate"));
        insta::assert_snapshot!(strategy("NotUpdate"), @r#"
        spec.updateStrategy.partition: Invalid value: "5": must be an integer or percentage (e.g '5%')
        spec.updateStrategy.priorityStrategy: Forbidden: only one of weightPriority and orderPriority can be used
        spec.updateStrategy.priorityStrategy.weightPriority[1].weight: Invalid value: 101: weight must be valid number in the range 0-100
        spec.updateStrategy.priorityStrategy.weightPriority[1].matchSelector: Invalid value: {}: empty selector is not valid for sidecarset.
        spec.updateStrategy.priorityStrategy.orderPriority[1].orderedKey: Required value: order key can not be empty
        spec.updateStrategy.scatterStrategy[0].key: Required value: key should not be empty
        spec.updateStrategy.scatterStrategy[2]: Invalid value: "a": duplicated key=a value=*
        spec.updateStrategy.maxUnavailable: Invalid value: -1: must be greater than or equal to 0
        spec.updateStrategy.progressDeadlineSeconds: Invalid value: 0: must be greater than or equal to 1
        "#);
        insta::assert_snapshot!(errors(json!({"updateStrategy": {"type": "Rolling"}})), @r#"spec.updateStrategy.type: Unsupported value: "Rolling": supported values: "RollingUpdate", "NotUpdate""#);
    }

    #[test]
    fn a_partition_is_a_number_or_a_percentage() {
        let partition = |partition: Value| errors(json!({"updateStrategy": {"partition": partition}}));
        for good in [json!(0), json!(7), json!("0%"), json!("150%")] {
            assert_eq!(partition(good), "");
        }
        for bad in [json!(-1), json!("5"), json!("12.5%"), json!("-1%"), json!("%"), json!("99999999999%"), json!("")] {
            assert_ne!(partition(bad.clone()), "", "{bad}");
        }
    }

    #[test]
    fn a_rolling_update_has_a_partition_or_a_selector() {
        let both = |kind: &str, partition: Value| {
            let selector = json!({"matchLabels": {"a": "b"}});
            errors(json!({"updateStrategy": {"type": kind, "partition": partition, "selector": selector}}))
        };
        insta::assert_snapshot!(both("RollingUpdate", json!("0%")), @"spec.updateStrategy.selector: Forbidden: Partition and Selector cannot be used together");
        assert_eq!(both("RollingUpdate", json!(0)), "");
        assert_eq!(both("NotUpdate", json!("50%")), "", "both say which new pods get an older revision");
        insta::assert_snapshot!(errors(json!({"updateStrategy": {"selector": {}}})), @"spec.updateStrategy.selector: Invalid value: {}: empty selector is not valid for sidecarset.");
    }

    #[test]
    fn an_injection_strategy_is_checked() {
        insta::assert_snapshot!(
            errors(json!({"injectionStrategy": {
                "failurePolicy": "Retry", "repair": {"policy": "Kill", "maxPerMinute": 0}, "revision": {"policy": "Never", "onMissing": "Oldest"}
            }})),
            @r#"
        spec.injectionStrategy.failurePolicy: Unsupported value: "Retry": supported values: "Ignore", "Fail"
        spec.injectionStrategy.repair.policy: Unsupported value: "Kill": supported values: "Report", "Evict"
        spec.injectionStrategy.revision.policy: Unsupported value: "Never": supported values: "Always", "Partial", "Quota"
        spec.injectionStrategy.revision.onMissing: Unsupported value: "Oldest": supported values: "Refuse", "Latest"
        spec.injectionStrategy.revision: Required value: revisionName and customVersion cannot be empty simultaneously
        spec.injectionStrategy.repair.maxPerMinute: Invalid value: 0: must be greater than or equal to 1
        "#
        );
        for policy in ["Always", "Partial", "Quota"] {
            let revision = json!({"customVersion": "v1", "policy": policy});
            let repair = json!({"policy": "Evict", "maxPerMinute": 1});
            let strategy = json!({"failurePolicy": "Fail", "repair": repair, "revision": revision});
            assert_eq!(errors(json!({"injectionStrategy": strategy})), "");
        }
    }

    #[test]
    fn the_short_form_names_one_revision() {
        let short = |strategy: Value| errors(json!({"injectStrategy": strategy}));
        assert_eq!(short(json!({"controllerRevision": "a"})), "");
        assert_eq!(short(json!({"revision": "a"})), "");
        assert_eq!(short(json!({"revision": "a", "policy": "Partial"})), "");
        insta::assert_snapshot!(short(json!({})), @"spec.injectStrategy: Required value: must specify one of: `controllerRevision` or `revision`");
        insta::assert_snapshot!(short(json!({"revision": ""})), @"spec.injectStrategy.revision: Required value");
        insta::assert_snapshot!(short(json!({"revision": "a", "controllerRevision": "b"})), @"spec.injectStrategy.revision: Forbidden: may not be given together with `controllerRevision`");
        insta::assert_snapshot!(short(json!({"controllerRevision": "b", "policy": "Partial"})), @"spec.injectStrategy.policy: Forbidden: may only be given with `revision`: `controllerRevision` is for every new pod");
        insta::assert_snapshot!(short(json!({"revision": "b", "policy": "Some"})), @r#"spec.injectStrategy.policy: Unsupported value: "Some": supported values: "Always", "Partial", "Quota""#);
        let both =
            json!({"injectStrategy": {"revision": "a"}, "injectionStrategy": {"revision": {"revisionName": "a"}}});
        insta::assert_snapshot!(errors(both), @"spec.injectStrategy: Forbidden: may not be given together with `injectionStrategy.revision`");
    }

    #[test]
    fn a_pinned_revision_exists() {
        let revisions = [
            Revision { name: "set-1", custom_version: Some("v1"), other_owner: None },
            Revision { name: "set-2", ..Revision::default() },
            Revision { name: "mesh-1", custom_version: None, other_owner: Some("mesh") },
        ];
        let errors = |spec: Value| {
            let context = Context { revisions: Some(&revisions), ..Context::default() };
            lines(&super::super::validate(&set("set", spec), &context))
        };
        let pinned = |revision: Value| errors(json!({"injectionStrategy": {"revision": revision}}));
        assert_eq!(pinned(json!({"revisionName": "set-2"})), "");
        assert_eq!(pinned(json!({"customVersion": "v1"})), "");
        assert_eq!(pinned(json!({"revisionName": "set-1", "customVersion": "v9"})), "", "the name wins");
        insta::assert_snapshot!(pinned(json!({"revisionName": "v1"})), @r#"spec.injectionStrategy.revision.revisionName: Invalid value: "v1": Cannot find specific ControllerRevision, err: the set has no such revision"#);
        insta::assert_snapshot!(pinned(json!({"customVersion": "set-1"})), @r#"spec.injectionStrategy.revision.customVersion: Invalid value: "set-1": Cannot find specific ControllerRevision, err: the set has no such revision"#);
        insta::assert_snapshot!(pinned(json!({"revisionName": "mesh-1"})), @r#"spec.injectionStrategy.revision.revisionName: Invalid value: "mesh-1": Cannot find specific ControllerRevision, err: it belongs to SidecarSet "mesh", and a set can only pin revisions of its own"#);
        insta::assert_snapshot!(errors(json!({"injectStrategy": {"controllerRevision": "set-3"}})), @r#"spec.injectStrategy.controllerRevision: Invalid value: "set-3": Cannot find specific ControllerRevision, err: the set has no such revision"#);
    }

    #[test]
    fn names_that_become_part_of_other_objects_have_their_form() {
        insta::assert_snapshot!(errors(json!({"customVersion": "v 1", "serviceAccount": {"name": "A", "policy": "Some"}})), @r#"
        spec.serviceAccount.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        spec.serviceAccount.policy: Unsupported value: "Some": supported values: "IfDefault", "Required"
        spec.customVersion: Invalid value: "v 1": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
        "#);
        insta::assert_snapshot!(errors(json!({"serviceAccount": {}})), @"spec.serviceAccount.name: Required value");
        assert_eq!(
            errors(json!({"customVersion": "1.0", "serviceAccount": {"name": "agent", "policy": "Required"}})),
            ""
        );
    }
}
