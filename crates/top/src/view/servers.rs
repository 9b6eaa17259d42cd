//! The table of the servers of upstreams.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Padding, Row, Table};

use super::narrowed;
use super::theme::Theme;
use crate::app::{App, Page};
use crate::figures::{figure, rate};
use crate::status::{Peer, Place, Status, Upstream};

/// Titles and widths after the address, which takes the rest.
const COLUMNS: [(&str, u16); 6] =
    [("state", 10), ("active", 6), ("kept", 6), ("req/s", 6), ("requests", 8), ("failures", 8)];

/// The lines that all servers take, with a title and an empty line above; none where there are none.
pub(crate) fn height(app: &App) -> u16 {
    let lines = app.status().map_or(0, Status::server_lines);
    if lines == 0 { 0 } else { u16::try_from(lines + 2).unwrap_or(u16::MAX) }
}

/// Draws the servers of all upstreams.
pub(crate) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let Some(status) = app.status() else { return };
    let rows =
        status.upstreams.iter().enumerate().flat_map(|(at, upstream)| of_upstream(app, at, upstream, theme));
    let scrolled = if app.page == Page::Servers { app.scrolled } else { 0 };
    let titles = COLUMNS.iter().enumerate().map(|(at, (title, _))| {
        Line::from(*title).alignment(if at == 0 { Alignment::Left } else { Alignment::Right })
    });
    let titles = std::iter::once(Line::from("server")).chain(titles).map(Cell::new);
    let widths = COLUMNS.iter().map(|(_, width)| Constraint::Length(*width));
    let table = Table::new(rows.skip(scrolled), std::iter::once(Constraint::Fill(1)).chain(widths))
        .header(Row::new(titles).style(theme.title))
        .column_spacing(1)
        .block(Block::new().padding(Padding::top(u16::from(area.height > 3))));
    frame.render_widget(table, narrowed(area));
}

/// A line with its name, and one for each address.
fn of_upstream<'a>(app: &'a App, at: usize, upstream: &'a Upstream, theme: Theme) -> Vec<Row<'a>> {
    let mut rows = vec![Row::new([format!("{} {}", upstream.service, upstream.name)])];
    for (number, server) in upstream.servers.iter().enumerate() {
        let backup = if server.backup { " (backup)" } else { "" };
        for (place, peer) in server.addresses.iter().enumerate() {
            rows.push(of_peer(app, (at, number, place), peer, backup, theme));
        }
        if server.addresses.is_empty() {
            let state = Span::styled("no address", theme.warn);
            rows.push(Row::new([Cell::new(format!("  {}{backup}", server.address)), Cell::new(state)]));
        }
    }
    rows
}

fn of_peer(app: &App, place: Place, peer: &Peer, backup: &str, theme: Theme) -> Row<'static> {
    let right = |text: String| Cell::new(Line::from(text).alignment(Alignment::Right));
    let style = match peer.state.as_str() {
        "up" => theme.good,
        "out_of_use" => theme.weak,
        "starting" => theme.warn,
        _ => theme.bad,
    };
    Row::new([
        Cell::new(format!("  {}{backup}", peer.address)),
        Cell::new(Span::styled(peer.state.replace('_', " "), style)),
        right(figure(peer.active as f64)),
        right(figure(peer.kept as f64)),
        right(rate(app.history.of_peer(place))),
        right(figure(peer.requests as f64)),
        right(figure(peer.failures as f64)),
    ])
}
