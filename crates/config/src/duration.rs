//! Durations, written with units: `"500ms"`, `"75s"`, `"1h30m"`.
//!
//! The type is [`std::time::Duration`]; the finest unit is the millisecond, as in the engine's timers.

use std::time::Duration;

use crate::value::Leaf;

/// Largest first, which is also the order in which they are written one after another.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Leaf for Duration {
    const TYPE: &'static str = "duration";
    const HELP: &'static str =
        "durations are strings of whole numbers and units, ms, s, m, h or d: \"500ms\", \"75s\", \"1h30m\"";

    fn parse(text: &str) -> Result<Duration, String> {
        if text.is_empty() {
            return Err("empty".into());
        }
        let mut rest = text;
        let mut units = UNITS.as_slice();
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (number, after) = rest.split_at(leading(rest, |c| c.is_ascii_digit()));
            let (name, after) = after.split_at(leading(after, char::is_alphabetic));
            if number.is_empty() {
                return Err(format!("a number is missing before `{rest}`"));
            }
            if name.is_empty() {
                return Err(format!("the unit is missing after {number}"));
            }
            let Some(index) = units.iter().position(|(unit, _)| *unit == name) else {
                return Err(match UNITS.iter().any(|(unit, _)| *unit == name) {
                    true => format!("`{name}` does not follow from larger to smaller units"),
                    false => format!("`{name}` is not a unit of time"),
                });
            };
            let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(units[index].1));
            total = part
                .and_then(|part| total.checked_add(part))
                .ok_or("more milliseconds than a 64-bit number can count")?;
            units = &units[index + 1..];
            rest = after;
        }
        Ok(Duration::from_millis(total))
    }

    /// In the largest unit that holds it exactly: `"75s"` rather than `"1m15s"`.
    fn text(&self) -> String {
        let millis = u64::try_from(self.as_millis()).unwrap_or(u64::MAX);
        let (unit, factor) = UNITS
            .into_iter()
            .find(|(_, factor)| millis >= *factor && millis.is_multiple_of(*factor))
            .unwrap_or(("s", 1_000));
        format!("{}{unit}", millis / factor)
    }
}

fn leading(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_add_up() {
        assert_eq!(Duration::parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(Duration::parse("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(Duration::parse("2d1ms"), Ok(Duration::from_millis(172_800_001)));
        assert_eq!(Duration::parse("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn missing_units_and_overflow_are_errors() {
        for text in
            ["", "75", "s", "75 s", "1.5s", "-1s", "1m1h", "1s1s", "5x", "5µs", "99999999999999999999s"]
        {
            assert!(Duration::parse(text).is_err(), "{text}");
        }
        assert!(Duration::parse("18446744073709551615ms").is_ok());
        assert!(Duration::parse("18446744073709551615ms1d").is_err());
        assert!(Duration::parse("213503982334d18446744073709551615ms").is_err());
    }

    #[test]
    fn written_in_one_unit() {
        assert_eq!(Duration::from_secs(75).text(), "75s");
        assert_eq!(Duration::from_secs(60).text(), "1m");
        assert_eq!(Duration::ZERO.text(), "0s");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(millis: u64) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(Duration::parse(&duration.text()), Ok(duration));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = Duration::parse(&text);
        }
    }
}
