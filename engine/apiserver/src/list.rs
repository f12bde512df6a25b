//! Lists: of everything, of a selection, in pages, at a version.

use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use pillion_patch::decode;
use pillion_rules::field::{Error, Path};
use pillion_store::{Snapshot, Stored};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::media::Transform;
use crate::query::ListOptions;
use crate::selection::Selection;
use crate::status::{Refusal, Result};
use crate::{respond, versioned};

const INCONSISTENT: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
/// As Go reads it: without padding, and whatever the last bits are.
const TOKENS: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);
const EXPIRED: &str = "The resourceVersion for the provided list is too old.";

/// Where the next page begins; the client gets it as an opaque text.
#[derive(Deserialize, Serialize)]
struct ContinueToken {
    v: String,
    /// -1: at whatever is newest.
    rv: i64,
    start: String,
    /// How many objects of that version come before: to count the rest takes as long as to read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<usize>,
}

/// Where a list begins.
#[derive(Default)]
struct Start {
    namespace: String,
    name: String,
    /// How many objects come before, where that is known.
    before: Option<usize>,
}

/// What a list found.
pub(crate) struct Page {
    pub(crate) items: Vec<Stored>,
    resource_version: u64,
    continue_token: String,
    remaining: Option<usize>,
}

pub(crate) async fn list(call: &Call<'_>) -> Result<Response> {
    let options = ListOptions::decode(&call.query, false)?;
    let page = find(call, &options)?;
    answer(call, &page).await
}

/// The objects that a list is about.
pub(crate) fn find(call: &Call<'_>, options: &ListOptions) -> Result<Page> {
    let selection = Selection::decode(call, options)?;
    let (snapshot, start) = snapshot(call, options)?;
    let mut page = Page {
        items: Vec::new(),
        resource_version: snapshot.resource_version(),
        continue_token: String::new(),
        remaining: None,
    };
    if let Some(stored) = named(call, &selection, &snapshot) {
        page.items.extend(stored.filter(|stored| selection.matches(&call.endpoint, stored)).cloned());
        return Ok(page);
    }
    // Any version will do: then all of it does.
    let any_version = options.resource_version == "0" && options.resource_version_match != "Exact";
    let limit = if any_version { 0 } else { usize::try_from(options.limit).unwrap_or(0) };
    let mut last = ("", "");
    for (namespace, name, stored) in snapshot.iter_from(&start.namespace, &start.name) {
        if limit > 0 && page.items.len() == limit {
            // Another one follows: the page ends here.
            let after = format!("{}\0", last.1);
            let before = selection.is_empty().then(|| match start.before {
                Some(before) => before + limit,
                None => snapshot.len() - snapshot.iter_from(last.0, &after).count(),
            });
            page.continue_token = token(call, page.resource_version, last, before);
            page.remaining = before.map(|before| snapshot.len().saturating_sub(before));
            break;
        }
        last = (namespace, name);
        if selection.is_empty() || selection.matches(&call.endpoint, stored) {
            page.items.push(stored.clone());
        }
    }
    Ok(page)
}

/// The one object that a selection by name can be about, if it is there; `None` for other selections.
fn named<'a>(
    call: &Call<'_>,
    selection: &Selection,
    snapshot: &'a Snapshot,
) -> Option<impl Iterator<Item = &'a Stored> + use<'a>> {
    let everywhere = call.endpoint.namespaced() && call.namespace().is_empty();
    let name = selection.name().filter(|_| !everywhere)?;
    Some(snapshot.get(call.namespace(), name).into_iter())
}

/// The state that the list is taken from, and where it starts.
fn snapshot(call: &Call<'_>, options: &ListOptions) -> Result<(Snapshot, Start)> {
    let store = &call.inner().store;
    let resource = call.endpoint.storage_name();
    let namespace = (!call.namespace().is_empty()).then(|| call.namespace());
    if !options.continue_token.is_empty() {
        if !options.resource_version.is_empty() && options.resource_version != "0" {
            return Err(Refusal::bad_request("specifying resource version is not allowed when using continue"));
        }
        let token = parse_token(&options.continue_token)?;
        let mut start = start(call, &token);
        let Ok(version) = u64::try_from(token.rv) else {
            start.before = None;
            return Ok((store.list(&resource, namespace), start));
        };
        if let Ok(snapshot) = store.list_at(&resource, namespace, version) {
            return Ok((snapshot, start));
        }
        let fresh = ContinueToken { rv: -1, before: None, ..token };
        return Err(Refusal::expired(INCONSISTENT).with_continue(encode(&fresh)));
    }
    let version = resource_version(&options.resource_version)?;
    let newest = store.resource_version();
    if version > newest {
        return Err(too_large(version, newest));
    }
    let exact = options.resource_version_match == "Exact"
        // Without a match, a page of an old version is that version.
        || (options.resource_version_match.is_empty() && options.limit > 0 && version > 0);
    if exact && version > 0 {
        let snapshot = store.list_at(&resource, namespace, version).map_err(|_| Refusal::expired(EXPIRED))?;
        return Ok((snapshot, Start { before: Some(0), ..Start::default() }));
    }
    Ok((store.list(&resource, namespace), Start { before: Some(0), ..Start::default() }))
}

