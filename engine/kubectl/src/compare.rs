//! The same session with two servers.

use std::path::Path;

use anyhow::{Context as _, ensure};
use similar::TextDiff;

use crate::play::{Server, play};
use crate::session::Session;

/// Holds the session of a file with both servers at once, and fails unless both make kubectl print what the file says.
///
/// With `UPDATE_SESSIONS` in the environment the file is written as the real server makes it.
pub async fn both_print_the_same(file: &Path, real: Server, embedded: Server) -> anyhow::Result<()> {
    let session = Session::parse(&std::fs::read_to_string(file).with_context(|| file.display().to_string())?)?;

    // One name for both, so that tables have the same columns.
    let namespace = format!("shop-{}", std::iter::repeat_with(fastrand::lowercase).take(5).collect::<String>());
    let printed = |server: Server| {
        let (session, namespace) = (session.clone(), namespace.clone());
        tokio::task::spawn_blocking(move || play(&server, &session, &namespace))
    };
    let (by_real, by_embedded) = tokio::join!(printed(real), printed(embedded));
    let (by_real, by_embedded) = (by_real??, by_embedded??);

    let mut recorded = session.clone().recorded(&by_real);
    if std::env::var_os("UPDATE_SESSIONS").is_some() {
        recorded = recorded.recorded_differences(&by_embedded);
        std::fs::write(file, recorded.to_string())?;
    } else {
        same("a real server", &session, &recorded)?;
    }
    for step in recorded.steps() {
        let same = step.embedded.as_ref().is_some_and(|embedded| embedded.printed == step.printed);
        ensure!(!same, "{:?} is no difference any more: take it out", step.command);
    }
    let wanted = recorded.as_embedded();
    same("the embedded server", &wanted, &wanted.clone().recorded(&by_embedded))
}

/// Fails if a folder has a session that is none of these.
pub fn no_session_is_forgotten(folder: &Path, held: &[&str]) -> anyhow::Result<()> {
    for file in std::fs::read_dir(folder)? {
        let path = file?.path();
        let is_held = path.file_stem().is_some_and(|name| held.iter().any(|held| name == *held));
        ensure!(is_held || path.is_dir(), "{} has no test", path.display());
    }
    Ok(())
}

fn same(server: &str, wanted: &Session, printed: &Session) -> anyhow::Result<()> {
    let (wanted, printed) = (wanted.to_string(), printed.to_string());
    let diff = TextDiff::from_lines(&wanted, &printed);
    ensure!(wanted == printed, "with {server} kubectl prints (+) not what is expected (-):\n{}", diff.unified_diff());
    Ok(())
}
