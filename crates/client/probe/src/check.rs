//! One look at a container.

use crate::action::{Action, Probe, address};
use crate::exec::{Exec, ExecError};
use crate::http::Answer;
use crate::outcome::{LONGEST_OUTPUT, Outcome};
use crate::{grpc, tcp};

/// A probe that cannot be made is tried again, this often in all.
const TRIES: u32 = 3;

/// Makes a probe. Errors are tried again at once, a few times.
pub async fn check(probe: &Probe, commands: &impl Exec) -> Outcome {
    let mut outcome = once(probe, commands).await;
    for _ in 1..TRIES {
        if !matches!(outcome, Outcome::Error(_)) {
            break;
        }
        outcome = once(probe, commands).await;
    }
    outcome
}

async fn once(probe: &Probe, commands: &impl Exec) -> Outcome {
    let timeout = probe.timeout;
    match &probe.action {
        Action::Exec { command } => match commands.exec(command, timeout).await {
            Ok(output) if output.code == 0 => Outcome::Success,
            Ok(output) => Outcome::Failure(shortened(&output.output)),
            Err(ExecError::TimedOut(error)) => Outcome::Failure(error),
            Err(ExecError::Failed(error)) => Outcome::Error(error),
        },
        Action::Http(get) => judge(get.send(Some(timeout)).await),
        Action::Tcp { host, port } => tcp::check(&address(host, *port), timeout).await,
        Action::Grpc { host, port, service } => grpc::check(&address(host, *port), service, timeout).await,
    }
}

fn judge(answer: Result<Answer, String>) -> Outcome {
    match answer {
        Err(error) => Outcome::Failure(error),
        Ok(answer) if (200..300).contains(&answer.status) => Outcome::Success,
        Ok(answer) if (300..400).contains(&answer.status) => {
            Outcome::Warning(format!("Probe terminated redirects, Response body: {}", shortened(&answer.body)))
        }
        Ok(answer) => Outcome::Failure(format!("HTTP probe failed with statuscode: {}", answer.status)),
    }
}

fn shortened(output: &[u8]) -> String {
    String::from_utf8_lossy(&output[..output.len().min(LONGEST_OUTPUT)]).into_owned()
}
