//! What systemd does for a service, done by a test: a socket that hears notifications, and sockets that are
//! passed.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use crate::daemon::Surroundings;
use crate::{Directory, eventually};

/// A place for notifications, as in `NOTIFY_SOCKET`.
#[derive(Debug)]
pub struct NotifySocket {
    socket: UnixDatagram,
    name: OsString,
}

impl NotifySocket {
    /// One with a file in the directory.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    pub fn new(directory: &Directory) -> NotifySocket {
        let path = directory.join("notify.sock");
        let socket = UnixDatagram::bind(&path).expect("the directory is ours");
        NotifySocket::of(socket, path.into())
    }

    /// One without a file: its name begins with `@`.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    pub fn without_file(directory: &Directory) -> NotifySocket {
        let name = directory.join("notify").display().to_string();
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        NotifySocket::of(
            UnixDatagram::bind_addr(&address).expect("the name is ours"),
            format!("@{name}").into(),
        )
    }

    fn of(socket: UnixDatagram, name: OsString) -> NotifySocket {
        socket.set_read_timeout(Some(Duration::from_millis(5))).expect("an option");
        NotifySocket { socket, name }
    }

    /// What a service that notifies is started with.
    pub fn surroundings(&self) -> Surroundings {
        let environment = vec![("NOTIFY_SOCKET".into(), self.name.clone())];
        Surroundings { environment, ..Surroundings::default() }
    }

    /// The next notification, if one has arrived.
    pub fn next(&self) -> Option<Notification> {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).ok()?;
        Some(Notification(String::from_utf8_lossy(&buffer[..length]).into_owned()))
    }

    /// Waits for a notification that says this; those before it are skipped.
    #[track_caller]
    pub fn wait_for(&self, assignment: &str) -> Notification {
        eventually(&format!("a notification with {assignment}"), || {
            self.next().filter(|notification| notification.says(assignment))
        })
    }
}

/// One datagram: `NAME=VALUE` lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification(pub String);

impl Notification {
    /// Whether it has this line.
    pub fn says(&self, assignment: &str) -> bool {
        self.0.lines().any(|line| line == assignment)
    }

    /// The value of a variable.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    }
}

/// What a service is started with that is passed these sockets, by these names; at most two.
pub fn passing(sockets: impl IntoIterator<Item = OwnedFd>, names: &[&str]) -> Surroundings {
    let passed: Vec<Arc<OwnedFd>> = sockets.into_iter().map(Arc::new).collect();
    let count = passed.len();
    // The first two become the standard streams of the shell, which moves them to where they are expected.
    let moves = ["exec 3<&0", "exec 3<&0 4<&1"][count - 1];
    let script = format!("{moves} </dev/null >/dev/null; export LISTEN_PID=$$; exec \"$@\"");
    let variables = [("LISTEN_FDS", count.to_string()), ("LISTEN_FDNAMES", names.join(":"))];
    Surroundings {
        wrapper: ["sh", "-c", &script, "sh"].map(Into::into).to_vec(),
        environment: variables.map(|(name, value)| (name.into(), value.into())).to_vec(),
        passed,
        ..Surroundings::default()
    }
}
