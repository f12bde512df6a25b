//! The little language of `pillion.dev/simulate`.

use std::time::Duration;

use pillion_quantity::Quantity;

use super::load::Load;

/// How long a use that varies takes to come back, unless the script says so.
const PERIOD: Duration = Duration::from_mins(10);

/// What a simulated container does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Behaviour {
    pub(super) ends: Ends,
    pub(super) ignores_term: bool,
    /// What it seems to use.
    pub(super) load: Load,
}

/// How a container ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    Never,
    After { duration: Duration, code: i32, oom_killed: bool },
}

impl Default for Ends {
    fn default() -> Ends {
        Ends::After { duration: Duration::from_secs(1), code: 0, oom_killed: false }
    }
}

/// What is wrong with a script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScriptError {
    #[error("annotation pillion.dev/simulate: `{0}` names no container: write `NAME: 30s exit 1`")]
    NoName(String),
    #[error(
        "annotation pillion.dev/simulate: `{word}` of `{container}` is not understood: write a time such as `30s`, `forever`, `exit CODE`, `OOMKilled`, `ignores TERM`, `uses CPU MEMORY`, `over TIME` or `with IMAGE`"
    )]
    Unknown { container: String, word: String },
    #[error("annotation pillion.dev/simulate: `{word}` of `{container}` wants {what} after it")]
    Incomplete { container: String, word: &'static str, what: &'static str },
}

/// What the script says of a container with an image; without a word of it there is what `default` says.
pub(super) fn behaviour(script: &str, container: &str, image: &str, default: Ends) -> Result<Behaviour, ScriptError> {
    let mut behaviour = Behaviour { ends: default, ..Behaviour::default() };
    for entry in script.split([',', ';', '\n']).map(str::trim).filter(|entry| !entry.is_empty()) {
        let (name, words) = entry.split_once(':').ok_or_else(|| ScriptError::NoName(entry.to_owned()))?;
        if name.trim() == container {
            let mut changed = behaviour.clone();
            if read(&mut changed, container, words)?.is_none_or(|only| only == image) {
                behaviour = changed;
            }
        }
    }
    Ok(behaviour)
}

/// Reads an entry. Returns the image that it is about, if it is about one alone.
fn read<'s>(behaviour: &mut Behaviour, container: &str, words: &'s str) -> Result<Option<&'s str>, ScriptError> {
    let unknown = |word: &str| ScriptError::Unknown { container: container.to_owned(), word: word.to_owned() };
    let incomplete = |word, what| ScriptError::Incomplete { container: container.to_owned(), word, what };
    let mut words = words.split_whitespace();
    let mut only = None;
    while let Some(word) = words.next() {
        match word {
            "forever" => behaviour.ends = Ends::Never,
            "with" => only = Some(words.next().ok_or_else(|| incomplete("with", "an image"))?),
            "exit" => {
                let wanted = words.next().and_then(|code| code.parse().ok());
                let wanted = wanted.ok_or_else(|| incomplete("exit", "a code"))?;
                ending(behaviour, |_, code, _| *code = wanted);
            }
            "OOMKilled" => ending(behaviour, |_, code, oom_killed| (*code, *oom_killed) = (137, true)),
            "ignores" => match words.next() {
                Some("TERM") => behaviour.ignores_term = true,
                _ => return Err(incomplete("ignores", "`TERM`")),
            },
            "uses" => {
                let amounts = words.next().zip(words.next());
                let amounts = amounts.and_then(|(cpu, memory)| Some((between(cpu)?, between(memory)?)));
                let (cpu, memory) = amounts.ok_or_else(|| incomplete("uses", "an amount of CPU and one of memory"))?;
                let whole = |amount: i128| u64::try_from(amount).unwrap_or_default();
                let load = &mut behaviour.load;
                load.cpu_millis = (whole(cpu.0.milli_value()), whole(cpu.1.milli_value()));
                load.memory = (whole(memory.0.value()), whole(memory.1.value()));
                if load.period.is_zero() {
                    load.period = PERIOD;
                }
            }
            "over" => {
                let time = words.next().and_then(|time| time.parse::<jiff::SignedDuration>().ok());
                let time = time.and_then(|time| Duration::try_from(time).ok()).filter(|time| !time.is_zero());
                behaviour.load.period = time.ok_or_else(|| incomplete("over", "a time"))?;
            }
            time => {
                let wanted = time.parse::<jiff::SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok());
                let wanted = wanted.ok_or_else(|| unknown(time))?;
                ending(behaviour, |duration, _, _| *duration = wanted);
            }
        }
    }
    Ok(only)
}

