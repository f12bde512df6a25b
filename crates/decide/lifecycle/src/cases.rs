//! The cases that every way to end marked sidecars is tried with: by the simulation of this crate, and by the scenarios on both engines. The
//! page on lifecycles shows them as a table.

use std::fmt;
use std::fmt::Write as _;

use crate::modes::MODES;

/// What a container does; times in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Exits by itself, after so long and with this code. It does the same again when it is started again.
    Exits(u32, i32),
    /// Runs until it gets TERM, and then exits with this code.
    Serves(i32),
    /// Runs until it gets KILL.
    IgnoresTerm,
    /// Its image cannot be pulled.
    CannotStart,
}

/// What becomes of the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The phase is Succeeded.
    Succeeded,
    /// The phase is Failed.
    Failed,
    /// The work does not begin.
    Pending,
}

/// A pod of `main` and a marked sidecar, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The pod's restart policy.
    pub policy: &'static str,
    /// What the work does.
    pub main: Does,
    /// What the sidecar does.
    pub side: Does,
    /// What becomes of the pod, in the order of [`MODES`].
    pub ends: [End; 4],
}

const fn case(policy: &'static str, main: Does, side: Does, ends: [End; 4]) -> Case {
    Case { policy, main, side, ends }
}

const SUCCEEDED: [End; 4] = [End::Succeeded; 4];
const FAILED: [End; 4] = [End::Failed; 4];
/// A native sidecar is restarted always, and how it ended does not matter.
const BUT_NATIVE: [End; 4] = [End::Failed, End::Succeeded, End::Failed, End::Failed];

/// How long the work takes.
const WORK: u32 = 8;

/// All of them.
pub const CASES: [Case; 15] = [
    case("Never", Does::Exits(WORK, 0), Does::Serves(0), SUCCEEDED),
    case("Never", Does::Exits(WORK, 0), Does::Serves(1), SUCCEEDED),
    case("Never", Does::Exits(WORK, 0), Does::Serves(143), SUCCEEDED),
    case("Never", Does::Exits(WORK, 0), Does::IgnoresTerm, SUCCEEDED),
    case("Never", Does::Exits(WORK, 0), Does::Exits(2, 0), SUCCEEDED),
    case("Never", Does::Exits(WORK, 0), Does::Exits(2, 1), BUT_NATIVE),
    case("Never", Does::Exits(WORK, 0), Does::Exits(2, 137), BUT_NATIVE),
    case("Never", Does::Exits(WORK, 0), Does::Exits(2, 143), BUT_NATIVE),
    case("Never", Does::Exits(WORK, 1), Does::Serves(0), FAILED),
    case("Never", Does::Exits(WORK, 137), Does::IgnoresTerm, FAILED),
    case("Never", Does::Exits(WORK, 143), Does::Serves(0), FAILED),
    case("OnFailure", Does::Exits(WORK, 0), Does::Serves(143), SUCCEEDED),
    case("OnFailure", Does::Exits(WORK, 0), Does::IgnoresTerm, SUCCEEDED),
    case("OnFailure", Does::Exits(WORK, 0), Does::Exits(1, 1), BUT_NATIVE),
    case(
        "Never",
        Does::Exits(WORK, 0),
        Does::CannotStart,
        [End::Succeeded, End::Pending, End::Succeeded, End::Succeeded],
    ),
];

impl fmt::Display for Does {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Does::Exits(..=1, code) => write!(f, "exits with {code} again and again"),
            Does::Exits(_, code) => write!(f, "exits with {code}"),
            Does::Serves(code) => write!(f, "exits with {code} on TERM"),
            Does::IgnoresTerm => f.write_str("ignores TERM"),
            Does::CannotStart => f.write_str("has an image that cannot be pulled"),
        }
    }
}

/// The table of docs/lifecycle.md.
pub fn table() -> String {
    let mut text = String::from("| restartPolicy | the work | the sidecar |");
    for mode in MODES {
        let _ = write!(text, " {} |", mode.name);
    }
    let _ = writeln!(text, "\n|---|---|---|{}", "---|".repeat(MODES.len()));
    for Case { policy, main, side, ends } in CASES {
        let when = if matches!(side, Does::Exits(2.., _)) { " early" } else { "" };
        let _ = write!(text, "| {policy} | {main} | {side}{when} |");
        for end in ends {
            let _ = write!(text, " {end:?} |");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::Mode;
    use crate::simulation::{Behaviour, Simulation, exits, serves, stubborn};

    fn behaviour(does: Does) -> Behaviour {
        match does {
            Does::Exits(after, code) => exits(i64::from(after), code),
            Does::Serves(code) => Behaviour { exits_on_term: Some((0, code)), ..serves() },
            Does::IgnoresTerm => stubborn(),
            Does::CannotStart => Behaviour { refused: Some("ImagePullBackOff"), ..serves() },
        }
    }

    #[test]
    fn every_mode_ends_every_case_as_the_table_says() {
        for (mode, Mode { name, .. }) in MODES.iter().enumerate() {
            for case in CASES {
                let behaviours = [("main", vec![behaviour(case.main)]), ("side", vec![behaviour(case.side)])];
                let mut simulation = Simulation::in_mode(mode, case.policy, 30, behaviours);
                simulation.run_to(600);
                let (_, phase) = simulation.phases.last().unwrap().split_once(' ').unwrap();
                assert_eq!(phase, format!("{:?}", case.ends[mode]), "{name}: {case:?}: {:#?}", simulation.log);
            }
        }
    }
}
