//! Lists of all pods: whole, and page by page.

use std::time::Instant;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::Method;
use pillion_engine_load::client::{Connection, Target, text_after};
use pillion_engine_load::measure::{Measure, Unit, median};
use pillion_engine_load::server::Server;

use crate::Load;
use crate::pods::PODS;

const PAGE: usize = 500;

/// Reads all pods, in both ways.
pub(crate) async fn lists(server: &Server, target: &Target, load: &Load) -> anyhow::Result<Vec<Measure>> {
    let mut connection = target.connect().await?;
    let (mut whole, mut paged, mut processor) = (Vec::new(), Vec::new(), Vec::new());
    let mut bytes = 0;
    for _ in 0..load.rounds {
        let before = server.usage()?.processor;
        let begin = Instant::now();
        bytes = read_whole(&mut connection).await?;
        whole.push(begin.elapsed().as_secs_f64());
        processor.push(server.usage()?.processor.saturating_sub(before).as_secs_f64());
        let begin = Instant::now();
        let pages = read_pages(&mut connection).await?;
        paged.push(begin.elapsed().as_secs_f64());
        anyhow::ensure!(pages == load.pods.div_ceil(PAGE), "{} pods in {pages} pages of {PAGE}", load.pods);
    }
    eprintln!("  lists read");
    let pods = load.pods;
    Ok(vec![
        Measure::less(format!("list {pods} pods"), median(whole), Unit::Seconds),
        Measure::less(format!("list {pods} pods, processor time"), median(processor), Unit::Seconds),
        Measure::less(format!("list {pods} pods, bytes"), Measure::bytes(bytes), Unit::Bytes),
        Measure::less(format!("list {pods} pods, pages of {PAGE}"), median(paged), Unit::Seconds),
    ])
}

/// The number of bytes.
async fn read_whole(connection: &mut Connection) -> anyhow::Result<u64> {
    let response = connection.open(&Method::GET, PODS, &Bytes::new()).await?;
    anyhow::ensure!(response.status().is_success(), "GET {PODS}: {}", response.status());
    let (mut body, mut bytes) = (response.into_body(), 0);
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(bytes)
}

/// The number of pages.
async fn read_pages(connection: &mut Connection) -> anyhow::Result<usize> {
    let (mut pages, mut rest) = (0, String::new());
    loop {
        let page = connection.must(&Method::GET, &format!("{PODS}?limit={PAGE}{rest}"), &Bytes::new()).await?;
        pages += 1;
        // The token stands before the items.
        let head = page.get(..page.len().min(1024)).unwrap_or_default();
        match text_after(head, r#""continue":""#) {
            Some(token) if !token.is_empty() => rest = format!("&continue={}", token.replace('+', "%2B")),
            _ => return Ok(pages),
        }
    }
}
