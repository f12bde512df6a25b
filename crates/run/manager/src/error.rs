//! What can go wrong with the manager as a whole. What is wrong with one object is an answer to whoever sent it.

/// Why the manager cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused, or could not be reached.
    #[error("cannot {what}")]
    Api {
        /// What was tried.
        what: String,
        /// What the API server said.
        source: Box<kube::Error>,
    },
    /// A definition is there and not served.
    #[error("CustomResourceDefinition {name:?} is not established after {seconds} s; its conditions say why")]
    NotEstablished {
        /// The definition.
        name: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A definition is missing.
    #[error(
        "there is no CustomResourceDefinition {name:?}; `pillion install` creates it, and so does `pillion crds | kubectl apply -f -`"
    )]
    NoDefinition {
        /// The definition.
        name: String,
    },
    /// The caches have not been filled.
    #[error(
        "the API server has not listed SidecarSets, Namespaces and ControllerRevisions within {seconds} s; the manager must be allowed to list and watch them"
    )]
    NotFilled {
        /// How long they were waited for.
        seconds: u64,
    },
    /// A watch has ended, by a panic: what it kept no longer follows the API server.
    #[error(
        "a watch has ended by itself; the manager ends too, so that it is started again with caches that follow the API server"
    )]
    WatchEnded,
    /// An election cannot be held.
    #[error("cannot run for leadership")]
    Lease(#[from] pillion_lease::InvalidConfig),
    /// The webhooks cannot be reached at what was given as their address.
    #[error("{url:?} is not a URL of webhooks: it must begin with https:// and name a host")]
    Url {
        /// What was given.
        url: String,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate for {host:?}")]
    Certificate {
        /// For whom.
        host: String,
        /// What is wrong.
        source: rcgen::Error,
    },
    /// A certificate cannot be served.
    #[error("{place}: the certificate cannot be served")]
    Tls {
        /// Where it is from.
        place: String,
        /// What is wrong.
        source: pillion_serve::CertificateError,
    },
    /// A file of a certificate cannot be read.
    #[error("cannot read {}", file.display())]
    File {
        file: std::path::PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The port cannot be served.
    #[error("cannot serve webhooks on the port")]
    Port(#[source] std::io::Error),
}

impl Error {
    /// What led to it, for the log.
    pub(crate) fn cause(&self) -> Option<String> {
        std::error::Error::source(self).map(ToString::to_string)
    }

    pub(crate) fn with_cause(&self) -> String {
        self.cause().map_or_else(|| self.to_string(), |cause| format!("{self}: {cause}"))
    }

    /// For `map_err`: the API server did not do `what`.
    pub(crate) fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
        let what = what.into();
        move |source| Error::Api { what, source: Box::new(source) }
    }
}
