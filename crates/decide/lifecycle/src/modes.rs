//! What each way to end marked sidecars keeps of KEP-0008, for documents and explanations.

use std::fmt::{self, Write as _};

/// The rules of KEP-0008, in short; R5 is [`ROWS`].
pub const RULES: [&str; 6] = [
    "R1 ordinary containers: start with the work, same restart policy",
    "R1 a deletion sends TERM to them together with the work",
    "R2 the end of all work, for good, ends them",
    "R3 TERM to all at once, grace period, KILL",
    "R4 the reason is Completed",
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

/// What a mode keeps of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// All of it.
    Yes,
    /// This much.
    Partly(&'static str),
    /// Nothing: what it does instead.
    No(&'static str),
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kept::Yes => f.write_str("yes"),
            Kept::Partly(words) => f.write_str(words),
            Kept::No(words) => write!(f, "no: {words}"),
        }
    }
}

/// One way to end marked sidecars.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    pub name: &'static str,
    /// What it keeps of each of [`RULES`].
    pub rules: [Kept; 6],
    /// Which of [`ROWS`] it keeps under `restartPolicy: Never`.
    pub rows: [bool; 5],
}

/// All of them.
pub const MODES: [Mode; 4] = [
    Mode { name: "field (embedded)", rules: [Kept::Yes; 6], rows: [true; 5] },
    Mode {
        name: "Native",
        rules: [
            Kept::No("starts first, restarted always"),
            Kept::No("when the work has ended, one after the other"),
            Kept::Yes,
            Kept::Partly("one after the other, one grace period"),
            Kept::Partly("only if it exits with 0"),
            Kept::Yes,
        ],
        rows: [true, true, true, false, true],
    },
    Mode { name: "Strict, wrapped", rules: [Kept::Yes; 6], rows: [true; 5] },
    Mode {
        name: "Strict, by phase",
        rules: [Kept::Yes, Kept::Yes, Kept::Yes, Kept::Yes, Kept::No("as it ended"), Kept::Yes],
        rows: [true; 5],
    },
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
    for (index, rule) in RULES.iter().enumerate() {
        let _ = write!(text, "| {rule} | ");
        cells(&mut text, &mut MODES.iter().filter_map(|mode| mode.rules.get(index)).map(ToString::to_string));
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
    use super::*;
    use crate::simulation::{Behaviour, Simulation, exits, serves, stubborn};

    fn ends_with(code: i32) -> Behaviour {
        Behaviour { exits_on_term: Some((0, code)), ..serves() }
    }

    /// What main and the sidecar do in each row, and the phase that follows.
    fn rows() -> [(Behaviour, Vec<Behaviour>, &'static str); 5] {
        [
            (exits(10, 0), vec![ends_with(0)], "Succeeded"),
            (exits(10, 0), vec![ends_with(143)], "Succeeded"),
            (exits(10, 0), vec![exits(5, 0), serves()], "Succeeded"),
            (exits(10, 0), vec![exits(5, 1), serves()], "Failed"),
            (exits(10, 1), vec![stubborn()], "Failed"),
        ]
    }

    #[test]
    fn the_rows_are_those_of_the_simulation() {
        for (mode, expected) in MODES.iter().enumerate() {
            let kept = rows().map(|(main, side, phase)| {
                let mut simulation = Simulation::in_mode(mode, "Never", 30, [("main", vec![main]), ("side", side)]);
                simulation.run_to(100);
                simulation.phases.last().is_some_and(|last| last.ends_with(phase))
            });
            assert_eq!(kept, expected.rows, "{}", expected.name);
        }
    }

    /// When the sidecars of a pod get TERM that is deleted after five seconds, and whose work takes a second to end.
    fn terms_on_deletion(mode: usize) -> Vec<i64> {
        let main = Behaviour { exits_on_term: Some((1, 143)), ..serves() };
        let behaviours = [("main", vec![main]), ("one", vec![serves()]), ("two", vec![serves()])];
        let mut simulation = Simulation::in_mode(mode, "Never", 5, behaviours);
        simulation.run_to(5);
        simulation.delete(5);
        simulation.run_to(100);
        seconds(&simulation, " TERM")
    }

    /// A run of main, which ends after ten seconds, and two sidecars with a grace period of five.
    fn run(mode: usize, one: Vec<Behaviour>, two: Vec<Behaviour>) -> Simulation {
        let behaviours = [("main", vec![exits(10, 0)]), ("one", one), ("two", two)];
        let mut simulation = Simulation::in_mode(mode, "Never", 5, behaviours);
        simulation.run_to(100);
        simulation
    }

    /// When something was done to the sidecars.
    fn seconds(simulation: &Simulation, what: &str) -> Vec<i64> {
        let lines = simulation.log.iter().filter(|line| line.contains(what) && !line.contains("main"));
        lines.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
    }

    /// Whether R1 to R4 are kept, as far as a simulation shows.
    fn kept(mode: usize) -> [bool; 5] {
        // A restart policy of Never is one for sidecars, too.
        let early = run(mode, vec![exits(5, 0), serves()], vec![serves()]);
        let as_ordinary = seconds(&early, " starts") == [0, 0];
        let obedient = run(mode, vec![ends_with(143)], vec![serves()]);
        let ends = seconds(&obedient, " TERM") == [10, 10] && obedient.phases.last().unwrap().ends_with("Succeeded");
        let stubborn = run(mode, vec![stubborn()], vec![stubborn()]);
        let at_once = seconds(&stubborn, " TERM") == [10, 10] && seconds(&stubborn, " KILL") == [15, 15];
        let reported = |simulation: &Simulation, name: &str| {
            simulation.reported.iter().rfind(|line| line.contains(&format!(" {name} "))).unwrap().contains("Completed")
        };
        let completed = reported(&obedient, "one") && reported(&stubborn, "one");
        [as_ordinary, terms_on_deletion(mode) == [5, 5], ends, at_once, completed]
    }

    #[test]
    fn the_rules_are_those_of_the_simulation() {
        for (mode, expected) in MODES.iter().enumerate() {
            let [one, deletion, two, three, four, _jobs] = expected.rules.map(|kept| kept == Kept::Yes);
            assert_eq!(kept(mode), [one, deletion, two, three, four], "{}", expected.name);
        }
    }
}
