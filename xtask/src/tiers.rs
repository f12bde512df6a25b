//! `cargo xtask test`: the tiers, and the table of what ran.
//!
//! Without further words the command runs what a contributor needs before a commit: tiers that need neither root nor Go. `--all` and `CI=true` run
//! every tier.
//!
//! Compilers keep the processors busy, and tests of whole clusters mostly wait for the processes that they have started. So both run
//! beside each other, in the order that [`Tier::after`] says:
//!
//! ```text
//! format ─▶ lint ─▶ house ─▶ doc ─▶ deny ─▶ alone ─▶ generated     compile, in a target folder of their own
//! cluster ─┬▶ test ─▶ doctest ─▶ engine ─▶ kill              processes of this machine
//!          ├▶ scenarios                                       the same, and mostly waiting
//!          └▶ real                                            processes of a real cluster
//! ```

use std::process::{Command, ExitCode};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use comfy_table::{Cell, Table, presets::UTF8_HORIZONTAL_ONLY};

use crate::command::{
    ACCEPT, REPEAT, SCENARIOS, THOROUGH, all, cargo_beside, is_ci, label, run, tests_of, tests_without,
};
use crate::metadata::{engine_packages, metadata};
use crate::{alone, deny, generate, house, kill, real};

/// Which tiers to run.
#[derive(Args)]
pub(crate) struct Test {
    /// Run only these tiers, by name [default: format, house, test, scenarios and doctest].
    #[arg(value_name = "TIER")]
    only: Vec<String>,
    /// Run every tier, as CI does; some need root and Go.
    #[arg(long, conflicts_with = "only")]
    all: bool,
    /// Begin no other tier after one has failed.
    #[arg(long)]
    fail_fast: bool,
    /// How often the exact quota of new pods is tried, in virtual time and on the real cluster [default: 50 in CI and with --all, otherwise 10; and 1].
    #[arg(long, value_name = "N")]
    repeat: Option<u64>,
    /// Rewrite the stories of scenarios to match the real cluster: `cargo xtask test real --accept`.
    #[arg(long)]
    accept: bool,
    /// Keep this many processors busy meanwhile: tests must not depend on how fast the machine is.
    #[arg(long, value_name = "N", default_value_t = 0)]
    busy: usize,
    /// Run the tiers this many times, and stop at the first run that fails.
    #[arg(long, value_name = "N", default_value_t = 1)]
    times: u32,
}

/// One part of the tests.
struct Tier {
    name: &'static str,
    what: &'static str,
    when: When,
    /// The tier that has to end before this one begins, if it is among those that run.
    after: Option<&'static str>,
    /// Says why it cannot run here, if it cannot.
    missing: fn() -> Option<String>,
    run: fn() -> anyhow::Result<()>,
}

/// When a tier runs without being named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    /// With `--all` and in CI.
    All,
}

enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

/// A tier that has run, or has not.
struct Ran {
    tier: &'static Tier,
    outcome: Outcome,
    took: Duration,
}

impl Tier {
    fn run(&'static self) -> Ran {
        let started = Instant::now();
        // A tier that panics would let those that wait for it wait for ever.
        let outcome = std::panic::catch_unwind(|| self.outcome());
        let outcome = outcome.unwrap_or_else(|_| Outcome::Failed("the tier panicked".to_owned()));
        Ran { tier: self, outcome, took: started.elapsed() }
    }

    fn outcome(&self) -> Outcome {
        if let Some(reason) = (self.missing)() {
            return Outcome::Skipped(reason);
        }
        match (self.run)() {
            Ok(()) => Outcome::Passed,
            Err(error) => {
                eprintln!("{error:#}");
                Outcome::Failed(format!("{error:#}"))
            }
        }
    }
}

