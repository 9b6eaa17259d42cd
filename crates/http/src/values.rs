//! What a request gathers for variables beyond its bytes.

use std::cell::Cell;

use crate::pattern::Groups;

/// The values of one request; kept for the next one, so that most requests allocate nothing.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// Those of `set` and of named groups, by number.
    set: Vec<Vec<u8>>,
    pub(crate) groups: Groups,
    /// Made when it is first asked for.
    request_id: Cell<Option<u128>>,
    /// Who the client showed to be.
    pub(crate) user: Vec<u8>,
    /// Something is here.
    used: Cell<bool>,
}

impl Values {
    /// Whether anything is here.
    #[inline]
    pub(crate) fn are_used(&self) -> bool {
        self.used.get()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.set.iter_mut().for_each(Vec::clear);
        self.groups.clear();
        self.request_id.set(None);
        self.user.clear();
        self.used.set(false);
    }

    /// From here on there are values, which the next request must not see.
    pub(crate) fn use_them(&mut self) -> &mut Values {
        self.used.set(true);
        self
    }

    /// Gives a variable its value.
    pub(crate) fn set(&mut self, number: u32, value: &[u8]) {
        let number = number as usize;
        if self.set.len() <= number {
            self.set.resize_with(number + 1, Vec::new);
        }
        self.set[number].clear();
        self.set[number].extend_from_slice(value);
    }

    /// The value of a variable; empty until it is set.
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        self.set.get(number as usize).map_or(b"", Vec::as_slice)
    }

    /// The request's own number, drawn by `draw` when it is first asked for.
    pub(crate) fn request_id(&self, draw: impl FnOnce() -> u128) -> u128 {
        self.request_id.get().unwrap_or_else(|| {
            let id = draw();
            self.request_id.set(Some(id));
            self.used.set(true);
            id
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_for_the_next_request() {
        let mut values = Values::default();
        values.use_them().set(3, b"three");
        values.user.extend_from_slice(b"u");
        assert_eq!(
            (values.get(3), values.get(0), values.get(9)),
            (b"three".as_slice(), b"".as_slice(), b"".as_slice())
        );
        assert!(values.are_used());
        values.clear();
        assert_eq!((values.get(3), values.user.as_slice()), (b"".as_slice(), b"".as_slice()));
        assert_eq!(values.request_id(|| 7), 7);
        assert_eq!(values.request_id(|| 8), 7);
        assert!(values.are_used());
        values.clear();
        assert_eq!(values.request_id(|| 9), 9);
    }
}
