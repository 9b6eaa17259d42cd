//! Where the relative paths of an nginx.conf start.

use std::path::{Path, PathBuf};

/// Said of paths that stay relative.
pub(crate) const RELATIVE: &str =
    "a relative path starts at the directory of drover's file; -p makes it absolute";

/// Where relative paths start; unknown, they stay as they are.
#[derive(Clone, Default, Debug)]
pub struct Directories {
    /// nginx's prefix: most paths start there.
    prefix: Option<PathBuf>,
    /// That of the nginx.conf: what is included and files of passwords start there.
    own: Option<PathBuf>,
}

impl Directories {
    /// Those of a file that nginx would be given with this prefix.
    pub fn of(file: &Path, prefix: Option<&Path>) -> Directories {
        let own = std::path::absolute(file).ok().and_then(|file| file.parent().map(Path::to_path_buf));
        Directories { prefix: prefix.map(Path::to_path_buf), own }
    }

    /// A path that starts at the prefix, and what is to be said about it.
    pub(crate) fn at_prefix(&self, path: &str) -> (String, Option<String>) {
        absolute(self.prefix.as_deref(), path)
    }

    /// A path that starts where the nginx.conf is, and what is to be said about it.
    pub(crate) fn at_own(&self, path: &str) -> (String, Option<String>) {
        absolute(self.own.as_deref(), path)
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
        let file = Path::new("/srv/nginx/conf/nginx.conf");
        let known = Directories::of(file, Some(Path::new("/srv/nginx")));
        assert_eq!(known.at_prefix("html"), ("/srv/nginx/html".to_owned(), None));
        assert_eq!(known.at_prefix("/html"), ("/html".to_owned(), None));
        assert_eq!(known.at_own("users"), ("/srv/nginx/conf/users".to_owned(), None));
        let (path, remark) = Directories::of(file, None).at_prefix("html");
        assert_eq!(path, "html");
        assert!(remark.is_some());
    }
}
