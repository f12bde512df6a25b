//! What each way to end marked sidecars keeps of KEP-0008, for documents and explanations.

use std::fmt::Write as _;

/// The rules of KEP-0008, in short.
pub const RULES: [&str; 6] = [
    "R1 ordinary containers: start with the work, same restart policy",
    "R2 the end of all work, for good, ends them",
    "R3 TERM to all at once, grace period, KILL",
    "R4 the reason is Completed",
    "R5 the pod's phase (rows 1 to 5)",
    "R6 Jobs need no change",
];

/// The rows of the phase: how main ended, what the sidecar did, the phase.
pub const ROWS: [&str; 5] = [
    "main 0, sidecar stopped with 0: Succeeded",
    "main 0, sidecar stopped with 143 or 137: Succeeded",
    "main 0, sidecar ended early with 0: Succeeded",
    "main 0, sidecar ended early with 1: Failed",
    "main 1: Failed",
];

/// One way to end marked sidecars.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// Its name.
    pub name: &'static str,
    /// What it keeps of each of [`RULES`] but R5.
    pub rules: [&'static str; 5],
    /// Which of [`ROWS`] it keeps under `restartPolicy: Never`.
    pub rows: [bool; 5],
}

/// All of them.
pub const MODES: [Mode; 4] = [
    Mode { name: "field (embedded)", rules: ["yes", "yes", "yes", "yes", "yes"], rows: [true; 5] },
    Mode {
        name: "Native",
        rules: [
            "no: starts first, restarted always",
            "yes",
            "one after the other, one grace period",
            "only if it exits with 0",
            "yes",
        ],
        rows: [true, true, true, false, true],
    },
    Mode { name: "Strict, wrapped", rules: ["yes", "yes", "yes", "yes", "yes"], rows: [true; 5] },
    Mode { name: "Strict, by phase", rules: ["yes", "yes", "yes", "no: as it ended", "yes"], rows: [true; 5] },
];

/// The table of docs/lifecycle.md.
pub fn table() -> String {
    let mut text = String::from("| | ");
    let cells = |text: &mut String, cells: &mut dyn Iterator<Item = String>| {
        text.push_str(&cells.collect::<Vec<_>>().join(" | "));
        text.push_str(" |\n");
    };
    cells(&mut text, &mut MODES.iter().map(|mode| mode.name.to_owned()));
    let _ = writeln!(text, "|---|{}", "---|".repeat(MODES.len()));
    for (index, rule) in RULES.iter().enumerate().filter(|(_, rule)| !rule.starts_with("R5")) {
        let index = if index > 4 { index - 1 } else { index };
        let _ = write!(text, "| {rule} | ");
        cells(&mut text, &mut MODES.iter().map(|mode| mode.rules.get(index).copied().unwrap_or_default().to_owned()));
    }
    for (index, row) in ROWS.iter().enumerate() {
        let _ = write!(text, "| R5 row {}: {row} | ", index + 1);
        let kept = |mode: &Mode| match (mode.rows.get(index), mode.name) {
            (Some(true), _) => "yes".to_owned(),
            (_, "Native") => "only with failPodOnSidecarError".to_owned(),
            _ => "no".to_owned(),
        };
        cells(&mut text, &mut MODES.iter().map(kept));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::simulation::{Behaviour, Simulation, container, exits, serves, stubborn};

    /// What main and the sidecar do in each row, and the phase that follows.
    fn rows() -> [(Behaviour, Vec<Behaviour>, &'static str); 5] {
        let ends_with = |code| vec![Behaviour { exits_on_term: Some((0, code)), ..serves() }];
        [
            (exits(10, 0), ends_with(0), "Succeeded"),
            (exits(10, 0), ends_with(143), "Succeeded"),
            (exits(10, 0), vec![exits(5, 0), serves()], "Succeeded"),
            (exits(10, 0), vec![exits(5, 1), serves()], "Failed"),
            (exits(10, 1), vec![stubborn()], "Failed"),
        ]
    }

    fn kept(spec: &Value) -> [bool; 5] {
        rows().map(|(main, side, expected)| {
            let mut simulation = Simulation::new(spec.clone(), [("main", vec![main]), ("side", side)]);
            simulation.run_to(100);
            simulation.phases.last().is_some_and(|phase| phase.ends_with(expected))
        })
    }

    #[test]
    fn the_rows_are_those_of_the_simulation() {
        let side = json!({"name": "side", "image": "i", "sidecar": true});
        let field = json!({"restartPolicy": "Never", "containers": [container("main"), side]});
        assert_eq!(kept(&field), MODES[0].rows);
        let side = json!({"name": "side", "image": "i", "restartPolicy": "Always"});
        let native = json!({"restartPolicy": "Never", "initContainers": [side], "containers": [container("main")]});
        assert_eq!(kept(&native), MODES[1].rows);
    }

    #[test]
    fn a_wrapped_sidecar_ends_with_0_and_so_an_ordinary_pod_keeps_every_row() {
        // The wrapper makes 0 of every end after the work, and passes on what came before.
        let side = |side: &[Behaviour]| match side[0].exits {
            Some(_) => side.to_vec(),
            None => vec![exits(10, 0)],
        };
        let spec = json!({"restartPolicy": "Never", "containers": [container("main"), container("side")]});
        let kept = rows().map(|(main, behaviours, expected)| {
            let mut simulation = Simulation::new(spec.clone(), [("main", vec![main]), ("side", side(&behaviours))]);
            simulation.run_to(100);
            simulation.phases.last().is_some_and(|phase| phase.ends_with(expected))
        });
        assert_eq!(kept, MODES[2].rows);
    }
}
