//! What a probe has seen, and how much of an answer is kept.

/// No more of what a command or a server says is kept, as the kubelet has it.
pub const LONGEST_OUTPUT: usize = 10 * 1024;

/// What a probe has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Success,
    /// It counts as a success, and users should read this.
    Warning(String),
    /// It counts as a failure, for this reason.
    Failure(String),
    /// The probe could not be made; counts for nothing.
    Error(String),
}
