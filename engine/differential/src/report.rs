//! The outcome of a comparison: what differs and is not known, what is known and does not differ, and numbers.

use std::fmt;
use std::path::Path;

use kube::Client;

use crate::compare::{Difference, compare};
use crate::conversation::Conversation;
use crate::expectation::Unmet;
use crate::known::{Known, judge};
use crate::play::play;
use crate::transcript::Transcript;

/// The outcome of a comparison. It is good if there is nothing in it but numbers.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Differences that no entry of the list of known ones explains.
    pub differences: Vec<Difference>,
    /// Entries of that list that explain no difference, and have to go.
    pub unneeded: Vec<Known>,
    /// Expectations of the corpus that were not met: conversation, step and reason.
    pub unmet: Vec<(String, String, Unmet)>,
    /// How many requests were played.
    pub requests: usize,
    /// How many of them were answered differently, as the list says.
    pub listed: usize,
}

impl Report {
    /// Compares transcripts of the same conversations.
    pub fn new(pairs: &[(Transcript, Transcript)], known: &[Known]) -> Self {
        let all: Vec<Difference> = pairs.iter().flat_map(|(left, right)| compare(left, right)).collect();
        let was_played = |entry: &&Known| pairs.iter().any(|(left, _)| left.conversation == entry.conversation);
        let known: Vec<Known> = known.iter().filter(was_played).cloned().collect();
        let (differences, unneeded) = judge(&all, &known);
        let unmet = pairs.iter().flat_map(|(_, right)| {
            let owned = |(step, why): (&str, &Unmet)| (right.conversation.clone(), step.to_owned(), why.clone());
            right.unmet().map(owned).collect::<Vec<_>>()
        });
        Self {
            listed: all.len() - differences.len(),
            requests: pairs.iter().map(|(_, right)| right.exchanges.len()).sum(),
            unmet: unmet.collect(),
            differences: differences.into_iter().cloned().collect(),
            unneeded: unneeded.into_iter().cloned().collect(),
        }
    }

    /// Whether every answer is the same or known to differ, and every known difference is one.
    pub fn is_good(&self) -> bool {
        self.differences.is_empty() && self.unneeded.is_empty()
    }
}

/// Plays conversations against a server and compares its answers with the recorded ones.
pub async fn check(
    client: &Client,
    conversations: &[Conversation],
    corpus: &Path,
    known: &[Known],
) -> anyhow::Result<Report> {
    let mut pairs = Vec::new();
    for conversation in conversations {
        let recorded = Transcript::read(&conversation.name, &conversation.record(corpus))?;
        pairs.push((recorded, play(client, conversation).await?));
    }
    Ok(Report::new(&pairs, known))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.differences {
            writeln!(f, "{difference}")?;
        }
        for Known { conversation, step, what, .. } in &self.unneeded {
            writeln!(f, "no longer needed in known.yaml: {conversation} · {step} · {what}")?;
        }
        let different = self.differences.len();
        let equal = self.requests.saturating_sub(different + self.listed);
        write!(f, "{} requests: {equal} equal, {} listed, {different} different", self.requests, self.listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::{Answer, Exchange};

    fn transcript(statuses: &[u16]) -> Transcript {
        let exchange = |(index, status): (usize, &u16)| Exchange {
            step: format!("step {index}"),
            request: "GET /".to_owned(),
            sent: None,
            answer: Answer { status: *status, ..Answer::default() },
            unmet: None,
        };
        let exchanges = statuses.iter().enumerate().map(exchange).collect();
        Transcript { conversation: "one".to_owned(), exchanges }
    }

    #[test]
    fn requests_are_counted_as_equal_listed_or_different() {
        let known = |step: &str| Known {
            conversation: "one".to_owned(),
            step: step.to_owned(),
            what: "status".to_owned(),
            reason: "meant".to_owned(),
        };
        let pairs = [(transcript(&[200, 200, 200, 200]), transcript(&[200, 201, 202, 200]))];
        let report = Report::new(&pairs, &[known("step 1"), known("step 3")]);
        assert!(!report.is_good());
        insta::assert_snapshot!(report.to_string(), @r#"
        one · step 2
        GET /
        differs at status
        --- left
        +++ right
        @@ -1,2 +1,2 @@
        -status: 200
        +status: 202
         content-type: ""

        no longer needed in known.yaml: one · step 3 · status
        4 requests: 2 equal, 1 listed, 1 different
        "#);
    }
}
