//! `cargo xtask bench build`: what the first command of the README compiles, beside an optimised build.

use std::time::{Duration, Instant};

use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

use crate::command::{cargo, root, run};

/// The processor time of the first command may be this share of that of the optimised build.
const GOAL: f64 = 0.3;

/// What a build took.
struct Build {
    name: &'static str,
    processor_minutes: f64,
    minutes: f64,
    megabytes: f64,
}

/// Builds `pillion` twice from nothing, with the dependencies that cargo has downloaded: as the README's first command does, and as
/// `cargo install` does.
pub(crate) fn bench() -> anyhow::Result<()> {
    let first = build("the first command", "debug", &[])?;
    let optimised = build("optimised", "release", &["--release"])?;
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(["build of pillion", "processor minutes", "minutes", "MB"]);
    for Build { name, processor_minutes, minutes, megabytes } in [&first, &optimised] {
        let numbers = [processor_minutes, minutes, megabytes].map(|number| format!("{number:.1}"));
        table.add_row([(*name).to_owned()].into_iter().chain(numbers));
    }
    let share = first.processor_minutes / optimised.processor_minutes;
    println!("{table}\nprocessor time of the first command / optimised: {share:.2} (goal at most {GOAL})");
    println!("each crate: {}", root().join("target/bench-build/cargo-timings/cargo-timing.html").display());
    Ok(())
}

fn build(name: &'static str, folder: &str, flags: &[&str]) -> anyhow::Result<Build> {
    let target = root().join("target/bench-build");
    let artefacts = target.join(folder);
    if artefacts.exists() {
        std::fs::remove_dir_all(&artefacts)?;
    }
    let (started, used_before) = (Instant::now(), processor_minutes()?);
    let mut command = cargo(["build", "--package", "pillion", "--timings"]);
    command.args(flags).env("CARGO_TARGET_DIR", &target);
    run(command)?;
    let kilobytes = u32::try_from(std::fs::metadata(artefacts.join("pillion"))?.len() / 1000)?;
    Ok(Build {
        name,
        processor_minutes: processor_minutes()? - used_before,
        minutes: started.elapsed().as_secs_f64() / 60.0,
        megabytes: f64::from(kilobytes) / 1e3,
    })
}

/// The processor time of the ended children of this process.
fn processor_minutes() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let used = usage.user_time() + usage.system_time();
    Ok(Duration::from_micros(u64::try_from(used.num_microseconds())?).as_secs_f64() / 60.0)
}
