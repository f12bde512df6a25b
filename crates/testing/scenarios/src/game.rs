//! A game server: it serves its state over HTTP, reads its level again on SIGHUP, and does what a ConfigMap says.
//!
//! The ConfigMap `game` has a line for each pod under the pod's name: `idle` and `allocated` are states, `post FORM` is sent to the agent beside it,
//! and `exit` ends the process. What happens is written to the log, which is how a scenario sees it.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

/// Where the game listens, on the address of its pod.
pub(crate) const PORT: u16 = 18080;
/// What it serves as a new level.
pub(crate) const LEVEL: &str = "level 2";

/// How often it looks at its ConfigMap.
const LOOK: Duration = Duration::from_millis(500);

fn client() -> anyhow::Result<Client> {
    Ok(Client::try_from(Config::incluster().context("this runs in a pod")?)?)
}

fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set"))
}

/// Plays until it is asked to end.
pub(crate) async fn play() -> anyhow::Result<()> {
    let (pod, address) = (variable("POD_NAME")?, variable("POD_IP")?.parse::<IpAddr>()?);
    let state = Arc::new(Mutex::new("idle".to_owned()));
    let router = Router::new()
        .route("/", get(async |State(state): State<Arc<Mutex<String>>>| lock(&state).clone()))
        .route("/level.txt", get(async || LEVEL))
        .with_state(Arc::clone(&state));
    let listener = TcpListener::bind(SocketAddr::from((address, PORT))).await?;
    let mut hangups = signal(SignalKind::hangup())?;
    let mut term = signal(SignalKind::terminate())?;
    let maps: Api<ConfigMap> = Api::default_namespaced(client()?);
    let hangups = async {
        let mut count = 0;
        while hangups.recv().await.is_some() {
            count += 1;
            let level = tokio::fs::read_to_string("/app/downloads/level.txt").await.unwrap_or_default();
            println!("hangup {count}: {level}");
        }
    };
    let orders = async {
        let mut last = String::new();
        loop {
            tokio::time::sleep(LOOK).await;
            let orders = maps.get_opt("game").await.ok().flatten().and_then(|map| map.data).unwrap_or_default();
            let Some(order) = orders.get(&pod).filter(|order| **order != last) else { continue };
            last.clone_from(order);
            match order.split_once(' ') {
                // Not logged: the signal of the update and the answer to the request come in either order.
                Some(("post", form)) => {
                    let status = post(address, form).await?;
                    anyhow::ensure!(status == "200", "the agent answered {status}");
                }
                // A game that was restarted finds the order again, and does not follow it twice.
                _ if order == "exit" && tokio::fs::try_exists("/app/downloads/exited").await? => println!("back"),
                _ if order == "exit" => {
                    tokio::fs::write("/app/downloads/exited", "").await?;
                    anyhow::bail!("ordered to exit");
                }
                _ => lock(&state).clone_from(order),
            }
        }
    };
    tokio::select! {
        served = axum::serve(listener, router) => served.map_err(Into::into),
        () = hangups => Ok(()),
        ended = orders => ended,
        _ = term.recv() => Ok(()),
    }
}

