//! `cargo xtask bench build`: what the first release build costs a new user.

use std::time::{Duration, Instant};

use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

use crate::command::{cargo, root, run};

/// What it took before work began on it: minutes of processor time, and megabytes.
const BEFORE: (f64, f64) = (20.0, 65.0);

/// Builds `pillion` into an empty folder, with the dependencies that cargo has downloaded.
pub(crate) fn bench() -> anyhow::Result<()> {
    let target = root().join("target/first-build");
    if target.exists() {
        std::fs::remove_dir_all(&target)?;
    }
    let (started, used_before) = (Instant::now(), processor_minutes()?);
    let mut command = cargo(["build", "--release", "--package", "pillion", "--timings"]);
    command.env("CARGO_TARGET_DIR", &target);
    run(command)?;
    let (elapsed, used) = (started.elapsed().as_secs_f64() / 60.0, processor_minutes()? - used_before);
    let kilobytes = u32::try_from(std::fs::metadata(target.join("release/pillion"))?.len() / 1000)?;
    let megabytes = f64::from(kilobytes) / 1e3;
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(["the first release build", "now", "before", "goal"]);
    for (what, now, before) in
        [("processor time, minutes", used, BEFORE.0), ("size of the program, MB", megabytes, BEFORE.1)]
    {
        table.add_row([what.to_owned(), format!("{now:.1}"), format!("{before:.0}"), format!("{:.0}", before / 2.0)]);
    }
    println!("{table}\n{elapsed:.1} minutes; each crate: {}/cargo-timings/cargo-timing.html", target.display());
    Ok(())
}

/// What the programs that this one has started, and that have ended, have used.
fn processor_minutes() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let used = usage.user_time() + usage.system_time();
    Ok(Duration::from_micros(u64::try_from(used.num_microseconds())?).as_secs_f64() / 60.0)
}
