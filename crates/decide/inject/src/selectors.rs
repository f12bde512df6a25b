//! Which pods a set is for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use pillion_api::field::Path;
use pillion_api::sidecarset::SidecarSet;
use pillion_selector::Selector;

use crate::body::CompileError;
use crate::namespace::Namespace;

/// Which pods a set is for.
#[derive(Debug)]
pub(crate) struct Selectors {
    /// `None` means all namespaces.
    pub(crate) namespaces: Option<Selector>,
    /// Matches nothing without one.
    pub(crate) pods: Option<Selector>,
}

impl Selectors {
    pub(crate) fn of(set: &SidecarSet) -> Result<Selectors, CompileError> {
        let pods = selector(set, set.spec.selector.as_ref(), "selector")?;
        let namespaces = selector(set, set.spec.namespace_selector.as_ref(), "namespaceSelector")?;
        Ok(Selectors { namespaces, pods: pods.filter(|selector| !selector.is_empty()) })
    }

    pub(crate) fn match_pod<'v>(&self, namespace: &Namespace, label: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.namespaces.as_ref().is_none_or(|selector| selector.matches(|key| namespace.label(key)))
            && self.pods.as_ref().is_some_and(|selector| selector.matches(label))
    }
}

/// A selector of a set, checked.
pub(crate) fn selector(
    set: &SidecarSet,
    selector: Option<&LabelSelector>,
    field: &str,
) -> Result<Option<Selector>, CompileError> {
    selector.map(Selector::from_label_selector).transpose().map_err(|reason| CompileError {
        set: set.name().to_owned(),
        path: Path::new("spec").child(field),
        reason: reason.into(),
    })
}
