//! The arguments: written by admission, and read by nobody else, so that there is no need for more than this.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;

/// What the wrapper is asked for.
#[derive(Debug)]
pub enum Command {
    /// Copy the wrapper into this folder.
    Install(PathBuf),
    /// Run a command that does the pod's work.
    Work(Work),
    /// Run a command that ends when the work is done.
    Sidecar(Sidecar),
}

/// A command that does the pod's work.
#[derive(Debug, Default)]
pub struct Work {
    /// The container.
    pub name: String,
    /// The folder that all wrappers of the pod share.
    pub state: PathBuf,
    /// The command with its arguments.
    pub command: Vec<OsString>,
}

/// A command that ends when the work is done.
#[derive(Debug)]
pub struct Sidecar {
    /// The command itself.
    pub run: Work,
    /// The containers that do the work.
    pub work: Vec<String>,
    /// The pod's restart policy.
    pub policy: Policy,
    /// How long the command may take to end.
    pub grace: Duration,
}

/// The restart policies under which work is ever done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Work that has ended is done.
    Never,
    /// Work is done when it has ended with 0.
    OnFailure,
}

/// Reads the arguments, without the name of the program.
///
/// # Errors
/// One is missing or unknown.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Error> {
    let mut arguments = arguments.into_iter();
    let verb = arguments.next().unwrap_or_default();
    match verb.to_str() {
        Some("install") => {
            let folder = arguments.next().ok_or_else(|| Error::Usage("the folder is missing".to_owned()))?;
            Ok(Command::Install(folder.into()))
        }
        Some("work") => {
            let flags = Flags::read(arguments)?;
            Ok(Command::Work(flags.run))
        }
        Some("sidecar") => {
            let Flags { run, work, policy, grace } = Flags::read(arguments)?;
            let policy = policy.ok_or_else(|| Error::Usage("--policy is missing".to_owned()))?;
            if work.is_empty() {
                return Err(Error::Usage("--work is missing".to_owned()));
            }
            Ok(Command::Sidecar(Sidecar { run, work, policy, grace }))
        }
        _ if verb.is_empty() => Err(Error::Usage("install, work or sidecar is missing".to_owned())),
        _ => Err(Error::Usage(format!("{} is not understood", verb.display()))),
    }
}

#[derive(Default)]
struct Flags {
    run: Work,
    work: Vec<String>,
    policy: Option<Policy>,
    grace: Duration,
}

impl Flags {
    fn read(mut arguments: impl Iterator<Item = OsString>) -> Result<Flags, Error> {
        let mut flags = Flags::default();
        for argument in arguments.by_ref() {
            let unknown = || Error::Usage(format!("{} is not understood", argument.display()));
            if argument == "--" {
                break;
            }
            let (name, value) = argument.to_str().and_then(|text| text.split_once('=')).ok_or_else(unknown)?;
            match (name, value) {
                ("--name", name) => flags.run.name = container(name)?,
                ("--state", folder) => flags.run.state = folder.into(),
                ("--work", name) => flags.work.push(container(name)?),
                ("--policy", "Never") => flags.policy = Some(Policy::Never),
                ("--policy", "OnFailure") => flags.policy = Some(Policy::OnFailure),
                ("--grace", seconds) => flags.grace = Duration::from_secs(seconds.parse().map_err(|_| unknown())?),
                _ => return Err(unknown()),
            }
        }
        flags.run.command = arguments.collect();
        if flags.run.name.is_empty() || flags.run.state.as_os_str().is_empty() || flags.run.command.is_empty() {
            return Err(Error::Usage("--name, --state or the command is missing".to_owned()));
        }
        Ok(flags)
    }
}

/// The name of a container. It becomes the name of a file in the shared folder, so that anything else is refused.
fn container(name: &str) -> Result<String, Error> {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !name.is_empty() && name.len() <= 63 && name.bytes().all(legal) {
        return Ok(name.to_owned());
    }
    Err(Error::Usage(format!("{name:?} is not the name of a container: use lower-case letters, digits and -")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(arguments: &[&str]) -> String {
        parse(arguments.iter().map(OsString::from)).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_said_with_the_usage() {
        assert!(error(&[]).starts_with("install, work or sidecar is missing; usage: pillion-wrap install FOLDER"));
        assert!(error(&["wrok"]).starts_with("wrok is not understood; usage:"));
        assert!(error(&["work", "--nmae=a"]).starts_with("--nmae=a is not understood"));
        assert!(error(&["work", "--name=a", "--state=/s", "--"]).contains("the command is missing"));
        assert!(
            error(&["sidecar", "--name=a", "--state=/s", "--policy=Never", "--", "x"]).starts_with("--work is missing")
        );
    }

    #[test]
    fn names_that_lead_out_of_the_shared_folder_are_refused() {
        for name in ["../../x", "..", ".", "a/b", "/etc/x", "a.lock", "A", "", &"a".repeat(64)] {
            let (own, of_work) = (format!("--name={name}"), format!("--work={name}"));
            assert!(
                error(&["work", &own, "--state=/s", "--", "x"]).contains("is not the name of a container"),
                "{name}"
            );
            let sidecar = ["sidecar", "--name=a", "--state=/s", &of_work, "--policy=Never", "--", "x"];
            assert!(error(&sidecar).contains("is not the name of a container"), "{name}");
        }
    }

    #[test]
    fn what_comes_after_the_dashes_is_the_command_whatever_it_looks_like() {
        let arguments = [
            "sidecar",
            "--name=a",
            "--state=/s",
            "--work=b",
            "--policy=OnFailure",
            "--grace=7",
            "--",
            "x",
            "--",
            "--name=y",
        ];
        let Ok(Command::Sidecar(sidecar)) = parse(arguments.map(OsString::from)) else { panic!("not a sidecar") };
        assert_eq!(sidecar.run.command, ["x", "--", "--name=y"]);
        assert_eq!(
            (sidecar.policy, sidecar.grace, sidecar.work),
            (Policy::OnFailure, Duration::from_secs(7), vec!["b".to_owned()])
        );
    }
}
