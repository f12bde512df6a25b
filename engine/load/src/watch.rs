//! Many watchers of one resource: how long until the last of them has seen the last write, and what that costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Method, Response};
use pillion_engine_load::client::{Target, post_all, text_after};
use pillion_engine_load::measure::{Measure, Unit, median};
use pillion_engine_load::server::Server;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::Load;
use crate::pods::{CONFIG_MAPS, clean_up};
use crate::write::config_map;

/// Writers while all watch.
const CLIENTS: usize = 4;
/// A server that takes longer does not deliver at all.
const PATIENCE: Duration = Duration::from_mins(10);

/// Watches `ConfigMaps` with many connections while some are created.
pub(crate) async fn watches(server: &Server, target: &Target, load: &Load) -> anyhow::Result<Vec<Measure>> {
    let writes = (load.writes / 10).max(1);
    let (mut times, mut processor) = (Vec::new(), Vec::new());
    for _ in 0..load.rounds {
        let mut watchers = JoinSet::new();
        let (seen, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let path = watch_path(target).await?;
        for _ in 0..load.watchers {
            let mut connection = target.connect().await?;
            let response = connection.open(&Method::GET, &path, &Bytes::new()).await?;
            anyhow::ensure!(response.status().is_success(), "GET {path}: {}", response.status());
            let (seen, done, all) = (seen.clone(), done.clone(), load.watchers);
            watchers.spawn(async move {
                read_events(response, writes).await?;
                if seen.fetch_add(1, Ordering::Relaxed) + 1 == all {
                    done.notify_one();
                }
                // The connection stays open as long as its sender lives.
                drop(connection);
                anyhow::Ok(())
            });
        }
        let before = server.usage()?.processor;
        let begin = Instant::now();
        post_all(target, CLIENTS, CONFIG_MAPS, writes, |index| config_map(index, "", 0)).await?;
        if tokio::time::timeout(PATIENCE, done.notified()).await.is_err() {
            anyhow::bail!("{} of {} watchers have seen all", seen.load(Ordering::Relaxed), load.watchers);
        }
        times.push(begin.elapsed().as_secs_f64());
        processor.push(server.usage()?.processor.saturating_sub(before).as_secs_f64());
        drop(watchers);
        clean_up(target, CONFIG_MAPS).await?;
    }
    eprintln!("  watched");
    let what = format!("{} watchers see {writes} writes", load.watchers);
    Ok(vec![
        Measure::less(what.clone(), median(times), Unit::Seconds),
        Measure::less(format!("{what}, processor time"), median(processor), Unit::Seconds),
    ])
}

/// From now on.
async fn watch_path(target: &Target) -> anyhow::Result<String> {
    let list = target.connect().await?.must(&Method::GET, &format!("{CONFIG_MAPS}?limit=1"), &Bytes::new()).await?;
    let version = text_after(&list, r#""resourceVersion":""#).context("a list has a version")?;
    Ok(format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=3600&resourceVersion={version}"))
}

/// Reads until so many events have come: each is a line.
async fn read_events(response: Response<Incoming>, count: usize) -> anyhow::Result<()> {
    let (mut body, mut lines) = (response.into_body(), 0);
    while lines < count {
        let frame = body.frame().await.context("the server has ended the watch")??;
        lines += frame.data_ref().map_or(0, |data| data.split(|byte| *byte == b'\n').count() - 1);
    }
    Ok(())
}
