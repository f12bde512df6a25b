//! Reports `HorizontalPodAutoscalers` that scale by what an autoscaler sizes.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Client, ResourceExt as _};
use pillion_api::vpa::VerticalPodAutoscaler;
use pillion_events::Recorder;
use pillion_rightsize::horizontal_conflicts;

use crate::config::Config;
use crate::references;

/// What was reported, so that it is reported once.
pub(super) struct Horizontal {
    recorder: Recorder,
    reported: BTreeSet<String>,
}

impl Horizontal {
    pub(super) fn new(config: &Config) -> Horizontal {
        let now = config.now.clone();
        let recorder = Recorder::new(config.client.clone(), move || now(), "vpa-recommender");
        Horizontal { recorder, reported: BTreeSet::new() }
    }

    /// Looks for conflicts, and reports those that are new.
    pub(super) async fn look(
        &mut self,
        client: &Client,
        autoscalers: impl Iterator<Item = &Arc<VerticalPodAutoscaler>>,
    ) {
        let autoscalers: Vec<&Arc<VerticalPodAutoscaler>> = autoscalers.collect();
        if autoscalers.is_empty() {
            return;
        }
        let all: Api<DynamicObject> =
            Api::all_with(client.clone(), &ApiResource::erase::<HorizontalPodAutoscaler>(&()));
        let listed = match all.list(&ListParams::default()).await {
            Ok(listed) => listed.items,
            Err(error) => {
                tracing::debug!(%error, "HorizontalPodAutoscalers cannot be listed");
                return;
            }
        };
        let mut found = BTreeSet::new();
        for horizontal in listed {
            let name = horizontal.name_any();
            let Ok(value) = serde_json::to_value(horizontal) else { continue };
            for autoscaler in &autoscalers {
                for resource in horizontal_conflicts(autoscaler, &value) {
                    let text = format!(
                        "HorizontalPodAutoscaler {name:?} scales the same target by its use of {resource}, which this autoscaler sizes: both answer \
                         the same load. Leave {resource} out of controlledResources, or scale by another metric"
                    );
                    let key = format!("{}/{}: {text}", autoscaler.namespace(), autoscaler.name());
                    if !self.reported.contains(&key) {
                        self.report(autoscaler, &text);
                    }
                    found.insert(key);
                }
            }
        }
        self.reported = found;
    }

    fn report(&self, autoscaler: &VerticalPodAutoscaler, text: &str) {
        tracing::warn!(autoscaler = autoscaler.name(), namespace = autoscaler.namespace(), "{text}");
        self.recorder.warning(&references::of_autoscaler(autoscaler), "HorizontalPodAutoscalerConflict", text);
    }
}
