//! Colours, and what stands for them without.

use ratatui::style::{Color, Modifier, Style};

/// How things look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Theme {
    pub(crate) plain: Style,
    pub(crate) weak: Style,
    pub(crate) title: Style,
    pub(crate) bar: Style,
    pub(crate) good: Style,
    pub(crate) warn: Style,
    pub(crate) bad: Style,
    /// The chosen row.
    pub(crate) chosen: Style,
}

impl Theme {
    /// With colours, or with bold and reversed letters only.
    pub(crate) fn new(coloured: bool) -> Self {
        let plain = Style::new();
        let colour = |colour| if coloured { plain.fg(colour) } else { plain };
        Self {
            plain,
            weak: if coloured { plain.add_modifier(Modifier::DIM) } else { plain },
            title: plain.add_modifier(Modifier::BOLD),
            bar: colour(Color::Blue),
            good: colour(Color::Green),
            warn: colour(Color::Yellow).add_modifier(Modifier::BOLD),
            bad: colour(Color::Red).add_modifier(Modifier::BOLD),
            chosen: plain.add_modifier(Modifier::REVERSED),
        }
    }
}
