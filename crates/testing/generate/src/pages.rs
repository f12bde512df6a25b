//! Pages of the documentation in which parts are generated, each between two comments.

use std::path::Path;

use anyhow::Context as _;
use pillion_differential::{Known, known_differences, markdown};
use pillion_lifecycle::{cases, marks, modes};

use crate::Files;

/// The pages, with their generated parts replaced.
pub(crate) fn files(root: &Path) -> anyhow::Result<Files> {
    let known = Known::list(&known_differences())?;
    let pages = [
        ("docs/embedded.md", vec![("known differences", markdown(&known))]),
        ("docs/lifecycle.md", vec![("marks", marks::table()), ("modes", modes::table()), ("cases", cases::table())]),
    ];
    let page = |(path, parts): (&str, Vec<(&str, String)>)| {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
        let text = with_parts(text, &parts).with_context(|| format!("cannot generate {path}"))?;
        Ok((path.to_owned(), text))
    };
    pages.into_iter().map(page).collect()
}

fn with_parts(mut text: String, parts: &[(&str, String)]) -> anyhow::Result<String> {
    for (name, part) in parts {
        let (begin, end) = (format!("<!-- begin: {name} -->\n"), format!("<!-- end: {name} -->"));
        let (before, rest) = text.split_once(&begin).with_context(|| format!("the page has no {begin}"))?;
        let (_, after) = rest.split_once(&end).with_context(|| format!("the page has no {end}"))?;
        text = format!("{before}{begin}{part}{end}{after}");
    }
    Ok(text)
}
