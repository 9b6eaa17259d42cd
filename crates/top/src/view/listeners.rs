//! The table of listeners.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Padding, Row, Table};

use super::narrowed;
use super::theme::Theme;
use crate::app::App;
use crate::figures::{figure, rate};
use crate::status::Listener;

/// Titles and widths after the address, which takes the rest.
const COLUMNS: [(&str, u16); 6] =
    [("accept", 9), ("sockets", 7), ("accepts", 8), ("acc/s", 6), ("waiting", 10), ("overflows", 9)];

/// Draws the listeners of the generation that serves.
pub(crate) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let Some(status) = app.status() else { return };
    let right = |text: String| Cell::new(Line::from(text).alignment(Alignment::Right));
    let row = |listener: &Listener| {
        let waiting = match (listener.waiting, listener.backlog_granted, listener.waiting_bytes) {
            (Some(waiting), Some(granted), _) => format!("{waiting}/{}", granted * listener.sockets),
            (_, _, Some(bytes)) => format!("{}B", figure(bytes as f64)),
            _ => "?".to_owned(),
        };
        let row = Row::new([
            Cell::new(listener.address.clone()),
            Cell::new(listener.strategy.clone()),
            right(listener.sockets.to_string()),
            right(figure(listener.accepts as f64)),
            right(rate(app.history.of_listener(&listener.address))),
            right(waiting),
            right(figure(listener.overflows as f64)),
        ]);
        if listener.overflows > 0 { row.style(theme.warn) } else { row }
    };
    let titles = COLUMNS.iter().enumerate().map(|(at, (title, _))| {
        Line::from(*title).alignment(if at == 0 { Alignment::Left } else { Alignment::Right })
    });
    let titles = std::iter::once(Line::from("listener")).chain(titles).map(Cell::new);
    let widths = COLUMNS.iter().map(|(_, width)| Constraint::Length(*width));
    let table = Table::new(
        status.listeners.iter().filter(|listener| listener.serves).map(row),
        std::iter::once(Constraint::Fill(1)).chain(widths),
    )
    .header(Row::new(titles).style(theme.title))
    .column_spacing(1)
    .block(Block::new().padding(Padding::top(u16::from(area.height > 3))));
    frame.render_widget(table, narrowed(area));
}
