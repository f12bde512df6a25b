//! What the admission policy of the agent lets it write: the parameters that follow from a configuration.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::{Config, Key};

/// The data of the policy's parameter ConfigMap: comma-separated keys, none of which can contain a comma.
pub fn parameters(config: &Config) -> BTreeMap<String, String> {
    with_conditions(config, [])
}

/// The same where PodProbeMarkers have the agent report more conditions.
pub(crate) fn with_conditions<'a>(
    config: &Config,
    conditions: impl IntoIterator<Item = &'a str>,
) -> BTreeMap<String, String> {
    // The policy needs each of them, also an empty one.
    let fields = ["annotations", "labels", "conditions", "targets"];
    let mut data: BTreeMap<&str, BTreeSet<&str>> = fields.map(|field| (field, BTreeSet::new())).into();
    let mut keys = config.keys();
    keys.extend(conditions.into_iter().map(|name| Key::Condition(name.to_owned())));
    for (field, word) in keys.iter().filter_map(Key::parameter) {
        data.entry(field).or_default().insert(word);
    }
    let joined = |words: BTreeSet<&str>| words.into_iter().collect::<Vec<_>>().join(",");
    data.into_iter().map(|(field, words)| (field.to_owned(), joined(words))).collect()
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
