//! Conversations as the corpus has them, and the plain steps that they unfold to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use crate::expectation::Expectation;

/// A named conversation with an API server: its steps are played in order, in a namespace of their own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// The file's name; also the beginning of the namespace's.
    #[serde(skip)]
    pub name: String,
    /// What the conversation is about, in a sentence.
    pub about: String,
    /// The answers of the webhook server that runs beside the conversation, by path.
    #[serde(default)]
    pub webhooks: BTreeMap<String, WebhookAnswer>,
    pub steps: Vec<Step>,
    /// Requests that tidy up what the namespace does not hold: sent at the end, whatever came before, and not recorded.
    #[serde(default)]
    pub finally: Vec<String>,
}

/// One step: a request and what to do with its answer, or a watch and the steps to play while it is open.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The step's name, unlike any other of the conversation.
    #[serde(rename = "step")]
    pub name: String,
    /// `METHOD /path?query`.
    pub request: Option<String>,
    /// `/path?query` of a watch, opened with GET.
    pub watch: Option<String>,
    /// The content type of the body: a short name (`merge`, `strategic`, `json-patch`, `apply`, `yaml`) or a whole one.
    pub content: Option<String>,
    /// What is accepted: a short name (`table`, `metadata`, `metadata-list`) or a whole one.
    pub accept: Option<String>,
    /// Further headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body, as a structure.
    pub body: Option<Value>,
    /// The body, as it is to be sent.
    pub raw: Option<String>,
    /// JSON pointers into the body, and what to put there.
    #[serde(default)]
    pub set: IndexMap<String, Value>,
    /// JSON pointers into the body whose values go.
    #[serde(default)]
    pub drop: Vec<String>,
    /// Variants of the step, each of which is a step: `/pointer`s are set in the body, `$variable`s in the request.
    #[serde(default)]
    pub cases: IndexMap<String, IndexMap<String, Value>>,
    /// Variables for later steps, each from a JSON pointer into the answer.
    #[serde(default)]
    pub capture: BTreeMap<String, String>,
    /// Ask again until the answer is like this. Only the last answer counts.
    pub until: Option<Expectation>,
    /// What a reader may rely on that the answer is.
    pub expect: Option<Expectation>,
    /// JSON pointers: only these parts of the answer are compared.
    #[serde(default)]
    pub only: Vec<String>,
    /// Whether the reviews that webhooks were sent are compared, and not only which webhooks were called.
    #[serde(default)]
    pub reviews: bool,
    /// Steps to play while the watch is open.
    #[serde(default)]
    pub during: Vec<Step>,
    /// When the watch is closed.
    pub collect: Option<Collect>,
}

/// When a watch is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Collect {
    /// By us, after that many events.
    Events(usize),
    /// By us, after the first bookmark.
    Bookmark,
    /// By the server.
    End,
}

/// What a webhook answers, whatever it is asked.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookAnswer {
    /// The fields of `response`; the request's uid is added.
    #[serde(default)]
    pub response: serde_json::Map<String, Value>,
    /// A JSON patch, to be put into the response as it has to be.
    pub patch: Option<Value>,
    /// It is asked to convert objects: each is answered in the version that is wanted, with an annotation that says so.
    #[serde(default)]
    pub converts: bool,
    /// Seconds to wait first.
    #[serde(default)]
    pub delay: u64,
    /// The HTTP status, if not 200.
    pub status: Option<u16>,
    /// A body to send instead of a review.
    pub raw: Option<String>,
}

impl Conversation {
    /// Reads a conversation, and unfolds its cases.
    pub fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        // `y` is a letter here.
        let options = serde_saphyr::options! { strict_booleans: true };
        let mut conversation: Self =
            serde_saphyr::from_str_with_options(text, options).with_context(|| format!("conversation {name}"))?;
        name.clone_into(&mut conversation.name);
        conversation.steps =
            unfolded(std::mem::take(&mut conversation.steps)).with_context(|| format!("conversation {name}"))?;
        let mut names: Vec<&str> = conversation.all_steps().map(|step| step.name.as_str()).collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair.first() == pair.last());
        ensure!(twice.is_none(), "conversation {name}: two steps have the name {twice:?}");
        Ok(conversation)
    }

    /// Every step, those that are played during a watch before the watch, as they are in a transcript.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> {
        fn flat(steps: &[Step]) -> Vec<&Step> {
            steps.iter().flat_map(|step| flat(&step.during).into_iter().chain([step])).collect()
        }
        flat(&self.steps).into_iter()
    }

    /// The file with the recorded answers.
    pub fn record(&self, corpus: &Path) -> PathBuf {
        corpus.join(format!("{}.answers.yaml", self.name))
    }
}

/// The conversations of a folder, by name.
pub fn corpus(folder: &Path) -> anyhow::Result<Vec<Conversation>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| format!("no corpus in {}", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<anyhow::Result<_>>()?;
    files.sort();
    let name = |file: &PathBuf| Some(file.file_name()?.to_str()?.strip_suffix(".yaml")?.to_owned());
    files
        .iter()
        .filter_map(|file| Some((file, name(file).filter(|name| !name.contains('.'))?)))
        .map(|(file, name)| Conversation::parse(&name, &std::fs::read_to_string(file)?))
        .collect()
}

