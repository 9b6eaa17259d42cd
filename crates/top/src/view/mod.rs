//! The screen: a head, the workers or one of them, the listeners, and the keys.
//!
//! What matters is said in letters and numbers; colour only repeats it, and is left out where `NO_COLOR` asks for
//! that. Widths are counted out for 80 columns; what is wider has more columns and longer bars.

mod detail;
mod head;
mod listeners;
mod servers;
mod theme;
mod workers;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Paragraph, Wrap};

use crate::app::{App, Order, Page};
use theme::Theme;

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame<'_>, app: &App) {
    let theme = Theme::new(app.coloured);
    let Some(status) = app.status() else { return };
    let most = usize::from(frame.area().height / 4);
    let findings = match app.page {
        Page::Overview => head::findings(status, frame.area().width, most, theme),
        Page::Worker | Page::Servers | Page::Help => Text::default(),
    };
    let [head, found, body, keys] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(findings.height() as u16),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    head::draw(frame, head, app, status, theme);
    frame.render_widget(findings, found);
    match app.page {
        Page::Overview => overview(frame, body, app, theme),
        Page::Worker => detail::draw(frame, body, app, theme),
        Page::Servers => servers::draw(frame, body, app, theme),
        Page::Help => help(frame, body, theme),
    }
    draw_keys(frame, keys, app, theme);
}

fn overview(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let serving =
        app.status().map_or(0, |status| status.listeners.iter().filter(|listener| listener.serves).count());
    let workers = app.workers().len();
    // A line for the titles of each; the workers get what they need first, the listeners two lines at least.
    let least = if serving == 0 { 0 } else { 3 };
    let for_listeners = (serving as u16 + 2).min(area.height.saturating_sub(workers as u16 + 1).max(least));
    // The servers have a page of their own where there is no room left for all of them.
    let left = area.height.saturating_sub(workers as u16 + 1 + for_listeners);
    let for_servers = Some(servers::height(app)).filter(|height| *height <= left).unwrap_or(0);
    let for_workers = (workers as u16 + 1).min(area.height.saturating_sub(for_listeners + for_servers));
    let [upper, middle, lower, _] = Layout::vertical([
        Constraint::Length(for_workers),
        Constraint::Length(for_listeners),
        Constraint::Length(for_servers),
        Constraint::Fill(1),
    ])
    .areas(area);
    workers::draw(frame, upper, app, theme);
    if serving > 0 {
        listeners::draw(frame, middle, app, theme);
    }
    if for_servers > 0 {
        servers::draw(frame, lower, app, theme);
    }
}

fn draw_keys(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let keys = match app.page {
        Page::Overview => {
            let direction = if app.reversed == (app.order == Order::Number) { "↓" } else { "↑" };
            let order = app.order.name();
            let servers = if servers::height(app) > 0 { "  u servers" } else { "" };
            format!("q quit  p pause  s sort ({order} {direction})  r reverse{servers}  ↵ detail  ? help")
        }
        Page::Worker => "q quit  p pause  up/down other worker  enter or esc back  ? help".to_owned(),
        Page::Servers => "q quit  p pause  up/down scroll  u or esc back  ? help".to_owned(),
        Page::Help => "q quit  ? or esc back".to_owned(),
    };
    frame.render_widget(Line::from(Span::styled(keys, theme.weak)), area);
}

/// An area that is no wider than lines whose beginning and end can be seen together.
fn narrowed(area: Rect) -> Rect {
    const WIDEST: u16 = 120;
    Rect { width: area.width.min(WIDEST), ..area }
}

const HELP: &str = "\
q, Ctrl-C     quit
p, space      pause: the picture stands still, the daemon does not
s             sort by number, connections, accepts, requests, busy, lag
r             the other way round
up, down      choose a worker, or scroll (also k and j, Home, End)
Enter         the chosen worker in detail, and back
u             the servers of upstreams, and back
?             this help

conns         open connections; the bar is their share of the worker's slots
acc/s, req/s  connections accepted and requests answered, a second
busy          share of the time that the worker spent in turns
lag           what 99 of 100 events waited until the worker looked, over 10 s;
              the sparkline shows the same for each second
skew          accepts a second over the mean of all workers: 1 is even
waiting       connections in the listener's queue, of how many fit; of
              datagrams, the memory they take
active, kept  requests under way at a server, and connections kept open to it";

fn help(frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let text = Paragraph::new(HELP).style(theme.plain).wrap(Wrap { trim: false });
    frame.render_widget(text, area);
}
