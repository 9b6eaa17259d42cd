//! Why a connection or session ended: one reason each, from one list.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $status:literal;)+) => {
        /// Why a connection or session ended.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum CloseReason { $($(#[doc = $doc])+ $variant,)+ }

        impl CloseReason {
            /// All of them.
            pub const ALL: &'static [CloseReason] = &[$(CloseReason::$variant,)+];

            /// The name in access logs: `$close_reason`.
            pub const fn name(self) -> &'static str {
                match self { $(CloseReason::$variant => $name,)+ }
            }

            /// The same as a number of three digits, as nginx has it: `$status`.
            pub const fn status(self) -> u16 {
                match self { $(CloseReason::$variant => $status,)+ }
            }

            /// What it means, in one line.
            pub const fn describe(self) -> &'static str {
                match self { $(CloseReason::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

reasons! {
    /// Both sides ended their streams, or a session had all its `responses`.
    Finished = "finished", 200;
    /// Nothing passed for `idle_timeout`, or for `half_closed_timeout` once one side had ended.
    IdleTimeout = "idle_timeout", 200;
    /// The client reset the connection, or the network to it failed.
    ClientFailed = "client_failed", 200;
    /// The server reset the connection, or the network to it failed.
    ServerFailed = "server_failed", 200;
    /// The client went away before it had been passed on.
    ClientGone = "client_gone", 400;
    /// The client did not tell within `preread_timeout` where it wants to be passed on to.
    PrereadTimeout = "preread_timeout", 400;
    /// The client's first TLS message breaks the standard.
    BadClientHello = "bad_client_hello", 400;
    /// The client asked for a name that nothing stands for.
    UnknownName = "unknown_name", 403;
    /// The last server tried refused the connection, or the way to it was barred.
    ConnectRefused = "connect_refused", 502;
    /// The last server tried did not answer within `connect_timeout`.
    ConnectTimeout = "connect_timeout", 502;
    /// No server is up, or none has an address.
    NoServer = "no_server", 502;
    /// All servers have as many connections as they may.
    ServersFull = "servers_full", 503;
    /// This worker had no slot or descriptor for the connection to a server.
    NoSlot = "no_slot", 500;
    /// The slot was needed while nothing passed.
    Reclaimed = "reclaimed", 500;
    /// The worker ended: `shutdown_timeout` had passed, or it was told to stop at once.
    Shutdown = "shutdown", 500;
    /// A fault in drover.
    InternalError = "internal_error", 500;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_words_of_their_own() {
        let names: HashSet<&str> = CloseReason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), CloseReason::ALL.len());
        for reason in CloseReason::ALL {
            assert!(reason.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
            assert!(reason.describe().trim().ends_with('.'), "{}", reason.describe());
            assert!((200..600).contains(&reason.status()));
        }
    }
}
