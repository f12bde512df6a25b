//! What images run. They are not pulled: a file says which command of this machine stands for an image, and which images cannot be pulled.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

/// What the images of pods run, for containers that do not say it themselves.
///
/// ```
/// use pillion_node::ImageMap;
///
/// let images = ImageMap::parse(
///     "
/// nginx: {command: [python3, -m, http.server], args: ['8080'], workingDir: /srv}
/// registry.example.com/*: {command: [sleep], args: [infinity], env: {TEAM: blue}}
/// nginx:bad: {pull: never}
/// ",
/// )?;
/// assert_eq!(images.get("nginx:1.29").unwrap().args, ["8080"]);
/// assert_eq!(images.get("registry.example.com/team/app:v2").unwrap().command, ["sleep"]);
/// assert_eq!(images.get("redis"), None);
/// assert!(images.pull_error("nginx:bad").unwrap().ends_with("nginx:bad: not found"));
/// # Ok::<(), pillion_node::ImageMapError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageMap {
    /// In the order of the file.
    images: Vec<(String, Image)>,
    /// Commands that run in place of programs, by the name or path with which containers call these.
    programs: BTreeMap<String, Vec<String>>,
}

/// What one image runs: what else its configuration would say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Image {
    /// The command, for containers without a `command`.
    #[serde(default)]
    pub command: Vec<String>,
    /// Its arguments, for containers that have neither `command` nor `args`.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables, unless the container has others of the same names.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Where it starts, for containers without a `workingDir`.
    pub working_dir: Option<String>,
    /// Whether it can be pulled.
    #[serde(default)]
    pub pull: Pull,
    /// Whether its user is not root. A file cannot set this.
    #[serde(skip)]
    pub non_root: bool,
}

/// Whether an image can be pulled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Pull {
    /// It can.
    #[default]
    Always,
    /// It does not exist.
    Never,
    /// Pulling it fails with this message.
    Error(String),
}

/// Why a file says nothing about images.
#[derive(Debug, thiserror::Error)]
pub enum ImageMapError {
    /// It cannot be read.
    #[error("it cannot be read")]
    Read(#[source] std::io::Error),
    /// It is no YAML, or no map.
    #[error("it must be a YAML or JSON map of image names to what they run: {0}")]
    Syntax(String),
    /// What it says of an image is wrong.
    #[error("image \"{image}\": {problem}")]
    Image {
        /// The name as it is in the file.
        image: String,
        /// What is wrong.
        problem: String,
    },
}

impl ImageMap {
    /// Reads a file of YAML or JSON.
    pub fn read(path: &Path) -> Result<ImageMap, ImageMapError> {
        let text = std::fs::read_to_string(path);
        ImageMap::parse(&text.map_err(ImageMapError::Read)?)
    }

    /// Parses YAML or JSON.
    pub fn parse(text: &str) -> Result<ImageMap, ImageMapError> {
        let images: Option<Map<String, Value>> =
            serde_saphyr::from_str(text).map_err(|error| ImageMapError::Syntax(error.to_string()))?;
        let images = images.unwrap_or_default().into_iter().map(|(name, value)| {
            let wrong = |problem: String| ImageMapError::Image { image: name.clone(), problem };
            let image: Image = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
            let runs_nothing = image == Image { pull: image.pull.clone(), ..Image::default() };
            match image.pull {
                Pull::Always if image.command.is_empty() => {
                    Err(wrong("give it a command, such as {command: [sleep, infinity]}".to_owned()))
                }
                Pull::Never | Pull::Error(_) if !runs_nothing => {
                    Err(wrong("an image that cannot be pulled runs nothing: give it pull alone".to_owned()))
                }
                _ => Ok((name, image)),
            }
        });
        Ok(ImageMap { images: images.collect::<Result<_, _>>()?, programs: BTreeMap::new() })
    }

    /// The same with what an image runs, unless something says it already.
    #[must_use]
    pub fn or(mut self, name: &str, image: Image) -> ImageMap {
        if self.get(name).is_none() {
            self.images.push((name.to_owned(), image));
        }
        self
    }

    /// Adds a command that runs in place of a program, in containers of every image.
    #[must_use]
    pub fn with_program(mut self, name: &str, command: Vec<String>) -> ImageMap {
        self.programs.insert(name.to_owned(), command);
        self
    }

    /// Returns the command that runs in place of this program.
    pub fn program(&self, name: &str) -> Option<&[String]> {
        self.programs.get(name).map(Vec::as_slice)
    }

