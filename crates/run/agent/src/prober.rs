//! Makes probes.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use pillion_assist::{Ask, Credential, HttpAsk, SecretKey, State};
use pillion_probe::{Action, Exec, ExecError, ExecOutput, HttpGet, LONGEST_OUTPUT, Outcome, Probe, check};
use tokio::io::AsyncReadExt as _;

use crate::api::BoxFuture;

/// The values of Secrets that probes need.
pub type Secrets = BTreeMap<SecretKey, String>;

/// The same, which change when the Secrets do; copies are one and the same.
#[derive(Clone, Default)]
pub(crate) struct CurrentSecrets(Arc<Mutex<Arc<Secrets>>>);

impl CurrentSecrets {
    pub(crate) fn get(&self) -> Arc<Secrets> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, secrets: Secrets) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(secrets);
    }
}

/// Makes probes, on the network or in a test's script.
pub trait Prober: Send + Sync + 'static {
    fn look<'a>(&'a self, ask: &'a Ask, secrets: &'a Secrets, timeout: Duration) -> BoxFuture<'a, State>;
}

/// Probes over the network and by commands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Network;

impl Prober for Network {
    fn look<'a>(&'a self, ask: &'a Ask, secrets: &'a Secrets, timeout: Duration) -> BoxFuture<'a, State> {
        Box::pin(look(ask, secrets, timeout))
    }
}

async fn look(ask: &Ask, secrets: &Secrets, timeout: Duration) -> State {
    let action = match ask {
        Ask::Http(ask) => return http(ask, secrets, timeout).await,
        Ask::Impossible(reason) => return State::Unknown(reason.clone()),
        Ask::Exec { command } => {
            return match Commands.exec(command, timeout).await {
                Ok(output) if output.code == 0 => State::succeeded(&String::from_utf8_lossy(&output.output)),
                Ok(output) => State::failed(&format!(
                    "the command ended with {}: {}",
                    output.code,
                    String::from_utf8_lossy(&output.output)
                )),
                Err(ExecError::TimedOut(error)) => State::failed(&error),
                Err(ExecError::Failed(error)) => State::Unknown(error),
            };
        }
        Ask::Tcp { host, port } => Action::Tcp { host: host.clone(), port: *port },
        Ask::Grpc { host, port, service } => Action::Grpc { host: host.clone(), port: *port, service: service.clone() },
    };
    match check(&Probe { action, timeout }, &Commands).await {
        Outcome::Success | Outcome::Warning(_) => State::succeeded(""),
        Outcome::Failure(reason) => State::failed(&reason),
        Outcome::Error(reason) => State::Unknown(reason),
    }
}

/// No more is read of an answer that is JSON.
const LONGEST_JSON: usize = 1 << 20;

async fn http(ask: &HttpAsk, secrets: &Secrets, timeout: Duration) -> State {
    let mut headers = Vec::with_capacity(ask.headers.len());
    for (name, value) in &ask.headers {
        match credential(value, secrets) {
            Ok(value) => headers.push((name.clone(), value)),
            Err(problem) => return State::Unknown(problem),
        }
    }
    let get = HttpGet {
        https: ask.url.https,
        host: ask.url.host.clone(),
        port: ask.url.port,
        path: ask.url.path.clone(),
        headers,
        user_agent: concat!("pillion-agent/", env!("CARGO_PKG_VERSION")).to_owned(),
    };
    // A part of JSON is not JSON; of any other answer the beginning is the state.
    let longest = if ask.extract.is_some() { LONGEST_JSON } else { LONGEST_OUTPUT };
    let answer = match get.send_as(&ask.method, Some(timeout), longest).await {
        Ok(answer) => answer,
        Err(error) => return State::failed(&error),
    };
    match State::of_http(ask, answer.status, &answer.body) {
        State::Failed(reason) if answer.is_cut => State::failed(&format!(
            "{reason}; only the first {longest} bytes of the answer were read: ask for a URL that answers with less"
        )),
        state => state,
    }
}

pub(crate) fn credential(value: &Credential, secrets: &Secrets) -> Result<String, String> {
    match value {
        Credential::Literal(text) => Ok(text.clone()),
        Credential::Secret(key) => match secrets.get(key) {
            Some(text) => Ok(text.clone()),
            None => Err(format!("the key {} of the Secret {} could not be read", key.key, key.name)),
        },
    }
}

/// Commands in the agent's own container.
pub(crate) struct Commands;

/// No more of what a command says is kept.
const OUTPUT: u64 = 10 << 10;

impl Exec for Commands {
    async fn exec(&self, command: &[String], timeout: Duration) -> Result<ExecOutput, ExecError> {
        let failed = |error: &dyn std::fmt::Display| ExecError::Failed(format!("{}: {error}", command.join(" ")));
        let Some((program, arguments)) = command.split_first() else {
            return Err(ExecError::Failed("the command is empty".to_owned()));
        };
        let mut child = tokio::process::Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(&error))?;
        let stdout = child.stdout.take();
        let run = async {
            let mut output = Vec::new();
            if let Some(mut stdout) = stdout {
                (&mut stdout).take(OUTPUT).read_to_end(&mut output).await.map_err(|error| failed(&error))?;
                // The rest is read and forgotten, so that the command does not wait for a reader.
                tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await.map_err(|error| failed(&error))?;
            }
            let status = child.wait().await.map_err(|error| failed(&error))?;
            Ok(ExecOutput { code: status.code().unwrap_or(-1), output: Bytes::from(output) })
        };
        let seconds = timeout.as_secs();
        let late = || ExecError::TimedOut(format!("{} did not end within {seconds} s", command.join(" ")));
        tokio::time::timeout(timeout, run).await.unwrap_or_else(|_| Err(late()))
    }
}

#[cfg(test)]
mod tests {
    use pillion_assist::{Extract, Url};
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// What is found in an answer of JSON whose last key is the state, after a key with so many bytes.
    async fn found(bytes: usize) -> State {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let body = format!(r#"{{"padding": "{}", "state": "idle"}}"#, "x".repeat(bytes));
            // A client that has seen enough hangs up.
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n\r\n{body}").as_bytes()).await;
        });
        let ask = Ask::Http(HttpAsk {
            url: Url::parse(&url).unwrap(),
            method: "GET".to_owned(),
            headers: Vec::new(),
            expected_status: None,
            extract: Some(Extract::parse("{.state}").unwrap()),
        });
        look(&ask, &Secrets::new(), Duration::from_mins(1)).await
    }

    #[tokio::test]
    async fn json_is_read_to_its_end_and_one_without_an_end_is_reported() {
        assert_eq!(found(20 << 10).await, State::succeeded("idle"));
        let State::Failed(reason) = found(2 << 20).await else { panic!() };
        assert!(reason.contains("only the first 1048576 bytes"), "{reason}");
    }
}
