//! Values as nginx writes them, and as drover does.

use std::time::Duration;

use drover_config::Size;

use crate::document::toml;

/// A time: a bare number counts seconds, units follow each other from the largest to the smallest
/// (`ngx_parse_time`). A month is 30 days and a year 365.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, u64); 8] = [
        ("y", 31_536_000_000),
        ("M", 2_592_000_000),
        ("w", 604_800_000),
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1000),
        ("ms", 1),
    ];
    let (mut rest, mut units, mut total) = (text, UNITS.as_slice(), 0u64);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (number, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let (unit, behind) =
            behind.split_at(behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len()));
        let unit = if unit.is_empty() && behind.trim().is_empty() { "s" } else { unit };
        let index = units.iter().position(|(name, _)| *name == unit)?;
        let part = number.parse::<u64>().ok()?.checked_mul(units[index].1)?;
        total = total.checked_add(part)?;
        units = &units[index + 1..];
        rest = behind.trim_start();
    }
    Some(Duration::from_millis(total))
}

/// A size in bytes, with `k`, `m` or `g` behind it.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (number, factor) = match text.char_indices().last()? {
        (end, 'k' | 'K') => (&text[..end], 1 << 10),
        (end, 'm' | 'M') => (&text[..end], 1 << 20),
        (end, 'g' | 'G') => (&text[..end], 1 << 30),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// `on` or `off`.
pub(crate) fn flag(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// A time as drover writes it.
pub(crate) fn duration_text(text: &str) -> Option<String> {
    duration(text).map(|duration| toml(&duration))
}

/// A size as drover writes it.
pub(crate) fn size_text(text: &str) -> Option<String> {
    size(text).map(|bytes| toml(&Size::from_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_or_count_seconds() {
        let text = |text| duration_text(text);
        assert_eq!(text("60").as_deref(), Some("\"1m\""));
        assert_eq!(text("1h 30m").as_deref(), Some("\"90m\""));
        assert_eq!(text("1d12h").as_deref(), Some("\"36h\""));
        assert_eq!(text("500ms").as_deref(), Some("\"500ms\""));
        assert_eq!(text("1m1h"), None);
        assert_eq!(text("1m 30").as_deref(), Some("\"90s\""));
        assert_eq!(text(""), None);
        assert_eq!(text("s"), None);
    }

    #[test]
    fn sizes_count_bytes_unless_they_say_otherwise() {
        assert_eq!(size_text("8192").as_deref(), Some("\"8k\""));
        assert_eq!(size_text("1M").as_deref(), Some("\"1m\""));
        assert_eq!(size_text("k"), None);
        assert_eq!(size_text("99999999999999999g"), None);
    }
}
