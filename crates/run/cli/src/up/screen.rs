//! The live view: a terminal that shows the cluster as it is now.

use std::io::{self, Stdout};
use std::mem::ManuallyDrop;
use std::time::Duration;

use jiff::Timestamp;
use nix::sys::termios::{self, FlushArg, LocalFlags, SetArg, Termios};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table};
use ratatui::{Frame, Terminal};

use super::lines;
use super::view::{Container, Pod, Role, State, View, short};

/// What is said above the view.
pub(crate) struct Header {
    pub(crate) kubeconfig: String,
    /// The feature gates that are switched on.
    pub(crate) gates: Option<String>,
}

/// A terminal in which the view is drawn. The user's own screen comes back when it is dropped.
pub(crate) struct Screen {
    /// Never dropped: it would show the cursor, as we do, and panic when the terminal is gone.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
    /// How the terminal took keys before.
    keys: Option<Termios>,
}

impl Screen {
    /// Takes the terminal over.
    pub(crate) fn open() -> io::Result<Screen> {
        let terminal = ManuallyDrop::new(Terminal::new(CrosstermBackend::new(io::stdout()))?);
        // From here on, dropping it gives the terminal back.
        let screen = Screen { terminal, keys: disable_echo() };
        crossterm::execute!(io::stdout(), crossterm::terminal::EnterAlternateScreen, crossterm::cursor::Hide)?;
        Ok(screen)
    }

    /// Draws the view.
    pub(crate) fn draw(
        &mut self,
        header: &Header,
        view: &View,
        since_start: Duration,
        now: Timestamp,
    ) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame, header, view, since_start, now)).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There is nothing left to report about it.
        let _ = crossterm::execute!(io::stdout(), crossterm::terminal::LeaveAlternateScreen, crossterm::cursor::Show);
        if let Some(keys) = &self.keys {
            // What was typed into the view was not meant for the shell.
            let _ = termios::tcflush(io::stdout(), FlushArg::TCIFLUSH);
            let _ = termios::tcsetattr(io::stdout(), SetArg::TCSANOW, keys);
        }
    }
}

/// Keys are no longer shown as they are typed. Ctrl-C stays a signal, even if this program hangs.
fn disable_echo() -> Option<Termios> {
    let before = termios::tcgetattr(io::stdout()).ok()?;
    let mut quiet = before.clone();
    quiet.local_flags.remove(LocalFlags::ECHO | LocalFlags::ICANON);
    quiet.local_flags.insert(LocalFlags::ISIG);
    termios::tcsetattr(io::stdout(), SetArg::TCSANOW, &quiet).ok()?;
    Some(before)
}

const TITLE: Style = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
const FAINT: Style = Style::new().fg(Color::DarkGray);

/// So many warnings are shown at most: the newest ones.
const WARNINGS: usize = 3;
/// No name takes more columns than this.
const LONGEST_NAME: usize = 40;
/// No other column is wider than this.
const WIDEST: usize = 18;
/// A window with fewer columns has no room for ages.
const NARROW: u16 = 60;

/// One part of the screen: a title and its rows.
struct Section<'a> {
    title: &'static str,
    rows: Vec<Entry<'a>>,
}

/// A row: a name, and what there is to say about it.
struct Entry<'a> {
    name: String,
    cells: Vec<Line<'a>>,
}

pub(crate) fn draw(frame: &mut Frame<'_>, header: &Header, view: &View, since_start: Duration, now: Timestamp) {
    let area = frame.area().inner(ratatui::layout::Margin::new(1, 0));
    let sections = [sets(view), workloads(view), jobs(view), pods(view, now, area.width < NARROW)];
    let [top, body, bottom] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(0), Constraint::Length(1)]).areas(area);
    draw_header(frame, top, header, since_start);
    // Warnings have their room before all others, and a third of it at most.
    let room = usize::from(body.height);
    let warnings = view.warnings.len().min(WARNINGS).min((room / 3).saturating_sub(1));
    let for_warnings = if warnings == 0 { 0 } else { warnings + 2 };
    let shown = share(room.saturating_sub(for_warnings), &sections.each_ref().map(|section| section.rows.len()));
    let names = sections.iter().flat_map(|section| &section.rows).map(|row| row.name.chars().count());
    let names = names.max().unwrap_or_default().min(LONGEST_NAME).min(usize::from(area.width) * 3 / 10);
    let mut y = body.y;
    for (section, shown) in sections.into_iter().zip(shown).filter(|(_, shown)| *shown > 0) {
        let area = Rect { y, height: height(shown + 1), ..body }.intersection(body);
        draw_section(frame, area, section, shown, names);
        y = y.saturating_add(height(shown + 2));
    }
    if warnings > 0 {
        draw_warnings(frame, Rect { y, height: height(warnings + 1), ..body }.intersection(body), view, warnings);
    }
    frame.render_widget(Paragraph::new("Ctrl-C stops everything, a second one at once").style(FAINT), bottom);
}