/// What has run so far, for those that wait for it.
#[derive(Default)]
struct Progress {
    ran: Mutex<Vec<Ran>>,
    changed: Condvar,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, Vec<Ran>> {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the tier `name` has ended. Returns whether none has failed so far.
    fn wait_for(&self, name: &str) -> bool {
        let mut ran = self.lock();
        while !ran.iter().any(|ran| ran.tier.name == name) {
            ran = self.changed.wait(ran).unwrap_or_else(PoisonError::into_inner);
        }
        !ran.iter().any(|ran| matches!(ran.outcome, Outcome::Failed(_)))
    }

    fn add(&self, ran: Ran) {
        self.lock().push(ran);
        self.changed.notify_all();
    }
}

const fn always() -> Option<String> {
    None
}

const TIERS: &[Tier] = &[
    Tier {
        name: "format",
        what: "rustfmt",
        when: When::Always,
        after: None,
        missing: always,
        run: || run(cargo_beside(["fmt", "--all", "--check"])),
    },
    Tier {
        name: "lint",
        what: "clippy, warnings denied",
        when: When::All,
        after: Some("format"),
        missing: always,
        run: lint,
    },
    Tier {
        name: "house",
        what: "imports only go down; one door to the engine; no circles between files; shared lints and features",
        when: When::Always,
        after: Some("lint"),
        missing: always,
        run: house::check,
    },
    Tier {
        name: "test",
        what: "unit, property, snapshot and command-line tests",
        when: When::Always,
        after: Some("cluster"),
        missing: always,
        run: test,
    },
    Tier {
        name: "scenarios",
        what: "the life of pods and their sidecars on the embedded engine",
        when: When::Always,
        after: Some("cluster"),
        missing: always,
        run: || run(with_threads(tests_of(&[SCENARIOS], TESTS))),
    },
    Tier {
        name: "doctest",
        what: "examples in the documentation",
        when: When::Always,
        after: Some("test"),
        missing: always,
        run: || run(tests_without(&engine_packages(&metadata()?), ["--doc", "--quiet", "--no-fail-fast"])),
    },
    Tier {
        name: "engine",
        what: "the embedded Kubernetes' own tests, and the corpus that it answers as kube-apiserver does",
        when: When::All,
        after: Some("doctest"),
        missing: always,
        run: engine,
    },
    Tier {
        name: "doc",
        what: "rustdoc, warnings denied",
        when: When::All,
        after: Some("house"),
        missing: always,
        run: || {
            let mut command = cargo_beside(["doc", "--workspace", "--no-deps", "--quiet"]);
            command.env("RUSTDOCFLAGS", "-D warnings");
            run(command)
        },
    },
    Tier {
        name: "deny",
        what: "licences, versions and sources of the dependencies",
        when: When::All,
        after: Some("doc"),
        missing: deny::missing,
        run: deny::check,
    },
    Tier {
        name: "alone",
        what: "each crate compiles by itself",
        when: When::All,
        after: Some("deny"),
        missing: always,
        run: alone::check,
    },
    Tier {
        name: "generated",
        what: "CRDs, manifests, chart and CLI reference are up to date",
        when: When::All,
        after: Some("alone"),
        missing: always,
        run: generate::check,
    },
    Tier {
        name: "kill",
        what: "`pillion up` and its store, killed 40 times at random moments",
        when: When::All,
        after: Some("engine"),
        missing: always,
        run: kill::check,
    },
    Tier {
        name: "cluster",
        what: "a real cluster comes up, goes down and leaves nothing behind",
        when: When::All,
        after: None,
        missing: real::missing,
        run: real::leaves_nothing_behind,
    },
    Tier {
        name: "real",
        what: "scenarios on a real kube-apiserver and kubelet",
        when: When::All,
        after: Some("cluster"),
        missing: real::missing,
        run: real::scenarios,
    },
];

/// Tests of the product, with the embedded Kubernetes beneath those that need a cluster.
fn test() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let elsewhere: Vec<&str> = engine_packages(&metadata).into_iter().chain([SCENARIOS]).collect();
    run(with_threads(tests_without(&elsewhere, TESTS)))
}

/// Tests of the embedded Kubernetes itself.
fn engine() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let packages = engine_packages(&metadata);
    all([
        run(with_threads(tests_of(&packages, TESTS))),
        run(tests_of(&packages, ["--doc", "--quiet", "--no-fail-fast"])),
    ])
}

/// What `cargo test` runs but for examples in the documentation.
const TESTS: [&str; 5] = ["--lib", "--bins", "--tests", "--quiet", "--no-fail-fast"];

/// With four times as many threads as processors: tests of whole clusters mostly wait for the processes that they have started.
fn with_threads(mut command: Command) -> Command {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    command.env("RUST_TEST_THREADS", (4 * processors).to_string());
    command
}

/// Tests that `cargo test` leaves out are no part of `--all-targets`: they are named.
fn lint() -> anyhow::Result<()> {
    let clippy = |targets: &[&str]| {
        let mut command = cargo_beside(["clippy", "--workspace", "--all-features", "--quiet"]);
        command.args(targets).args(["--", "-D", "warnings"]);
        run(command)
    };
    let named: Vec<&str> = real::TESTS.iter().flat_map(|name| ["--test", name]).collect();
    all([clippy(&["--all-targets"]), clippy(&named)])
}

