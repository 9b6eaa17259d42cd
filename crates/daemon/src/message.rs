//! What master and worker say to each other over the channel: one word each.

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// As it goes over the channel.
            pub(crate) fn to_word(self) -> u64 {
                match self { $($name::$variant => $word,)+ }
            }

            /// What a word means; `None` for a word of another version of drover.
            pub(crate) fn from_word(word: u64) -> Option<Self> {
                match word { $($word => Some($name::$variant),)+ _ => None }
            }
        }
    };
}

words! {
    /// From the master to a worker.
    Command {
        /// Accept no more, finish what there is, end.
        Drain = 1,
        /// End at once.
        Stop = 2,
        /// Open the log files anew.
        Reopen = 3,
        /// Accept what is queued on the surplus sockets, then close them.
        ReleaseSurplus = 4,
    }
}

words! {
    /// From a worker to the master.
    Report {
        /// It accepts connections from now on.
        Ready = 1,
        /// The surplus sockets are drained and closed.
        SurplusReleased = 2,
        /// Whatever was queued on its listen sockets is accepted, and they are closed.
        QueuesEmptied = 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_went() {
        for command in [Command::Drain, Command::Stop, Command::Reopen, Command::ReleaseSurplus] {
            assert_eq!(Command::from_word(command.to_word()), Some(command));
        }
        for report in [Report::Ready, Report::SurplusReleased, Report::QueuesEmptied] {
            assert_eq!(Report::from_word(report.to_word()), Some(report));
        }
        assert_eq!((Command::from_word(0), Report::from_word(99)), (None, None));
    }
}