/// How many rows of each section there is room for. The last section, the pods, is served first; what is left goes round.
fn share<const N: usize>(mut room: usize, rows: &[usize; N]) -> [usize; N] {
    let mut shown = [0; N];
    // A title; from the second section on also a blank line.
    let mut around = 1;
    for (shown, rows) in shown.iter_mut().zip(rows).rev() {
        // One row, and one that says how many more there are.
        *shown = (*rows).min(2).min(room.saturating_sub(around));
        if *shown > 0 {
            room -= *shown + around;
            around = 2;
        }
    }
    loop {
        let before = room;
        for (shown, rows) in shown.iter_mut().zip(rows).rev() {
            if (1..*rows).contains(shown) && room > 0 {
                *shown += 1;
                room -= 1;
            }
        }
        if room == before {
            return shown;
        }
    }
}

fn draw_section(frame: &mut Frame<'_>, area: Rect, section: Section<'_>, shown: usize, names: usize) {
    let all = section.rows.len();
    let whole = if all > shown { shown.saturating_sub(1) } else { all };
    let [title, table, more] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(height(whole)), Constraint::Min(0)]).areas(area);
    frame.render_widget(Paragraph::new(section.title).style(TITLE), title);
    let rows: Vec<Entry<'_>> = section.rows.into_iter().take(whole).collect();
    // Each column is as wide as it needs; the last one has the rest.
    let columns = rows.first().map_or(0, |row| row.cells.len());
    let mut widths = vec![Constraint::Length(height(names))];
    for column in 1..columns {
        let cells = rows.iter().filter_map(|row| row.cells.get(column - 1));
        widths.push(Constraint::Length(height(cells.map(Line::width).max().unwrap_or_default().min(WIDEST))));
    }
    widths.push(Constraint::Fill(1));
    let spacing = if area.width < NARROW { 1 } else { 2 };
    let rows = rows.into_iter().map(|Entry { name, mut cells }| {
        cells.insert(0, Line::raw(cut(&name, names)));
        Row::new(cells)
    });
    frame.render_widget(Table::new(rows, widths).column_spacing(spacing), table);
    if all > whole {
        frame.render_widget(Paragraph::new(format!("… and {} more", all - whole)).style(FAINT), more);
    }
}

/// A name in at most so many columns. It loses its middle: the end tells pods apart.
fn cut(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let kept = width.saturating_sub(1);
    let end = kept.div_ceil(2);
    let start: String = name.chars().take(kept - end).collect();
    let end: String = name.chars().skip(length - end).collect();
    format!("{start}…{end}")
}

fn height(rows: usize) -> u16 {
    u16::try_from(rows).unwrap_or(u16::MAX)
}

fn draw_header(frame: &mut Frame<'_>, area: Rect, header: &Header, since_start: Duration) {
    let line = Line::from(vec![
        Span::styled("pillion up", Style::new().add_modifier(Modifier::BOLD)),
        Span::styled(format!("  {:>3}s  ", since_start.as_secs()), FAINT),
        Span::raw("export KUBECONFIG="),
        Span::raw(header.kubeconfig.as_str()),
        Span::styled(header.gates.as_ref().map(|gates| format!("  {gates}")).unwrap_or_default(), FAINT),
    ]);
    frame.render_widget(Paragraph::new(line), area);
}

fn draw_warnings(frame: &mut Frame<'_>, area: Rect, view: &View, count: usize) {
    let newest = view.warnings.iter().rev().take(count).map(|warning| {
        let times = lines::times(warning.count);
        Line::from(vec![
            Span::styled(format!("{}{times} ", warning.reason), Style::new().fg(Color::Yellow)),
            Span::raw(format!("{}: {}", warning.object, warning.message.lines().next().unwrap_or_default())),
        ])
    });
    let mut text = vec![Line::styled("WARNINGS", TITLE)];
    text.extend(newest);
    frame.render_widget(Paragraph::new(text), area);
}

