//! `storageConfig`: where a result is written.

mod http_metric;
mod in_kube;
mod key;
mod target;

pub use http_metric::HttpMetric;
pub use in_kube::{InKube, Policy};
pub use key::Key;
pub(crate) use key::label_value;
pub use target::Target;

use super::reader::Field;

/// Where the result of an endpoint or of a plugin is written. `type` chooses the variant.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Storage {
    /// Nowhere: there is no `storageConfig`.
    #[default]
    Nowhere,
    /// `InKube`: to the pod and to other objects.
    InKube(InKube),
    /// `HTTPMetric`: to a gauge.
    HttpMetric(HttpMetric),
}

/// A `type`, its section of `storageConfig`, and how that is read.
#[derive(Clone, Copy)]
struct Type {
    name: &'static str,
    section: &'static str,
    read: fn(&Field<'_>) -> Storage,
}

const TYPES: [Type; 2] = [
    Type { name: "InKube", section: "inKube", read: |section| Storage::InKube(InKube::read(section)) },
    Type { name: "HTTPMetric", section: "httpMetric", read: |section| Storage::HttpMetric(HttpMetric::read(section)) },
];

impl Storage {
    /// Reads the section of the `type`. Without a `type`, reads the only section.
    pub(super) fn read(field: &Field<'_>) -> Storage {
        if !field.mapping(&["type", "inKube", "httpMetric"]) {
            return Storage::Nowhere;
        }
        let present: Vec<_> = TYPES.iter().filter_map(|of| Some((*of, field.get(&[of.section])?))).collect();
        let chosen = match (field.get(&["type"]), present.as_slice()) {
            (Some(name), _) => name.one_of(&TYPES.map(|of| (of.name, of))),
            (None, [(only, _)]) => Some(*only),
            (None, _) => {
                field.wrong("`type` is missing: set it to InKube or HTTPMetric");
                None
            }
        };
        let Some(Type { name, section, .. }) = chosen else { return Storage::Nowhere };
        let mut storage = None;
        for (of, place) in &present {
            if of.name == name {
                storage = Some((of.read)(place));
            } else {
                let Type { name: other, section, .. } = of;
                place.wrong(format!("`type` is {name}, so `{section}` is not used: remove it, or set `type: {other}`"));
            }
        }
        storage.unwrap_or_else(|| {
            field.wrong(format!(
                "`{section}` is missing; if its keys follow, indent all of them alike, two deeper than `{section}:`"
            ));
            Storage::Nowhere
        })
    }

    /// Returns everything in the API that this storage writes in any state.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        let kube = match self {
            Storage::InKube(kube) => Some(kube),
            Storage::Nowhere | Storage::HttpMetric(_) => None,
        };
        kube.into_iter().flat_map(InKube::keys)
    }
}

/// The storage that writes the result itself, and nothing else.
impl From<Key> for Storage {
    fn from(key: Key) -> Storage {
        Storage::InKube(InKube { results: vec![key], policies: Vec::new() })
    }
}
