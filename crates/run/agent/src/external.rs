//! Plugins out of process: lines of JSON over standard streams or a Unix socket.
//!
//! ```text
//!  agent ─▶ {"type": "init", "protocol": 1, "name": …, "config": {…}, "pod": {"namespace": …, "name": …}}
//!  plugin ─▶ {"type": "hello", "version": "v1.0.0"}              ready to start
//!  agent ─▶ {"type": "start"}
//!  plugin ─▶ {"type": "store", "data": "idle"}                   a result, to where storageConfig says
//!  plugin ─▶ {"type": "store", "failed": "connection refused"}   a failure
//!  plugin ─▶ {"type": "store", "unknown": "no permission"}       it cannot say
//!  plugin ─▶ {"type": "status", "message": "…"}
//!  plugin ─▶ {"type": "log", "message": "…"}
//!  plugin ─▶ {"type": "error", "message": "…"}                   it has failed, and is restarted as the policy says
//!  agent ─▶ {"type": "stop"}                                      it has ten seconds to end
//! ```

use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pillion_assist::{PluginProcess, State};
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::watch;

use crate::api::BoxFuture;
use crate::log;
use crate::plugin::{Host, Plugin};

/// A longer line ends the plugin.
const LINE: usize = 64 << 10;
/// To say hello, and to end after it was asked to stop.
const GRACE: Duration = Duration::from_secs(10);

/// A plugin of somebody else.
pub(crate) struct External {
    name: String,
    process: PluginProcess,
    config: Value,
    host: Option<Host>,
    said: Mutex<Said>,
    stopping: watch::Sender<bool>,
    running: watch::Sender<bool>,
    greeted: watch::Sender<bool>,
}

#[derive(Default)]
struct Said {
    version: String,
    message: String,
}

impl External {
    pub(crate) fn new(name: &str, process: PluginProcess) -> External {
        External {
            name: name.to_owned(),
            process,
            config: Value::Null,
            host: None,
            said: Mutex::default(),
            stopping: watch::Sender::new(false),
            running: watch::Sender::new(false),
            greeted: watch::Sender::new(false),
        }
    }

    fn said(&self) -> std::sync::MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The whole conversation.
    async fn talk(&self, input: impl AsyncRead + Unpin, mut output: impl AsyncWrite + Unpin) -> Result<(), String> {
        let Some(host) = &self.host else { return Err("it was not set up".to_owned()) };
        let broken = |error: std::io::Error| format!("the connection to the plugin broke: {error}");
        let pod = json!({"namespace": host.pod.name.namespace, "name": host.pod.name.name});
        let init = json!({"type": "init", "protocol": 1, "name": self.name, "config": self.config, "pod": pod});
        output.write_all(format!("{init}\n").as_bytes()).await.map_err(broken)?;
        let mut input = BufReader::new(input);
        let mut stopping = self.stopping.subscribe();
        let mut deadline = Some(tokio::time::Instant::now() + GRACE);
        let mut greeted = false;
        loop {
            let line = tokio::select! {
                line = line(&mut input) => line?,
                () = until(deadline) => {
                    let what = if greeted { "it did not end after it was asked to stop" } else { "it did not say hello" };
                    return Err(what.to_owned());
                }
                changed = stopping.changed(), if greeted => {
                    if changed.is_ok() {
                        output.write_all(b"{\"type\":\"stop\"}\n").await.map_err(broken)?;
                        deadline = Some(tokio::time::Instant::now() + GRACE);
                    }
                    continue;
                }
            };
            let Some(line) = line else { return Ok(()) };
            let message: Value = match serde_json::from_str(&line) {
                Ok(message) => message,
                Err(error) => return Err(format!("a line of the plugin is not JSON: {error}")),
            };
            let text = |name: &str| message[name].as_str().unwrap_or_default();
            match text("type") {
                "hello" if !greeted => {
                    text("version").clone_into(&mut self.said().version);
                    greeted = true;
                    deadline = None;
                    output.write_all(b"{\"type\":\"start\"}\n").await.map_err(broken)?;
                    self.greeted.send_replace(true);
                }
                "store" => {
                    let state = match (&message["failed"], &message["unknown"]) {
                        (Value::String(reason), _) => State::failed(reason),
                        (_, Value::String(reason)) => State::Unknown(reason.trim().to_owned()),
                        _ => State::succeeded(&match &message["data"] {
                            Value::String(text) => text.clone(),
                            other => other.to_string(),
                        }),
                    };
                    host.store("result", &state);
                }
                "status" => text("message").clone_into(&mut self.said().message),
                "log" => log::line(format_args!("plugin {}: {}", self.name, text("message"))),
                "error" => return Err(text("message").to_owned()),
                // From a newer protocol.
                _ => {}
            }
        }
    }
}