fn sets(view: &View) -> Section<'_> {
    let rows = view.sets.iter().map(|(name, set)| {
        let pods = view.pods_of(name);
        let pods = if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") };
        Entry { name: name.clone(), cells: vec![Line::raw(pods), Line::raw(set.containers.join(", "))] }
    });
    Section { title: "SIDECARSETS", rows: rows.collect() }
}

fn workloads(view: &View) -> Section<'_> {
    let rows = view.workloads.iter().map(|((kind, key), workload)| {
        let ready = workload.ready.split_once('/').is_some_and(|(ready, wanted)| ready == wanted);
        let style = Style::new().fg(if ready { Color::Green } else { Color::Yellow });
        Entry { name: format!("{kind}/{}", short(key)), cells: vec![Line::styled(workload.ready.as_str(), style)] }
    });
    Section { title: "WORKLOADS", rows: rows.collect() }
}

fn jobs(view: &View) -> Section<'_> {
    let rows = view.jobs.iter().map(|(key, job)| {
        let colour = match job {
            job if job.failed() => Color::Red,
            job if job.ended() => Color::Green,
            _ => Color::Yellow,
        };
        Entry { name: short(key), cells: vec![Line::styled(lines::describe_job(job), Style::new().fg(colour))] }
    });
    Section { title: "JOBS", rows: rows.collect() }
}

fn pods(view: &View, now: Timestamp, narrow: bool) -> Section<'_> {
    let mut pods: Vec<_> = view.pods.iter().collect();
    // Stable: pods of one rank stay in the order of their names.
    pods.sort_by_key(|(_, pod)| rank(pod));
    let rows = pods.into_iter().map(|(key, pod)| {
        let mut cells = vec![
            Line::raw(pod.ready.as_str()),
            Line::styled(pod.status.as_str(), Style::new().fg(pod_colour(pod))),
            Line::styled(age(pod, now), FAINT),
            containers(pod),
        ];
        if narrow {
            cells.remove(2);
        }
        Entry { name: short(key), cells }
    });
    Section { title: "PODS", rows: rows.collect() }
}

/// Pods in trouble come first, and those that have done their work last.
fn rank(pod: &Pod) -> u8 {
    match pod.status.as_str() {
        "Completed" | "Succeeded" => 2,
        _ if pod_colour(pod) == Color::Red => 0,
        _ => 1,
    }
}

fn pod_colour(pod: &Pod) -> Color {
    match pod.status.as_str() {
        "Running" | "Completed" | "Succeeded" => Color::Green,
        "Pending" | "ContainerCreating" | "PodInitializing" | "Terminating" => Color::Yellow,
        status if status.starts_with("Init:") && !status.contains("Error") && !status.contains("BackOff") => {
            Color::Yellow
        }
        _ => Color::Red,
    }
}

fn age(pod: &Pod, now: Timestamp) -> String {
    let seconds = pod.created.map_or(0, |created| now.duration_since(created).as_secs().max(0));
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        _ => format!("{}h", seconds / 3600),
    }
}

/// All containers, and after them what the sidecars were given, which a narrow window may cut off.
fn containers(pod: &Pod) -> Line<'_> {
    let mut spans: Vec<Span<'_>> = pod.containers.iter().flat_map(chips).collect();
    let given = pod.containers.iter().filter(|container| container.injected && !container.resources.is_empty());
    let given: Vec<String> = given.map(|container| format!("{}: {}", container.name, container.resources)).collect();
    spans.push(Span::styled(format!(" {}", given.join("; ")), FAINT));
    Line::from(spans)
}

