//! The admission plugin `ServiceAccount`: every pod acts for an account and can find the API.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::read::{annotation, list, part, pointer_flag, text};
use super::validation::annotations::MIRROR;

const TOKEN_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
/// An hour and a little: by the odd number the API server knows tokens that it put into pods itself.
const TOKEN_SECONDS: i64 = 3607;

/// Name of the account that a new pod acts for, which is to be looked up for [`apply_service_account`]. `None` for a mirror pod, that has
/// none.
pub fn service_account_name(pod: &Value) -> Option<&str> {
    if annotation(pod, MIRROR).is_some() {
        return None;
    }
    match text(&pod["spec"], "serviceAccountName") {
        "" => Some("default"),
        name => Some(name),
    }
}

/// Gives a new pod its account, a volume with a token of it unless pod or account do not want that, and the account's pull secrets.
/// `suffix` are five random characters for the name of the volume.
pub fn apply_service_account(pod: &mut Value, account: &Value, suffix: &str) {
    let Some(name) = service_account_name(pod).map(str::to_owned) else { return };
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    spec.insert("serviceAccountName".to_owned(), json!(name));
    spec.insert("serviceAccount".to_owned(), json!(name));
    let wanted =
        |of: Option<bool>| of.or_else(|| pointer_flag(account, "automountServiceAccountToken")).unwrap_or(true);
    if wanted(spec.get("automountServiceAccountToken").and_then(Value::as_bool)) {
        mount_token(spec, suffix);
    }
    let secrets = list(account, "imagePullSecrets");
    if spec.get("imagePullSecrets").and_then(Value::as_array).is_none_or(Vec::is_empty) && !secrets.is_empty() {
        let secrets = secrets.iter().map(|secret| json!({"name": text(secret, "name")})).collect();
        spec.insert("imagePullSecrets".to_owned(), secrets);
    }
}

fn mount_token(spec: &mut Map<String, Value>, suffix: &str) {
    let volumes = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    let existing =
        volumes.map(|volume| text(volume, "name")).find(|name| name.starts_with(VOLUME_PREFIX)).map(str::to_owned);
    let has_volume = existing.is_some();
    let volume = existing.unwrap_or_else(|| format!("{VOLUME_PREFIX}{suffix}"));
    let mut mounted = false;
    for field in ["initContainers", "containers"] {
        let containers = spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
            let Some(mounts) = mounts.as_array_mut() else { continue };
            if !mounts.iter().any(|mount| text(mount, "mountPath") == TOKEN_FOLDER) {
                mounts.push(json!({"name": volume, "readOnly": true, "mountPath": TOKEN_FOLDER}));
                mounted = true;
            }
        }
    }
    if !has_volume && mounted {
        let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
        if let Some(volumes) = volumes.as_array_mut() {
            volumes.push(json!({"name": volume, "projected": token_source()}));
        }
    }
}

fn token_source() -> Value {
    json!({
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ],
        "defaultMode": 0o644,
    })
}

/// Checks that a new pod uses only what its account may, where the account says that this matters.
///
/// # Errors
/// Why the pod is forbidden, in the words of the plugin.
pub fn validate_service_account(pod: &Value, account: &Value) -> Result<(), String> {
    let spec = &pod["spec"];
    if annotation(pod, MIRROR).is_some() {
        return validate_mirror(spec);
    }
    if !matches!(
        annotation(account, "kubernetes.io/enforce-mountable-secrets"),
        Some("1" | "t" | "T" | "true" | "TRUE" | "True")
    ) {
        return Ok(());
    }
    let name = text(&account["metadata"], "name");
    let names =
        |field: &str| -> BTreeSet<&str> { list(account, field).iter().map(|secret| text(secret, "name")).collect() };
    let secrets = names("secrets");
    let refuse = |what: String, secret: &str| {
        Err(format!(
            "{what} secret.secretName=\"{secret}\" is not allowed because service account {name} does not reference that secret"
        ))
    };
    for volume in list(spec, "volumes") {
        if let Some(source) = part(volume, "secret").filter(|source| !secrets.contains(text(source, "secretName"))) {
            return refuse("volume with".to_owned(), text(source, "secretName"));
        }
    }
    for (field, what) in [("initContainers", "init container"), ("containers", "container")] {
        for container in list(spec, field) {
            let what = format!("{what} {}", text(container, "name"));
            for variable in list(container, "env") {
                let Some(reference) = part(&variable["valueFrom"], "secretKeyRef") else { continue };
                if !secrets.contains(text(reference, "name")) {
                    let what = format!("{what} with envVar {} referencing", text(variable, "name"));
                    return refuse(what, text(reference, "name"));
                }
            }
            for source in list(container, "envFrom") {
                let Some(reference) = part(source, "secretRef") else { continue };
                if !secrets.contains(text(reference, "name")) {
                    return refuse(format!("{what} with envFrom referencing"), text(reference, "name"));
                }
            }
        }
    }
    let pull_secrets = names("imagePullSecrets");
    for (i, secret) in list(spec, "imagePullSecrets").iter().map(|secret| text(secret, "name")).enumerate() {
        if !pull_secrets.contains(secret) {
            return Err(format!(
                "imagePullSecrets[{i}].name=\"{secret}\" is not allowed because service account {name} does not reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

/// A mirror shows a pod that a node runs by itself: it cannot use what only the API has.
fn validate_mirror(spec: &Value) -> Result<(), String> {
    if !text(spec, "serviceAccountName").is_empty() {
        return Err("a mirror pod may not reference service accounts".to_owned());
    }
    let token = |volume: &Value| {
        list(&volume["projected"], "sources").iter().any(|source| part(source, "serviceAccountToken").is_some())
    };
    if list(spec, "volumes").iter().any(token) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_gets_its_account_and_a_token() {
        let mut pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "b", "volumeMounts": [{"name": "own", "mountPath": TOKEN_FOLDER}]}]}});
        apply_service_account(&mut pod, &json!({"imagePullSecrets": [{"name": "s"}]}), "x1y2z");
        let spec = &pod["spec"];
        assert_eq!(spec["serviceAccountName"], "default");
        assert_eq!(spec["serviceAccount"], "default");
        assert_eq!(spec["imagePullSecrets"], json!([{"name": "s"}]));
        assert_eq!(spec["volumes"][0]["name"], "kube-api-access-x1y2z");
        assert_eq!(
            spec["containers"][0]["volumeMounts"],
            json!([{"name": "kube-api-access-x1y2z", "readOnly": true, "mountPath": TOKEN_FOLDER}])
        );
        assert_eq!(spec["containers"][1]["volumeMounts"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn pod_or_account_can_refuse_the_token() {
        for (pod, account) in [
            (json!({"automountServiceAccountToken": false}), json!({})),
            (json!({}), json!({"automountServiceAccountToken": false})),
        ] {
            let mut pod = json!({"spec": pod});
            pod["spec"]["containers"] = json!([{"name": "a"}]);
            apply_service_account(&mut pod, &account, "x");
            assert!(pod["spec"].get("volumes").is_none(), "{pod}");
        }
    }

    #[test]
    fn an_account_can_insist_on_its_own_secrets() {
        let account = json!({"metadata": {"name": "sa", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}, "secrets": [{"name": "good"}]});
        let pod = |secret: &str| json!({"spec": {"volumes": [{"name": "v", "secret": {"secretName": secret}}]}});
        assert_eq!(validate_service_account(&pod("good"), &account), Ok(()));
        assert_eq!(
            validate_service_account(&pod("bad"), &account).unwrap_err(),
            r#"volume with secret.secretName="bad" is not allowed because service account sa does not reference that secret"#
        );
    }
}
