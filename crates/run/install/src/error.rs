//! Why an installation, or its removal, did not come to its end.

/// Why it did not come to its end.
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
    /// Objects that somebody else manages have the names of ours. Nothing was changed.
    #[error(
        "nothing was changed, because these objects exist and are not part of an installation by this program: {}. Delete them, or adopt \
         them with the label {}=pillion{}",
        objects.join(", "),
        pillion_api::names::MANAGED_BY,
        if *has_definition { "; a SidecarSet definition of Kruise is adopted with --take-over=kruise" } else { "" }
    )]
    Foreign {
        /// The objects, with who manages them.
        objects: Vec<String>,
        /// Whether the definition of SidecarSet is among them.
        has_definition: bool,
    },
    /// An OpenKruise or a VerticalPodAutoscaler serves the same objects, or has left its webhooks. Nothing was changed.
    #[error("nothing was changed: {why}")]
    InTheWay {
        /// What is in the way, and what to do about it.
        why: String,
    },
    /// There is one installation in a cluster.
    #[error(
        "Pillion is installed in namespace {namespace:?} already: give --namespace={namespace}, or uninstall it first"
    )]
    Elsewhere {
        /// Where it is.
        namespace: String,
    },
    /// Helm would not know what has happened to its objects.
    #[error("Pillion was installed by Helm: use `helm upgrade` and `helm uninstall` for release {release:?}")]
    Helm { release: String },
    /// The replicas did not become available.
    #[error(
        "the manager is not available after {seconds} s: {state}; `kubectl --namespace={namespace} describe pods` may say why"
    )]
    NotAvailable {
        /// How long it was waited for.
        seconds: u64,
        /// What was seen last.
        state: String,
        /// The namespace of the manager.
        namespace: String,
    },
    /// The replicas are available, but the API server does not reach them.
    #[error(
        "the manager is available, but no admission went through it within {seconds} s: {why}; the API server must reach the pods of \
         Service {service} on port 9443"
    )]
    NotAdmitted {
        /// How long it was tried.
        seconds: u64,
        /// What was seen last.
        why: String,
        /// The Service of the webhooks.
        service: String,
    },
    /// Something is still there.
    #[error("{what} is still there after {seconds} s")]
    NotGone {
        /// What.
        what: String,
        /// How long it was waited for.
        seconds: u64,
    },
}

impl Error {
    /// For `map_err`: the API server did not do `what`.
    pub(crate) fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
        let what = what.into();
        move |source| Error::Api { what, source: Box::new(source) }
    }
}
