//! The kinds of `batch/v1`.

pub(crate) mod cron_job;
pub(crate) mod job;
pub mod schedule;
