//! Writes of small objects: created by few and by many clients, and updated from the version that was read.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use hyper::Method;
use pillion_engine_load::client::{Target, post_all, text_after, turned_away};
use pillion_engine_load::measure::{Measure, Unit, median};
use pillion_engine_load::server::Server;
use tokio::task::JoinSet;

use crate::Load;
use crate::pods::{CONFIG_MAPS, clean_up};

const CLIENTS: [usize; 3] = [1, 16, 64];
const UPDATING: usize = 16;

/// Writes `ConfigMaps` in every way.
pub(crate) async fn writes(server: &Server, target: &Target, load: &Load) -> anyhow::Result<Vec<Measure>> {
    let mut measures = Vec::new();
    for clients in CLIENTS {
        // One client alone takes long for little to be learned.
        let count = if clients == 1 { load.writes / 4 } else { load.writes };
        let (mut rates, mut processor) = (Vec::new(), Vec::new());
        for _ in 0..load.rounds {
            let before = server.usage()?.processor;
            let took = post_all(target, clients, CONFIG_MAPS, count, |index| config_map(index, "", 0)).await?;
            processor.push(server.usage()?.processor.saturating_sub(before).as_secs_f64() / Measure::number(count));
            rates.push(Measure::number(count) / took.as_secs_f64());
            clean_up(target, CONFIG_MAPS).await?;
        }
        let what = format!("create ConfigMaps, {clients} client{}", if clients == 1 { "" } else { "s" });
        measures.push(Measure::more(what.clone(), median(rates), Unit::PerSecond));
        if clients == UPDATING {
            measures.push(Measure::less(format!("{what}, processor time of each"), median(processor), Unit::Seconds));
        }
    }
    let mut rates = Vec::new();
    for _ in 0..load.rounds {
        let took = update(target, load.writes / UPDATING).await?;
        rates.push(Measure::number(load.writes / UPDATING * UPDATING) / took.as_secs_f64());
        clean_up(target, CONFIG_MAPS).await?;
    }
    measures.push(Measure::more(format!("update ConfigMaps, {UPDATING} clients"), median(rates), Unit::PerSecond));
    eprintln!("  written; turned away {} times", turned_away());
    Ok(measures)
}

/// Every client updates an object of its own, each time from the version that the last answer gave.
async fn update(target: &Target, each: usize) -> anyhow::Result<Duration> {
    let mut clients = Vec::new();
    for (index, mut connection) in target.connect_many(UPDATING).await?.into_iter().enumerate() {
        let answer = connection.must(&Method::POST, CONFIG_MAPS, &config_map(index, "", 0)).await?;
        clients.push((index, connection, version(&answer)?));
    }
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    for (index, mut connection, mut known) in clients {
        tasks.spawn(async move {
            let path = format!("{CONFIG_MAPS}/load-{index}");
            for step in 0..each {
                let body = config_map(index, &known, step + 1);
                known = version(&connection.must(&Method::PUT, &path, &body).await?)?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(begin.elapsed())
}

/// A small object; without a version it is to be created.
pub(crate) fn config_map(index: usize, version: &str, step: usize) -> Bytes {
    let metadata = format!(r#"{{"name":"load-{index}","labels":{{"load":"yes"}},"resourceVersion":"{version}"}}"#);
    let data =
        format!(r#"{{"step":"{step}","address":"https://shop.example.com:8443","retries":"5","timeout":"30s"}}"#);
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata},"data":{data}}}"#).into()
}

fn version(answer: &[u8]) -> anyhow::Result<String> {
    Ok(text_after(answer, r#""resourceVersion":""#).context("an object has a version")?.to_owned())
}
