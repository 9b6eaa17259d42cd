//! Where the relative paths of an nginx.conf start.

use std::path::{Path, PathBuf};

/// Said of paths that stay relative.
pub(crate) const RELATIVE: &str =
    "a relative path starts at the directory of drover's file; -p makes it absolute";

/// Where relative paths start; unknown, they stay as they are.
#[derive(Clone, Default, Debug)]
pub struct Directories {
    /// nginx's prefix.
    prefix: Option<PathBuf>,
}

impl Directories {
    /// Those of an nginx with this prefix.
    pub fn of(prefix: Option<&Path>) -> Directories {
        Directories { prefix: prefix.map(Path::to_path_buf) }
    }

    /// A path that starts at the prefix, and what is to be said about it.
    pub(crate) fn at_prefix(&self, path: &str) -> (String, Option<String>) {
        absolute(self.prefix.as_deref(), path)
    }
}

fn absolute(directory: Option<&Path>, path: &str) -> (String, Option<String>) {
    match directory {
        _ if path.starts_with('/') => (path.to_owned(), None),
        Some(directory) => (directory.join(path).to_string_lossy().into_owned(), None),
        None => (path.to_owned(), Some(RELATIVE.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_start_at_the_prefix_if_there_is_one() {
        let known = Directories::of(Some(Path::new("/srv/nginx")));
        assert_eq!(known.at_prefix("html"), ("/srv/nginx/html".to_owned(), None));
        assert_eq!(known.at_prefix("/html"), ("/html".to_owned(), None));
        let (path, remark) = Directories::of(None).at_prefix("html");
        assert_eq!(path, "html");
        assert!(remark.is_some());
    }
}
