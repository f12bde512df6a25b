//! The corpus, its record and the list of known differences belong together. No cluster is needed to see it.

use std::collections::BTreeSet;

use pillion_differential::{Expectation, Known, Transcript, corpus, known_differences, own_corpus};

#[test]
fn every_step_has_a_recorded_answer_and_nothing_else_is_recorded() {
    for conversation in corpus(&own_corpus()).unwrap() {
        let record = Transcript::read(&conversation.name, &conversation.record(&own_corpus())).unwrap();
        let steps: Vec<_> = conversation.all_steps().map(|step| step.name.as_str()).collect();
        let recorded: Vec<_> = record.exchanges.iter().map(|exchange| exchange.step.as_str()).collect();
        assert_eq!(recorded, steps, "{}: record it anew", conversation.name);
    }
}

#[test]
fn every_record_has_its_conversation() {
    let names: BTreeSet<_> = corpus(&own_corpus()).unwrap().into_iter().map(|conversation| conversation.name).collect();
    for entry in std::fs::read_dir(own_corpus()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let name = file.split('.').next().unwrap();
        assert!(names.contains(name), "{file} belongs to no conversation");
    }
}

#[test]
fn the_recorded_answers_are_what_the_corpus_shows_its_reader() {
    for conversation in corpus(&own_corpus()).unwrap() {
        let record = Transcript::read(&conversation.name, &conversation.record(&own_corpus())).unwrap();
        for (step, exchange) in conversation.all_steps().zip(&record.exchanges) {
            let expected = step.expect.as_ref().or(step.until.as_ref()).and_then(Expectation::status);
            assert!(
                expected.is_none_or(|status| status == exchange.answer.status),
                "{} · {}: {} is recorded",
                conversation.name,
                step.name,
                exchange.answer.status
            );
        }
    }
}

#[test]
fn every_known_difference_is_of_a_step() {
    let conversations = corpus(&own_corpus()).unwrap();
    for Known { conversation, step, reason, .. } in Known::list(&known_differences()).unwrap() {
        let found = conversations.iter().find(|found| found.name == conversation);
        let steps = found.unwrap_or_else(|| panic!("there is no conversation {conversation:?}")).all_steps();
        let is_it = |name: &str| match step.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == step,
        };
        assert!(steps.map(|step| &step.name).any(|name| is_it(name)), "{conversation} has no step {step:?}");
        assert!(!reason.is_empty(), "{conversation} · {step} has no reason");
    }
}
