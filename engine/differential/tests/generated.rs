//! Requests that nobody wrote are answered alike by the embedded and a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that fails says why")]

use kube::Client;
use pillion_apiserver::{ApiServer, Config};
use pillion_differential::{Answer, Difference, compare, connect, generate, play};

/// How many requests, about, and where the generator begins.
fn of_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Whether answers differ in nothing but how a message quotes Go's own values: Go tells an empty list from none, and prints the
/// difference between two pods as it holds them. docs/embedded.md says so.
fn quotes_go(difference: &Difference) -> bool {
    let in_message = |at: &String| at == "body/message" || at.starts_with("body/details/causes");
    let message = |answer: Option<&Answer>| {
        let body =
            answer.map(|answer| serde_json::to_value(answer).unwrap_or_default()["body"].clone()).unwrap_or_default();
        let text = body["message"].as_str().unwrap_or_default().to_owned();
        let text = text.split("pod updates may not change fields").next().unwrap_or_default().to_owned();
        text.replace("{}", "null").replace("[]", "null")
    };
    difference.at.iter().all(in_message) && message(difference.left.as_ref()) == message(difference.right.as_ref())
}

#[tokio::test]
async fn generated_requests_are_answered_alike() -> anyhow::Result<()> {
    let start = of_environment("PILLION_GENERATED_START", 1);
    let requests = usize::try_from(of_environment("PILLION_GENERATED_REQUESTS", 300))?;
    let real = connect(None).await?;
    let server = ApiServer::new(Config::in_memory());
    server.bootstrap().await?;
    let embedded = Client::new(server.router(), "default");
    let (mut played, mut different) = (0, Vec::new());
    for conversation in generate::conversations(start, requests) {
        let (left, right) = (play(&real, &conversation).await?, play(&embedded, &conversation).await?);
        played += left.exchanges.len();
        let differences = compare(&left, &right);
        different.extend(differences.iter().filter(|difference| !quotes_go(difference)).map(ToString::to_string));
    }
    println!("{played} generated requests from PILLION_GENERATED_START={start}: {} different", different.len());
    assert!(different.is_empty(), "{}", different.join("\n"));
    Ok(())
}
