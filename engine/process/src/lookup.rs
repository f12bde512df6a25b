//! Which file a command means, as Go's `exec.LookPath` finds it, and with its words.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::start_error::{StartError, words};

/// The file of `command`, with the container's own `PATH`.
pub(crate) fn look_path(command: &str, path: &str) -> Result<PathBuf, StartError> {
    if command.contains('/') {
        let file = PathBuf::from(command);
        return match executable(&file) {
            Ok(()) => Ok(file),
            Err(problem) => Err(StartError::NotExecutable { command: command.to_owned(), problem }),
        };
    }
    path.split(':')
        .map(|folder| Path::new(if folder.is_empty() { "." } else { folder }).join(command))
        .find(|file| !command.is_empty() && executable(file).is_ok())
        .ok_or_else(|| StartError::NotFound(command.to_owned()))
}

fn executable(file: &Path) -> Result<(), String> {
    let metadata = fs::metadata(file).map_err(|error| format!("stat {}: {}", file.display(), words(&error)))?;
    if metadata.is_dir() {
        return Err("is a directory".to_owned());
    }
    access(file, AccessFlags::X_OK).map_err(|error| words(&io::Error::from(error)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_command_is_found_or_refused_in_the_words_of_go() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, mode| {
            let file = folder.path().join(name);
            fs::write(&file, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        };
        write("runs", 0o755);
        write("text", 0o644);
        fs::create_dir(folder.path().join("folder")).unwrap();
        let at = |name: &str| format!("{}/{name}", folder.path().display());
        let path = format!("/nowhere:{}", folder.path().display());
        let found = |command: &str| {
            look_path(command, &path).map(|file| file.display().to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(found("runs"), Ok(at("runs")));
        assert_eq!(found(&at("runs")), Ok(at("runs")));
        for (command, error) in [
            ("text".to_owned(), "exec: \"text\": executable file not found in $PATH".to_owned()),
            ("folder".to_owned(), "exec: \"folder\": executable file not found in $PATH".to_owned()),
            (String::new(), "exec: \"\": executable file not found in $PATH".to_owned()),
            (at("text"), format!("exec: {:?}: permission denied", at("text"))),
            (at("folder"), format!("exec: {:?}: is a directory", at("folder"))),
            (at("none"), format!("exec: {:?}: stat {}: no such file or directory", at("none"), at("none"))),
        ] {
            assert_eq!(found(&command), Err(error), "{command}");
        }
    }
}
