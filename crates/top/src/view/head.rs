//! The lines at the top: which daemon, the sums, and what is off.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span, Text};

use super::theme::Theme;
use crate::app::App;
use crate::figures::{figure, micros, rate, span};
use crate::status::Status;

/// Which daemon, and its sums.
pub(crate) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, status: &Status, theme: Theme) {
    let master = &status.master;
    let who = format!(
        "drover {}  master {}  {}  generation {}  up {}",
        status.version,
        master.pid,
        master.state,
        master.generation,
        span(status.at_ms.saturating_sub(master.started_ms))
    );
    let sums = app.history.sums();
    let connections: u64 = status.workers.iter().map(|worker| worker.connections).sum();
    let lag = status.workers.iter().map(|worker| worker.lag.last_10s.lag.p99_us).max().unwrap_or(0);
    let accepts: Vec<f64> = app.workers().iter().map(|worker| app.history.of(worker).accepts).collect();
    let sum = format!(
        "conns {}  req/s {}  acc/s {}  in/s {}  out/s {}  lag {}  skew {}",
        figure(connections as f64),
        rate(sums.requests),
        rate(sums.accepts),
        figure(sums.received),
        figure(sums.sent),
        micros(lag),
        skew_of(&accepts),
    );
    let lines = vec![
        Line::from(vec![Span::styled(who, theme.title), Span::raw("  "), liveness(app, theme)]),
        Line::from(sum),
        Line::default(),
    ];
    frame.render_widget(Text::from(lines), area);
}

fn liveness(app: &App, theme: Theme) -> Span<'static> {
    match (&app.lost, app.paused) {
        (Some(reason), _) => Span::styled(format!("LOST: {reason}"), theme.bad),
        (None, true) => Span::styled("PAUSED", theme.warn),
        (None, false) => Span::styled("live", theme.good),
    }
}

/// The busiest over the mean.
fn skew_of(rates: &[f64]) -> String {
    let sum: f64 = rates.iter().sum();
    let most = rates.iter().copied().fold(0.0, f64::max);
    if sum > 0.0 && rates.len() > 1 {
        format!("{:.2}", most * rates.len() as f64 / sum)
    } else {
        "-".to_owned()
    }
}

/// What is off, in at most so many lines of this width, with an empty one below.
pub(crate) fn findings(status: &Status, width: u16, most: usize, theme: Theme) -> Text<'static> {
    let width = usize::from(width.max(20));
    let mut lines = Vec::new();
    for finding in &status.findings {
        let about = format!("! {}: ", finding.about);
        for (number, line) in wrapped(&finding.text, width - about.len(), width - 2).into_iter().enumerate() {
            let mark = if number == 0 { about.clone() } else { "  ".to_owned() };
            lines.push(Line::from(vec![Span::styled(mark, theme.warn), Span::raw(line)]));
        }
    }
    if lines.len() >= most {
        lines.truncate(most.saturating_sub(2));
        lines.push(Line::styled("  and more: drover status", theme.warn));
    }
    if !status.findings.is_empty() {
        lines.push(Line::default());
    }
    Text::from(lines)
}

/// A text in lines, the first of which has less room.
fn wrapped(text: &str, first: usize, others: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let room = if lines.len() == 1 { first } else { others };
        let line = lines
            .last_mut()
            .filter(|line| line.is_empty() || line.chars().count() + 1 + word.chars().count() <= room);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_wrapped_at_words() {
        assert_eq!(wrapped("one two three four", 7, 10), ["one two", "three four"]);
        assert_eq!(wrapped("longer-than-that x", 4, 4), ["longer-than-that", "x"]);
        assert_eq!(wrapped("", 4, 4), [""]);
    }

    #[test]
    fn the_busiest_is_set_against_the_mean() {
        assert_eq!(skew_of(&[3.0, 1.0]), "1.50");
        assert_eq!((skew_of(&[0.0, 0.0]), skew_of(&[5.0])), ("-".into(), "-".into()));
    }
}
