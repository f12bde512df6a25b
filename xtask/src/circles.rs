//! Looks for circles between sibling files: modules of one folder that use each other, directly or through others.
//!
//! A reader who opens one file of a circle has to read all of them. A parent and its children may use each other: they are one
//! subject. Tests are left out, since they may use anything.
//!
//! ```text
//! src/**/*.rs ─▶ paths that begin with crate, self or super ─▶ modules, through what their files import ─▶ edges between siblings ─▶ circles
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
    let imported = imported(files);
    for (module, text) in files {
        for path in used(text, module) {
            let path = resolved(path, files, &imported);
            let Some(used) = file_of(&path, files).filter(|file| !file.is_empty()) else { continue };
            let common = module.iter().zip(used).take_while(|(one, other)| one == other).count();
            if let (Some(from), Some(to)) = (module.get(common), used.get(common)) {
                let folder = module.iter().take(common).cloned().collect();
                edges.entry(folder).or_default().entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    edges
}

/// The file that a path leads to: the longest beginning of it that is a module.
fn file_of<'p>(path: &'p [String], files: &BTreeMap<Module, String>) -> Option<&'p [String]> {
    (0..=path.len()).rev().filter_map(|length| path.get(..length)).find(|path| files.contains_key(*path))
}

/// What files import, by the path under which others find it there.
fn imported(files: &BTreeMap<Module, String>) -> BTreeMap<Module, Module> {
    let mut imported = BTreeMap::new();
    for (module, text) in files {
        let code = code_of(text);
        for (at, _) in code.match_indices("use ") {
            let is_statement = code[..at].chars().next_back().is_none_or(char::is_whitespace);
            let tree_of = |path: &str, base: Module, paths: &mut Vec<Module>| _ = tree(path, base, paths);
            let (mut paths, statement) = (Vec::new(), &code[at + "use ".len()..]);
            match statement {
                _ if !is_statement => {}
                path if path.starts_with("crate::") => tree_of(&path["crate::".len()..], Vec::new(), &mut paths),
                path if path.starts_with("self::") => tree_of(&path["self::".len()..], module.clone(), &mut paths),
                path if path.starts_with("super::") => tree_of(&path["super::".len()..], parent(module), &mut paths),
                // A module below this one; what begins with a crate's name leads nowhere.
                path => tree_of(path, module.clone(), &mut paths),
            }
            for path in paths.into_iter().filter(|path| file_of(path, files).is_some_and(|file| file != module)) {
                let name = path.last().into_iter().cloned();
                imported.entry(module.iter().cloned().chain(name).collect()).or_insert(path);
            }
        }
    }
    imported
}

/// Where a path leads that names what another file has imported.
fn resolved(mut path: Module, files: &BTreeMap<Module, String>, imported: &BTreeMap<Module, Module>) -> Module {
    // Imports that lead to each other are no code that compiles.
    for _ in 0..8 {
        let Some(file) = file_of(&path, files) else { return path };
        let length = file.len() + 1;
        let Some(target) = path.get(..length).and_then(|name| imported.get(name)) else { return path };
        path = target.iter().chain(path.iter().skip(length)).cloned().collect();
    }
    path
}

/// Everything that a file names from the crate's root, from its parent or from itself, as paths from the root.
fn used(text: &str, module: &[String]) -> Vec<Module> {
    let code = code_of(text);
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

/// A file without its comments, and without a test module at its end.
fn code_of(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    code.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned()
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
    fn what_the_root_or_a_parent_exports_leads_to_its_file() {
        let files =
            [("", "pub use a::A;\npub use b::{B, C};"), ("a", "use crate::B;"), ("b", "use crate::{A, other};")];
        assert_eq!(found(&files), ["a → b → a"]);
        let files =
            [("a", "pub(crate) use self::b::B; use c::C;"), ("a/b", "use super::C;"), ("a/c", "use crate::a::B;")];
        assert_eq!(found(&files), ["a: b → c → b"]);
        let files = [("", "mod a; use serde::A;"), ("a", "use crate::A;")];
        assert_eq!(found(&files), [""; 0]);
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
