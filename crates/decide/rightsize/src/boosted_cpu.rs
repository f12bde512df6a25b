//! How much CPU a container requests while it is boosted.

use pillion_api::vpa::{GenericStartupBoost, StartupBoostType};
use pillion_quantity::{Format, Quantity};

/// One thousandth of a core.
pub(crate) const MILLICORE: Quantity = Quantity::from_nanos(1_000_000, Format::DecimalSi);

/// Why a boost cannot be computed. Validation rejects all of these.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoostError {
    /// The type is Factor, and the factor is missing.
    #[error("startupBoost.cpu.factor is required when type is Factor")]
    NoFactor,
    /// The factor makes it less.
    #[error("boost factor must be >= 1")]
    Factor,
    /// The type is Quantity, and the quantity is missing.
    #[error("startupBoost.cpu.quantity is required when type is Quantity")]
    NoQuantity,
    /// The quantity makes it less.
    #[error("startupBoost.cpu.quantity must not be negative")]
    Negative,
    /// The type is not known.
    #[error("unsupported startup boost type: {0}")]
    Type(String),
}

/// The CPU request of a container while it is boosted.
pub(crate) fn boosted_cpu(
    base: Quantity,
    boost: &GenericStartupBoost,
    most: Option<Quantity>,
) -> Result<Quantity, BoostError> {
    let milli = base.milli_value();
    let boosted = match &boost.boost_type {
        None | Some(StartupBoostType::Factor) => {
            let factor = boost.factor.ok_or(BoostError::NoFactor)?;
            if factor < 1 {
                return Err(BoostError::Factor);
            }
            milli.saturating_mul(factor.into())
        }
        Some(StartupBoostType::Quantity) => {
            let more = boost.quantity.ok_or(BoostError::NoQuantity)?;
            if more.is_negative() {
                return Err(BoostError::Negative);
            }
            milli.saturating_add(more.milli_value())
        }
        Some(StartupBoostType::Unknown(name)) => return Err(BoostError::Type(name.clone())),
    };
    let boosted = Quantity::from_nanos(boosted.saturating_mul(MILLICORE.nanos()), Format::DecimalSi);
    Ok(most.filter(|most| !most.is_zero()).map_or(boosted, |most| boosted.min(most)))
}
