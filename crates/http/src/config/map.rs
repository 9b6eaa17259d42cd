//! `[http.maps]`: variables whose values are looked up.

use std::collections::BTreeMap;

use drover_config::{Leaf, Located};

use super::Expression;

drover_config::table! {
    /// A variable whose value is looked up: by an exact value, else a pattern, else a network, else a share, else the default.
    pub struct Map {
        /// The text that is looked up, with variables.
        pub of: Located<String>,
        /// Values by the text they stand for, in upper or lower case; with variables.
        #[example = "\"example.org\" = \"a\""]
        pub values: BTreeMap<String, Located<String>> = BTreeMap::new(),
        /// Values by expressions, of which the first that matches counts.
        #[example = "[{ matches = '^www\\.(.+)$', value = \"$1\" }]"]
        pub patterns: Vec<MapPattern> = Vec::new(),
        /// Values by networks, where the text is an address; the smallest network counts.
        #[example = "\"10.0.0.0/8\" = \"inside\""]
        pub networks: BTreeMap<String, Located<String>> = BTreeMap::new(),
        /// Values of shares of all texts, by a hash of each: "10%", and one without a share for the rest.
        #[example = "[{ share = \"10%\", value = \"new\" }, { value = \"old\" }]"]
        pub shares: Vec<MapShare> = Vec::new(),
        /// The value of what is not listed.
        pub default: Located<String> = String::new().into(),
    }
}

drover_config::table! {
    /// A value by an expression.
    #[table(inline)]
    pub struct MapPattern {
        /// The expression.
        pub matches: Expression,
        /// The value, with variables; `$1` is the expression's first group.
        pub value: Located<String>,
    }
}

drover_config::table! {
    /// The value of a share.
    #[table(inline)]
    pub struct MapShare {
        /// The share, with at most two digits behind the point; else what the others leave.
        #[example = "\"0.5%\""]
        pub share: Option<Share> = None,
        /// The value, with variables.
        pub value: Located<String>,
    }
}

/// A share in hundredths of a percent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share(pub u32);

/// All of it.
pub(crate) const WHOLE: u32 = 10_000;

impl Leaf for Share {
    const TYPE: &'static str = "share";
    const HELP: &'static str = "a percentage such as \"10%\" or \"0.5%\"";

    fn parse(text: &str) -> Result<Share, String> {
        let wrong = || "not a percentage with at most two digits behind the point".to_owned();
        let number = text.strip_suffix('%').ok_or_else(wrong)?;
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 3 || part.len() > 2 || !digits(whole) || !digits(part) {
            return Err(wrong());
        }
        let hundredths = format!("{whole}{part:0<2}").parse().map_err(|_| wrong())?;
        if hundredths > WHOLE { Err("more than all".to_owned()) } else { Ok(Share(hundredths)) }
    }

    fn text(&self) -> String {
        let (whole, part) = (self.0 / 100, self.0 % 100);
        match part {
            0 => format!("{whole}%"),
            part => format!("{whole}.{}%", format!("{part:02}").trim_end_matches('0')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages() {
        for (text, want) in [("10%", 1000), ("0.5%", 50), ("33.33%", 3333), ("100%", 10_000), ("0%", 0)] {
            assert_eq!(Share::parse(text), Ok(Share(want)), "{text}");
            assert_eq!(Share(want).text(), text);
        }
        for wrong in ["10", "%", "100.01%", "1.234%", "-1%", "1,5%"] {
            assert!(Share::parse(wrong).is_err(), "{wrong}");
        }
    }
}
