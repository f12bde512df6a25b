//! Points at which tests kill the program.

/// Ends the process with SIGKILL if a test has asked for it here. Nothing in an optimized build.
#[cfg(debug_assertions)]
pub(crate) fn point(name: &str) {
    if std::env::var("PILLION_AGENT_KILL_AT").is_ok_and(|at| at == name) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        // The signal is on its way.
        std::thread::park();
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn point(_name: &str) {}
