//! One worker in detail.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span, Text};

use super::theme::Theme;
use crate::app::App;
use crate::figures::{bar, figure, micros, rate, span, spark};
use crate::history::Moment;
use crate::status::{Window, Worker};

/// Draws the chosen worker.
pub(crate) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let (workers, chosen) = (app.workers(), app.chosen());
    let Some(worker) = workers.get(chosen) else { return };
    let left = (area.width / 2).clamp(40, 100);
    let [left, right] =
        Layout::horizontal([Constraint::Length(left), Constraint::Fill(1)]).spacing(2).areas(area);
    let [upper, lower] = Layout::vertical([Constraint::Fill(1), Constraint::Length(4)]).areas(left);
    frame.render_widget(figures(app, worker, theme), upper);
    frame.render_widget(course(app, worker, lower.width, theme), lower);
    frame.render_widget(connections(worker, theme), right);
}

fn figures(app: &App, worker: &Worker, theme: Theme) -> Text<'static> {
    let now = app.history.of(worker);
    let up = app.status().map_or(0, |status| status.at_ms.saturating_sub(worker.started_ms));
    let inside = match worker.lag.now_us {
        0 => "asleep".to_owned(),
        us => format!("inside a turn for {}", micros(us)),
    };
    let title = format!("worker {}, generation {}, process {}", worker.worker, worker.generation, worker.pid);
    let share = worker.connections as f64 / worker.slots.max(1) as f64;
    let mut lines = vec![
        Line::styled(title, theme.title),
        Line::raw(format!("{}, up {}, {inside}", worker.state, span(up))),
        Line::from(vec![
            Span::raw(format!("{:<12}", "slots")),
            Span::styled(bar(share, 12), theme.bar),
            Span::raw(format!(" {} of {}", worker.slots - worker.free_slots.min(worker.slots), worker.slots)),
        ]),
    ];
    let mut pair = |name: &str, value: String| lines.push(Line::raw(format!("{name:<12}{value}")));
    pair("descriptors", format!("{} of {}", worker.descriptors, worker.descriptor_limit));
    pair("connections", format!("{}, {} reusable", worker.connections, worker.reusable_connections));
    pair("accepts", format!("{} a second, {} in all", rate(now.accepts), figure(worker.accepts as f64)));
    pair("requests", format!("{} a second, {} in all", rate(now.requests), figure(worker.requests as f64)));
    pair(
        "bytes",
        format!("{} in, {} out", figure(worker.bytes_received as f64), figure(worker.bytes_sent as f64)),
    );
    pair("turns", format!("{}, {:.0}% busy", figure(worker.turns as f64), now.busy * 100.0));
    pair("dropped", format!("{}, {} reclaimed", worker.dropped, worker.reclaimed));
    lines.push(Line::styled(
        format!("{:<12}{:>8}{:>8}{:>8}", "p99 / max", "1 s", "10 s", "60 s"),
        theme.title,
    ));
    let windows = [&worker.lag.last_1s, &worker.lag.last_10s, &worker.lag.last_60s];
    let mut row = |name: &str, of: fn(&Window) -> u64| {
        let cells: String = windows.iter().map(|window| format!("{:>8}", micros(of(window)))).collect();
        lines.push(Line::raw(format!("{name:<12}{cells}")));
    };
    row("lag p99", |window| window.lag.p99_us);
    row("lag max", |window| window.lag.max_us);
    row("turn p99", |window| window.turn.p99_us);
    row("turn max", |window| window.turn.max_us);
    Text::from(lines)
}

/// How it went lately.
fn course(app: &App, worker: &Worker, width: u16, theme: Theme) -> Text<'static> {
    let width = usize::from(width).saturating_sub(12);
    let line = |name: &str, of: fn(Moment) -> f64| {
        let moments = app.history.all_of(worker).map(of);
        Line::from(vec![Span::raw(format!("{name:<12}")), Span::styled(spark(moments, width), theme.bar)])
    };
    Text::from(vec![
        line("accepts", |moment| moment.accepts),
        line("requests", |moment| moment.requests),
        line("busy", |moment| moment.busy),
        line("lag", |moment| moment.lag_us),
    ])
}

fn connections(worker: &Worker, theme: Theme) -> Text<'static> {
    let count = |(name, count): (&String, &u64)| Line::raw(format!("{count:>9}  {}", name.replace('_', " ")));
    let mut lines = vec![Line::styled("connections by phase", theme.title)];
    lines.extend(worker.phases.iter().map(count));
    lines.push(Line::default());
    lines.push(Line::styled("connections ended, by reason", theme.title));
    let mut closes: Vec<_> = worker.closes.iter().filter(|(_, count)| **count > 0).collect();
    closes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    lines.extend(closes.into_iter().map(count));
    Text::from(lines)
}
