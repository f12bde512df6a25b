//! `pillion rollout`: follows, pauses, resumes, undoes and plans rollouts of SidecarSets.
//!
//! ```text
//!  SIDECARSET ─▶ found ─▶ fleet (pods, revisions) ─┬─▶ status ─▶ text           once
//!                                                  ├─▶ watch ─▶ status ─▶ live  until it ends
//!                                                  ├─▶ history ─▶ a diff for each revision
//!                                                  ├─▶ change: a patch of the set
//!                                                  └─▶ restart: evictions, as pillion-rollout allows them
//!  NEW.yaml ─▶ plan ─▶ fleet ─▶ pillion-rollout (forecast) ─▶ waves
//! ```

mod change;
mod fleet;
mod found;
mod history;
mod live;
mod plan;
mod restart;
mod status;
mod text;
mod watch;

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use pillion_rollout::Target;
use serde::Serialize;

use self::change::Done;
use self::fleet::Fleet;
use self::found::find;
use self::history::entries;
use self::live::Live;
use self::restart::Recreation;
use self::status::Status;
use crate::args::{ClusterArgs, Output, PlanArgs, RestartArgs, RolloutCommand, SetArgs, StatusArgs, ToClusterArgs};
use crate::cluster::read::Reader;
use crate::confirm::confirm;
use crate::connect::connect;
use crate::{Failure, block_on, print, print_coloured, print_text, rendered, say, say_warnings};

pub(crate) fn run(command: &RolloutCommand) -> Result<(), Failure> {
    match command {
        RolloutCommand::Status(args) => block_on(status(args))?,
        RolloutCommand::History(args) => block_on(history(&args.set, args.revision.as_deref()))?,
        RolloutCommand::Undo(args) => block_on(undo(&args.set, args.to_revision.as_deref()))?,
        RolloutCommand::Pause(args) => block_on(async {
            let reader = reader(&args.cluster).await?;
            report(&change::pause(&reader, &find(&reader, &args.name).await?).await?, args.output)
        })?,
        RolloutCommand::Resume(args) => block_on(async {
            let reader = reader(&args.cluster).await?;
            report(&change::resume(&reader, &find(&reader, &args.name).await?).await?, args.output)
        })?,
        RolloutCommand::Restart(args) => block_on(restart(args))?,
        RolloutCommand::Plan(args) => plan(args),
    }
}

async fn reader(args: &ToClusterArgs) -> Result<Reader, Failure> {
    Ok(Reader::new(connect(&ClusterArgs::from(args)).await?.client))
}

async fn status(args: &StatusArgs) -> Result<(), Failure> {
    let SetArgs { name, output, revisions, cluster } = &args.set;
    let reader = reader(cluster).await?;
    let found = find(&reader, name).await?;
    let namespace = &revisions.revisions_namespace;
    if args.watch {
        let timeout = (args.timeout > 0).then(|| Duration::from_secs(args.timeout));
        let mut live = (*output == Output::Text).then(|| Live::new(args.plain));
        let show = |status: &Status| live.as_mut().map_or(Ok(()), |live| live.show(status, Timestamp::now()));
        let end = watch::follow(&reader, &found, namespace, timeout, show).await?;
        if *output != Output::Text {
            print_value(&end.status, *output)?;
        }
        return end.failure.map_or(Ok(()), |failure| Err(Failure::no(failure)));
    }
    let mut fleet = Fleet::read(&reader, &found.set, namespace).await?;
    let target = Target::new(found.set);
    fleet::explain(&reader, &target, fleet.pods.iter_mut()).await;
    let status = Status::of(&target, &fleet.revisions, &fleet.pods);
    match output {
        Output::Text => print_text(&text::tables(&status, Timestamp::now())),
        output => print_value(&status, *output),
    }
}

async fn history(args: &SetArgs, revision: Option<&str>) -> Result<(), Failure> {
    let reader = reader(&args.cluster).await?;
    let found = find(&reader, &args.name).await?;
    let fleet = Fleet::read(&reader, &found.set, &args.revisions.revisions_namespace).await?;
    let target = Target::new(found.set.clone());
    let mut entries = entries(&found.set, &fleet.revisions, &target, &fleet.pods);
    let Some(wanted) = revision else {
        return match args.output {
            Output::Text => print_coloured(&history::text(&found.set, &entries, Timestamp::now())?),
            output => print_value(&entries, output),
        };
    };
    let place = history::place(&found.set, &entries, wanted)?;
    match args.output {
        Output::Text => print_coloured(&history::one(&entries, place)?),
        output => print_value(&entries.swap_remove(place), output),
    }
}

async fn undo(args: &SetArgs, to: Option<&str>) -> Result<(), Failure> {
    let reader = reader(&args.cluster).await?;
    let found = find(&reader, &args.name).await?;
    let revisions = fleet::revisions(&reader, &found.set, &args.revisions.revisions_namespace).await?;
    let entries = entries(&found.set, &revisions, &Target::new(found.set.clone()), &[]);
    report(&change::undo(&reader, &found, &revisions, &entries, to).await?, args.output)
}

async fn restart(args: &RestartArgs) -> Result<(), Failure> {
    let connection = connect(&ClusterArgs::from(&args.set.cluster)).await?;
    let reader = Reader::new(connection.client.clone());
    let found = find(&reader, &args.set.name).await?;
    let recreation = Recreation::read(&reader, &found).await?;
    if recreation.is_forbidden() {
        return Err(Failure::no("updateStrategy.maxUnavailable is 0: no ready pod may be evicted"));
    }
    recreation.announcement().iter().for_each(|line| say(line));
    if !args.yes {
        confirm("Go on?", "this evicts pods: confirm it with --yes")?;
    }
    let timeout = (args.timeout > 0).then(|| Duration::from_secs(args.timeout));
    recreation.run(&reader, &connection.once()?, timeout, &say).await?;
    report(&Done::new(&found.set, "restarted"), args.set.output)
}

fn plan(args: &PlanArgs) -> Result<(), Failure> {
    let documents = crate::read(&args.filenames)?;
    let mut warnings = Vec::new();
    let planned = block_on(async {
        let reader = reader(&args.cluster).await?;
        let (namespace, unknown_fields) = (&args.revisions.revisions_namespace, args.strictness.unknown_fields());
        plan::plan(&reader, documents, namespace, unknown_fields, Timestamp::now(), &mut warnings).await
    })?;
    say_warnings(&warnings);
    let planned = planned?;
    match args.output {
        Output::Text => print_text(&planned.iter().map(plan::text).collect::<Vec<_>>().join("\n"))?,
        output => print_value(&planned, output)?,
    }
    let stuck: Vec<&str> =
        planned.iter().filter(|planned| !planned.completes).map(|planned| planned.sidecar_set.as_str()).collect();
    if stuck.is_empty() {
        return Ok(());
    }
    Err(Failure::no(format!("the rollout of {} would not come to its end", stuck.join(", "))))
}

/// Says what was done, as kubectl does.
fn report(done: &Done, output: Output) -> Result<(), Failure> {
    say_warnings(&done.warnings);
    match output {
        Output::Text => {
            print(&format!("sidecarset.{}/{} {}\n", pillion_api::names::GROUP, done.sidecar_set, done.result))
        }
        output => print_value(done, output),
    }
}

fn print_value(value: &impl Serialize, output: Output) -> Result<(), Failure> {
    print(&rendered(&serde_json::to_value(value).map_err(io::Error::from)?, output)?)
}

#[cfg(test)]
mod tests;
