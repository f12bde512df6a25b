//! Every gate, with its default.

use std::fmt;

/// How far a feature has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off unless it is asked for.
    Alpha,
    /// On unless it is refused.
    Beta,
}

/// A feature that can be switched on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gate {
    /// OpenKruise's: `patchPodMetadata` may write any annotation where the cluster has no whitelist.
    SidecarSetPatchPodMetadataDefaultsAllowed,
    /// OpenKruise's: injected containers are sorted by name, across SidecarSets.
    EnableSortSidecarContainerByName,
    /// The autoscaler's: native sidecars are sampled, recommended for and updated.
    NativeSidecar,
    /// The autoscaler's: `startupBoost` gives more CPU while a container starts.
    CPUStartupBoost,
    /// The autoscaler's: the update mode `InPlace`.
    InPlace,
    /// The autoscaler's: fields of a VerticalPodAutoscaler override flags.
    PerVPAConfig,
    /// A VerticalPodAutoscaler in the manager's namespace may target a SidecarSet.
    SidecarSetTarget,
    /// Injected sidecars with a `resourcesPolicy` are resized when the app is resized in place.
    SidecarFollowsApp,
    /// Sidecars that are marked by the pod's author end when the work is done (KEP-0008).
    SidecarField,
}

impl Gate {
    /// Every gate, in the order of help texts.
    pub const ALL: [Gate; 9] = [
        Gate::CPUStartupBoost,
        Gate::EnableSortSidecarContainerByName,
        Gate::InPlace,
        Gate::NativeSidecar,
        Gate::PerVPAConfig,
        Gate::SidecarField,
        Gate::SidecarFollowsApp,
        Gate::SidecarSetPatchPodMetadataDefaultsAllowed,
        Gate::SidecarSetTarget,
    ];

    /// The name in `--feature-gates`.
    pub fn name(self) -> &'static str {
        match self {
            Gate::SidecarSetPatchPodMetadataDefaultsAllowed => "SidecarSetPatchPodMetadataDefaultsAllowed",
            Gate::EnableSortSidecarContainerByName => "EnableSortSidecarContainerByName",
            Gate::NativeSidecar => "NativeSidecar",
            Gate::CPUStartupBoost => "CPUStartupBoost",
            Gate::InPlace => "InPlace",
            Gate::PerVPAConfig => "PerVPAConfig",
            Gate::SidecarField => "SidecarField",
            Gate::SidecarSetTarget => "SidecarSetTarget",
            Gate::SidecarFollowsApp => "SidecarFollowsApp",
        }
    }

    /// How far the feature has come.
    pub fn stage(self) -> Stage {
        match self {
            Gate::SidecarSetPatchPodMetadataDefaultsAllowed
            | Gate::EnableSortSidecarContainerByName
            | Gate::NativeSidecar
            | Gate::CPUStartupBoost
            | Gate::InPlace
            | Gate::PerVPAConfig
            | Gate::SidecarSetTarget
            | Gate::SidecarFollowsApp
            | Gate::SidecarField => Stage::Alpha,
        }
    }

    /// Whether it is enabled unless it is set.
    pub fn default_enabled(self) -> bool {
        self.stage() == Stage::Beta
    }

    /// The line of the help text, as Kubernetes writes it.
    pub fn usage(self) -> String {
        let stage = match self.stage() {
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
        };
        format!("{}=true|false ({stage} - default={})", self.name(), self.default_enabled())
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
