//! A session as it is written down.

use std::fmt;

use anyhow::ensure;

/// Stands for a blank line in what is printed, since a blank line ends it.
const BLANK: &str = "·";

/// Commands, and what they print.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Prose(String),
    Step(Step),
}

/// One command, and what it prints.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What bash is given.
    pub command: String,
    /// What is printed with a real server.
    pub printed: String,
    /// What is printed with the embedded one, if that is something else.
    pub embedded: Option<Difference>,
}

/// A deliberate difference of the embedded server.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Why it is so.
    pub reason: String,
    /// What is printed with the embedded server.
    pub printed: String,
}

impl Session {
    /// Reads one.
    pub fn parse(text: &str) -> anyhow::Result<Session> {
        let mut parts = Vec::new();
        let mut lines = text.trim_matches('\n').lines().peekable();
        while let Some(line) = lines.next() {
            let Some(command) = line.strip_prefix("$ ") else {
                ensure!(!line.starts_with("~ "), "{line:?} follows no command");
                parts.push(Part::Prose(line.to_owned()));
                continue;
            };
            let mut command = command.to_owned();
            while let Some(more) = lines.peek().and_then(|line| line.strip_prefix('>')) {
                command.push('\n');
                command.push_str(more.strip_prefix(' ').unwrap_or(more));
                lines.next();
            }
            let mut printed = Vec::new();
            let mut embedded: Option<(&str, Vec<&str>)> = None;
            while let Some(line) = lines.next_if(|line| !line.is_empty()) {
                let line = if line == BLANK { "" } else { line };
                match (line.strip_prefix("~ "), &mut embedded) {
                    (Some(reason), _) => embedded = Some((reason, Vec::new())),
                    (None, Some((_, printed))) => printed.push(line),
                    (None, None) => printed.push(line),
                }
            }
            // The line that ends it.
            lines.next();
            let embedded =
                embedded.map(|(reason, printed)| Difference { reason: reason.to_owned(), printed: printed.join("\n") });
            parts.push(Part::Step(Step { command, printed: printed.join("\n"), embedded }));
        }
        Ok(Session { parts })
    }

    /// The steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.parts.iter().filter_map(|part| match part {
            Part::Step(step) => Some(step),
            Part::Prose(_) => None,
        })
    }

    /// The commands, in order.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        self.steps().map(|step| step.command.as_str())
    }

    /// The same session, where a real server made kubectl print this. A difference that the embedded server has, stays.
    #[must_use]
    pub fn recorded(mut self, printed: &[String]) -> Session {
        for (step, printed) in self.steps_mut().zip(printed) {
            step.printed.clone_from(printed);
        }
        self
    }

    /// The same session, where the embedded server made kubectl print this where it may differ.
    #[must_use]
    pub fn recorded_differences(mut self, printed: &[String]) -> Session {
        for (step, printed) in self.steps_mut().zip(printed) {
            if let Some(difference) = &mut step.embedded {
                difference.printed.clone_from(printed);
            }
        }
        self
    }

    fn steps_mut(&mut self) -> impl Iterator<Item = &mut Step> {
        self.parts.iter_mut().filter_map(|part| match part {
            Part::Step(step) => Some(step),
            Part::Prose(_) => None,
        })
    }

    /// The same session as the embedded server should have it, with no differences.
    #[must_use]
    pub fn as_embedded(mut self) -> Session {
        for step in self.steps_mut() {
            if let Some(difference) = step.embedded.take() {
                step.printed = difference.printed;
            }
        }
        self
    }
}

impl fmt::Display for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let print = |formatter: &mut fmt::Formatter<'_>, printed: &str| {
            printed.lines().try_for_each(|line| writeln!(formatter, "{}", if line.is_empty() { BLANK } else { line }))
        };
        for part in &self.parts {
            match part {
                Part::Prose(line) => writeln!(formatter, "{line}")?,
                Part::Step(step) => {
                    writeln!(formatter, "$ {}", step.command.replace('\n', "\n> "))?;
                    print(formatter, &step.printed)?;
                    if let Some(difference) = &step.embedded {
                        writeln!(formatter, "~ {}", difference.reason)?;
                        print(formatter, &difference.printed)?;
                    }
                    writeln!(formatter)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Two commands.

$ kubectl create -f - <<E
> kind: ConfigMap
> E
configmap/a created
·
[exit 1]

$ kubectl auth whoami
kubernetes-admin
~ It has one owner.
admin

";

    #[test]
    fn a_session_is_written_as_it_was_read() {
        assert_eq!(Session::parse(TEXT).unwrap().to_string(), TEXT);
    }

    #[test]
    fn a_command_may_have_many_lines_and_print_blank_ones() {
        let session = Session::parse(TEXT).unwrap();
        let step = session.steps().next().unwrap();
        assert_eq!(step.command, "kubectl create -f - <<E\nkind: ConfigMap\nE");
        assert_eq!(step.printed, "configmap/a created\n\n[exit 1]");
    }

    #[test]
    fn what_the_embedded_server_has_otherwise_takes_the_place_of_what_the_real_one_has() {
        let session = Session::parse(TEXT).unwrap();
        assert_eq!(session.steps().nth(1).unwrap().printed, "kubernetes-admin");
        assert_eq!(session.as_embedded().steps().nth(1).unwrap().printed, "admin");
    }

    #[test]
    fn a_record_keeps_the_differences_of_the_embedded_server() {
        let printed = ["a".to_owned(), "root".to_owned()];
        let session = Session::parse(TEXT).unwrap().recorded(&printed);
        assert_eq!(session.steps().nth(1).unwrap().printed, "root");
        assert_eq!(session.as_embedded().steps().nth(1).unwrap().printed, "admin");
    }

    #[test]
    fn a_difference_is_recorded_where_there_is_a_reason_for_one() {
        let printed = ["a".to_owned(), "root".to_owned()];
        let session = Session::parse(TEXT).unwrap().recorded_differences(&printed).as_embedded();
        let printed: Vec<_> = session.steps().map(|step| step.printed.as_str()).collect();
        assert_eq!(printed, ["configmap/a created\n\n[exit 1]", "root"]);
    }

    #[test]
    fn a_difference_of_nothing_is_refused() {
        assert_eq!(Session::parse("~ why").unwrap_err().to_string(), r#""~ why" follows no command"#);
    }
}
