//! What an expression is about: a resource, and how much of it the application has.

use std::fmt;
use std::str::FromStr;

use pillion_quantity::Quantity;

/// A resource that has expressions. Its name is also the name of the variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// `cpu`, in cores; results are whole thousandths (`1m`).
    Cpu,
    /// `memory`, in bytes; results are whole bytes.
    Memory,
}

impl Resource {
    /// The name in `resources.limits` and in expressions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }

    /// Results are whole multiples of this.
    pub(crate) const fn nanos_per_step(self) -> i128 {
        match self {
            Self::Cpu => 1_000_000,
            Self::Memory => 1_000_000_000,
        }
    }

    pub(crate) const fn step_name(self) -> &'static str {
        match self {
            Self::Cpu => "1m",
            Self::Memory => "1 byte",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A resource other than cpu and memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` has no expressions, only `cpu` and `memory` have")]
pub struct UnknownResource(String);

impl FromStr for Resource {
    type Err = UnknownResource;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "cpu" => Ok(Self::Cpu),
            "memory" => Ok(Self::Memory),
            _ => Err(UnknownResource(name.to_owned())),
        }
    }
}

/// How much of a resource there is: the value of the variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// More than any quantity: what a container without a limit may use.
    Unlimited,
    /// This much.
    Finite(Quantity),
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.pad(UNLIMITED),
            Self::Finite(quantity) => quantity.fmt(f),
        }
    }
}

impl FromStr for Amount {
    type Err = <Quantity as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == UNLIMITED { Ok(Self::Unlimited) } else { text.parse().map(Self::Finite) }
    }
}

pub(crate) const UNLIMITED: &str = "unlimited";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_resources_survive_printing_and_parsing() {
        for text in ["unlimited", "0", "250m", "1500Mi", "12e6"] {
            assert_eq!(text.parse::<Amount>().unwrap().to_string(), text);
        }
        for text in ["cpu", "memory"] {
            assert_eq!(text.parse::<Resource>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_neither_unlimited_nor_a_quantity_is_refused() {
        assert!("infinite".parse::<Amount>().is_err());
        assert!("".parse::<Amount>().is_err());
        assert_eq!(
            "ephemeral-storage".parse::<Resource>().unwrap_err().to_string(),
            "`ephemeral-storage` has no expressions, only `cpu` and `memory` have"
        );
    }
}
