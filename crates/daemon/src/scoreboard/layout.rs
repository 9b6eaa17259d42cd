//! Where everything stands in the file; see the picture in the parent module.

use drover_event::{Counter, Gauge, Phase, Stats};

/// The name of the file in the runtime directory.
pub(super) const FILE_NAME: &str = "scoreboard";
pub(super) const MAGIC: u64 = u64::from_be_bytes(*b"drover\0s");
/// Raised with every change of layout; readers of another version refuse.
const VERSION: u64 = 4;
/// Words of a cache line.
pub(super) const LINE: usize = 8;

/// Words of the header, in their order.
pub(super) const SHAPE: [u64; LINE] = [
    MAGIC,
    VERSION,
    BLOCKS as u64,
    STATS_WORDS as u64,
    Counter::ALL.len() as u64,
    Gauge::ALL.len() as u64,
    Phase::COUNT as u64,
    MASTER_WORDS as u64,
];

/// The words of [`Upgrade`] and their message: in the same place and with the same meaning in every version,
/// because whoever asks for an upgrade runs the new one and looks at the scoreboard of the old one.
pub(super) const UPGRADE_AT: usize = LINE;
/// Bytes of an upgrade's message that are kept.
pub(super) const UPGRADE_BYTES: usize = 4096;
pub(super) const UPGRADE_MESSAGE_AT: usize = UPGRADE_AT + LINE;
pub(super) const MUTEX_AT: usize = UPGRADE_MESSAGE_AT + UPGRADE_BYTES / 8;
pub(super) const MASTER_AT: usize = MUTEX_AT + LINE;
const LISTENERS_AT: usize = MASTER_AT + MASTER_WORDS;
pub(super) const SOCKETS_AT: usize = LISTENERS_AT + LISTENERS * LISTENER_WORDS;
pub(super) const TOTALS_AT: usize = SOCKETS_AT + SOCKETS;
pub(super) const IDENTITIES_AT: usize = TOTALS_AT + STATS_WORDS;
const BLOCKS_AT: usize = IDENTITIES_AT + BLOCKS * IDENTITY_WORDS;
pub(super) const SERVERS_AT: usize = BLOCKS_AT + BLOCKS * STATS_WORDS;
/// Room for what workers share about servers: 64 MiB, of which nothing takes memory before it is used.
pub(super) const SERVERS_WORDS: usize = 8 << 20;
pub(super) const WORDS: usize = SERVERS_AT + SERVERS_WORDS;

/// Listeners, over all generations.
pub(super) const LISTENERS: usize = Stats::LISTENERS;
/// Words of a listener.
const LISTENER_WORDS: usize = Listener::COUNT + ADDRESS_BYTES / 8;
/// Bytes of an address: a unix socket's path has at most 107 (unix(7)).
pub(super) const ADDRESS_BYTES: usize = 128;
/// Listen sockets at one time.
pub(super) const SOCKETS: usize = 4096;

/// Where `word` of a listener is.
pub(super) const fn listener_at(number: usize, word: Listener) -> usize {
    LISTENERS_AT + number * LISTENER_WORDS + word as usize
}

/// Where the address of a listener is.
pub(super) const fn address_at(number: usize) -> usize {
    LISTENERS_AT + number * LISTENER_WORDS + Listener::COUNT
}

/// Worker processes at one time, over all generations. A thousand workers and those of the generation
/// before, which may still drain.
pub(super) const BLOCKS: usize = 2048;
/// Words of the identity of whoever has a block.
pub(super) const IDENTITY_WORDS: usize = LINE;
/// Words of a block: what a worker counts.
pub(super) const STATS_WORDS: usize = Stats::WORDS.next_multiple_of(LINE);

/// Where the identity of whoever has block `index` is.
pub(super) const fn identity_at(index: usize) -> usize {
    IDENTITIES_AT + index * IDENTITY_WORDS
}

/// Where block `index` is.
pub(super) const fn block_at(index: usize) -> usize {
    BLOCKS_AT + index * STATS_WORDS
}

/// Bytes of the verdict's message that are kept.
pub(super) const MESSAGE_BYTES: usize = 8192;
pub(super) const MASTER_WORDS: usize = Master::COUNT + MESSAGE_BYTES / 8;

/// Words about upgrades: how many were asked for and are over, and the verdict on the last one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Upgrade {
    Begun,
    Ended,
    /// 1 the new master serves, 2 it does not.
    Verdict,
    MessageLength,
}

impl Upgrade {
    /// Its place in the file.
    pub(super) const fn at(self) -> usize {
        UPGRADE_AT + self as usize
    }
}

/// Words of the master's block.
#[derive(Debug, Clone, Copy)]
pub(super) enum Master {
    Pid,
    State,
    Generation,
    StartedMs,
    /// Workers that the generation should have.
    Workers,
    ReloadsBegun,
    ReloadsEnded,
    /// Of the last reload: 0 none yet, 1 accepted, 2 refused.
    Verdict,
    VerdictMs,
    MessageLength,
    /// Odd while the verdict is being written.
    MessageSequence,
    /// Odd while a block is being folded.
    FoldSequence,
    ExitsAsked,
    ExitsClean,
    ExitsFailed,
    ExitsKilled,
    /// 1 while another master takes over: what is counted from here on will be seen there.
    HandingOver,
    /// The room of what the serving generation shares about servers; zero for none.
    ServersAt,
}

impl Master {
    /// Rounded up to a line, with room for what will be added.
    pub(super) const COUNT: usize = 24;

    /// Its place in the file.
    pub(super) const fn at(self) -> usize {
        MASTER_AT + self as usize
    }
}

/// Words of a listener, before its address.
#[derive(Debug, Clone, Copy)]
pub(super) enum Listener {
    /// Length of its address in bytes; zero in a place that is free.
    AddressLength,
    /// Its [`Transport`](super::Transport).
    Transport,
    /// Its accept strategy, counted in the order of their list.
    Strategy,
    /// The backlog that is configured.
    Backlog,
    /// The last generation that has it.
    Generation,
    /// Connections turned away at sockets of it that are closed.
    Overflows,
}

impl Listener {
    const COUNT: usize = 8;
}

/// Words of a worker's identity.
#[derive(Debug, Clone, Copy)]
pub(super) enum Identity {
    /// Zero in a block that is free.
    Pid,
    State,
    Generation,
    Number,
    StartedMs,
    Slots,
}

pub(super) const MESSAGE_AT: usize = MASTER_AT + Master::COUNT;

macro_rules! states {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u64)]
        pub(crate) enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            const ALL: &[$name] = &[$($name::$variant,)+];

            /// The word for it in `drover status`.
            pub(crate) fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            /// What a word in the file means.
            pub(super) fn from_word(word: u64) -> Option<Self> {
                Self::ALL.get(usize::try_from(word).ok()?).copied()
            }
        }
    };
}

states! {
    /// What a worker is about.
    WorkerState {
        /// Its place is kept; there is no process, or not yet.
        Waiting = "waiting",
        /// Not ready yet.
        Starting = "starting",
        /// Accepting and serving.
        Serving = "serving",
        /// Accepts no more and finishes what it has.
        Draining = "draining",
    }
}

states! {
    /// What the master is about.
    MasterState {
        /// The first workers are not ready yet.
        Starting = "starting",
        /// As it should be.
        Serving = "serving",
        /// A new generation is on its way.
        Reloading = "reloading",
        /// The workers were asked to leave and the master stays.
        Parked = "parked",
        /// It will end.
        Stopping = "stopping",
    }
}
