//! An index with two bits beside it, in 32 bits.
//!
//! Events are many and small: what links them keeps its colour or the name of its queue in the bits
//! that no index needs.

/// "No index".
pub(crate) const NIL: u32 = (1 << 30) - 1;

/// An index below [`NIL`], or `NIL`, and a tag from 0 to 3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tagged(u32);

impl Tagged {
    /// `index` with `tag`.
    pub(crate) const fn new(index: u32, tag: u8) -> Self {
        debug_assert!(index <= NIL && tag < 4);
        Self(index | (tag as u32) << 30)
    }

    /// The index.
    pub(crate) const fn index(self) -> u32 {
        self.0 & NIL
    }

    /// The tag.
    pub(crate) const fn tag(self) -> u8 {
        (self.0 >> 30) as u8
    }

    /// Changes the index and keeps the tag.
    pub(crate) fn set_index(&mut self, index: u32) {
        *self = Self::new(index, self.tag());
    }

    /// Changes the tag and keeps the index.
    pub(crate) fn set_tag(&mut self, tag: u8) {
        *self = Self::new(self.index(), tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_and_tag_do_not_touch() {
        let mut tagged = Tagged::new(NIL, 0);
        for tag in [3, 0, 1, 2] {
            tagged.set_tag(tag);
            assert_eq!((tagged.index(), tagged.tag()), (NIL, tag));
        }
        tagged.set_index(7);
        assert_eq!((tagged.index(), tagged.tag()), (7, 2));
    }
}
