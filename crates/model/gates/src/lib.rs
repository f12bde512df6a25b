//! Feature gates as a value: parsed once from `--feature-gates`, as Kubernetes parses it, and handed down to whatever asks.
//!
//! ```
//! use pillion_gates::{Gate, Gates};
//!
//! let gates = Gates::default();
//! assert!(!gates.is_enabled(Gate::EnableSortSidecarContainerByName));
//! let gates = gates.with(&"EnableSortSidecarContainerByName=true".parse()?);
//! assert!(gates.is_enabled(Gate::EnableSortSidecarContainerByName));
//! # Ok::<(), pillion_gates::GateError>(())
//! ```
//!
//! ```text
//!  --feature-gates=A=true,B=false ──▶ Settings ──▶ Gates ──▶ admission, manager, engine: is_enabled(Gate)
//! ```
//!
//! # Invariants
//! - There is no global: two managers in one process may have different gates.
//! - An unknown gate is an error, never ignored.
//! - A gate that is set by name wins over `AllAlpha` and `AllBeta`, whatever the order.
#![forbid(unsafe_code)]

mod gate;
mod settings;

pub use gate::{Gate, Stage};
pub use settings::{GateError, Settings};

/// Which gates are enabled. The default is the default of each gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// By the position of the gate in [`Gate::ALL`].
    enabled: [bool; Gate::ALL.len()],
}

impl Default for Gates {
    fn default() -> Gates {
        Gates { enabled: Gate::ALL.map(Gate::default_enabled) }
    }
}

impl Gates {
    /// Whether a gate is enabled.
    pub fn is_enabled(&self, gate: Gate) -> bool {
        Gate::ALL.iter().zip(self.enabled).any(|(known, enabled)| *known == gate && enabled)
    }

    /// The same gates with these settings.
    #[must_use]
    pub fn with(mut self, settings: &Settings) -> Gates {
        for (gate, enabled) in Gate::ALL.into_iter().zip(&mut self.enabled) {
            if let Some(set) = settings.of(gate) {
                *enabled = set;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(text: &str) -> Gates {
        Gates::default().with(&text.parse().unwrap())
    }

    #[test]
    fn without_settings_each_gate_has_its_default() {
        for gate in Gate::ALL {
            assert_eq!(Gates::default().is_enabled(gate), gate.default_enabled(), "{gate}");
            assert_eq!(gates("").is_enabled(gate), gate.default_enabled(), "{gate}");
        }
    }

    #[test]
    fn a_gate_that_is_set_by_name_wins_over_its_stage() {
        let gate = Gate::SidecarSetPatchPodMetadataDefaultsAllowed;
        assert!(gates("AllAlpha=true").is_enabled(gate));
        assert!(!gates("SidecarSetPatchPodMetadataDefaultsAllowed=false,AllAlpha=true").is_enabled(gate));
        assert!(!gates("AllBeta=true").is_enabled(gate), "it is alpha");
    }
}