/// A container as a coloured dot, its name, and what is not as it should be.
fn chips(container: &Container) -> Vec<Span<'_>> {
    let (dot, colour) = match &container.state {
        State::Running(true) => ("●", Color::Green),
        State::Running(false) => ("●", Color::Yellow),
        State::Waiting(_) => ("○", Color::Yellow),
        State::Ended(0, _) => ("✔", Color::Green),
        State::Ended(..) if container.role == Role::Sidecar => ("■", Color::DarkGray),
        State::Ended(..) => ("✘", Color::Red),
    };
    let name = if container.role == Role::Sidecar { Style::new().fg(Color::Cyan) } else { Style::new() };
    let mut spans =
        vec![Span::styled(format!("{dot} "), Style::new().fg(colour)), Span::styled(container.name.as_str(), name)];
    if !matches!(container.state, State::Running(true) | State::Ended(0, _)) {
        spans.push(Span::styled(format!(" {}", lines::state(&container.state)), Style::new().fg(colour)));
    }
    if container.restarts > 0 {
        spans.push(Span::styled(format!(" ×{}", container.restarts + 1), Style::new().fg(Color::Yellow)));
    }
    spans.push(Span::raw("  "));
    spans
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;
    use serde_json::{Value, json};

    use super::*;

    /// What a window of this size shows, without the blanks at the ends of lines.
    fn drawn(view: &View, width: u16, height: u16) -> String {
        drawn_with(None, view, width, height)
    }

    fn drawn_with(gates: Option<&str>, view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let header = Header { kubeconfig: "/tmp/pillion-x/kubeconfig".to_owned(), gates: gates.map(str::to_owned) };
        let now = "2026-01-01T00:00:07Z".parse().unwrap();
        terminal.draw(|frame| draw(frame, &header, view, Duration::from_secs(7), now)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect::<Vec<_>>().join("\n")
    }

    fn view(objects: &[Value]) -> View {
        let mut view = View::default();
        for object in objects {
            view.apply(object, Timestamp::UNIX_EPOCH);
        }
        view
    }

    /// A pod with an injected proxy and this container.
    fn pod(name: &str, app: &str, phase: &str, state: Value) -> Value {
        json!({
            "kind": "Pod",
            "metadata": {"namespace": "default", "name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "initContainers": [{"name": "proxy", "restartPolicy": "Always",
                    "env": [{"name": "IS_INJECTED", "value": "true"}],
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "400m", "memory": "128Mi"}}}],
                "containers": [{"name": app}],
            },
            "status": {"phase": phase,
                "initContainerStatuses": [{"name": "proxy", "ready": true, "started": true, "state": {"running": {}}}],
                "containerStatuses": [{"name": app, "ready": phase == "Running", "state": state}]},
        })
    }

    #[test]
    fn the_gates_that_are_on_are_in_the_first_line() {
        let shown = drawn_with(Some("feature gates: SidecarField"), &view(&[]), 100, 5);
        let first = " pillion up    7s  export KUBECONFIG=/tmp/pillion-x/kubeconfig  feature gates: SidecarField";
        assert_eq!(shown.lines().next(), Some(first));
    }

    fn running(name: &str) -> Value {
        pod(name, "app", "Running", json!({"running": {}}))
    }

    fn failed(name: &str) -> Value {
        pod(name, "main", "Failed", json!({"terminated": {"exitCode": 3, "reason": "Error"}}))
    }

    fn done(name: &str) -> Value {
        pod(name, "main", "Succeeded", json!({"terminated": {"exitCode": 0, "reason": "Completed"}}))
    }

    fn quickstart() -> Vec<Value> {
        vec![
            json!({"kind": "SidecarSet", "metadata": {"name": "mesh"},
                "spec": {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]}}),
            json!({"kind": "Deployment", "metadata": {"namespace": "default", "name": "web"}, "spec": {"replicas": 2},
                "status": {"readyReplicas": 2}}),
            json!({"kind": "Job", "metadata": {"namespace": "default", "name": "report"}, "spec": {"completions": 2}}),
            done("report-2xkqp"),
            running("web-5d8f7c9b6d-4zr8n"),
            running("web-5d8f7c9b6d-x2v7k"),
            failed("report-9w4tz"),
            json!({"kind": "Event", "type": "Warning", "reason": "BackOff", "message": "it fails", "count": 3,
                "involvedObject": {"kind": "Pod", "namespace": "default", "name": "report-9w4tz"}}),
        ]
    }

    #[test]
    fn the_quickstart_shows_all_containers_in_80_columns() {
        insta::assert_snapshot!(drawn(&view(&quickstart()), 80, 24), @r"
        pillion up    7s  export KUBECONFIG=/tmp/pillion-x/kubeconfig

        SIDECARSETS
        mesh                  0 pods  proxy (native)

        WORKLOADS
        Deployment/web        2/2

        JOBS
        report                Running 0/2

        PODS
        report-9w4tz          1/2  Error      7s  ● proxy  ✘ main exit 3   proxy: cpu
        web-5d8f7c9b6d-4zr8n  2/2  Running    7s  ● proxy  ● app   proxy: cpu 10m–400m
        web-5d8f7c9b6d-x2v7k  2/2  Running    7s  ● proxy  ● app   proxy: cpu 10m–400m
        report-2xkqp          1/2  Completed  7s  ● proxy  ✔ main   proxy: cpu 10m–400

        WARNINGS
        BackOff (×3) Pod/report-9w4tz: it fails




        Ctrl-C stops everything, a second one at once
        ");
    }

    #[test]
    fn a_small_window_shows_pods_and_the_newest_warning() {
        insta::assert_snapshot!(drawn(&view(&quickstart()), 40, 10), @r"
        pillion up    7s  export KUBECONFIG=/t

        PODS
        repor…9w4tz 1/2 Error   ● proxy  ✘ mai
        web-5…4zr8n 2/2 Running ● proxy  ● app
        … and 2 more

        WARNINGS
        BackOff (×3) Pod/report-9w4tz: it fail
        Ctrl-C stops everything, a second one
        ");
    }

    #[test]
    fn pods_that_have_no_room_are_counted() {
        let mut objects = quickstart();
        objects.extend((0..56).map(|number| running(&format!("web-5d8f7c9b6d-{number:05}"))));
        insta::assert_snapshot!(drawn(&view(&objects), 80, 24), @r"
        pillion up    7s  export KUBECONFIG=/tmp/pillion-x/kubeconfig

        SIDECARSETS
        mesh                  0 pods  proxy (native)

        WORKLOADS
        Deployment/web        2/2

        JOBS
        report                Running 0/2

        PODS
        report-9w4tz          1/2  Error    7s  ● proxy  ✘ main exit 3   proxy: cpu 10
        web-5d8f7c9b6d-00000  2/2  Running  7s  ● proxy  ● app   proxy: cpu 10m–400m,
        web-5d8f7c9b6d-00001  2/2  Running  7s  ● proxy  ● app   proxy: cpu 10m–400m,
        web-5d8f7c9b6d-00002  2/2  Running  7s  ● proxy  ● app   proxy: cpu 10m–400m,
        web-5d8f7c9b6d-00003  2/2  Running  7s  ● proxy  ● app   proxy: cpu 10m–400m,
        web-5d8f7c9b6d-00004  2/2  Running  7s  ● proxy  ● app   proxy: cpu 10m–400m,
        web-5d8f7c9b6d-00005  2/2  Running  7s  ● proxy  ● app   proxy: cpu 10m–400m,
        … and 53 more

        WARNINGS
        BackOff (×3) Pod/report-9w4tz: it fails
        Ctrl-C stops everything, a second one at once
        ");
    }

    #[test]
    fn a_window_of_any_size_can_be_drawn() {
        let view = view(&quickstart());
        for width in 0..30 {
            for height in 0..20 {
                drawn(&view, width, height);
            }
        }
    }

    #[test]
    fn a_name_that_is_too_long_keeps_its_end() {
        let rows = [("web", 3, "web"), ("web-5d8f7c9b6d-x2v7k", 12, "web-5…-x2v7k"), ("web", 1, "…"), ("", 0, "")];
        for (name, width, expected) in rows {
            assert_eq!(cut(name, width), expected);
        }
    }

    #[test]
    fn sections_share_the_room() {
        // Sets, workloads, Jobs, pods.
        let rows = [
            (100, [1, 2, 3, 4], [1, 2, 3, 4]),
            (12, [1, 1, 1, 60], [1, 1, 1, 2]),
            (20, [1, 1, 1, 60], [1, 1, 1, 10]),
            (5, [1, 1, 1, 4], [0, 0, 0, 4]),
            (6, [1, 1, 1, 2], [0, 0, 1, 2]),
            (1, [1, 1, 1, 4], [0, 0, 0, 0]),
        ];
        for (room, all, expected) in rows {
            assert_eq!(share(room, &all), expected, "{room} rows for {all:?}");
        }
    }
}
