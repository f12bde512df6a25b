//! Why the wrapper cannot do its part.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why the wrapper cannot do its part.
#[derive(Debug)]
pub enum Error {
    /// The arguments are wrong.
    Usage(String),
    /// A file cannot be used.
    File {
        /// What was tried.
        what: &'static str,
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The command cannot be run.
    Start {
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// The system refuses something that it never should.
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File { what, path, source }
    }

    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Error {
        move |source| Error::System { what, source: source.into() }
    }

    /// The code that shells exit with for it.
    pub(crate) fn exit_code(&self) -> Option<u8> {
        match self {
            Error::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(127),
            Error::Start { .. } => Some(126),
            Error::Usage(_) | Error::File { .. } | Error::System { .. } => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(what) => write!(
                f,
                "{what}; usage: pillion-wrap install FOLDER | work --name=NAME --state=FOLDER -- COMMAND… | \
                 sidecar --name=NAME --state=FOLDER --work=NAME… --policy=Never|OnFailure --grace=SECONDS -- COMMAND…"
            ),
            Error::File { what, path, source } => write!(f, "cannot {what} {}: {source}", path.display()),
            Error::Start { program, source } => write!(f, "cannot run {program}: {source}"),
            Error::System { what, source } => write!(f, "cannot {what}: {source}"),
        }
    }
}

impl std::error::Error for Error {}