/// A version that the server has not reached yet.
pub(crate) fn too_large(version: u64, newest: u64) -> Box<Refusal> {
    let mut refusal = Refusal::timeout(format!("Too large resource version: {version}, current: {newest}"), 1);
    refusal.details = json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1});
    refusal
}

/// A `resourceVersion` parameter; 0 for none.
pub(crate) fn resource_version(text: &str) -> Result<u64> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| Refusal::bad_request(format!("invalid resource version: {}", no_version(text))))
}

fn no_version(text: &str) -> Error {
    let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
    Error::invalid(&Path::new("resourceVersion"), text, why)
}

/// As [`resource_version`] for a single object or a watch, which Kubernetes refuses in other words.
pub(crate) fn resource_version_of_one(text: &str) -> Result<u64> {
    let version = if text.is_empty() { Ok(0) } else { text.parse() };
    version.map_err(|_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "", no_version(text).to_string(), Value::Null))
}

fn token(call: &Call<'_>, version: u64, last: (&str, &str), before: Option<usize>) -> String {
    let (namespace, name) = last;
    let everywhere = call.endpoint.namespaced() && call.namespace().is_empty();
    let start = if everywhere { format!("{namespace}/{name}\0") } else { format!("{name}\0") };
    let rv = i64::try_from(version).unwrap_or(i64::MAX);
    encode(&ContinueToken { v: "meta.k8s.io/v1".to_owned(), rv, start, before })
}

/// The place of a token below what the path names: all namespaces, or one.
fn start(call: &Call<'_>, token: &ContinueToken) -> Start {
    let place = token.start.trim_start_matches('/');
    let everywhere = call.endpoint.namespaced() && call.namespace().is_empty();
    let (namespace, name) =
        if everywhere { place.split_once('/').unwrap_or((place, "")) } else { (call.namespace(), place) };
    Start { namespace: namespace.to_owned(), name: name.to_owned(), before: token.before }
}

fn encode(token: &ContinueToken) -> String {
    TOKENS.encode(serde_json::to_vec(token).unwrap_or_default())
}

/// What is wrong with base64, in Go's words.
fn no_base64(text: &str, error: base64::DecodeError) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
        base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => text.len().saturating_sub(1),
    };
    format!("illegal base64 data at input byte {at}")
}