impl Test {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        for name in &self.only {
            anyhow::ensure!(
                TIERS.iter().any(|tier| tier.name == name),
                "there is no tier {name:?}; the tiers are {}",
                TIERS.iter().map(|tier| tier.name).collect::<Vec<_>>().join(", ")
            );
        }
        if self.accept {
            // The other tiers would compile and run the old stories at the same time.
            anyhow::ensure!(
                self.only == ["real"],
                "--accept rewrites stories while they run: use `cargo xtask test real --accept`"
            );
            // Nobody has set it before.
            let _ = ACCEPT.set(());
        }
        if let Some(repeat) = self.repeat {
            // Nobody has set it before.
            let _ = REPEAT.set(repeat);
        }
        if self.runs_all() {
            // It is set once.
            let _ = THOROUGH.set(());
        }
        for _ in 0..self.busy {
            // For as long as this process runs.
            std::thread::spawn(|| {
                loop {
                    std::hint::spin_loop();
                }
            });
        }
        for _ in 1..self.times {
            if !self.run_once() {
                return Ok(ExitCode::FAILURE);
            }
        }
        Ok(if self.run_once() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn runs_all(&self) -> bool {
        self.all || is_ci()
    }

    /// Runs the tiers, and returns whether they passed.
    fn run_once(&self) -> bool {
        let runs = |tier: &Tier| match self.only.as_slice() {
            [] => self.runs_all() || tier.when == When::Always,
            only => only.iter().any(|name| name == tier.name),
        };
        let is_meant = |name: &str| TIERS.iter().any(|tier| tier.name == name && runs(tier));
        let (tiers, left_out): (Vec<&'static Tier>, Vec<&'static Tier>) = TIERS.iter().partition(|tier| runs(tier));
        let (started, progress) = (Instant::now(), Progress::default());
        std::thread::scope(|scope| {
            for tier in &tiers {
                let (progress, is_alone) = (&progress, tiers.len() == 1);
                scope.spawn(move || {
                    if !is_alone {
                        label(tier.name);
                    }
                    let is_well = first_before(tier, is_meant).is_none_or(|before| progress.wait_for(before));
                    progress.add(if is_well || !self.fail_fast {
                        tier.run()
                    } else {
                        let why = "another tier has failed".to_owned();
                        Ran { tier, outcome: Outcome::Skipped(why), took: Duration::ZERO }
                    });
                });
            }
        });
        let mut ran = progress.ran.into_inner().unwrap_or_else(PoisonError::into_inner);
        ran.sort_by_key(|ran| TIERS.iter().position(|tier| tier.name == ran.tier.name));
        let passed = report(&ran, started.elapsed());
        if self.only.is_empty() && !left_out.is_empty() {
            let names: Vec<&str> = left_out.iter().map(|tier| tier.name).collect();
            println!("left out: {}; `cargo xtask test --all` runs them, some as root", names.join(", "));
        }
        passed
    }
}

/// The tier that this one waits for: the nearest before it that is meant to run.
fn first_before(tier: &Tier, is_meant: impl Fn(&str) -> bool) -> Option<&'static str> {
    let named = |name: &str| TIERS.iter().find(|tier| tier.name == name);
    std::iter::successors(tier.after, |name| named(name)?.after).find(|name| is_meant(name))
}

/// Prints the table, and after it everything that failed, and returns whether all passed. In CI a tier that was skipped counts as failed, since
/// nobody would notice.
fn report(ran: &[Ran], elapsed: Duration) -> bool {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(["tier", "result", "seconds", "what"]);
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for Ran { tier, outcome, took } in ran {
        let (result, what) = match outcome {
            Outcome::Passed => {
                passed += 1;
                ("ran, passed", tier.what.to_owned())
            }
            Outcome::Failed(why) => {
                failed += 1;
                ("ran, FAILED", why.lines().next().unwrap_or_default().to_owned())
            }
            Outcome::Skipped(why) => {
                skipped += 1;
                ("skipped", why.clone())
            }
        };
        table.add_row([
            Cell::new(tier.name),
            Cell::new(result),
            Cell::new(format!("{:.1}", took.as_secs_f64())),
            Cell::new(what),
        ]);
    }
    println!("\n{table}");
    for Ran { tier, outcome, .. } in ran {
        if let Outcome::Failed(why) = outcome {
            println!("\n{} failed:\n  {}", tier.name, why.replace('\n', "\n  "));
        }
    }
    let minutes = elapsed.as_secs_f64() / 60.0;
    println!("tiers: {passed} passed, {failed} failed, {skipped} skipped; {minutes:.1} minutes");
    failed == 0 && !(is_ci() && skipped > 0)
}
