//! The value of `--feature-gates`: `A=true,B=false`.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::gate::{Gate, Stage};

/// What a user set, by name or by stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    gates: BTreeMap<Gate, bool>,
    /// `AllAlpha`.
    all_alpha: Option<bool>,
    /// `AllBeta`.
    all_beta: Option<bool>,
}

/// Why the value of `--feature-gates` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// A gate without a value.
    #[error("missing bool value for {name}: write {name}=true or {name}=false")]
    MissingValue {
        /// The gate.
        name: String,
    },
    /// A value that is not a boolean.
    #[error("invalid value of {name}={value}: write {name}=true or {name}=false")]
    InvalidValue {
        /// The gate.
        name: String,
        value: String,
    },
    /// A gate that does not exist.
    #[error("unrecognized feature gate: {name}; {help}")]
    Unrecognized {
        name: String,
        /// The gate that was probably meant, or all of them.
        help: String,
    },
}

impl Settings {
    /// What the settings say about a gate.
    pub(crate) fn of(&self, gate: Gate) -> Option<bool> {
        let by_stage = match gate.stage() {
            Stage::Alpha => self.all_alpha,
            Stage::Beta => self.all_beta,
        };
        self.gates.get(&gate).copied().or(by_stage)
    }

    /// These settings and then `other`, as when the flag is given twice: the last value of a gate counts.
    #[must_use]
    pub fn and(mut self, other: &Settings) -> Settings {
        self.gates.extend(&other.gates);
        self.all_alpha = other.all_alpha.or(self.all_alpha);
        self.all_beta = other.all_beta.or(self.all_beta);
        self
    }
}

impl FromStr for Settings {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Settings, GateError> {
        let mut settings = Settings::default();
        for setting in text.split(',').filter(|setting| !setting.trim().is_empty()) {
            let (name, value) = match setting.split_once('=') {
                Some((name, value)) => (name.trim(), value.trim()),
                None => return Err(GateError::MissingValue { name: setting.trim().to_owned() }),
            };
            // The spellings that Go's strconv.ParseBool accepts.
            let enabled = match value {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
                "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
                _ => return Err(GateError::InvalidValue { name: name.to_owned(), value: value.to_owned() }),
            };
            match name {
                "AllAlpha" => settings.all_alpha = Some(enabled),
                "AllBeta" => settings.all_beta = Some(enabled),
                _ => {
                    let gate = Gate::ALL.into_iter().find(|gate| gate.name() == name);
                    settings.gates.insert(gate.ok_or_else(|| unrecognized(name))?, enabled);
                }
            }
        }
        Ok(settings)
    }
}

fn unrecognized(name: &str) -> GateError {
    /// Below this two names have little in common.
    const SIMILAR: f64 = 0.8;
    let distance = |gate: &Gate| strsim::jaro_winkler(gate.name(), name);
    let closest = Gate::ALL.into_iter().max_by(|a, b| distance(a).total_cmp(&distance(b)));
    let help = match closest.filter(|gate| distance(gate) > SIMILAR) {
        Some(gate) => format!("did you mean {gate}?"),
        None => format!("the gates are {}", Gate::ALL.map(Gate::name).join(", ")),
    };
    GateError::Unrecognized { name: name.to_owned(), help }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATE: Gate = Gate::EnableSortSidecarContainerByName;

    #[test]
    fn values_are_those_of_go_and_empty_settings_are_skipped() {
        for (text, expected) in [
            ("", None),
            (",", None),
            ("EnableSortSidecarContainerByName=true", Some(true)),
            (" EnableSortSidecarContainerByName = T ,", Some(true)),
            ("EnableSortSidecarContainerByName=1,EnableSortSidecarContainerByName=0", Some(false)),
        ] {
            assert_eq!(text.parse::<Settings>().unwrap().of(GATE), expected, "{text:?}");
        }
    }

    #[test]
    fn the_last_of_two_flags_counts() {
        let parse = |text: &str| text.parse::<Settings>().unwrap();
        let both = parse("EnableSortSidecarContainerByName=true").and(&parse("EnableSortSidecarContainerByName=false"));
        assert_eq!(both.of(GATE), Some(false));
        assert_eq!(parse("AllAlpha=true").and(&parse("AllBeta=true")).of(GATE), Some(true));
    }

    #[test]
    fn what_is_wrong_is_said_with_a_remedy() {
        let error = |text: &str| text.parse::<Settings>().unwrap_err().to_string();
        assert_eq!(error("AllAlpha"), "missing bool value for AllAlpha: write AllAlpha=true or AllAlpha=false");
        assert_eq!(error("AllBeta=yes"), "invalid value of AllBeta=yes: write AllBeta=true or AllBeta=false");
        assert_eq!(
            error("EnableSortSidecarContainersByName=true"),
            "unrecognized feature gate: EnableSortSidecarContainersByName; did you mean EnableSortSidecarContainerByName?"
        );
        assert_eq!(
            error("Turbo=true"),
            format!("unrecognized feature gate: Turbo; the gates are {}", Gate::ALL.map(Gate::name).join(", "))
        );
    }
}
