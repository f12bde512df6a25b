//! The player, against a server of a few lines: what it sends, what it waits for, and what it makes of the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use pillion_differential::{Conversation, Transcript, play};
use serde_json::{Value, json};

const CONVERSATION: &str = "
about: One object, asked for three times and watched.
steps:
  - step: create
    request: POST /api/v1/namespaces/$ns/things
    body: {metadata: {generateName: thing-}}
    capture: {name: /metadata/name, rv: /metadata/resourceVersion}
    expect: 201
  - step: wait
    request: GET /api/v1/namespaces/$ns/things/$name
    until: {/ready: true, /metadata/namespace: $ns}
  - step: watch
    watch: /api/v1/namespaces/$ns/things?resourceVersion=$rv
    collect: {events: 2}
    during:
      - step: meanwhile
        request: GET /api/v1/namespaces/$ns/things/$name
        only: [/ready]
";

/// The router counts how often the object was read: it is ready the third time.
fn server() -> Router {
    let made = |namespace: &str| json!({"metadata": {"name": "thing-x7k2f", "generateName": "thing-", "namespace": namespace, "resourceVersion": "41"}});
    let ok = || async { (StatusCode::CREATED, Json(json!({}))) };
    let create = async move |Path(namespace): Path<String>| (StatusCode::CREATED, Json(made(&namespace)));
    let read = async move |State(count): State<Arc<AtomicUsize>>, Path((namespace, name)): Path<(String, String)>| {
        assert_eq!(name, "thing-x7k2f");
        let mut object = made(&namespace);
        object["ready"] = (count.fetch_add(1, Ordering::Relaxed) >= 2).into();
        Json(object)
    };
    let watch = async |Query(query): Query<Value>| {
        assert_eq!(query["resourceVersion"], "41");
        let event = |version: &str| json!({"type": "MODIFIED", "object": {"metadata": {"resourceVersion": version}}});
        format!("{}\n{}\n{}\n", event("41"), event("42"), event("43"))
    };
    Router::new()
        .route("/api/v1/namespaces", post(ok))
        .route("/api/v1/namespaces/{namespace}", axum::routing::delete(ok))
        .route("/api/v1/namespaces/{namespace}/serviceaccounts", post(ok))
        .route("/api/v1/namespaces/{namespace}/things", post(create).get(watch))
        .route("/api/v1/namespaces/{namespace}/things/{name}", get(read))
        .with_state(Arc::default())
}

async fn played() -> anyhow::Result<Transcript> {
    play(&kube::Client::new(server(), "default"), &Conversation::parse("player", CONVERSATION)?).await
}

#[tokio::test]
async fn a_conversation_is_played_over_a_router() -> anyhow::Result<()> {
    let transcript = played().await?;
    assert_eq!(transcript.unmet().count(), 0);
    let steps: Vec<_> = transcript.exchanges.iter().map(|exchange| exchange.step.as_str()).collect();
    assert_eq!(steps, ["create", "wait", "meanwhile", "watch"]);
    let created = json!({"metadata": {"generateName": "thing-", "name": "thing-<generated of create>", "namespace": "$ns",
        "resourceVersion": "<rv of create>"}});
    assert_eq!(transcript.exchanges[0].answer.body, created);
    assert_eq!(transcript.exchanges[1].answer.body["ready"], true);
    assert_eq!(transcript.exchanges[2].answer.body, json!({"/ready": true}));
    let event = |version: &str| json!({"type": "MODIFIED", "object": {"metadata": {"resourceVersion": version}}});
    assert_eq!(transcript.exchanges[3].answer.events, [event("<rv of create>"), event("<rv of watch>")]);
    Ok(())
}

#[tokio::test]
async fn two_plays_have_one_transcript() -> anyhow::Result<()> {
    assert_eq!(played().await?, played().await?);
    Ok(())
}
