//! A file that goes away with the process that made it, and the names it has while two masters run.
//!
//! In an upgrade the file of the new master is `NAME.new` until it serves. Then the file of the old one
//! becomes `NAME.oldbin` and the new one's takes the name: first a second link is made, then the name is
//! moved over, so that at no time there is no file under the name, or one of a master that does not serve.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

/// A path whose file is removed when the process that made it lets go. Children inherit the value, and
/// dropping it there leaves the file alone.
#[derive(Debug)]
pub(crate) struct OwnedPath {
    name: PathBuf,
    /// Where the file is: at the name, or beside it.
    path: PathBuf,
    pub(crate) owner: Pid,
    /// Somebody else sees to it that the file goes away.
    left: Cell<bool>,
}

impl OwnedPath {
    /// The file that this process just made at `path`.
    pub(crate) fn new(path: &Path) -> Self {
        Self { name: path.to_owned(), path: path.to_owned(), owner: Pid::this(), left: Cell::new(false) }
    }

    /// The file that this process just made at [`fresh`], which has not got its name yet.
    pub(crate) fn named_later(name: &Path) -> Self {
        Self { name: name.to_owned(), path: fresh(name), owner: Pid::this(), left: Cell::new(false) }
    }

    /// The name that the file has when there is one master.
    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the file alone, or sees to it again.
    pub(crate) fn leave(&self, left: bool) {
        self.left.set(left);
    }

    /// Whether somebody else sees to the file.
    pub(crate) fn is_left(&self) -> bool {
        self.left.get()
    }

    /// From now on this is `NAME.oldbin`; until somebody else takes the name, it leads here too. A file that was
    /// removed is in nobody's way.
    ///
    /// # Errors
    /// What the system reports; then the file is where it was.
    pub(crate) fn step_aside(&mut self) -> io::Result<()> {
        let aside = aside(&self.name);
        remove_if_there(&aside)?;
        // Some file systems know no second link.
        let moved = fs::hard_link(&self.path, &aside).or_else(|_| fs::rename(&self.path, &aside));
        unless_missing(moved)?;
        self.path = aside;
        Ok(())
    }

    /// Takes the name, whoever has it now. A file that was removed takes none.
    ///
    /// # Errors
    /// What the system reports; then the file is where it was.
    pub(crate) fn take_name(&mut self) -> io::Result<()> {
        if self.path == self.name {
            return Ok(());
        }
        unless_missing(fs::rename(&self.path, &self.name))?;
        // Between two names of one file `rename(2)` does nothing.
        remove_if_there(&self.path)?;
        self.path.clone_from(&self.name);
        Ok(())
    }

    /// Lets go of the name, where it still leads here after the file stepped aside.
    pub(crate) fn give_up_name(&self) {
        let inode = |path: &Path| fs::symlink_metadata(path).map(|found| (found.dev(), found.ino())).ok();
        if self.path != self.name && inode(&self.name).is_some_and(|named| inode(&self.path) == Some(named)) {
            let _ = fs::remove_file(&self.name);
        }
    }
}

impl Drop for OwnedPath {
    fn drop(&mut self) {
        if Pid::this() == self.owner && !self.left.get() {
            self.give_up_name();
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Where the file of a new master is before it serves.
pub(crate) fn fresh(name: &Path) -> PathBuf {
    with_suffix(name, ".new")
}

/// Where the file of an old master is while a new one serves.
pub(crate) fn aside(name: &Path) -> PathBuf {
    with_suffix(name, ".oldbin")
}

fn with_suffix(name: &Path, suffix: &str) -> PathBuf {
    let mut path = OsString::from(name);
    path.push(suffix);
    path.into()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    unless_missing(fs::remove_file(path))
}

fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("drover-owned-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).expect("directory");
            Self(path)
        }

        fn name(&self) -> PathBuf {
            self.0.join("file")
        }

        /// What is there, sorted: names and contents.
        fn files(&self) -> Vec<String> {
            let mut files: Vec<String> = fs::read_dir(&self.0)
                .expect("directory")
                .map(|entry| {
                    let entry = entry.expect("entry");
                    let text = fs::read_to_string(entry.path()).expect("text");
                    format!("{}={text}", entry.file_name().display())
                })
                .collect();
            files.sort();
            files
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("removed");
        }
    }

    fn old_and_new(place: &Place) -> (OwnedPath, OwnedPath) {
        fs::write(place.name(), "old").expect("file");
        fs::write(fresh(&place.name()), "new").expect("file");
        (OwnedPath::new(&place.name()), OwnedPath::named_later(&place.name()))
    }

    #[test]
    fn the_name_changes_hands_and_comes_back() {
        let place = Place::new("back");
        fs::write(aside(&place.name()), "of a daemon that was killed").expect("file");
        let (mut old, mut new) = old_and_new(&place);
        old.step_aside().expect("aside");
        assert_eq!(place.files(), ["file.new=new", "file.oldbin=old", "file=old"]);
        new.take_name().expect("taken");
        old.give_up_name();
        assert_eq!(place.files(), ["file.oldbin=old", "file=new"]);
        new.leave(true);
        drop(new);
        old.take_name().expect("back");
        assert_eq!(place.files(), ["file=old"]);
        drop(old);
        assert_eq!(place.files(), [""; 0]);
    }

    #[test]
    fn a_name_that_nobody_took_is_given_up_or_kept() {
        let place = Place::new("kept");
        let (mut old, new) = old_and_new(&place);
        old.step_aside().expect("aside");
        drop(new);
        old.take_name().expect("back");
        assert_eq!(place.files(), ["file=old"]);
        old.take_name().expect("it has it");
        assert_eq!(place.files(), ["file=old"]);
        old.step_aside().expect("aside");
        old.give_up_name();
        assert_eq!(place.files(), ["file.oldbin=old"]);
    }

    #[test]
    fn a_file_that_somebody_removed_is_no_obstacle() {
        let place = Place::new("removed");
        let (mut old, mut new) = old_and_new(&place);
        fs::remove_file(place.name()).expect("file");
        old.step_aside().expect("nothing to do");
        new.take_name().expect("taken");
        assert_eq!(place.files(), ["file=new"]);
        old.take_name().expect("nothing to give back");
        assert_eq!(place.files(), ["file=new"]);
        new.leave(true);
    }

    #[test]
    fn the_old_one_leaves_nothing_behind() {
        let place = Place::new("gone");
        let (mut old, mut new) = old_and_new(&place);
        old.step_aside().expect("aside");
        new.take_name().expect("taken");
        drop(old);
        assert_eq!(place.files(), ["file=new"]);
    }
}
