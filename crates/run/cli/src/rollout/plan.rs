//! A rollout played in virtual time before anything is applied.

use std::fmt::Write as _;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use pillion_api::sidecarset::{SidecarSet, revision};
use pillion_embedded::table::human;
use pillion_rollout::{
    BLOCKED, Basis, COMPLETE, Forecast, PROGRESSING, Pace, Refusals, Snapshot, StoredRevision, Target, counted,
    forecast, is_or_are, partition,
};
use serde::Serialize;

use super::fleet::Fleet;
use super::found::decode;
use crate::Failure;
use crate::cluster::known;
use crate::cluster::read::Reader;
use crate::manifest::Document;
use crate::offline::{self, Applied, Live, UnknownFields};
use crate::render::table;
use crate::terminal::clean_line;

/// As many waves as a person reads; `-o json` has all of them.
const WAVES: usize = 30;
/// As many names of pods in a row.
const NAMES: usize = 3;

/// How the rollout of one SidecarSet would go. Times are in seconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Planned {
    pub(crate) sidecar_set: String,
    /// The revision of now; absent if the set is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from_revision: Option<String>,
    pub(crate) to_revision: String,
    /// Images that change in the first wave.
    pub(crate) images: Vec<String>,
    pub(crate) matched_pods: i32,
    pub(crate) pods_to_update: usize,
    /// How many pods the partition keeps.
    pub(crate) kept_pods: usize,
    pub(crate) seconds: i64,
    /// How long a pod takes, and how that is known.
    pub(crate) seconds_per_pod: i64,
    pub(crate) measured_pods: usize,
    pub(crate) basis: Basis,
    pub(crate) waves: Vec<PlannedWave>,
    /// Pods of waves that were not played because there are too many, which is in `seconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_played_pods: Option<usize>,
    /// Whether every pod that the strategy updates gets the revision.
    pub(crate) completes: bool,
    /// What would be in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blocked: Option<Blocked>,
}

/// Pods that are updated at one moment.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlannedWave {
    pub(crate) at_seconds: i64,
    pub(crate) until_seconds: i64,
    pub(crate) pods: Vec<String>,
}

/// What would be in the way.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Blocked {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// Plays the rollouts of the SidecarSets among the documents. Nothing is written.
pub(crate) async fn plan(
    reader: &Reader,
    documents: Vec<Document>,
    revisions_namespace: &str,
    unknown_fields: UnknownFields,
    now: Timestamp,
    warnings: &mut Vec<String>,
) -> Result<Vec<Planned>, Failure> {
    let stored = known::sets(reader).await?.ok_or_else(|| {
        Failure::no("this cluster does not serve SidecarSets: their CustomResourceDefinition is not installed")
    })?;
    let live: Vec<Arc<SidecarSet>> = stored.into_iter().filter_map(|object| decode(object).ok()).collect();
    let pins = documents.iter().any(|document| {
        ["injectionStrategy", "injectStrategy"].iter().any(|field| document.value["spec"].get(field).is_some())
    });
    let revisions = if pins { known::revisions(reader, revisions_namespace).await? } else { Vec::new() };
    let known = Live { sets: &live, revisions: &revisions, whitelist: None };
    let Applied { sets, .. } =
        offline::load_applied(documents, &known, unknown_fields, warnings).map_err(Failure::No)?;
    if sets.is_empty() {
        return Err(Failure::misuse("there is no SidecarSet in these manifests"));
    }
    let mut planned = Vec::new();
    for set in sets {
        let before = live.iter().find(|known| known.name() == set.name());
        let set = as_applied(&set, before.map(Arc::as_ref));
        let fleet = Fleet::read(reader, &set, revisions_namespace).await?;
        planned.push(play(set, before.map(Arc::as_ref), fleet, revisions_namespace, now));
    }
    Ok(planned)
}

/// The set as the API server would have it.
fn as_applied(set: &SidecarSet, before: Option<&SidecarSet>) -> SidecarSet {
    let mut set = set.clone();
    if let Some(before) = before {
        set.metadata.uid.clone_from(&before.metadata.uid);
        set.metadata.resource_version.clone_from(&before.metadata.resource_version);
        set.metadata.generation = before.metadata.generation.map(|generation| generation + 1);
    }
    set
}

fn play(
    set: SidecarSet,
    before: Option<&SidecarSet>,
    fleet: Fleet,
    revisions_namespace: &str,
    now: Timestamp,
) -> Planned {
    let target = Target::new(Arc::new(set));
    let revisions: Vec<StoredRevision<'_>> = fleet.revisions.iter().map(StoredRevision::of).collect();
    let snapshot = Snapshot {
        target: &target,
        revisions: &revisions,
        is_used_elsewhere: &|_| false,
        // Pods of other namespaces were not read.
        is_in_scope: &|_| true,
        refusals: &Refusals::default(),
        system_namespace: revisions_namespace,
    };
    let pace = Pace::of(target.set().name(), &fleet.pods);
    let forecast = forecast(&snapshot, fleet.pods, &pace, now);
    planned(target.set(), before, &forecast, &pace)
}

