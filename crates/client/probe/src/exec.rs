//! Commands inside a container: the caller knows how they are run.

use std::time::Duration;

use bytes::Bytes;

/// Runs commands inside the container that is probed.
pub trait Exec {
    /// Runs a command to its end, and kills it after `timeout`.
    fn exec(&self, command: &[String], timeout: Duration)
    -> impl Future<Output = Result<ExecOutput, ExecError>> + Send;
}

/// What a command said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// Its exit code.
    pub code: i32,
    /// What it wrote to both streams.
    pub output: Bytes,
}

/// Why a command did not run to its end. The text is what users read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecError {
    /// It took too long, which is a failure of the container.
    TimedOut(String),
    /// It could not be run, which says nothing about the container.
    Failed(String),
}

/// For whoever probes by the network only.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCommands;

impl Exec for NoCommands {
    async fn exec(&self, _command: &[String], _timeout: Duration) -> Result<ExecOutput, ExecError> {
        Err(ExecError::Failed("commands cannot be run here".to_owned()))
    }
}
