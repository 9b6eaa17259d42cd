//! What is worth encoding: the types, the length and the codings that the config says.

use std::rc::Rc;

use drover_config::Located;

use super::{Coding, Levels};
use crate::config;

/// What a location does about encoding responses that are not encoded yet.
#[derive(Clone, Debug)]
pub(crate) struct Compression {
    /// In the order of preference; none where nothing is encoded.
    pub(crate) codings: Rc<[Coding]>,
    settings: Rc<Settings>,
}

#[derive(Debug)]
struct Settings {
    /// Whole types in lower case, without parameters.
    exact: Vec<Box<str>>,
    /// What types begin with: `text/` for `text/*`.
    beginnings: Vec<Box<str>>,
    min_length: u64,
    levels: Levels,
}

impl Compression {
    /// What `[http.compression]` says.
    pub(crate) fn new(config: &config::Compression) -> Compression {
        let mut settings = Settings {
            exact: Vec::new(),
            beginnings: Vec::new(),
            min_length: config.min_length.bytes(),
            levels: levels(config),
        };
        for kind in &config.types {
            let kind = kind.to_ascii_lowercase();
            match kind.strip_suffix('*') {
                Some(beginning) => settings.beginnings.push(beginning.into()),
                None => settings.exact.push(kind.into()),
            }
        }
        Compression { codings: Rc::new([]), settings: Rc::new(settings) }.with(&config.encodings)
    }

    /// The same with other codings.
    pub(crate) fn with(&self, codings: &[Located<Coding>]) -> Compression {
        Compression { codings: each_once(codings).into(), settings: Rc::clone(&self.settings) }
    }

    pub(crate) fn levels(&self) -> &Levels {
        &self.settings.levels
    }

    /// Whether a body of this type and length, as far as it is known, is worth encoding.
    pub(crate) fn suits(&self, content_type: &str, length: Option<u64>) -> bool {
        if self.codings.is_empty() || length.is_some_and(|length| length < self.settings.min_length) {
            return false;
        }
        let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        self.settings.exact.iter().any(|exact| **exact == *kind)
            || self.settings.beginnings.iter().any(|beginning| kind.starts_with(&**beginning))
    }
}

/// Codings in their order, each once.
pub(crate) fn each_once(codings: &[Located<Coding>]) -> Vec<Coding> {
    let mut each = Vec::with_capacity(codings.len());
    for coding in codings {
        if !each.contains(&**coding) {
            each.push(**coding);
        }
    }
    each
}

/// The levels that `[http.compression]` says.
pub(crate) fn levels(config: &config::Compression) -> Levels {
    Levels { gzip: config.gzip_level, brotli: config.br_level, zstd: config.zstd_level }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_lengths_that_suit() {
        let types = ["text/*", "application/JSON"].map(|kind| kind.to_owned().into()).to_vec();
        let config =
            config::Compression { encodings: vec![Coding::Gzip.into()], types, ..Default::default() };
        let compression = Compression::new(&config);
        let least = config.min_length.bytes();
        for (kind, length, want) in [
            ("text/html", Some(least), true),
            ("text/html", Some(least - 1), false),
            ("text/html", None, true),
            ("Text/HTML; charset=utf-8", None, true),
            ("application/json", None, true),
            ("application/json; q=1", None, true),
            ("application/json5", None, false),
            ("image/png", None, false),
            ("", None, false),
        ] {
            assert_eq!(compression.suits(kind, length), want, "{kind} {length:?}");
        }
        assert!(!compression.with(&[]).suits("text/html", None));
    }
}