/// An amount, or two with `..` between them: it goes up from the one to the other and down again.
fn between(text: &str) -> Option<(Quantity, Quantity)> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let (least, most): (Quantity, Quantity) = (least.parse().ok()?, most.parse().ok()?);
    (least <= most).then_some((least, most))
}

/// Changes how it ends; one that ran for ever ends now.
fn ending(behaviour: &mut Behaviour, change: impl FnOnce(&mut Duration, &mut i32, &mut bool)) {
    if behaviour.ends == Ends::Never {
        behaviour.ends = Ends::default();
    }
    if let Ends::After { duration, code, oom_killed } = &mut behaviour.ends {
        change(duration, code, oom_killed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64, code: i32, oom_killed: bool) -> Ends {
        Ends::After { duration: Duration::from_secs(seconds), code, oom_killed }
    }

    fn load(cpu_millis: (u64, u64), mebibytes: (u64, u64), minutes: u64) -> Load {
        Load { cpu_millis, memory: (mebibytes.0 << 20, mebibytes.1 << 20), period: Duration::from_mins(minutes) }
    }

    #[test]
    fn use_may_vary_between_two_amounts() {
        let of = |script: &str| behaviour(script, "web", "web:1", Ends::Never).map(|it| it.load);
        assert_eq!(of("web: uses 100m..400m 64Mi..128Mi"), Ok(load((100, 400), (64, 128), 10)));
        assert_eq!(of("web: uses 100m..400m 64Mi over 1h"), Ok(load((100, 400), (64, 64), 60)));
        for wrong in ["web: uses 400m..100m 64Mi", "web: uses 1 2 over", "web: uses ..1 2", "web: uses 1"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_script_says_how_each_container_runs_and_ends() {
        let script = "main: 30s exit 1, proxy: 5m; slow: forever ignores TERM\n hungry: 2s OOMKilled uses 250m 64Mi";
        let table = [
            ("main", Behaviour { ends: after(30, 1, false), ..Behaviour::default() }),
            ("proxy", Behaviour { ends: after(300, 0, false), ..Behaviour::default() }),
            ("slow", Behaviour { ends: Ends::Never, ignores_term: true, ..Behaviour::default() }),
            (
                "hungry",
                Behaviour { ends: after(2, 137, true), ignores_term: false, load: load((250, 250), (64, 64), 10) },
            ),
            ("other", Behaviour { ends: Ends::Never, ..Behaviour::default() }),
        ];
        for (container, expected) in table {
            assert_eq!(behaviour(script, container, "web:1", Ends::Never), Ok(expected), "{container}");
        }
    }

    #[test]
    fn an_entry_may_be_about_one_image() {
        let ends =
            |image| behaviour("main: 9s, main: 1s exit 1 with web:bad", "main", image, Ends::Never).unwrap().ends;
        assert_eq!((ends("web:1"), ends("web:bad")), (after(9, 0, false), after(1, 1, false)));
    }

    #[test]
    fn a_wrong_script_is_refused_with_the_correction() {
        let table = [
            ("main", "`main` names no container: write `NAME: 30s exit 1`"),
            (
                "main: soon",
                "`soon` of `main` is not understood: write a time such as `30s`, `forever`, `exit CODE`, `OOMKilled`, `ignores TERM`, `uses CPU MEMORY`, `over TIME` or `with IMAGE`",
            ),
            ("main: 1s exit", "`exit` of `main` wants a code after it"),
            ("main: ignores", "`ignores` of `main` wants `TERM` after it"),
            ("main: 1s with", "`with` of `main` wants an image after it"),
            ("main: uses 1", "`uses` of `main` wants an amount of CPU and one of memory after it"),
        ];
        for (script, expected) in table {
            let error = behaviour(script, "main", "web:1", Ends::Never).unwrap_err();
            assert_eq!(error.to_string(), format!("annotation pillion.dev/simulate: {expected}"));
        }
    }
}
