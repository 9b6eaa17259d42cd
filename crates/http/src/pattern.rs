//! Regular expressions at work, and what their groups matched.

use std::cell::RefCell;

use regex::bytes::{CaptureLocations, Regex};

use crate::config::Expression;
use crate::own::OwnVariables;
use crate::values::Values;

/// An expression compiled, with the numbers of the variables that its named groups set.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    named: Vec<(usize, u32)>,
    /// Kept, so that matching allocates nothing.
    locations: RefCell<CaptureLocations>,
}

impl Pattern {
    /// Fails with what is wrong with the expression.
    pub(crate) fn new(expression: &Expression, own: &OwnVariables) -> Result<Pattern, String> {
        let regex = expression.compile()?;
        let named = regex.capture_names().enumerate();
        let named = named.filter_map(|(group, name)| Some((group, own.set_number(name?)?))).collect();
        let locations = RefCell::new(regex.capture_locations());
        Ok(Pattern { regex, named, locations })
    }

    pub(crate) fn is_match(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }

    /// Whether the expression matches; if so, its groups become `$1` and so on, and the named ones variables.
    /// An expression without groups leaves those of the one before.
    pub(crate) fn find(&self, text: &[u8], values: &mut Values) -> bool {
        let mut locations = self.locations.borrow_mut();
        if locations.len() == 1 {
            return self.regex.is_match(text);
        }
        if self.regex.captures_read(&mut locations, text).is_none() {
            return false;
        }
        values.groups.take(text, &locations);
        for (group, variable) in &self.named {
            let (start, end) = locations.get(*group).unwrap_or_default();
            values.set(*variable, &text[start..end]);
        }
        true
    }

    /// Whether the expression matches; if so, `groups` are its.
    pub(crate) fn find_groups(&self, text: &[u8], groups: &mut Groups) -> bool {
        let mut locations = self.locations.borrow_mut();
        let found = self.regex.captures_read(&mut locations, text).is_some();
        if found {
            groups.take(text, &locations);
        }
        found
    }
}

/// `$0` to `$9`.
const GROUPS: usize = 10;

/// What the groups of the last expression matched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    text: Vec<u8>,
    spans: [(u32, u32); GROUPS],
}

impl Groups {
    fn take(&mut self, text: &[u8], locations: &CaptureLocations) {
        self.text.clear();
        self.text.extend_from_slice(text);
        self.spans = std::array::from_fn(|group| {
            let (start, end) = locations.get(group).unwrap_or_default();
            (start as u32, end as u32)
        });
    }

    pub(crate) fn get(&self, number: usize) -> &[u8] {
        let (start, end) = self.spans[number];
        &self.text[start as usize..end as usize]
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.spans = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        let expression = Expression::new(text).expect("an expression");
        Pattern::new(&expression, &OwnVariables::named(&["first", "year"])).expect("it compiles")
    }

    #[test]
    fn groups_are_kept_until_another_expression_has_some() {
        let mut values = Values::default();
        assert!(pattern(r"^/(a+)/(?<year>\d+)?").find(b"/aa/2024/x", &mut values));
        assert_eq!((values.groups.get(1), values.groups.get(2)), (b"aa".as_slice(), b"2024".as_slice()));
        assert_eq!((values.get(1), values.get(0)), (b"2024".as_slice(), b"".as_slice()));
        assert!(!pattern("^/(b)").find(b"/a", &mut values));
        assert!(pattern("^/b").find(b"/b", &mut values));
        assert_eq!(values.groups.get(1), b"aa");
        assert!(pattern("^/(c)(d)?").find(b"/c", &mut values));
        assert_eq!((values.groups.get(1), values.groups.get(2)), (b"c".as_slice(), b"".as_slice()));
        assert_eq!(values.groups.get(9), b"");
    }
}
