//! What is probably meant by a configuration that is not YAML.

use std::fmt::Write as _;

use pillion_yaml::Error;

/// Keys of `inKube`, which the proposal's own samples indent in three ways.
const IN_KUBE: &[&str] = &["annotationKey", "labelKey", "target", "jsonPath", "markerPolices", "storageConfig"];

/// Adds to each error how its line can probably be fixed.
pub(super) fn add_fixes(text: &str, mut errors: Vec<Error>) -> Vec<Error> {
    let lines: Vec<&str> = text.lines().collect();
    for error in &mut errors {
        let at = (error.position.line as usize).saturating_sub(1);
        let near = lines[at.saturating_sub(2).min(lines.len())..(at + 1).min(lines.len())].iter();
        // An opened quotation ends anywhere below it.
        if let Some(line) = lines.iter().position(|line| line.trim() == "'''") {
            let _ = write!(
                error.message,
                "; line {} is a placeholder: replace ''' by the plugin's own keys or remove it",
                line + 1
            );
        } else if let Some(key) =
            near.filter_map(|line| line.trim().split(':').next()).find(|key| IN_KUBE.contains(key))
        {
            let _ = write!(
                error.message,
                "; probably the indentation of `{key}`: annotationKey, labelKey, target, jsonPath and markerPolices are indented alike, two deeper than `inKube:`"
            );
        }
    }
    errors
}
