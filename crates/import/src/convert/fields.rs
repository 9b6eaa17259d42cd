//! What responses get and lose: three directives of nginx's that are inherited apart, and one key of drover's.

use crate::document::{inline_table, list, string};

/// A field that responses get.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) value: String,
    /// On responses with any status.
    pub(crate) always: bool,
}

/// The statuses of responses that `add_header` and `expires` change unless it says `always`.
const USUAL_STATUSES: &str = "[200, 201, 204, 206, 301, 302, 303, 304, 307, 308]";

/// What a block says, and what it has from outside where it says nothing.
#[derive(Clone, Default, Debug)]
pub(super) struct Fields {
    added: List<Field>,
    /// Names.
    hidden: List<String>,
    /// The field Cache-Control, or none.
    times: List<Option<String>>,
    /// What responses get instead of `added` where a condition holds.
    instead: Option<Instead>,
}

/// Fields that stand in place of others.
#[derive(Clone, Debug)]
struct Instead {
    /// The condition and its opposite, as TOML.
    when: String,
    when_not: String,
    added: Vec<Field>,
}

#[derive(Clone, Debug)]
struct List<T> {
    own: Vec<T>,
    outer: Vec<T>,
}

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List { own: Vec::new(), outer: Vec::new() }
    }
}

impl<T: Clone> List<T> {
    fn in_force(&self) -> &[T] {
        if self.own.is_empty() { &self.outer } else { &self.own }
    }

    fn inside(&self) -> List<T> {
        List { own: Vec::new(), outer: self.in_force().to_vec() }
    }
}

impl Fields {
    /// What a block inside of this one begins with.
    pub(super) fn inside(&self) -> Fields {
        Fields {
            added: self.added.inside(),
            hidden: self.hidden.inside(),
            times: self.times.inside(),
            instead: None,
        }
    }

    pub(super) fn add(&mut self, field: Field) {
        self.added.own.push(field);
    }

    pub(super) fn hide(&mut self, name: &str) {
        self.hidden.own.push(name.to_owned());
    }

    pub(super) fn set_times(&mut self, times: Option<String>) {
        self.times.own = vec![times];
    }

    /// The changes, as TOML.
    pub(super) fn changes(&self) -> Vec<String> {
        let mut changes = Vec::new();
        let hidden: Vec<String> = self.hidden.in_force().iter().map(|name| string(name)).collect();
        if !hidden.is_empty() {
            changes.push(inline_table(&[("remove", list(&hidden))]));
        }
        if let Some(Some(value)) = self.times.in_force().last() {
            // One that is fixed takes the place of what a server says.
            let how = if value.starts_with('$') { "add" } else { "set" };
            let field = inline_table(&[("Cache-Control", string(value))]);
            changes.push(inline_table(&[(how, field), ("statuses", USUAL_STATUSES.to_owned())]));
        }
        let (when, when_not) = match &self.instead {
            Some(instead) => (Some(instead.when.as_str()), Some(instead.when_not.as_str())),
            None => (None, None),
        };
        for always in [true, false] {
            changes.extend(additions(self.added.in_force(), always, when_not));
        }
        let instead = self.instead.as_ref().map_or(&[][..], |instead| &instead.added);
        for always in [true, false] {
            changes.extend(additions(instead, always, when));
        }
        changes
    }

    /// Has other fields added where a condition holds. Fails where there is such a condition already.
    pub(super) fn add_when(
        &mut self,
        when: String,
        when_not: String,
        added: Vec<Field>,
    ) -> Result<(), String> {
        if self.instead.is_some() {
            return Err("drover's fields look at one such condition".to_owned());
        }
        self.instead = Some(Instead { when, when_not, added });
        Ok(())
    }
}

/// Changes that add fields: a name stands once in each.
fn additions(added: &[Field], always: bool, when: Option<&str>) -> Vec<String> {
    let mut changes: Vec<Vec<&Field>> = Vec::new();
    for field in added.iter().filter(|field| field.always == always && !field.value.is_empty()) {
        let has_it = |change: &Vec<&Field>| change.iter().any(|known| known.name == field.name);
        match changes.last_mut().filter(|change| !has_it(change)) {
            Some(change) => change.push(field),
            None => changes.push(vec![field]),
        }
    }
    let written = |change: &Vec<&Field>| {
        let fields: Vec<_> = change.iter().map(|field| (field.name.as_str(), string(&field.value))).collect();
        let mut parts = Vec::new();
        parts.extend(when.map(|when| ("when", when.to_owned())));
        parts.push(("add", inline_table(&fields)));
        if !always {
            parts.push(("statuses", USUAL_STATUSES.to_owned()));
        }
        inline_table(&parts)
    };
    changes.iter().map(written).collect()
}
