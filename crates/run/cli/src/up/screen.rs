//! The live view: a terminal that shows the cluster as it is now.

use std::io::{self, Stdout};
use std::time::Duration;

use jiff::Timestamp;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use ratatui::{Frame, Terminal};

use super::lines;
use super::view::{Container, Pod, Role, State, View, short};

/// What is said above the view.
pub(crate) struct Header {
    pub(crate) kubeconfig: String,
}

/// A terminal in which the view is drawn. The user's own screen comes back when it is dropped.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal over.
    pub(crate) fn open() -> io::Result<Screen> {
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        // Keys stay as they are: Ctrl-C must be a signal even if this program hangs.
        crossterm::execute!(io::stdout(), crossterm::terminal::EnterAlternateScreen, crossterm::cursor::Hide)?;
        Ok(Screen { terminal })
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
        // Nothing is left to tell about it.
        let _ = crossterm::execute!(io::stdout(), crossterm::terminal::LeaveAlternateScreen, crossterm::cursor::Show);
    }
}

const TITLE: Style = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
const FAINT: Style = Style::new().fg(Color::DarkGray);

/// One part of the screen: a title and its lines.
struct Section<'a> {
    title: &'static str,
    rows: Vec<Row<'a>>,
    widths: Vec<Constraint>,
}

pub(crate) fn draw(frame: &mut Frame<'_>, header: &Header, view: &View, since_start: Duration, now: Timestamp) {
    let sections: Vec<Section<'_>> =
        [sets(view), workloads(view), jobs(view), pods(view, now)].into_iter().flatten().collect();
    let [top, body, bottom] = Layout::vertical([Constraint::Length(2), Constraint::Min(0), Constraint::Length(1)])
        .areas(frame.area().inner(ratatui::layout::Margin::new(1, 0)));
    draw_header(frame, top, header, since_start);
    let warnings = view.warnings.len().min(3);
    let heights = sections.iter().map(|section| Constraint::Length(height(section.rows.len() + 2)));
    let warning_height = if warnings == 0 { 0 } else { height(warnings + 1) };
    let areas = Layout::vertical(heights.chain([Constraint::Length(warning_height), Constraint::Min(0)])).split(body);
    for (section, area) in sections.into_iter().zip(areas.iter()) {
        let [title, table] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(*area);
        frame.render_widget(Paragraph::new(section.title).style(TITLE), title);
        frame.render_widget(Table::new(section.rows, section.widths).column_spacing(2), table);
    }
    if let Some(area) = areas.iter().rev().nth(1).filter(|_| warnings > 0) {
        draw_warnings(frame, *area, view, warnings);
    }
    frame.render_widget(Paragraph::new("Ctrl-C stops everything, a second one at once").style(FAINT), bottom);
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
    ]);
    frame.render_widget(Paragraph::new(line), area);
}

fn draw_warnings(frame: &mut Frame<'_>, area: Rect, view: &View, count: usize) {
    let newest = view.warnings.iter().rev().take(count).map(|warning| {
        let times = if warning.count > 1 { format!(" (×{})", warning.count) } else { String::new() };
        Line::from(vec![
            Span::styled(format!("{}{times} ", warning.reason), Style::new().fg(Color::Yellow)),
            Span::raw(format!("{}: {}", warning.object, warning.message.lines().next().unwrap_or_default())),
        ])
    });
    let mut text = vec![Line::styled("WARNINGS", TITLE)];
    text.extend(newest);
    frame.render_widget(Paragraph::new(text), area);
}

fn sets(view: &View) -> Option<Section<'_>> {
    let rows = view.sets.iter().map(|(name, set)| {
        let pods = view.pods_of(name);
        let pods = if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") };
        Row::new([Cell::new(name.as_str()), Cell::new(pods), Cell::new(set.containers.join(", "))])
    });
    section("SIDECARSETS", rows, vec![Constraint::Length(30), Constraint::Length(9), Constraint::Fill(1)])
}

fn workloads(view: &View) -> Option<Section<'_>> {
    let rows = view.workloads.iter().map(|((kind, key), workload)| {
        let ready = workload.ready.split_once('/').is_some_and(|(ready, wanted)| ready == wanted);
        let style = Style::new().fg(if ready { Color::Green } else { Color::Yellow });
        Row::new([Cell::new(format!("{kind}/{}", short(key))), Cell::new(workload.ready.as_str()).style(style)])
    });
    section("WORKLOADS", rows, vec![Constraint::Length(30), Constraint::Fill(1)])
}

fn jobs(view: &View) -> Option<Section<'_>> {
    let rows = view.jobs.iter().map(|(key, job)| {
        let colour = match job {
            job if job.failed() => Color::Red,
            job if job.ended() => Color::Green,
            _ => Color::Yellow,
        };
        Row::new([Cell::new(short(key)), Cell::new(lines::describe_job(job)).style(Style::new().fg(colour))])
    });
    section("JOBS", rows, vec![Constraint::Length(30), Constraint::Fill(1)])
}

fn pods(view: &View, now: Timestamp) -> Option<Section<'_>> {
    let rows = view.pods.iter().map(|(key, pod)| {
        Row::new([
            Cell::new(short(key)),
            Cell::new(pod.ready.as_str()),
            Cell::new(pod.status.as_str()).style(Style::new().fg(pod_colour(pod))),
            Cell::new(age(pod, now)).style(FAINT),
            Cell::new(Line::from(pod.containers.iter().flat_map(chips).collect::<Vec<_>>())),
        ])
    });
    let widths = vec![
        Constraint::Length(30),
        Constraint::Length(5),
        Constraint::Length(18),
        Constraint::Length(5),
        Constraint::Fill(1),
    ];
    section("PODS", rows, widths)
}

fn section<'a>(
    title: &'static str,
    rows: impl Iterator<Item = Row<'a>>,
    widths: Vec<Constraint>,
) -> Option<Section<'a>> {
    let rows: Vec<Row<'a>> = rows.collect();
    (!rows.is_empty()).then_some(Section { title, rows, widths })
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

/// A container as a coloured dot, its name, and what a sidecar was given.
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
    let mut spans = vec![
        Span::styled(format!("{dot} "), Style::new().fg(colour)),
        Span::styled(container.name.as_str(), name),
        Span::raw(" "),
    ];
    if !matches!(container.state, State::Running(true) | State::Ended(0, _)) {
        spans.push(Span::styled(format!("{} ", lines::state(&container.state)), Style::new().fg(colour)));
    }
    if container.restarts > 0 {
        spans.push(Span::styled(format!("×{} ", container.restarts + 1), Style::new().fg(Color::Yellow)));
    }
    if container.injected && !container.resources.is_empty() {
        spans.push(Span::styled(format!("({}) ", container.resources), FAINT));
    }
    spans.push(Span::raw("  "));
    spans
}
