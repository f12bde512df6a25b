//! What a probe has seen, and which of it counts.

use crate::config::{Endpoint, HttpAsk};

/// What a probe has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It succeeded; the answer is the state.
    Succeeded(String),
    /// It failed, for this reason.
    Failed(String),
    /// It cannot be made, for this reason.
    Unknown(String),
}

/// A success without a text of its own.
pub const SUCCEEDED: &str = "Succeeded";
/// A failure of a probe that has no text of its own.
pub const FAILED: &str = "Failed";
/// A failed or timed-out probe, in the vocabulary of the proposal's policies.
pub const UNKNOWN: &str = "unknown";

/// No more of an answer is stored.
const LONGEST: usize = 1024;

impl State {
    /// What an HTTP answer means.
    pub fn of_http(ask: &HttpAsk, status: u16, body: &[u8]) -> State {
        let expected = ask.expected_status.map_or((200..400).contains(&status), |expected| expected == status);
        if !expected {
            return State::Failed(format!("the server answered with status {status}"));
        }
        let body = String::from_utf8_lossy(body);
        match &ask.extract {
            None => State::succeeded(&body),
            Some(extract) => extract.of(&body).map_or_else(State::Failed, |text| State::succeeded(&text)),
        }
    }

    /// A success with this answer.
    pub fn succeeded(text: &str) -> State {
        let text = shortened(text.trim(), LONGEST);
        State::Succeeded(if text.is_empty() { SUCCEEDED.to_owned() } else { text })
    }

    /// A failure with this reason.
    pub fn failed(reason: &str) -> State {
        State::Failed(shortened(reason.trim(), LONGEST))
    }

    /// Whether two results are counted together.
    fn same(&self, other: &State, any_success: bool) -> bool {
        match (self, other) {
            (State::Succeeded(a), State::Succeeded(b)) => any_success || a == b,
            (State::Failed(_), State::Failed(_)) | (State::Unknown(_), State::Unknown(_)) => true,
            _ => false,
        }
    }

    /// The reason of a failure; the text of a success.
    pub fn message(&self) -> &str {
        match self {
            State::Succeeded(text) | State::Failed(text) | State::Unknown(text) => text,
        }
    }
}

/// At most so many bytes, not in the middle of a character.
pub fn shortened(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

/// The states of an endpoint so far.
#[derive(Clone, Debug, Default)]
pub struct Streak {
    last: Option<(State, u32)>,
}

impl Streak {
    /// Adds a state, and returns it if it has come often enough in a row to count.
    pub fn add(&mut self, state: State, endpoint: &Endpoint) -> Option<State> {
        let threshold = match &state {
            State::Succeeded(_) => endpoint.success_threshold,
            State::Failed(_) => endpoint.failure_threshold,
            State::Unknown(_) => 1,
        };
        let times = match &self.last {
            Some((before, times)) if before.same(&state, endpoint.any_success) => times.saturating_add(1),
            _ => 1,
        };
        self.last = Some((state.clone(), times));
        (times >= threshold).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Fields, Kind};

    fn endpoint(text: &str) -> Endpoint {
        let text = format!("plugins: [{{name: http_probe, config: {{endpoints: [{text}]}}}}]");
        let config = Config::parse(&text, Some(&Fields::new())).unwrap();
        let Kind::HttpProbe(mut endpoints) = config.plugins[0].kind.clone() else { panic!() };
        endpoints.remove(0)
    }

    fn ask(text: &str) -> HttpAsk {
        let crate::config::Ask::Http(ask) = endpoint(text).ask else { panic!() };
        ask
    }

    #[test]
    fn an_answer_is_judged_by_its_status_and_its_body_is_the_state() {
        let plain = ask("{url: http://x}");
        assert_eq!(State::of_http(&plain, 200, b"idle\n"), State::Succeeded("idle".into()));
        assert_eq!(State::of_http(&plain, 204, b""), State::Succeeded("Succeeded".into()));
        assert!(matches!(State::of_http(&plain, 404, b"idle"), State::Failed(_)));
        let strict = ask("{url: http://x, expectedStatusCode: 404}");
        assert_eq!(State::of_http(&strict, 404, b"gone"), State::Succeeded("gone".into()));
        assert!(matches!(State::of_http(&strict, 200, b"idle"), State::Failed(_)));
        let part = ask("{url: http://x, jsonPathConfig: {jsonPath: players}}");
        assert_eq!(State::of_http(&part, 200, br#"{"players": 3}"#), State::Succeeded("3".into()));
        assert!(matches!(State::of_http(&part, 200, b"<html>"), State::Failed(_)));
        let State::Succeeded(long) = State::of_http(&plain, 200, "é".repeat(5000).as_bytes()) else { panic!() };
        assert_eq!(long.len(), 1024);
    }

    #[test]
    fn a_state_counts_when_it_has_come_in_a_row_as_often_as_its_threshold() {
        let endpoint = endpoint("{url: http://x, successThreshold: 2, failureThreshold: 3}");
        let mut streak = Streak::default();
        let (idle, busy, failed) = (State::succeeded("idle"), State::succeeded("busy"), State::failed("refused"));
        let table = [
            (&idle, false),
            (&idle, true),
            (&busy, false),
            (&idle, false),
            (&failed, false),
            (&failed, false),
            (&failed, true),
            (&busy, false),
            (&busy, true),
        ];
        for (index, (state, counts)) in table.into_iter().enumerate() {
            assert_eq!(streak.add(state.clone(), &endpoint).is_some(), counts, "{index}");
        }
    }

    #[test]
    fn successes_of_a_pod_probe_marker_count_together_whatever_their_answers_are() {
        let annotation = r#"[{"name": "ppm#idle", "containerName": "main", "podConditionType": "game.io/idle",
            "probe": {"httpGet": {"port": 8080}, "successThreshold": 2}}]"#;
        let (_, endpoint) = crate::pod_probes(annotation, "10.0.0.7").unwrap().remove(0);
        let mut streak = Streak::default();
        assert_eq!(streak.add(State::succeeded("3 players"), &endpoint), None);
        let four = State::succeeded("4 players");
        assert_eq!(streak.add(four.clone(), &endpoint), Some(four));
    }
}
