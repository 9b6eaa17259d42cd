//! Rates in the config: so many a second, a minute or an hour.

use drover_config::Leaf;

/// So many a time: `"10/s"`, `"30/m"`, `"100/h"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    count: u32,
    unit: char,
}

/// More than this a second is no limit.
const MOST_A_SECOND: u32 = 1_000_000;

impl Rate {
    /// Microseconds from one to the next at this rate.
    pub fn interval_us(&self) -> u64 {
        let seconds = match self.unit {
            'm' => 60,
            'h' => 3600,
            _ => 1,
        };
        seconds * 1_000_000 / u64::from(self.count)
    }
}

impl Leaf for Rate {
    const TYPE: &'static str = "rate";
    const HELP: &'static str = "so many a second \"10/s\", a minute \"30/m\" or an hour \"100/h\"";

    fn parse(text: &str) -> Result<Rate, String> {
        let wrong = || "a number, `/`, and `s`, `m` or `h`".to_owned();
        let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
        let count: u32 = count.trim().parse().map_err(|_| wrong())?;
        let unit = match unit.trim() {
            "s" => 's',
            "m" => 'm',
            "h" => 'h',
            _ => return Err(wrong()),
        };
        match count {
            0 => Err("at least 1".to_owned()),
            1..=MOST_A_SECOND => Ok(Rate { count, unit }),
            _ => Err(format!("at most {MOST_A_SECOND}")),
        }
    }

    fn text(&self) -> String {
        format!("{}/{}", self.count, self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_a_number_and_a_time() {
        for (text, interval) in
            [("10/s", 100_000), ("1/s", 1_000_000), ("30/m", 2_000_000), ("1 / h", 3_600_000_000)]
        {
            assert_eq!(Rate::parse(text).map(|rate| rate.interval_us()), Ok(interval), "{text}");
        }
        for text in ["", "10", "0/s", "-1/s", "10/d", "1.5/s", "9999999/s"] {
            assert!(Rate::parse(text).is_err(), "{text}");
        }
    }
}
