//! The table of workers.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table, TableState};

use super::theme::Theme;
use crate::app::App;
use crate::figures::{bar, figure, micros, rate, spark};
use crate::status::Worker;

/// A worker's lag from here on is worth a colour, in microseconds.
const LAGS_US: u64 = 100_000;
/// One inside a turn for longer than this hangs.
const HANGS_US: u64 = 1_000_000;
/// From this width on there is room for the columns that are marked as wide.
const WIDE: u16 = 110;

/// What a cell is made of.
struct Seen<'a> {
    app: &'a App,
    worker: &'a Worker,
    /// Accepts a second of all workers together, and how many these are.
    accepts: f64,
    workers: f64,
    theme: Theme,
    bar: usize,
    spark: usize,
}

struct Column {
    title: &'static str,
    width: u16,
    wide: bool,
    alignment: Alignment,
    value: fn(&Seen<'_>) -> (String, Style),
}

/// A column of numbers.
const fn number(title: &'static str, width: u16, value: fn(&Seen<'_>) -> (String, Style)) -> Column {
    Column { title, width, wide: false, alignment: Alignment::Right, value }
}

const fn wide(title: &'static str, width: u16, value: fn(&Seen<'_>) -> (String, Style)) -> Column {
    Column { wide: true, ..number(title, width, value) }
}

/// Bars and sparklines take what the others leave.
const BAR: &str = "slots used";
const SPARK: &str = "lag trend";

const COLUMNS: &[Column] = &[
    number("#", 3, |seen| (seen.worker.worker.to_string(), seen.theme.plain)),
    number("pid", 7, |seen| (seen.worker.pid.to_string(), seen.theme.plain)),
    number("gen", 4, |seen| (seen.worker.generation.to_string(), seen.theme.plain)),
    Column { alignment: Alignment::Left, ..number("state", 8, state) },
    Column {
        alignment: Alignment::Left,
        ..number(BAR, 0, |seen| {
            let share = seen.worker.connections as f64 / seen.worker.slots.max(1) as f64;
            (bar(share, seen.bar), if share > 0.9 { seen.theme.bad } else { seen.theme.bar })
        })
    },
    number("conns", 6, |seen| (figure(seen.worker.connections as f64), seen.theme.plain)),
    wide("free", 6, |seen| (figure(seen.worker.free_slots as f64), seen.theme.plain)),
    wide("fds", 6, |seen| (figure(seen.worker.descriptors as f64), seen.theme.plain)),
    number("acc/s", 6, |seen| (rate(seen.app.history.of(seen.worker).accepts), seen.theme.plain)),
    wide("skew", 5, |seen| (skew(seen), seen.theme.plain)),
    number("req/s", 6, |seen| (rate(seen.app.history.of(seen.worker).requests), seen.theme.plain)),
    number("busy", 4, |seen| {
        (format!("{:.0}%", seen.app.history.of(seen.worker).busy * 100.0), seen.theme.plain)
    }),
    number("lag", 6, |seen| {
        let lag = seen.worker.lag.last_10s.lag.p99_us;
        (micros(lag), if lag >= LAGS_US { seen.theme.bad } else { seen.theme.plain })
    }),
    wide("turn", 6, |seen| (micros(seen.worker.lag.last_10s.turn.max_us), seen.theme.plain)),
    number(SPARK, 0, |seen| {
        (spark(seen.app.history.all_of(seen.worker).map(|moment| moment.lag_us), seen.spark), seen.theme.bar)
    }),
];

fn state(seen: &Seen<'_>) -> (String, Style) {
    let theme = seen.theme;
    match seen.worker.state.as_str() {
        _ if seen.worker.lag.now_us >= HANGS_US => {
            (format!("in {}", micros(seen.worker.lag.now_us)), theme.bad)
        }
        "serving" => ("serving".to_owned(), theme.good),
        other => (other.to_owned(), theme.warn),
    }
}

/// Accepts a second over the mean.
fn skew(seen: &Seen<'_>) -> String {
    let mean = seen.accepts / seen.workers;
    if mean > 0.0 {
        format!("{:.2}", seen.app.history.of(seen.worker).accepts / mean)
    } else {
        "-".to_owned()
    }
}

/// Draws the table.
pub(crate) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| !column.wide || area.width >= WIDE).collect();
    let fixed: u16 = columns.iter().map(|column| column.width + 1).sum();
    let left = area.width.saturating_sub(fixed);
    let (bar, spark) = (left.div_ceil(2).min(40), (left / 2).min(60));
    let workers = app.workers();
    let accepts: f64 = workers.iter().map(|worker| app.history.of(worker).accepts).sum();
    let row = |worker: &&Worker| {
        let seen = Seen {
            app,
            worker,
            accepts,
            workers: workers.len() as f64,
            theme,
            bar: bar.into(),
            spark: spark.into(),
        };
        Row::new(columns.iter().map(|column| {
            let (text, style) = (column.value)(&seen);
            Cell::new(Line::from(Span::styled(text, style)).alignment(column.alignment))
        }))
    };
    let widths = columns.iter().map(|column| match column.title {
        BAR => Constraint::Length(bar),
        SPARK => Constraint::Length(spark),
        _ => Constraint::Length(column.width),
    });
    let titles = columns.iter().map(|column| {
        let sorted = column.title == title_of(app);
        let mark =
            if sorted { theme.title.add_modifier(ratatui::style::Modifier::UNDERLINED) } else { theme.title };
        Cell::new(Line::from(Span::styled(column.title, mark)).alignment(column.alignment))
    });
    let table = Table::new(workers.iter().map(row), widths)
        .header(Row::new(titles))
        .column_spacing(1)
        .row_highlight_style(theme.chosen);
    let mut state = TableState::new().with_selected(app.chosen());
    frame.render_stateful_widget(table, area, &mut state);
}

/// The column that workers are sorted by.
fn title_of(app: &App) -> &'static str {
    use crate::app::Order;
    match app.order {
        Order::Number => "#",
        Order::Connections => "conns",
        Order::Accepts => "acc/s",
        Order::Requests => "req/s",
        Order::Busy => "busy",
        Order::Lag => "lag",
    }
}
