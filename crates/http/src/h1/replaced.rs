//! Paths and queries that rules and internal redirects put in the place of those received.

use super::head::Head;
use super::rule::Rule;
use crate::path;

impl Head {
    /// The query in force, without its question mark. `head` are the bytes this was parsed from.
    #[inline]
    pub(crate) fn query<'a>(&'a self, head: &'a [u8]) -> Option<&'a [u8]> {
        if self.target.replaced {
            return Some(self.new_query.as_slice()).filter(|query| !query.is_empty());
        }
        self.target.query.map(|query| query.of(head))
    }

    /// Goes on with another path, which is decoded, and another query. Fails where the path leads above the root;
    /// then nothing is changed.
    pub(crate) fn replace_path(&mut self, path: &[u8], query: Option<&[u8]>) -> Result<(), Rule> {
        let mut normal = Vec::with_capacity(path.len());
        path::normalise_decoded(path, &mut normal).map_err(|(rule, _)| rule)?;
        self.decoded_path = normal;
        self.new_query.clear();
        self.new_query.extend_from_slice(query.unwrap_or_default());
        (self.target.plain, self.target.replaced) = (false, true);
        Ok(())
    }
}