fn planned(set: &SidecarSet, before: Option<&SidecarSet>, forecast: &Forecast, pace: &Pace) -> Planned {
    let status = &forecast.status;
    let matched = usize::try_from(status.matched_pods).unwrap_or_default();
    let left = usize::try_from(status.matched_pods - status.updated_pods).unwrap_or_default();
    let name = |pod: &pillion_rollout::ForecastPod| format!("{}/{}", pod.namespace, pod.name);
    let waves = forecast.waves.iter().map(|wave| PlannedWave {
        at_seconds: wave.at.as_secs(),
        until_seconds: wave.until.as_secs(),
        pods: wave.pods.iter().map(name).collect(),
    });
    let first = forecast.waves.first().and_then(|wave| wave.pods.first());
    let images = first.into_iter().flat_map(|pod| &pod.images);
    let blocked =
        |condition: &Condition| Blocked { reason: condition.reason.clone(), message: condition.message.clone() };
    let is_true = status.condition(BLOCKED).filter(|condition| condition.status == "True");
    Planned {
        sidecar_set: set.name().to_owned(),
        from_revision: before.map(revision::current_name),
        to_revision: forecast.revision.clone(),
        images: images.map(|image| format!("{}: {} -> {}", image.container, image.from, image.to)).collect(),
        matched_pods: status.matched_pods,
        pods_to_update: forecast.waves.iter().map(|wave| wave.pods.len()).sum(),
        kept_pods: partition(set.spec.update_strategy.partition.as_ref(), matched).min(left),
        seconds: forecast.duration.as_secs(),
        seconds_per_pod: pace.overall.takes.as_secs(),
        measured_pods: pace.overall.pods,
        basis: pace.overall.basis,
        waves: waves.collect(),
        not_played_pods: forecast.rest.map(|rest| rest.pods),
        completes: status.condition(PROGRESSING).is_some_and(|it| it.reason == COMPLETE) || forecast.rest.is_some(),
        blocked: is_true.map(blocked),
    }
}

/// The plan for people.
pub(crate) fn text(planned: &Planned) -> String {
    let to = &planned.to_revision;
    let mut text = match &planned.from_revision {
        Some(from) if from == to => format!("SidecarSet {}: revision {to} stays\n", planned.sidecar_set),
        Some(from) => format!("SidecarSet {}: revision {from} -> {to}\n", planned.sidecar_set),
        None => format!("SidecarSet {}: new, revision {to}\n", planned.sidecar_set),
    };
    for image in &planned.images {
        let _ = writeln!(text, "  {}", clean_line(image));
    }
    let matched = usize::try_from(planned.matched_pods).unwrap_or_default();
    let kept =
        if planned.kept_pods > 0 { format!(", the partition keeps {}", planned.kept_pods) } else { String::new() };
    let waves = planned.waves.len();
    let within = |seconds| human(SignedDuration::from_secs(seconds));
    let _ = match (planned.pods_to_update, planned.not_played_pods) {
        (0, _) => writeln!(text, "  {} matched, none is updated{kept}", is_or_are(matched)),
        (_, Some(rest)) => writeln!(
            text,
            "  {} matched; the first {waves} waves are played, {} follow: about {} in all",
            is_or_are(matched),
            counted(rest),
            within(planned.seconds)
        ),
        (updated, None) => writeln!(
            text,
            "  {} matched, {updated} updated in {waves} {} within about {}{kept}",
            is_or_are(matched),
            if waves == 1 { "wave" } else { "waves" },
            within(planned.seconds)
        ),
    };
    if planned.pods_to_update > 0 {
        let how = match planned.basis {
            Basis::Updates => format!("median of {} that were updated in place", counted(planned.measured_pods)),
            Basis::Starts => format!("median of {}, from creation to ready", counted(planned.measured_pods)),
            Basis::Assumed => "assumed: no pod has become ready yet".to_owned(),
        };
        let _ = writeln!(text, "  a pod takes {} to get ready ({how})", within(planned.seconds_per_pod));
        let rows = (1..).zip(&planned.waves).take(WAVES).map(|(number, wave): (usize, _)| {
            let at = within(wave.at_seconds);
            vec![number.to_string(), at, within(wave.until_seconds), wave.pods.len().to_string(), names(&wave.pods)]
        });
        let _ = write!(text, "\n{}", table(&["WAVE", "BEGINS", "READY", "PODS", "NAMES"], rows));
        if waves > WAVES {
            let _ = writeln!(text, "  … and {} more waves; -o json lists all", waves - WAVES);
        }
    }
    if let Some(blocked) = &planned.blocked {
        let _ = writeln!(text, "\n  BLOCKED {}: {}", blocked.reason, clean_line(&blocked.message));
    }
    text
}

fn names(pods: &[String]) -> String {
    let shown: Vec<&str> = pods.iter().take(NAMES).map(String::as_str).collect();
    let more = pods.len().saturating_sub(NAMES);
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}
