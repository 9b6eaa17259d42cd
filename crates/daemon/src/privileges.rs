//! Whom workers run as, and giving up everything else.
//!
//! Names are looked up once, by the master, when a configuration is checked: a worker that starts during
//! an outage of the name service must not fail. Dropping is for good: groups first, then group, then
//! user, all three ids of each, and the worker checks that there is no way back.

use std::ffi::CString;
use std::io;

use drover_sys::capability;
use nix::errno::Errno;
use nix::sys::prctl;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist, setgroups, setresgid, setresuid};
use thiserror::Error;

/// The ids that workers take on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// User.
    pub(crate) uid: Uid,
    /// Primary group.
    pub(crate) gid: Gid,
    groups: Vec<Gid>,
}

/// Why workers cannot run as asked.
#[derive(Debug, Error)]
pub(crate) enum PrivilegeError {
    /// No such user.
    #[error("there is no user \"{0}\": create it, or set [process] user to one that exists")]
    NoUser(String),
    /// No such group.
    #[error("there is no group \"{0}\": create it, or set [process] group to one that exists")]
    NoGroup(String),
    /// The user database failed.
    #[error("cannot look up \"{name}\": {source}")]
    Lookup {
        /// Who was looked up.
        name: String,
        /// What the system said.
        source: Errno,
    },
    /// A call that should take privileges away failed.
    #[error("cannot drop privileges ({step}): {source}")]
    Drop {
        /// Which call.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The user can be changed back.
    #[error("privileges were dropped but could be regained")]
    Regained,
}

impl Identity {
    /// Looks up `user`, its groups and, where another primary group is wanted, `group`.
    ///
    /// # Errors
    /// When one of them does not exist or cannot be looked up.
    pub(crate) fn resolve(user: &str, group: Option<&str>) -> Result<Self, PrivilegeError> {
        let lookup = |source| PrivilegeError::Lookup { name: user.to_owned(), source };
        let entry = User::from_name(user).map_err(lookup)?;
        let entry = entry.ok_or_else(|| PrivilegeError::NoUser(user.to_owned()))?;
        let gid = match group {
            None => entry.gid,
            Some(name) => {
                Group::from_name(name)
                    .map_err(|source| PrivilegeError::Lookup { name: name.to_owned(), source })?
                    .ok_or_else(|| PrivilegeError::NoGroup(name.to_owned()))?
                    .gid
            }
        };
        let name = CString::new(user).map_err(|_| PrivilegeError::NoUser(user.to_owned()))?;
        let groups = getgrouplist(&name, gid).map_err(lookup)?;
        Ok(Self { uid: entry.uid, gid, groups })
    }

    /// Becomes this identity for good.
    ///
    /// # Errors
    /// When a step fails, or the way back is open; the process must not go on then.
    fn assume(&self) -> Result<(), PrivilegeError> {
        let failed = |step| move |errno: Errno| PrivilegeError::Drop { step, source: errno.into() };
        setgroups(&self.groups).map_err(failed("setgroups"))?;
        setresgid(self.gid, self.gid, self.gid).map_err(failed("setresgid"))?;
        setresuid(self.uid, self.uid, self.uid).map_err(failed("setresuid"))?;
        prctl::set_no_new_privs().map_err(failed("no_new_privs"))?;
        if !self.uid.is_root() && setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)).is_ok() {
            return Err(PrivilegeError::Regained);
        }
        // Changing the user makes the kernel forbid core dumps and hide /proc/PID from its own user.
        prctl::set_dumpable(true).map_err(failed("dumpable"))
    }
}

/// Leaves a worker what it needs: it becomes `identity` if there is one.
///
/// # Errors
/// When a step fails, or the way back is open; the process must not go on then.
pub(crate) fn give_up(identity: Option<&Identity>) -> Result<(), PrivilegeError> {
    match identity {
        Some(identity) => identity.assume(),
        None if is_root() => Ok(()),
        // A master that is not root may have been given some, to listen on low ports.
        None => {
            capability::drop_all().map_err(|source| PrivilegeError::Drop { step: "capabilities", source })
        }
    }
}

/// Whether this process may change its user at all.
pub(crate) fn is_root() -> bool {
    Uid::effective().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_exists_has_its_groups() {
        let Ok(Some(user)) = User::from_uid(Uid::current()) else { return };
        let identity = Identity::resolve(&user.name, None).expect("it exists");
        assert_eq!((identity.uid, identity.gid), (user.uid, user.gid));
        assert!(identity.groups.contains(&user.gid));
    }

    #[test]
    fn who_is_missing_is_named() {
        let error = Identity::resolve("no-such-user-of-drover", None).expect_err("missing");
        assert!(error.to_string().contains("no-such-user-of-drover"), "{error}");
        let error = Identity::resolve("root", Some("no-such-group")).expect_err("missing");
        assert!(error.to_string().contains("no-such-group"), "{error}");
    }
}
