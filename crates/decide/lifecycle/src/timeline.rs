//! Pictures of how a pod ends in each mode: work of ten seconds, a grace period of five, one sidecar that obeys and one that does not.

use std::fmt::Write as _;

/// What happens to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Starts,
    /// It gets TERM.
    Term,
    /// It gets KILL.
    Kill,
    /// It ends.
    Exits,
}

/// What happens to one container, by the second.
pub type Lane = (&'static str, &'static [(i64, Event)]);

/// How a pod ends in one mode.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    /// The file of the picture in docs/images.
    pub file: &'static str,
    /// What it is of.
    pub title: &'static str,
    /// The containers.
    pub lanes: [Lane; 3],
    /// The phases, by the second.
    pub phases: [(i64, &'static str); 2],
}

const MAIN: Lane = ("main", &[(0, Event::Starts), (10, Event::Exits)]);
const PROXY: Lane = ("proxy", &[(0, Event::Starts), (10, Event::Term), (10, Event::Exits)]);
const STUBBORN: Lane = ("stubborn", &[(0, Event::Starts), (10, Event::Term), (15, Event::Kill), (15, Event::Exits)]);

/// One for each mode.
pub const TIMELINES: [Timeline; 4] = [
    Timeline {
        file: "lifecycle-field.svg",
        title: "field (embedded): all sidecars at once, when the work is done",
        lanes: [MAIN, PROXY, STUBBORN],
        phases: [(0, "Running"), (15, "Succeeded")],
    },
    Timeline {
        file: "lifecycle-native.svg",
        title: "Native: the last sidecar first, one grace period for all",
        lanes: [MAIN, ("proxy", &[(0, Event::Starts), (15, Event::Term), (15, Event::Exits)]), STUBBORN],
        phases: [(0, "Running"), (15, "Succeeded")],
    },
    Timeline {
        file: "lifecycle-strict.svg",
        title: "Strict, wrapped: the wrappers stop all sidecars at once",
        lanes: [MAIN, PROXY, STUBBORN],
        phases: [(0, "Running"), (15, "Succeeded")],
    },
    Timeline {
        file: "lifecycle-phase.svg",
        title: "Strict, by phase: the manager writes the phase, the kubelet stops what runs",
        lanes: [MAIN, PROXY, STUBBORN],
        phases: [(0, "Running"), (10, "Succeeded")],
    },
];

fn x(second: i64) -> i64 {
    110 + second * 32
}

const LAST: i64 = 18;

impl Timeline {
    /// The picture. Its colours are readable on white and on black.
    pub fn svg(&self) -> String {
        let mut svg = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 224" font-family="ui-sans-serif, system-ui, sans-serif" font-size="14" role="img">
<title>{}</title>
<style>
  text {{ fill: #24292f }} .faint {{ fill: #57606a }} .grid {{ stroke: #8c959f; stroke-opacity: .35 }}
  .main {{ fill: #2f81f7 }} .side {{ fill: #2da44e }} .grace {{ fill: #d29922 }} .phase {{ fill: #8250df }} .done {{ fill: #2da44e }}
  .inside {{ fill: #ffffff }}
  @media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3 }} .faint {{ fill: #9198a1 }} .inside {{ fill: #ffffff }} }}
</style>
<text x="12" y="24" font-weight="600">{}</text>
"#,
            self.title, self.title
        );
        for second in [0, 5, 10, 15] {
            let at = x(second);
            let _ = writeln!(svg, r#"<line class="grid" x1="{at}" y1="40" x2="{at}" y2="196"/>"#);
            let _ = writeln!(svg, r#"<text class="faint" x="{at}" y="214" text-anchor="middle">{second} s</text>"#);
        }
        for (row, (name, events)) in (0..).zip(self.lanes) {
            lane(&mut svg, 48 + row * 38, name, events);
        }
        let [(begin, running), (end, ended)] = self.phases;
        let y = 48 + 3 * 38;
        let _ = writeln!(svg, r#"<text x="98" y="{}" text-anchor="end">phase</text>"#, y + 17);
        bar(&mut svg, "phase", (begin, end), y);
        bar(&mut svg, "done", (end, LAST), y);
        for (at, text) in [(begin, running), (end, ended)] {
            let _ = writeln!(svg, r#"<text class="inside" x="{}" y="{}">{text}</text>"#, x(at) + 8, y + 17);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn bar(svg: &mut String, class: &str, (from, to): (i64, i64), y: i64) {
    let _ = writeln!(
        svg,
        r#"<rect class="{class}" x="{}" y="{y}" width="{}" height="24" rx="3"/>"#,
        x(from),
        x(to) - x(from)
    );
}

fn lane(svg: &mut String, y: i64, name: &str, events: &[(i64, Event)]) {
    let at = |wanted: Event| events.iter().find(|(_, event)| *event == wanted).map(|(second, _)| *second);
    let (Some(start), Some(end)) = (at(Event::Starts), at(Event::Exits)) else { return };
    let class = if name == "main" { "main" } else { "side" };
    let _ = writeln!(svg, r#"<text x="98" y="{}" text-anchor="end">{name}</text>"#, y + 17);
    let term = at(Event::Term).unwrap_or(end);
    bar(svg, class, (start, term), y);
    if end > term {
        bar(svg, "grace", (term, end), y);
    }
    let mut signals = Vec::new();
    if at(Event::Term).is_some() {
        signals.push((term, "TERM"));
    }
    signals.extend(at(Event::Kill).map(|second| (second, "KILL")));
    for (second, signal) in signals {
        // In the bar that the signal begins, or after its end.
        let class = if second < end { "inside" } else { "" };
        let _ = writeln!(
            svg,
            r#"<text class="{class}" x="{}" y="{}" font-size="12">{signal}</text>"#,
            x(second) + 6,
            y + 17
        );
    }
    if ends_by_itself(events) {
        let _ = writeln!(svg, r#"<text x="{}" y="{}" font-size="12">exit 0</text>"#, x(end) + 6, y + 17);
    }
}

/// Whether a container ends by itself.
fn ends_by_itself(events: &[(i64, Event)]) -> bool {
    !events.iter().any(|(_, event)| matches!(event, Event::Term | Event::Kill))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::{Simulation, exits, serves, stubborn};

    /// What happened, as the simulation writes it.
    fn simulated(mode: usize) -> (Vec<String>, Vec<String>) {
        let behaviours = [("main", vec![exits(10, 0)]), ("proxy", vec![serves()]), ("stubborn", vec![stubborn()])];
        let mut simulation = Simulation::in_mode(mode, "Never", 5, behaviours);
        simulation.run_to(100);
        let short = |line: &String| line.split(' ').take(3).collect::<Vec<_>>().join(" ").replace(',', "");
        let mut log: Vec<String> = simulation.log.iter().map(short).collect();
        log.sort();
        (log, simulation.phases)
    }

    fn drawn(timeline: &Timeline) -> (Vec<String>, Vec<String>) {
        let word = |event: &Event| match event {
            Event::Starts => "starts",
            Event::Term => "TERM",
            Event::Kill => "KILL",
            Event::Exits => "exits",
        };
        let lanes = timeline.lanes.iter();
        let lines = lanes
            .flat_map(|(name, events)| events.iter().map(move |(at, event)| format!("{at} {name} {}", word(event))));
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        (lines, timeline.phases.iter().map(|(at, phase)| format!("{at} {phase}")).collect())
    }

    #[test]
    fn the_pictures_are_those_of_the_simulation() {
        for (mode, timeline) in TIMELINES.iter().enumerate() {
            let ((log, phases), (lines, drawn)) = (simulated(mode), drawn(timeline));
            assert_eq!(lines, log, "{}", timeline.title);
            assert_eq!(drawn.last(), phases.last(), "{}", timeline.title);
        }
    }
}
