//! Images that need no entry in `--images`: in the pods of `pillion up` the in-pod agent and `pillion-wrap` are this program itself.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::ExitCode;

use pillion_embedded::{Image, ImageMap};

/// The agent, as containers call it whose image has more programs.
const AGENT_NAME: &str = "pillion-agent";
/// The names of the agent's image, of any registry and with any tag.
const AGENT_IMAGES: [&str; 2] = ["pillion-agent", "*/pillion-agent"];
/// The first argument of this program where it is to be the agent.
const AS_AGENT: &str = "--as-pillion-agent";

/// The image with `pillion-wrap`, for sidecars with the mode Strict.
pub(super) const WRAP_IMAGE: &str = "pillion-wrap";
/// The first argument of this program where it is to be the wrapper.
const AS_WRAP: &str = "--as-pillion-wrap";
/// Where the wrapper is in its image.
const WRAP_PATH: &str = "/usr/bin/pillion-wrap";
/// The name of the wrapper where it has installed itself.
const WRAP_NAME: &str = "pillion-wrap";

/// Runs the program of an image, if the program with these arguments is to be one of them. Returns its exit status.
pub fn own_program(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    Some(match OwnProgram::of(arguments)? {
        OwnProgram::Agent(arguments) => pillion_agent::program(arguments),
        OwnProgram::Wrap(arguments) => ExitCode::from(pillion_wrap::run(arguments)),
        OwnProgram::InstallWrap(folder) => install_wrap(&folder),
    })
}

#[derive(Debug, PartialEq, Eq)]
enum OwnProgram {
    /// The agent, with these arguments.
    Agent(Vec<String>),
    /// The wrapper, with these arguments.
    Wrap(Vec<OsString>),
    /// The wrapper, which installs itself in a folder.
    InstallWrap(OsString),
}

impl OwnProgram {
    fn of(arguments: impl IntoIterator<Item = OsString>) -> Option<OwnProgram> {
        let mut arguments = arguments.into_iter();
        if Path::new(&arguments.next()?).file_name() == Some(OsStr::new(WRAP_NAME)) {
            return Some(OwnProgram::Wrap(arguments.collect()));
        }
        let asked = arguments.next()?;
        if asked == AS_AGENT {
            return Some(OwnProgram::Agent(arguments.map(|it| it.to_string_lossy().into_owned()).collect()));
        }
        if asked != AS_WRAP {
            return None;
        }
        let arguments: Vec<OsString> = arguments.collect();
        Some(match arguments.as_slice() {
            [command, folder] if command == "install" => OwnProgram::InstallWrap(folder.clone()),
            _ => OwnProgram::Wrap(arguments),
        })
    }
}

/// Puts a link to this program where the other containers of the pod expect the wrapper. In an image the wrapper is small and copies itself.
fn install_wrap(folder: &OsStr) -> ExitCode {
    let link = Path::new(folder).join(WRAP_NAME);
    match std::env::current_exe().and_then(|program| symlink(program, &link)) {
        // The init container ran before, in the same pod.
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            eprintln!("pillion-wrap: cannot create {}: {error}", link.display());
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// The images with those of this program. What the file says of the agent is kept.
pub(super) fn with_own(images: ImageMap) -> ImageMap {
    let Some(program) = std::env::current_exe().ok().and_then(|program| program.into_os_string().into_string().ok())
    else {
        return images;
    };
    let agent = Image { command: vec![program.clone(), AS_AGENT.to_owned()], ..Image::default() };
    let wrapper = vec![program, AS_WRAP.to_owned()];
    // `pillion install --print --agent` and the manager call both by their names, in images that have no entry.
    let images = images.with_program(AGENT_NAME, agent.command.clone()).with_program(WRAP_PATH, wrapper);
    let images = AGENT_IMAGES.into_iter().fold(images, |images, name| images.or(name, agent.clone()));
    // Only the manager of this run uses this image.
    images.with(WRAP_IMAGE, Image { non_root: true, ..Image::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_this_program_unless_the_file_says_otherwise() {
        let images = with_own(ImageMap::default());
        for name in ["pillion-agent", "pillion-agent:0.1.0", "registry.example.com/team/pillion-agent:1"] {
            let command = &images.get(name).unwrap().command;
            let program = OwnProgram::of(command.iter().chain([&"--help".to_owned()]).map(OsString::from));
            assert_eq!(program, Some(OwnProgram::Agent(vec!["--help".to_owned()])), "{name}");
        }
        assert_eq!(images.get("another-agent"), None);
        assert_eq!(images.program("pillion-agent"), Some(images.get("pillion-agent").unwrap().command.as_slice()));
        let own = with_own(ImageMap::parse("'*': {command: [mine]}").unwrap());
        assert_eq!(own.get("pillion-agent").unwrap().command, ["mine"]);
        assert_eq!(OwnProgram::of(["pillion", "up"].map(OsString::from)), None);
    }

    #[test]
    fn the_wrapper_is_this_program_by_its_image_and_by_its_name() {
        let images = with_own(ImageMap::parse("'*': {command: [mine]}").unwrap());
        let installer = images.program(WRAP_PATH).unwrap();
        let installer = installer.iter().map(OsString::from).chain(["install", "/pillion-wrap"].map(OsString::from));
        assert_eq!(OwnProgram::of(installer), Some(OwnProgram::InstallWrap("/pillion-wrap".into())));
        let installed = ["/pillion-wrap/pillion-wrap", "work", "--name=main"].map(OsString::from);
        assert_eq!(OwnProgram::of(installed), Some(OwnProgram::Wrap(vec!["work".into(), "--name=main".into()])));
    }
}