/// Whether a token leads to where it says, and not up.
fn is_clean(start: &str) -> bool {
    let start = start.strip_prefix('/').unwrap_or(start);
    start.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn parse_token(text: &str) -> Result<ContinueToken> {
    let bad = |why: String| Refusal::bad_request(format!("invalid continue token: {why}"));
    let bytes =
        TOKENS.decode(text).map_err(|error| bad(format!("continue key is not valid: {}", no_base64(text, error))))?;
    let parsed = decode::parse(&bytes).map_err(|error| bad(format!("continue key is not valid: {error}")))?;
    let token: ContinueToken =
        serde_json::from_value(parsed.value).map_err(|error| bad(format!("continue key is not valid: {error}")))?;
    match token.v.as_str() {
        "meta.k8s.io/v1" if token.rv == 0 => {
            Err(bad("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
                .to_owned()))
        }
        "meta.k8s.io/v1" if token.start.is_empty() => {
            Err(bad("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)".to_owned()))
        }
        "meta.k8s.io/v1" if !is_clean(&token.start) => Err(bad(format!("continue key is not valid: {}", token.start))),
        "meta.k8s.io/v1" => Ok(token),
        other => Err(bad(format!("continue key is not valid: server does not recognize this encoded version {other}"))),
    }
}

pub(crate) async fn answer(call: &Call<'_>, page: &Page) -> Result<Response> {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), page.resource_version.to_string().into());
    if !page.continue_token.is_empty() {
        metadata.insert("continue".to_owned(), page.continue_token.as_str().into());
    }
    // Go writes it for lists without a type of their own even when there is no more.
    if call.endpoint.is_custom() && call.output.transform == Transform::None {
        metadata.entry("continue").or_insert_with(|| "".into());
    }
    if let Some(remaining) = page.remaining {
        metadata.insert("remainingItemCount".to_owned(), remaining.into());
    }
    let metadata = Value::Object(metadata);
    if call.output.transform == Transform::None
        && !call.output.yaml
        && !call.output.pretty
        && versioned::shown_as_stored(&call.endpoint)
    {
        return Ok(respond::json_text(raw(call, &metadata, &page.items)));
    }
    let objects = versioned::decode_all(call.inner(), &call.endpoint, &page.items).await?;
    let list = match call.output.transform {
        Transform::Table => respond::table(call, metadata, &objects)?,
        Transform::PartialObject => return Err(respond::list_is_no_object(&call.endpoint)),
        Transform::PartialList => {
            let items: Vec<Value> = objects.iter().map(|object| respond::partial(object, call.output)).collect();
            json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": if call.output.beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" },
                "metadata": metadata,
                "items": items,
            })
        }
        Transform::None => {
            let items: Vec<Value> = objects.into_iter().map(|object| without_kind(call, object)).collect();
            json!({"kind": call.endpoint.list_kind(), "apiVersion": call.endpoint.api_version(), "metadata": metadata, "items": items})
        }
    };
    Ok(respond::write(StatusCode::OK, &list, call.output))
}

/// Items of Kubernetes' own lists do not repeat their kind.
fn without_kind(call: &Call<'_>, mut object: Value) -> Value {
    if let (false, Value::Object(object)) = (call.endpoint.is_custom(), &mut object) {
        object.shift_remove("kind");
        object.shift_remove("apiVersion");
    }
    object
}

/// The list as text, put together from the stored bytes without parsing them.
fn raw(call: &Call<'_>, metadata: &Value, items: &[Stored]) -> Vec<u8> {
    let endpoint = &call.endpoint;
    let size: usize = items.iter().map(|stored| stored.bytes.len() + 1).sum();
    let mut text = Vec::with_capacity(size + 256);
    let head = format!(
        r#"{{"kind":{},"apiVersion":{},"metadata":{metadata},"items":["#,
        Value::from(endpoint.list_kind()),
        Value::from(endpoint.api_version())
    );
    text.extend_from_slice(head.as_bytes());
    let prefix = kind_prefix(endpoint.kind(), &endpoint.api_version());
    for (index, stored) in items.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        match stored.bytes.strip_prefix(prefix.as_bytes()) {
            Some(rest) if !endpoint.is_custom() => {
                text.push(b'{');
                text.extend_from_slice(rest);
            }
            _ => text.extend_from_slice(&stored.bytes),
        }
    }
    text.extend_from_slice(b"]}\n");
    text
}

/// How every stored object of Kubernetes' own kinds begins.
fn kind_prefix(kind: &str, api_version: &str) -> String {
    format!(r#"{{"kind":{},"apiVersion":{},"#, Value::from(kind), Value::from(api_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let token =
            ContinueToken { v: "meta.k8s.io/v1".to_owned(), rv: 7, start: "web\0".to_owned(), before: Some(500) };
        let read = parse_token(&encode(&token)).unwrap();
        assert_eq!((read.rv, read.start.as_str(), read.before), (7, "web\0", Some(500)));
        // kube-apiserver's own does not count.
        let foreign = parse_token("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYlx1MDAwMCJ9").unwrap();
        assert_eq!((foreign.rv, foreign.start.as_str(), foreign.before), (-1, "b\0", None));
    }

    #[test]
    fn a_token_that_is_no_base64_is_refused_in_gos_words() {
        for (text, at) in [("!!", 0), ("ab!d", 2), ("abcde", 4)] {
            let refusal = parse_token(text).err().unwrap();
            let why = format!("illegal base64 data at input byte {at}");
            assert_eq!(refusal.message, format!("invalid continue token: continue key is not valid: {why}"), "{text}");
        }
    }

    #[test]
    fn a_token_leads_nowhere_else() {
        for (start, clean) in
            [("a", true), ("/a", true), ("a/b\0", true), ("../a", false), ("a//b", false), ("a/.", false)]
        {
            assert_eq!(is_clean(start), clean, "{start:?}");
        }
    }
}
