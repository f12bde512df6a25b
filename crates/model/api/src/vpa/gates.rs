//! The feature gates that decide which fields may be written and what is done with them.

use pillion_gates::Gate;

/// Feature gates of the autoscaler. All are off by default, as upstream's alpha gates are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a feature gate of its own")]
pub struct Gates {
    /// `NativeSidecar`: native sidecars are sampled, recommended for and updated.
    pub native_sidecar: bool,
    /// `CPUStartupBoost`: `startupBoost` may be set and is applied.
    pub cpu_startup_boost: bool,
    /// `InPlace`: the update mode `InPlace` may be set and is carried out.
    pub in_place: bool,
    /// `PerVPAConfig`: the fields that override flags of the components may be set and are used.
    pub per_vpa_config: bool,
    /// `SidecarSetTarget`: an autoscaler in the manager's namespace may target a SidecarSet.
    pub sidecar_set_target: bool,
}

impl Gates {
    /// All off, as by default.
    pub const NONE: Gates = Gates {
        native_sidecar: false,
        cpu_startup_boost: false,
        in_place: false,
        per_vpa_config: false,
        sidecar_set_target: false,
    };

    /// All on.
    pub const ALL: Gates = Gates {
        native_sidecar: true,
        cpu_startup_boost: true,
        in_place: true,
        per_vpa_config: true,
        sidecar_set_target: true,
    };
}

impl From<pillion_gates::Gates> for Gates {
    fn from(gates: pillion_gates::Gates) -> Self {
        Gates {
            native_sidecar: gates.is_enabled(Gate::NativeSidecar),
            cpu_startup_boost: gates.is_enabled(Gate::CPUStartupBoost),
            in_place: gates.is_enabled(Gate::InPlace),
            per_vpa_config: gates.is_enabled(Gate::PerVPAConfig),
            sidecar_set_target: gates.is_enabled(Gate::SidecarSetTarget),
        }
    }
}
