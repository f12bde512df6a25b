//! Two transcripts of one conversation, and where they differ.

use std::fmt;

use serde_json::Value;
use similar::TextDiff;

use crate::transcript::{Answer, Transcript, yaml};

/// A step that was answered differently.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The conversation's name.
    pub conversation: String,
    /// The step's name.
    pub step: String,
    /// What was asked.
    pub request: String,
    /// The body that was sent, if it is known.
    pub sent: Option<String>,
    /// Where the answers differ: `status`, `body/metadata/labels`.
    pub at: Vec<String>,
    /// The answer on the left, if there is one.
    pub left: Option<Answer>,
    /// The answer on the right, if there is one.
    pub right: Option<Answer>,
}

/// Where two transcripts of one conversation differ, a difference for a step.
pub fn compare(left: &Transcript, right: &Transcript) -> Vec<Difference> {
    let answer = |transcript: &Transcript, step: &str| {
        transcript.exchanges.iter().find(|exchange| exchange.step == step).map(|exchange| exchange.answer.clone())
    };
    let sent = |transcript: &Transcript, step: &str| {
        transcript.exchanges.iter().find(|exchange| exchange.step == step)?.sent.clone()
    };
    let on_the_right_only = right.exchanges.iter().filter(|exchange| answer(left, &exchange.step).is_none());
    let mut differences = Vec::new();
    for exchange in left.exchanges.iter().chain(on_the_right_only) {
        let (left_answer, right_answer) = (answer(left, &exchange.step), answer(right, &exchange.step));
        let at = places(left_answer.as_ref(), right_answer.as_ref());
        if !at.is_empty() {
            differences.push(Difference {
                conversation: left.conversation.clone(),
                step: exchange.step.clone(),
                request: exchange.request.clone(),
                sent: sent(left, &exchange.step).or_else(|| sent(right, &exchange.step)),
                at,
                left: left_answer,
                right: right_answer,
            });
        }
    }
    differences
}

fn places(left: Option<&Answer>, right: Option<&Answer>) -> Vec<String> {
    let as_value = |answer: Option<&Answer>| serde_json::to_value(answer).unwrap_or_default();
    let mut places = Vec::new();
    walk("", &as_value(left), &as_value(right), &mut places);
    places
}

fn walk(at: &str, left: &Value, right: &Value, places: &mut Vec<String>) {
    let below = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}/{key}") };
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let more = right.keys().filter(|key| !left.contains_key(*key));
            for key in left.keys().chain(more) {
                let value = |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or_default();
                // A key with null is not the same as no key.
                if left.contains_key(key) == right.contains_key(key) {
                    walk(&below(key), &value(left), &value(right), places);
                } else {
                    places.push(below(key));
                }
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                walk(&below(&index.to_string()), left, right, places);
            }
        }
        (left, right) if left != right => {
            places.push(if at.is_empty() { "answer".to_owned() } else { at.to_owned() });
        }
        _ => {}
    }
}

impl fmt::Display for Difference {
    /// The step and a unified diff of its two answers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |answer: &Option<Answer>| match answer {
            Some(answer) => yaml(answer).unwrap_or_default(),
            None => String::new(),
        };
        let (left, right) = (text(&self.left), text(&self.right));
        writeln!(f, "{} · {}", self.conversation, self.step)?;
        writeln!(f, "{}", self.request)?;
        if let Some(sent) = &self.sent {
            writeln!(f, "{sent}")?;
        }
        writeln!(f, "differs at {}", self.at.join(", "))?;
        let diff = TextDiff::from_lines(&left, &right);
        write!(f, "{}", diff.unified_diff().context_radius(3).header("left", "right"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::transcript::Exchange;

    fn transcript(status: u16, body: Value) -> Transcript {
        let answer = Answer { status, content_type: "application/json".to_owned(), body, ..Answer::default() };
        let exchange =
            Exchange { step: "get".to_owned(), request: "GET /api".to_owned(), sent: None, answer, unmet: None };
        Transcript { conversation: "discovery".to_owned(), exchanges: vec![exchange] }
    }

    #[test]
    fn the_same_answer_is_no_difference() {
        let one = transcript(200, json!({"a": 1}));
        assert_eq!(compare(&one, &one), []);
    }

    #[test]
    fn a_difference_shows_both_answers() {
        let differences =
            compare(&transcript(200, json!({"a": [1, 2], "b": 1})), &transcript(404, json!({"a": [1, 3]})));
        insta::assert_snapshot!(differences[0].to_string(), @r"
        discovery · get
        GET /api
        differs at status, body/a/1, body/b
        --- left
        +++ right
        @@ -1,6 +1,5 @@
        -status: 200
        +status: 404
         body:
           a:
           - 1
        -  - 2
        -  b: 1
        +  - 3
        ");
    }

    #[test]
    fn a_step_that_one_side_lacks_is_a_difference() {
        let one = transcript(200, json!({}));
        let none = Transcript { exchanges: Vec::new(), ..one.clone() };
        assert_eq!(compare(&one, &none)[0].at, ["answer"]);
        assert_eq!(compare(&none, &one)[0].at, ["answer"]);
    }
}
