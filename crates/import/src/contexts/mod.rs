//! The mapping, by what the directives are about.

mod content;
mod fields;
mod http;
pub(crate) mod limits;
mod listen;
mod logs;
mod main;
mod maps;
mod proxy;
mod rules;
mod stream;
mod variables;

use crate::mapping::Row;

pub(crate) use content::write_charsets;
pub(crate) use http::{expression_of, path, wider_path};
pub(crate) use variables::translated;

/// All rows.
pub(crate) const ROWS: &[&[Row]] = &[
    main::ROWS,
    http::ROWS,
    limits::ROWS,
    listen::ROWS,
    content::ROWS,
    fields::ROWS,
    rules::ROWS,
    maps::ROWS,
    logs::ROWS,
    proxy::ROWS,
    stream::ROWS,
];

/// Whether a text has a variable in it.
fn has_variable(text: &str) -> bool {
    text.contains('$')
}

/// A number as TOML has it: without zeros before it.
fn number(text: &str) -> Option<String> {
    text.parse::<u32>().ok().map(|number| number.to_string())
}

/// The arguments, if there are so many.
pub(crate) fn exactly<const N: usize>(arguments: &[String]) -> Result<&[String; N], String> {
    arguments.try_into().map_err(|_| match N {
        1 => "one value is expected".to_owned(),
        _ => format!("{N} values are expected"),
    })
}