impl External {
    async fn run(&self) -> Result<(), String> {
        match &self.process {
            PluginProcess::Socket(path) => {
                let stream = tokio::net::UnixStream::connect(path).await;
                let (input, output) = stream.map_err(|error| format!("{path}: {error}"))?.into_split();
                self.talk(input, output).await
            }
            PluginProcess::Command(command) => {
                let (program, arguments) = command.split_first().ok_or("its command is empty")?;
                let mut child = tokio::process::Command::new(program)
                    .args(arguments)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .kill_on_drop(true)
                    .spawn()
                    .map_err(|error| format!("{program}: {error}"))?;
                let (Some(output), Some(input)) = (child.stdin.take(), child.stdout.take()) else {
                    return Err("its streams are not there".to_owned());
                };
                self.talk(input, output).await?;
                let status = child.wait().await.map_err(|error| error.to_string())?;
                if status.success() { Ok(()) } else { Err(format!("it ended with {status}")) }
            }
        }
    }
}

async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// A line without its end; `None` after the last one.
async fn line(input: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<String>, String> {
    let mut line = Vec::new();
    loop {
        let data = input.fill_buf().await.map_err(|error| error.to_string())?;
        if data.is_empty() {
            return Ok((!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned()));
        }
        let end = data.iter().position(|byte| *byte == b'\n');
        line.extend_from_slice(&data[..end.unwrap_or(data.len())]);
        let used = end.map_or(data.len(), |end| end + 1);
        input.consume(used);
        if line.len() > LINE {
            return Err(format!("a line of the plugin is longer than {LINE} bytes"));
        }
        if end.is_some() {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }
}

impl Plugin for External {
    fn name(&self) -> &str {
        &self.name
    }

    fn init(&mut self, config: &Value, host: Host) -> Result<(), String> {
        self.config = config.clone();
        self.host = Some(host);
        Ok(())
    }

    fn start(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            self.running.send_replace(true);
            let ended = self.run().await;
            self.running.send_replace(false);
            ended
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.stopping.send_replace(true);
            let mut running = self.running.subscribe();
            let _ = tokio::time::timeout(GRACE, running.wait_for(|running| !running)).await;
        })
    }

    /// It has said hello.
    fn ready(&self) -> BoxFuture<'_, ()> {
        let mut greeted = self.greeted.subscribe();
        Box::pin(async move {
            let _ = greeted.wait_for(|greeted| *greeted).await;
        })
    }

    fn version(&self) -> String {
        self.said().version.clone()
    }

    fn status(&self) -> String {
        self.said().message.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::testing::{Empty, host, is_pending};

    #[tokio::test]
    async fn it_is_ready_once_it_has_said_hello() {
        let mut plugin = External::new("own", PluginProcess::Socket(String::new()));
        plugin.init(&Value::Null, host("own", Empty)).unwrap();
        let (agent, mut other) = tokio::io::duplex(1 << 10);
        let (input, output) = tokio::io::split(agent);
        let (mut talking, mut ready) = (Box::pin(plugin.talk(input, output)), plugin.ready());
        assert!(is_pending(&mut talking).await);
        // It may say something else first.
        other.write_all(b"{\"type\": \"status\", \"message\": \"loading\"}\n").await.unwrap();
        assert!(is_pending(&mut talking).await);
        assert_eq!(plugin.status(), "loading");
        assert!(is_pending(&mut ready).await, "it was started, and has not said hello");
        other.write_all(b"{\"type\": \"hello\", \"version\": \"v1\"}\n").await.unwrap();
        assert!(is_pending(&mut talking).await);
        assert!(!is_pending(&mut ready).await);
    }
}