    /// Adds an image under its exact name, which takes precedence over patterns.
    #[must_use]
    pub fn with(mut self, name: &str, image: Image) -> ImageMap {
        self.images.retain(|(known, _)| known != name);
        self.images.push((name.to_owned(), image));
        self
    }

    /// Why an image cannot be pulled, in the words of containerd; `None` if it can.
    pub fn pull_error(&self, image: &str) -> Option<String> {
        match &self.get(image)?.pull {
            Pull::Always => None,
            Pull::Never => Some(format!(
                "rpc error: code = NotFound desc = failed to pull and unpack image \"{image}\": failed to resolve reference \
                 \"{image}\": {image}: not found"
            )),
            Pull::Error(message) => Some(message.clone()),
        }
    }

    /// What an image runs: by its exact name, or by the first pattern of the file that fits. In patterns `*` is any text.
    /// A name without a tag is for all tags.
    pub fn get(&self, image: &str) -> Option<&Image> {
        let without_digest = image.split('@').next().unwrap_or(image);
        // A colon before the last slash is that of a port.
        let name = without_digest.rfind('/').map_or(0, |slash| slash + 1);
        let untagged = match without_digest[name..].find(':') {
            Some(colon) => &without_digest[..name + colon],
            None => without_digest,
        };
        let exact = self.images.iter().find(|(known, _)| known == image);
        let fitting = || self.images.iter().find(|(pattern, _)| fits(pattern, image) || fits(pattern, untagged));
        exact.or_else(fitting).map(|(_, image)| image)
    }
}

/// Whether a text has the form of a pattern with `*`.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = rest.split('*').collect();
    let Some((last, middle)) = parts.split_last() else { return true };
    for part in middle {
        // The first place is the best: it leaves most for the others.
        let Some(place) = text.find(part) else { return false };
        text = &text[place + part.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, text, expected) in [
            ("nginx", "nginx", true),
            ("nginx", "nginx2", false),
            ("nginx*", "nginx:1", true),
            ("*", "anything/at:all", true),
            ("*/app:*", "example.com/team/app:v2", true),
            ("*/app:*", "app:v2", false),
            ("a*b*c", "abbc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn the_exact_name_is_before_patterns_and_these_are_in_order() {
        let images = ImageMap::parse(
            "
'*': {command: [any]}
nginx:1: {command: [one]}
localhost:5000/app: {command: [app]}
",
        )
        .unwrap();
        let command = |image: &str| images.get(image).unwrap().command[0].clone();
        assert_eq!(command("nginx:1"), "one");
        assert_eq!(command("nginx:2"), "any");
        let images = ImageMap::parse("localhost:5000/app: {command: [app]}").unwrap();
        assert!(images.get("localhost:5000/app:v1").is_some());
        assert!(images.get("localhost:5000/app@sha256:0123").is_some());
        assert!(images.get("localhost:5000/other").is_none());
    }

    #[test]
    fn an_image_that_cannot_be_pulled_has_a_message() {
        let images = "
nginx:bad: {pull: never}
private/*: {pull: {error: 'pull access denied'}}
nginx: {command: [x]}
";
        let images = ImageMap::parse(images).unwrap();
        assert!(images.pull_error("nginx:bad").unwrap().contains("nginx:bad: not found"));
        assert_eq!(images.pull_error("private/app:1").as_deref(), Some("pull access denied"));
        assert_eq!(images.pull_error("nginx:1"), None);
        assert_eq!(images.pull_error("redis"), None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| ImageMap::parse(text).unwrap_err().to_string();
        assert!(error("nginx: {pull: sometimes}").starts_with("image \"nginx\": unknown variant `sometimes`"));
        assert_eq!(
            error("nginx: {pull: never, command: [x]}"),
            "image \"nginx\": an image that cannot be pulled runs nothing: give it pull alone"
        );
        assert!(error("nginx: {comand: [x]}").starts_with("image \"nginx\": unknown field `comand`"));
        assert_eq!(
            error("nginx: {args: [x]}"),
            "image \"nginx\": give it a command, such as {command: [sleep, infinity]}"
        );
        assert!(error("- nginx").starts_with("it must be a YAML or JSON map of image names"));
        assert_eq!(ImageMap::parse("").unwrap(), ImageMap::default());
        let missing = ImageMap::read(Path::new("/no/such")).unwrap_err();
        assert_eq!(missing.to_string(), "it cannot be read");
    }
}
