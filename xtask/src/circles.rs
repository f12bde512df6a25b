//! Looks for circles between sibling files: modules of one folder that use each other, directly or through others.
//!
//! A reader who opens one file of a circle has to read all of them. A parent and its children may use each other: they are one
//! subject. Tests are left out, since they may use anything.
//!
//! ```text
//! src/**/*.rs ─▶ paths that begin with crate, self or super ─▶ modules ─▶ edges between siblings ─▶ circles
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;

/// A module by its path below the crate: `["webhook", "pod"]`.
type Module = Vec<String>;

/// For each folder, which of its modules use which others.
type Edges = BTreeMap<Module, BTreeMap<String, BTreeSet<String>>>;

/// The circles of the crate whose sources are in this folder, one for each group of modules that depend on each other.
pub(crate) fn find(src: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = BTreeMap::new();
    read(src, &mut Vec::new(), &mut files)?;
    Ok(circles(&edges(&files)))
}

fn read(folder: &Path, module: &mut Module, files: &mut BTreeMap<Module, String>) -> anyhow::Result<()> {
    let entries = folder.read_dir().with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        if stem.contains("test") {
            continue;
        }
        module.push(stem.to_owned());
        if path.is_dir() {
            read(&path, module, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let is_root = module.len() == 1 && matches!(stem, "lib" | "main");
            files.insert(if is_root { Vec::new() } else { module.clone() }, text);
        }
        module.pop();
    }
    Ok(())
}

fn edges(files: &BTreeMap<Module, String>) -> Edges {
    let mut edges = Edges::new();
    for (module, text) in files {
        for path in used(text, module) {
            let Some(used) =
                (1..=path.len()).rev().filter_map(|length| path.get(..length)).find(|path| files.contains_key(*path))
            else {
                continue;
            };
            let common = module.iter().zip(used).take_while(|(one, other)| one == other).count();
            if let (Some(from), Some(to)) = (module.get(common), used.get(common)) {
                let folder = module.iter().take(common).cloned().collect();
                edges.entry(folder).or_default().entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    edges
}

/// Everything that a file names from the crate's root, from its parent or from itself, as paths from the root.
fn used(text: &str, module: &[String]) -> Vec<Module> {
    let code: String =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).fold(String::new(), |mut code, line| {
            code.push_str(line);
            code.push('\n');
            code
        });
    // A test module at the end of a file.
    let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut paths = Vec::new();
    for (start, base) in [("crate::", Vec::new()), ("self::", module.to_vec()), ("super::", parent(module))] {
        for (at, _) in code.match_indices(start) {
            let is_word =
                code[..at].chars().next_back().is_some_and(|before| before.is_alphanumeric() || "_:".contains(before));
            if !is_word {
                tree(&code[at + start.len()..], base.clone(), &mut paths);
            }
        }
    }
    paths
}

fn parent(module: &[String]) -> Module {
    module.split_last().map(|(_, parent)| parent.to_vec()).unwrap_or_default()
}

/// Reads what follows the beginning of a path, such as `a::{b, c::D};`, and returns the rest behind it.
fn tree<'t>(mut text: &'t str, mut path: Module, paths: &mut Vec<Module>) -> &'t str {
    loop {
        if let Some(group) = text.strip_prefix('{') {
            text = group.trim_start();
            while !text.is_empty() && !text.starts_with('}') {
                let rest = tree(text, path.clone(), paths);
                // What is no path (`as`, a comma) is skipped.
                text = if rest.len() < text.len() { rest } else { rest.get(1..).unwrap_or_default() };
                text = text.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
            }
            return text.strip_prefix('}').unwrap_or(text);
        }
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        let (segment, rest) = text.split_at(end);
        if segment == "super" {
            path.pop();
        } else if !segment.is_empty() {
            path.push(segment.to_owned());
        }
        let Some(below) = rest.strip_prefix("::") else {
            if !path.is_empty() {
                paths.push(path);
            }
            return rest;
        };
        text = below;
    }
}

fn circles(edges: &Edges) -> Vec<String> {
    let mut found = Vec::new();
    for (folder, uses) in edges {
        let mut named: BTreeSet<String> = BTreeSet::new();
        for module in uses.keys() {
            let Some(circle) = circle(module, uses) else { continue };
            if circle.iter().any(|member| named.contains(*member)) {
                continue;
            }
            named.extend(circle.iter().map(|member| (*member).to_owned()));
            let inside = if folder.is_empty() { String::new() } else { format!("{}: ", folder.join("/")) };
            found.push(format!("{inside}{} → {module}", circle.join(" → ")));
        }
    }
    found
}

/// The shortest way from a module back to itself.
fn circle<'e>(module: &'e str, uses: &'e BTreeMap<String, BTreeSet<String>>) -> Option<Vec<&'e str>> {
    let mut ways = vec![vec![module]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in way.last().and_then(|last| uses.get(*last)).into_iter().flatten() {
                if next == module {
                    return Some(way);
                }
                if seen.insert(next) {
                    longer.push(way.iter().copied().chain([next.as_str()]).collect());
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let module = |path: &str| path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        circles(&edges(&files.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect()))
    }

    #[test]
    fn files_that_use_each_other_are_a_circle() {
        let files =
            [("a", "use crate::b::B;"), ("b", "fn b() { crate::c::run() }"), ("c", "use crate::{a::A, d};"), ("d", "")];
        assert_eq!(found(&files), ["a → b → c → a"]);
    }

    #[test]
    fn a_parent_and_its_children_may_use_each_other() {
        let files =
            [("", "use crate::a::A;"), ("a", "mod b; use self::b::B;"), ("a/b", "use super::A; use crate::a::X;")];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn siblings_in_a_folder_are_looked_at_as_well() {
        let files = [("a", ""), ("a/b", "use super::c::C;"), ("a/c", "use crate::a::{self, b::{B, other}};")];
        assert_eq!(found(&files), ["a: b → c → b"]);
        let files = [("a", ""), ("a/b", "use crate::d;"), ("d", "use crate::a::b;")];
        assert_eq!(found(&files), ["a → d → a"], "a folder uses what one of its files uses");
    }

    #[test]
    fn comments_tests_and_names_that_only_look_alike_do_not_count() {
        let files = [
            ("a", "// crate::b\nuse mycrate::b;\n#[cfg(test)]\nmod tests {\n use crate::b; }"),
            ("b", "use crate::a;"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }
}
