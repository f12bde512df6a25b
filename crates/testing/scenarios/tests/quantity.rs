//! Quantities against Kubernetes' own, in the version that the tests run on.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use pillion_quantity::Quantity;

const SUFFIXES: &[&str] = &[
    "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E3", "e-3", "E+2",
    "e0", "e", "K", "mi", "MB", "i", " ", "e1.5",
];

/// Numbers of every length, with and without sign, point and leading zeros. Up to 18 digits: beyond 2^63 Kubernetes caps
/// binary and decimal numbers each in its own way, and a canonical form of 1000E or more loses its suffix there.
fn inputs() -> impl Iterator<Item = String> {
    // A fixed sequence: the same inputs in every run.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    (0..8000).map(move |i| {
        let sign = ["", "-", "+"][usize::try_from(next(3)).unwrap_or_default()];
        let suffix = SUFFIXES[i % SUFFIXES.len()];
        let most = if ["E", "Ei", "P", "Pi", "T", "Ti"].contains(&suffix) { 3 } else { 9 };
        let mut digits = |at_least: u64| {
            (0..at_least + next(most))
                .filter_map(|_| char::from_digit(u32::try_from(next(10)).unwrap_or_default(), 10))
                .collect::<String>()
        };
        let whole = digits(1);
        let fraction = digits(0);
        match i % 5 {
            0 => format!("{sign}{whole}.{fraction}{suffix}"),
            1 => format!("{sign}.{whole}{suffix}"),
            2 => format!("{sign}000{whole}{suffix}"),
            _ => format!("{sign}{whole}{suffix}"),
        }
    })
}

#[test]
fn canonical_forms_are_those_of_kubernetes() -> anyhow::Result<()> {
    let inputs: Vec<String> = inputs().collect();
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cluster/go/kubernetes");
    let mut go = Command::new("go")
        .args(["run", "-mod=readonly", "./quantity"])
        .current_dir(module)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run go")?;
    let mut stdin = go.stdin.take().context("stdin is a pipe")?;
    let text = inputs.join("\n") + "\n";
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = go.wait_with_output()?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    ensure!(output.status.success(), "go run: {}", output.status);
    let theirs: Vec<&str> = std::str::from_utf8(&output.stdout)?.lines().collect();
    ensure!(theirs.len() == inputs.len(), "{} answers to {} inputs", theirs.len(), inputs.len());
    let differences: Vec<String> = inputs
        .iter()
        .zip(theirs)
        .filter_map(|(input, theirs)| {
            let ours = input.parse::<Quantity>().map_or_else(|_| "error".to_owned(), |quantity| quantity.to_string());
            (ours != theirs).then(|| format!("{input:?}: Kubernetes {theirs:?}, ours {ours:?}"))
        })
        .collect();
    ensure!(
        differences.is_empty(),
        "{} differ: {}",
        differences.len(),
        differences[..differences.len().min(10)].join("; ")
    );
    Ok(())
}
