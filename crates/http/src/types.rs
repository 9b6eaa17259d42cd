//! Media types by the extension of a file's name.

use std::collections::BTreeMap;

/// The types of one config: its own, then the usual ones, then the default.
#[derive(Debug)]
pub(crate) struct Types {
    own: BTreeMap<String, String>,
    default: String,
}

impl Types {
    /// `own` maps extensions without their dot, in lower case.
    pub(crate) fn new(own: &BTreeMap<String, String>, default: &str) -> Types {
        let lower = |(extension, kind): (&String, &String)| {
            (extension.trim_start_matches('.').to_ascii_lowercase(), kind.clone())
        };
        Types { own: own.iter().map(lower).collect(), default: default.to_owned() }
    }

    /// The type of the file at `path`.
    pub(crate) fn of(&self, path: &[u8]) -> &str {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let extension = match memchr::memrchr(b'.', name) {
            // ".profile" is a name, not an extension.
            Some(at) if at > 0 => std::str::from_utf8(&name[at + 1..]).unwrap_or_default(),
            _ => return &self.default,
        };
        match self.own.get(&extension.to_ascii_lowercase()) {
            Some(own) => own,
            None => mime_guess::from_ext(extension).first_raw().unwrap_or(&self.default),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_types_come_before_the_usual_ones() {
        let own = BTreeMap::from([(".Md".to_owned(), "text/x-own".to_owned())]);
        let types = Types::new(&own, "application/octet-stream");
        for (path, want) in [
            ("/index.html", "text/html"),
            ("/A.PNG", "image/png"),
            ("/a.md", "text/x-own"),
            ("/a.b/c", "application/octet-stream"),
            ("/.html", "application/octet-stream"),
            ("/x.unheardof", "application/octet-stream"),
            ("/x.", "application/octet-stream"),
        ] {
            assert_eq!(types.of(path.as_bytes()), want, "{path}");
        }
    }
}
