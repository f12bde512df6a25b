//! One object by its name: a signal whenever it changes.

use futures::{Stream, StreamExt as _};
use kube::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;

/// One item whenever the object of this name changes or is deleted.
pub(crate) fn touched<K>(api: Api<PartialObjectMeta<K>>, name: &str) -> impl Stream<Item = ()> + Send + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    let named = watcher::Config::default().fields(&format!("metadata.name={name}"));
    pillion_informer::watch(api, named).filter_map(async |event| match event {
        watcher::Event::Apply(_) | watcher::Event::Delete(_) | watcher::Event::InitDone => Some(()),
        watcher::Event::Init | watcher::Event::InitApply(_) => None,
    })
}