/// The corpus of this crate.
pub fn own_corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn unfolded(steps: Vec<Step>) -> anyhow::Result<Vec<Step>> {
    let mut plain = Vec::new();
    for mut step in steps {
        ensure!(
            step.request.is_some() != step.watch.is_some(),
            "step {:?} needs one of `request` and `watch`",
            step.name
        );
        ensure!(step.watch.is_some() == step.collect.is_some(), "step {:?}: a watch has `collect`", step.name);
        step.during = unfolded(std::mem::take(&mut step.during))?;
        let cases = std::mem::take(&mut step.cases);
        if cases.is_empty() {
            plain.push(changed(step)?);
            continue;
        }
        for (case, changes) in cases {
            plain.push(changed(one_case(step.clone(), &case, changes)?)?);
        }
    }
    Ok(plain)
}

fn one_case(mut step: Step, case: &str, changes: IndexMap<String, Value>) -> anyhow::Result<Step> {
    step.name = format!("{}: {case}", step.name);
    for (key, value) in changes {
        if key.starts_with('$') {
            let text = value.as_str().with_context(|| format!("case {case:?}: {key} is not text"))?;
            for place in [&mut step.request, &mut step.watch, &mut step.content, &mut step.accept, &mut step.raw] {
                *place = place.take().map(|place| place.replace(&key, text));
            }
            for header in step.headers.values_mut() {
                *header = header.replace(&key, text);
            }
        } else {
            step.set.insert(key, value);
        }
    }
    Ok(step)
}

/// The step with `set` and `drop` done to its body.
fn changed(mut step: Step) -> anyhow::Result<Step> {
    let (set, drop) = (std::mem::take(&mut step.set), std::mem::take(&mut step.drop));
    if set.is_empty() && drop.is_empty() {
        return Ok(step);
    }
    let mut body = step.body.take().with_context(|| format!("step {:?} has no body to change", step.name))?;
    for pointer in &drop {
        remove(&mut body, pointer).with_context(|| format!("step {:?}: {pointer} is not there", step.name))?;
    }
    for (pointer, value) in set {
        put(&mut body, &pointer, value).with_context(|| format!("step {:?}: no place for {pointer}", step.name))?;
    }
    step.body = Some(body);
    Ok(step)
}

fn tokens(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~"))
}

/// Puts a value where a pointer says. Objects on the way are made, `-` is a new last item.
fn put(at: &mut Value, pointer: &str, value: Value) -> Option<()> {
    let mut place = at;
    for token in tokens(pointer) {
        if place.is_null() {
            *place = Value::Object(serde_json::Map::new());
        }
        place = match place {
            Value::Object(object) => object.entry(token).or_insert(Value::Null),
            Value::Array(items) => {
                if token == "-" {
                    items.push(Value::Null);
                }
                let last = items.len().checked_sub(1)?;
                items.get_mut(if token == "-" { last } else { token.parse().ok()? })?
            }
            _ => return None,
        };
    }
    *place = value;
    Some(())
}

fn remove(at: &mut Value, pointer: &str) -> Option<Value> {
    let (parent, _) = pointer.rsplit_once('/')?;
    let last = tokens(pointer).last()?;
    match at.pointer_mut(parent)? {
        Value::Object(object) => object.shift_remove(&last),
        Value::Array(items) => {
            let index = last.parse::<usize>().ok().filter(|index| *index < items.len())?;
            Some(items.remove(index))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "
about: cases
steps:
  - step: refused
    request: POST /api/v1/namespaces/$ns/pods?$query
    body: {metadata: {name: a}, spec: {containers: [{name: main, image: busybox}]}}
    drop: [/metadata/name]
    expect: 422
    cases:
      no image: {/spec/containers/0/image: '', $query: dryRun=All}
      a label: {/metadata/labels/example.com~1app: web, $query: ''}
";

    #[test]
    fn cases_are_steps_of_their_own() {
        let conversation = Conversation::parse("cases", TEXT).unwrap();
        let names: Vec<_> = conversation.all_steps().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["refused: no image", "refused: a label"]);
        assert_eq!(conversation.steps[0].request.as_deref(), Some("POST /api/v1/namespaces/$ns/pods?dryRun=All"));
        let body = json!({"metadata": {}, "spec": {"containers": [{"name": "main", "image": ""}]}});
        assert_eq!(conversation.steps[0].body, Some(body));
        assert_eq!(
            conversation.steps[1].body.as_ref().unwrap()["metadata"],
            json!({"labels": {"example.com/app": "web"}})
        );
    }

    #[test]
    fn two_steps_with_one_name_are_refused() {
        let text = "{about: x, steps: [{step: a, request: GET /}, {step: a, request: GET /api}]}";
        assert!(Conversation::parse("twice", text).unwrap_err().to_string().contains("two steps have the name"));
    }

    #[test]
    fn a_word_that_the_format_does_not_have_is_refused() {
        assert!(
            Conversation::parse("unknown", "{about: x, steps: [{step: a, request: GET /, expects: 200}]}").is_err()
        );
    }
}
