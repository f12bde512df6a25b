//! Files of one volume that would be written over each other.

use serde_json::Value;

use pillion_rules::pod::read::{list, part, text};

/// A file of a volume, and what it comes from.
#[derive(Clone, PartialEq)]
struct File {
    path: String,
    source: String,
}

impl std::fmt::Display for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.path)?;
        if self.source.is_empty() { Ok(()) } else { write!(f, " ({})", self.source) }
    }
}

/// Warns about overlaps within each volume.
pub(super) fn warn(warnings: &mut Vec<String>, volumes: &[Value]) {
    for volume in volumes {
        let name = text(volume, "name");
        let kinds = [
            ("configMap", format!("ConfigMap {:?}", text(&volume["configMap"], "name"))),
            ("secret", format!("Secret {:?}", text(&volume["secret"], "secretName"))),
            ("downwardAPI", "DownwardAPI".to_owned()),
        ];
        for (kind, description) in kinds {
            let mut files = Vec::new();
            for item in list(&volume[kind], "items") {
                add(warnings, &mut files, text(item, "path"), "", name, &description);
            }
        }
        let mut files = Vec::new();
        for source in list(&volume["projected"], "sources") {
            if source.as_object().is_none_or(|source| source.values().all(Value::is_null)) {
                warnings.push(format!("volume {name:?} (Projected) has no sources provided"));
            }
            for (path, source) in projected(source) {
                add(warnings, &mut files, path, &source, name, "Projected");
            }
        }
    }
}

/// Files of the first kind of source that there is.
fn projected(source: &Value) -> Vec<(&str, String)> {
    let items = |kind: &str, description: &str| -> Option<Vec<(&str, String)>> {
        let items = part(&source[kind], "items")?.as_array()?;
        Some(items.iter().map(|item| (text(item, "path"), description.to_owned())).collect())
    };
    let name = |kind: &str, shown: &str| format!("{shown} {:?}", text(&source[kind], "name"));
    items("configMap", &name("configMap", "ConfigMap"))
        .or_else(|| items("secret", &name("secret", "Secret")))
        .or_else(|| items("downwardAPI", "DownwardAPI"))
        .or_else(|| {
            let token = part(source, "serviceAccountToken")?;
            Some(vec![(text(token, "path"), "ServiceAccountToken".to_owned())])
        })
        .unwrap_or_default()
}

fn add(warnings: &mut Vec<String>, files: &mut Vec<File>, path: &str, source: &str, volume: &str, description: &str) {
    let file = File { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() };
    let is_below = |a: &File, b: &File| format!("{}/", a.path).starts_with(&format!("{}/", b.path));
    if !file.path.is_empty() {
        for other in files.iter().filter(|other| !other.path.is_empty()) {
            if is_below(other, &file) || is_below(&file, other) {
                warnings.push(format!("volume {volume:?} ({description}): overlapping paths: {file} with {other}"));
            }
        }
    }
    files.push(file);
}
