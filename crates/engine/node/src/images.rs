//! What images run. They are not pulled: a file says which command of this machine stands for an image.

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
/// ",
/// )?;
/// assert_eq!(images.get("nginx:1.29").unwrap().args, ["8080"]);
/// assert_eq!(images.get("registry.example.com/team/app:v2").unwrap().command, ["sleep"]);
/// assert_eq!(images.get("redis"), None);
/// # Ok::<(), pillion_node::ImageMapError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageMap {
    /// In the order of the file.
    images: Vec<(String, Image)>,
    /// What runs where containers have a command of this name.
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
            if image.command.is_empty() {
                return Err(wrong("give it a command, such as {command: [sleep, infinity]}".to_owned()));
            }
            Ok((name, image))
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

    /// The same with a program that containers find by its name, whatever their image is.
    #[must_use]
    pub fn with_program(mut self, name: &str, command: Vec<String>) -> ImageMap {
        self.programs.insert(name.to_owned(), command);
        self
    }

    /// What runs where containers have a command of this name, if it is not for the `PATH` to say.
    pub fn program(&self, name: &str) -> Option<&[String]> {
        self.programs.get(name).map(Vec::as_slice)
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
    fn what_is_wrong_is_said() {
        let error = |text: &str| ImageMap::parse(text).unwrap_err().to_string();
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
