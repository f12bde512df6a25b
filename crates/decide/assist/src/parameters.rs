//! What the admission policy of the agent lets it write: the parameters that follow from a configuration.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::{Config, Storage, Target};

/// The data of the policy's parameter ConfigMap: comma-separated keys, none of which can contain a comma.
pub fn parameters(config: &Config) -> BTreeMap<String, String> {
    with_conditions(config, [])
}

/// The same where PodProbeMarkers have the agent report more conditions.
pub(crate) fn with_conditions<'a>(
    config: &'a Config,
    conditions: impl IntoIterator<Item = &'a str>,
) -> BTreeMap<String, String> {
    let joined = |keys: BTreeSet<&str>| keys.into_iter().collect::<Vec<_>>().join(",");
    let targets = config.storages().filter_map(|storage| storage.target.as_ref());
    // The pod and its owner are known to the policy itself.
    let fixed = |target: &&Target| !target.name.contains("${");
    let named = targets.filter(fixed).map(|target| target.name.as_str()).collect();
    let data = [
        ("annotations", joined(config.storages().flat_map(Storage::annotation_keys).collect())),
        ("labels", joined(config.storages().flat_map(Storage::label_keys).collect())),
        ("conditions", joined(config.conditions().chain(conditions).collect())),
        ("targets", joined(named)),
    ];
    data.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_name_every_key_once() {
        let text = include_str!("config/samples/proposal-1.yaml");
        let config = Config::parse(text, None).unwrap();
        let data = with_conditions(&config, ["game.io/idle"]);
        let expected = [
            (
                "annotations",
                "controller.kubernetes.io/pod-deletion-cost,http_probe,sidecar.vke.volcengine.com/hot-update-result",
            ),
            ("conditions", "game.io/idle,pillion.dev/Agent"),
            ("labels", "gameserver-idle"),
            ("targets", ""),
        ];
        assert_eq!(data, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    }
}