fn lock(state: &Mutex<String>) -> std::sync::MutexGuard<'_, String> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks the agent of this pod for an update. Gives the status of its answer.
async fn post(address: IpAddr, form: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(SocketAddr::from((address, 5000))).await?;
    let request = format!(
        "POST /hot-update HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer sesame\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split(' ').nth(1).unwrap_or_default().to_owned())
}

/// A plugin that stores one result: lines of JSON on its standard streams.
pub(crate) fn plugin() -> anyhow::Result<()> {
    for line in std::io::stdin().lines() {
        let line: Value = serde_json::from_str(&line?)?;
        match line["type"].as_str() {
            Some("init") => println!("{}", json!({"type": "hello", "version": "v1.0.0"})),
            Some("start") => println!("{}", json!({"type": "store", "data": "Allocated"})),
            Some("stop") => return Ok(()),
            _ => {}
        }
    }
    Ok(())
}

/// Uses the token of an agent against its own pod and another: says what was refused, once what is allowed works. `results` says whether the agent
/// may write results at all.
pub(crate) async fn steal(victim: &str, results: bool) -> anyhow::Result<()> {
    let own = variable("POD_NAME")?;
    let (pods, maps): (Api<Pod>, Api<ConfigMap>) =
        (Api::default_namespaced(client()?), Api::default_namespaced(client()?));
    let parameters = PatchParams::default();
    // A dry run: a write that succeeds before the policies take effect would change nothing when it is repeated, and no policy refuses that.
    let attempt = PatchParams { dry_run: true, ..PatchParams::default() };
    let annotate = |key: &str| json!({"metadata": {"annotations": {key: "stolen"}}});
    let deadline = json!({"spec": {"activeDeadlineSeconds": 1}});
    let condition = json!({"status": {"conditions": [{"type": "pillion.dev/Agent", "status": "True"}]}});
    let code = |outcome: Result<(), kube::Error>| match outcome {
        Ok(()) => 200,
        Err(kube::Error::Api(answer)) => answer.code,
        Err(_) => 0,
    };
    let dry_run = kube::api::PostParams { dry_run: true, ..Default::default() };
    let pod: Pod = serde_json::from_value(
        json!({"metadata": {"name": "pawn"}, "spec": {"containers": [{"name": "pawn", "image": "pawn"}]}}),
    )?;
    let secrets: Api<Secret> = Api::default_namespaced(client()?);
    loop {
        let merge = |patch: &Value| Patch::Merge(patch.clone());
        let allowed = pods.patch(&own, &parameters, &merge(&annotate("http_probe"))).await.map(drop);
        let why_not = allowed.as_ref().err().map(ToString::to_string);
        let refused = [
            ("its pod", pods.patch(victim, &attempt, &merge(&annotate("http_probe"))).await.map(drop)),
            ("its status", pods.patch_status(victim, &attempt, &Patch::Strategic(condition.clone())).await.map(drop)),
            ("its own spec", pods.patch(&own, &attempt, &merge(&deadline)).await.map(drop)),
            ("another key", pods.patch(&own, &attempt, &merge(&annotate("other"))).await.map(drop)),
            (
                "its result",
                maps.patch("sidecar-result", &attempt, &merge(&json!({"data": {victim: "x"}}))).await.map(drop),
            ),
            (
                "its deletion",
                pods.delete(victim, &kube::api::DeleteParams { dry_run: true, ..Default::default() }).await.map(drop),
            ),
        ];
        // What only RBAC refuses is refused where there is RBAC: nobody has granted it the namespaces.
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client()?);
        let unauthorized = if code(namespaces.list(&ListParams::default()).await.map(drop)) == 403 {
            vec![
                ("reading pods", code(pods.get(&own).await.map(drop))),
                ("listing pods", code(pods.list(&ListParams::default()).await.map(drop))),
                ("listing Secrets", code(secrets.list(&ListParams::default()).await.map(drop))),
                ("reading another Secret", code(secrets.get("other").await.map(drop))),
                ("listing ConfigMaps", code(maps.list(&ListParams::default()).await.map(drop))),
                ("creating pods", code(pods.create(&dry_run, &pod).await.map(drop))),
            ]
        } else {
            Vec::new()
        };
        let (allowed, refused) = (code(allowed), refused.map(|(what, outcome)| (what, code(outcome))));
        let is_refused =
            |(what, code): &(&str, u16)| *code == 403 || (*code == 404 && *what == "its result" && !results);
        // Policies and their parameters take effect some time after they are created.
        if allowed == 200 && refused.iter().chain(&unauthorized).all(is_refused) {
            println!("refused: {}", refused.map(|(what, _)| what).join(", "));
            return Ok(());
        }
        eprintln!("not yet: {allowed} {why_not:?} {refused:?} {unauthorized:?}");
        tokio::time::sleep(LOOK).await;
    }
}
