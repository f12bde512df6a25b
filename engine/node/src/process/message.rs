//! What users read of containers: last words, and why one does not start, in the words of containerd and the kubelet.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::net::IpAddr;
use std::path::Path;

use futures::StreamExt as _;
use pillion_process::{LogOptions, Process, StartError};

use crate::runtime::ContainerSpec;

/// So many bytes of the termination message file are shown.
const LONGEST_MESSAGE: u64 = 4096;

/// So much of the end of a log is shown instead.
const LOG_LINES: u64 = 80;
const LOG_BYTES: usize = 2048;

/// Why nothing can be run for a container.
pub(super) fn no_command(spec: &ContainerSpec) -> String {
    let image = &spec.image;
    format!(
        "no command specified: images are not pulled, and nothing says what \"{image}\" runs; give the container a \
         command, or name the image in the file given with --images"
    )
}

/// Why a container did not start.
pub(super) fn not_started(error: &StartError) -> String {
    let stage = match error {
        StartError::Mount { .. } => "error during container init: ",
        _ => "",
    };
    format!(
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: \
         unable to start container process: {stage}{error}: unknown"
    )
}

/// Why a command inside a container did not start.
pub(super) fn not_executed(error: &StartError) -> String {
    let prefix = "rpc error: code = Unknown desc = failed to exec in container";
    match error {
        StartError::Ended => format!("{prefix}: container is in CONTAINER_EXITED state"),
        error => format!(
            "{prefix}: failed to start exec: OCI runtime exec failed: exec failed: unable to start container process: \
             {error}: unknown"
        ),
    }
}

/// Why no connection to a port of a pod is made.
pub(super) fn not_connected(address: IpAddr, port: u16, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    };
    format!("failed to connect to localhost:{port} inside the pod: dial tcp4 {address}:{port}: connect: {why}")
}

/// The last words of a container: the end of its termination message file, or else of its log, if that is wanted.
pub(super) async fn last_words(file: Option<&Path>, log_of: Option<&Process>) -> Option<String> {
    let written = file.map(end_of_file).unwrap_or_default();
    let text = match log_of {
        Some(process) if written.is_empty() => end_of_log(process).await,
        _ => written,
    };
    (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned())
}

fn end_of_file(path: &Path) -> Vec<u8> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LONGEST_MESSAGE)))?;
        let mut text = Vec::new();
        file.take(LONGEST_MESSAGE).read_to_end(&mut text)?;
        Ok(text)
    };
    read().unwrap_or_else(|error| format!("Error on reading termination log {}: {error}", path.display()).into_bytes())
}

async fn end_of_log(process: &Process) -> Vec<u8> {
    let options = LogOptions { tail_lines: Some(LOG_LINES), ..LogOptions::default() };
    match process.logs(options).await {
        Ok(log) => {
            let text = log.collect::<Vec<_>>().await.concat();
            text[text.len().saturating_sub(LOG_BYTES)..].to_vec()
        }
        Err(error) => format!("Error on reading termination message from logs: {error}").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_in_the_words_of_containerd() {
        let missing = StartError::NotFound("x".to_owned());
        assert_eq!(
            not_started(&missing),
            "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create \
             failed: unable to start container process: exec: \"x\": executable file not found in $PATH: unknown"
        );
        assert!(not_executed(&missing).ends_with("exec: \"x\": executable file not found in $PATH: unknown"));
    }

    #[tokio::test]
    async fn the_end_of_the_termination_message_file_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        std::fs::write(&file, "x".repeat(5000) + "bye").unwrap();
        let words = last_words(Some(&file), None).await.unwrap();
        assert_eq!(words.len(), 4096);
        assert!(words.ends_with("xbye"));
        std::fs::write(&file, "").unwrap();
        assert_eq!(last_words(Some(&file), None).await, None);
    }
}
