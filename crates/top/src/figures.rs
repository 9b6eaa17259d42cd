//! Numbers and times in few columns.

/// A number in at most five columns: as it is below 10,000, else in thousands, millions and so on.
pub(crate) fn figure(number: f64) -> String {
    if number < 10_000.0 {
        return format!("{:.0}", number.max(0.0));
    }
    let mut scaled = number;
    let mut unit = "";
    for larger in ["k", "M", "G", "T", "P", "E"] {
        if scaled < 1000.0 {
            break;
        }
        (scaled, unit) = (scaled / 1000.0, larger);
    }
    if scaled < 100.0 { format!("{scaled:.1}{unit}") } else { format!("{scaled:.0}{unit}") }
}

/// A rate: with a decimal where it is small.
pub(crate) fn rate(per_second: f64) -> String {
    if per_second < 10.0 && per_second > 0.0 { format!("{per_second:.1}") } else { figure(per_second) }
}

/// A time in at most six columns: `120us`, `3.4ms`, `1.2s`.
pub(crate) fn micros(us: u64) -> String {
    match us {
        0 => "0".to_owned(),
        us if us < 1000 => format!("{us}us"),
        us if us < 100_000 => format!("{:.1}ms", us as f64 / 1e3),
        us if us < 1_000_000 => format!("{}ms", us / 1000),
        us => format!("{:.1}s", us as f64 / 1e6),
    }
}

/// Two units at most: `12s`, `3h 5m`, `8d 2h`.
pub(crate) fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if days > 0 => format!("{days}d {}h", hours % 24),
        () if hours > 0 => format!("{hours}h {}m", minutes % 60),
        () if minutes > 0 => format!("{minutes}m {}s", seconds % 60),
        () => format!("{seconds}s"),
    }
}

/// A bar of `width` columns, to an eighth of a column.
pub(crate) fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let full = eighths / 8;
    let mut bar: String = "█".repeat(full);
    if full < width {
        bar.push(EIGHTHS[eighths % 8]);
        bar.push_str(&" ".repeat(width - full - 1));
    }
    bar
}

/// The last of `values` as bars of eight heights, in `width` columns; the highest fills its column.
pub(crate) fn spark(values: impl DoubleEndedIterator<Item = f64>, width: usize) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut shown: Vec<f64> = values.rev().take(width).collect();
    shown.reverse();
    let most = shown.iter().copied().fold(f64::EPSILON, f64::max);
    let height = |value: &f64| HEIGHTS[((value / most * 7.0).round() as usize).min(7)];
    let bars: String = shown.iter().map(height).collect();
    format!("{bars:>width$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_narrow() {
        for (number, text) in [
            (0.0, "0"),
            (9999.0, "9999"),
            (10_000.0, "10.0k"),
            (123_456.0, "123k"),
            (5e9, "5.0G"),
            (1e19, "10.0E"),
        ] {
            assert_eq!(figure(number), text);
        }
        assert_eq!((rate(0.0), rate(3.25), rate(12.5)), ("0".into(), "3.2".into(), "12".into()));
        for us in [0, 999, 99_999, 999_999, 1_000_000, 59_000_000] {
            assert!(micros(us).len() <= 7, "{}", micros(us));
        }
        assert_eq!(span(90_000_000), "1d 1h");
    }

    #[test]
    fn bars_fill_their_columns() {
        assert_eq!(bar(0.0, 4), "    ");
        assert_eq!(bar(0.5, 4), "██  ");
        assert_eq!(bar(0.53, 4), "██▏ ");
        assert_eq!(bar(7.0, 4), "████");
        assert_eq!(bar(0.5, 0), "");
    }

    #[test]
    fn sparks_end_with_the_latest() {
        assert_eq!(spark([0.0, 1.0, 2.0].into_iter(), 5), "  ▁▅█");
        assert_eq!(spark([9.0, 0.0, 2.0].into_iter(), 2), "▁█");
        assert_eq!(spark([0.0, 0.0].into_iter(), 2), "▁▁");
    }
}
