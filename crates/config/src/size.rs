//! Sizes in bytes, written with a unit: `"512b"`, `"8k"`, `"1m"`, `"2g"`.
//!
//! A `k` is 1024 bytes, as in nginx. The unit is never left out, so that nobody has to know whether a bare
//! number would mean bytes or kilobytes.

use std::fmt;

use crate::value::Leaf;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Size(u64);

const UNITS: [(char, u64); 4] = [('g', 1 << 30), ('m', 1 << 20), ('k', 1 << 10), ('b', 1)];

impl Size {
    /// So many bytes.
    pub const fn from_bytes(bytes: u64) -> Size {
        Size(bytes)
    }

    /// So many times 1024 bytes.
    pub const fn kilobytes(count: u32) -> Size {
        Size((count as u64) << 10)
    }

    /// So many times 1024 × 1024 bytes.
    pub const fn megabytes(count: u32) -> Size {
        Size((count as u64) << 20)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The number of bytes as a length in memory.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = UNITS
            .into_iter()
            .find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor))
            .unwrap_or(('b', 1));
        write!(out, "{}{unit}", self.0 / factor)
    }
}

impl Leaf for Size {
    const TYPE: &'static str = "size";
    const HELP: &'static str =
        "sizes are strings of a whole number and a unit, b, k, m or g: \"512b\", \"8k\" (8192 bytes), \"1m\"";

    fn parse(text: &str) -> Result<Size, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        if number.is_empty() {
            return Err("no number to begin with".into());
        }
        let mut letters = unit.chars().map(|letter| letter.to_ascii_lowercase());
        let factor = match (letters.next(), letters.next()) {
            (None, _) => return Err("the unit is missing".into()),
            (Some(letter), None) => {
                UNITS.into_iter().find(|(unit, _)| *unit == letter).map(|(_, factor)| factor)
            }
            (Some(_), Some(_)) => None,
        };
        let factor = factor.ok_or_else(|| format!("`{unit}` is not a unit of size"))?;
        let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).map(Size);
        size.ok_or_else(|| "more bytes than a 64-bit number can count".into())
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_kilobyte_has_1024_bytes() {
        assert_eq!(Size::parse("8k"), Ok(Size::from_bytes(8192)));
        assert_eq!(Size::parse("1M"), Ok(Size::megabytes(1)));
        assert_eq!(Size::parse("0b"), Ok(Size::from_bytes(0)));
    }

    #[test]
    fn missing_units_and_overflow_are_errors() {
        for text in ["", "8", "k", "8kb", "8 k", "-1k", "1.5m", "8µ", "17179869184g", "99999999999999999999b"]
        {
            assert!(Size::parse(text).is_err(), "{text}");
        }
        assert!(Size::parse("17179869183g").is_ok());
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(bytes: u64) {
            let size = Size::from_bytes(bytes);
            prop_assert_eq!(Size::parse(&size.to_string()), Ok(size));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = Size::parse(&text);
        }
    }
}
