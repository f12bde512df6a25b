//! The image of the in-pod agent, which needs no entry in `--images`: in `pillion up` the agent is this program itself.

use std::ffi::OsString;

use pillion_node::{Image, ImageMap};

/// The agent, as containers call it whose image is not its own.
const PROGRAM: &str = "pillion-agent";
/// The names of its image, of any registry and with any tag.
const NAMES: [&str; 2] = [PROGRAM, "*/pillion-agent"];
/// The first argument of this program where it is to be the agent.
const ASKED: &str = "--as-pillion-agent";

/// The agent's arguments, if the program with these arguments is to be the agent.
pub fn agent_arguments(arguments: impl IntoIterator<Item = OsString>) -> Option<Vec<String>> {
    let mut arguments = arguments.into_iter().skip(1);
    let is_asked = arguments.next()? == ASKED;
    is_asked.then(|| arguments.map(|argument| argument.to_string_lossy().into_owned()).collect())
}

/// The images with the agent's, unless they have one of that name, and the agent itself for every image: `pillion install --print --agent` calls it by
/// its name.
pub(super) fn with_agent(images: ImageMap) -> ImageMap {
    let Some(program) = std::env::current_exe().ok().and_then(|program| program.into_os_string().into_string().ok())
    else {
        return images;
    };
    let agent = Image { command: vec![program, ASKED.to_owned()], ..Image::default() };
    let images = images.with_program(PROGRAM, agent.command.clone());
    NAMES.into_iter().fold(images, |images, name| images.or(name, agent.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_this_program_unless_the_file_says_otherwise() {
        let images = with_agent(ImageMap::default());
        for name in ["pillion-agent", "pillion-agent:0.1.0", "registry.example.com/team/pillion-agent:1"] {
            let command = &images.get(name).unwrap().command;
            let arguments = agent_arguments(command.iter().chain([&"--help".to_owned()]).map(OsString::from));
            assert_eq!(arguments, Some(vec!["--help".to_owned()]), "{name}");
        }
        assert_eq!(images.get("another-agent"), None);
        assert_eq!(images.program("pillion-agent"), Some(images.get("pillion-agent").unwrap().command.as_slice()));
        let own = with_agent(ImageMap::parse("'*': {command: [mine]}").unwrap());
        assert_eq!(own.get("pillion-agent").unwrap().command, ["mine"]);
        assert_eq!(agent_arguments(["pillion", "up"].map(OsString::from)), None);
    }
}
