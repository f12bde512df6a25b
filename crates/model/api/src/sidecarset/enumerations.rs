//! The names that each enumeration of a SidecarSet has.

macro_rules! names {
    ($($type:ident: $names:expr;)+) => {
        $(impl super::$type {
            /// What a manifest may say.
            pub const NAMES: &'static [&'static str] = &$names;
        })+

        #[cfg(test)]
        mod tests {
            use super::super::*;

            #[test]
            fn every_name_is_known() {
                $(for name in $type::NAMES {
                    let value: $type = serde_json::from_value((*name).into()).unwrap();
                    assert!(!matches!(value, $type::Unknown(_)), "{name}");
                })+
            }
        }
    };
}

names! {
    FailurePolicy: ["Ignore", "Fail"];
    InjectRevisionPolicy: ["Always", "Partial", "Quota"];
    OnMissing: ["Refuse", "Latest"];
    PatchPolicy: ["Retain", "Overwrite", "MergePatchJson"];
    PodInjectPolicy: ["BeforeAppContainer", "AfterAppContainer"];
    RepairPolicy: ["Report", "Evict"];
    ServiceAccountPolicy: ["IfDefault", "Required"];
    SharePolicy: ["enabled", "disabled"];
    SidecarMode: ["Native", "Strict"];
    TargetContainersMode: ["sum", "max"];
    UpdateStrategyType: ["RollingUpdate", "NotUpdate"];
    UpgradeType: ["ColdUpgrade", "HotUpgrade"];
}
