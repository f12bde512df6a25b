//! Reads a container to inject. serde's own `flatten` would copy every field of it once more.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use super::SidecarContainer;

impl<'de> Deserialize<'de> for SidecarContainer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SidecarContainer, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = SidecarContainer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a container to inject")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<SidecarContainer, A::Error> {
        let mut read = SidecarContainer::default();
        while let Some(name) = fields.next_key::<String>()? {
            match name.as_str() {
                "podInjectPolicy" => read.pod_inject_policy = fields.next_value()?,
                "upgradeStrategy" => read.upgrade_strategy = fields.next_value()?,
                "shareVolumePolicy" => read.share_volume_policy = fields.next_value()?,
                "shareVolumeDevicePolicy" => read.share_volume_device_policy = fields.next_value()?,
                "transferEnv" => read.transfer_env = fields.next_value()?,
                "resourcesPolicy" => read.resources_policy = fields.next_value()?,
                "sidecar" => read.sidecar = fields.next_value()?,
                "sidecarMode" => read.sidecar_mode = fields.next_value()?,
                "failPodOnSidecarError" => read.fail_pod_on_sidecar_error = fields.next_value()?,
                _ => _ = read.container.insert(name, fields.next_value()?),
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::sidecarset::shape::SIDECAR_CONTAINER;

    #[test]
    fn no_field_of_ours_is_taken_for_one_of_kubernetes() {
        let mut count = 0;
        for field in SIDECAR_CONTAINER.own_fields() {
            let container = serde_json::from_value::<SidecarContainer>(json!({field.name: null, "name": "proxy"}));
            // Some fields must not be null.
            assert!(container.is_err() || container.unwrap().container.len() == 1, "{}", field.name);
            count += 1;
        }
        assert!(count > 5);
    }

    #[test]
    fn what_was_written_is_written_again() {
        let written = json!({
            "name": "proxy", "image": "envoy:1.30", "x-future": {"a": [null]}, "podInjectPolicy": "AfterAppContainer",
            "upgradeStrategy": {"upgradeType": "HotUpgrade"}, "shareVolumePolicy": {"type": "enabled"},
            "shareVolumeDevicePolicy": {"type": "enabled"}, "transferEnv": [{"envName": "A"}],
            "resourcesPolicy": {"targetContainersMode": "sum"}, "sidecar": true, "sidecarMode": "Strict", "failPodOnSidecarError": true,
        });
        let read: SidecarContainer = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(read.container.len(), 3);
        assert_eq!(serde_json::to_value(read).unwrap(), written);
        assert!(serde_json::from_value::<SidecarContainer>(Value::from("proxy")).is_err());
    }
}
