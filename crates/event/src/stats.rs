//! What a worker counts, in words that other processes may read.
//!
//! Each worker has a block of [`Stats::WORDS`] words in shared memory, written by it alone with
//! plain stores, and read by anybody at any time. Counters only grow; gauges say what is so now.

use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use drover_sys::memory::{SharedWords, WordBlock};
use drover_sys::named_words;

use crate::close::CloseReason;
use crate::connection::Phase;
use crate::lag::{self, CUMULATIVE_LAG_WORDS, LAG_WORDS};

named_words! {
    /// What is counted since the worker started.
    Counter {
        /// Turns of the loop.
        Turns = "turns",
        /// Connections accepted.
        Accepts = "accepts",
        /// Connections that went away before they could be accepted.
        AcceptAborted = "accept_aborted",
        /// Accepts that failed because the process or the system had no descriptor left.
        AcceptNoDescriptors = "accept_no_descriptors",
        /// Accepts that failed because the kernel had no memory.
        AcceptNoMemory = "accept_no_memory",
        /// Accepts that failed for another reason.
        AcceptErrors = "accept_errors",
        /// Accepts that found nothing, because another worker was faster.
        AcceptEmpty = "accept_empty",
        /// Connections closed without service because no slot was free.
        Dropped = "dropped",
        /// Idle connections closed to make room for others.
        Reclaimed = "reclaimed",
        /// Reports of the kernel for a previous holder of a slot.
        StaleEvents = "stale_events",
        /// Events put on a posted queue.
        Posted = "posted",
        /// Timers set or moved.
        TimersSet = "timers_set",
        /// Timers that expired.
        TimersExpired = "timers_expired",
        /// Turns that won the accept mutex.
        MutexWon = "mutex_won",
        /// Turns that tried for the accept mutex and lost.
        MutexLost = "mutex_lost",
        /// Times this worker left new connections to less loaded workers.
        GateClosed = "gate_closed",
        /// Times a listener was removed and added again to give other workers a chance.
        ReAdds = "re_adds",
        /// Tasks that panicked, each of which cost its connection.
        TaskPanics = "task_panics",
        /// Requests answered.
        Requests = "requests",
        /// Bytes received from peers.
        BytesReceived = "bytes_received",
        /// Bytes sent to peers.
        BytesSent = "bytes_sent",
        /// Connections that servers, or the way to them, refused.
        UpstreamRefused = "upstream_refused",
        /// Connections with servers that did not come about in time.
        UpstreamConnectTimeouts = "upstream_connect_timeouts",
        /// Servers that took nothing of a request in time.
        UpstreamSendTimeouts = "upstream_send_timeouts",
        /// Servers that sent nothing of a response in time.
        UpstreamReceiveTimeouts = "upstream_receive_timeouts",
        /// Servers that closed a connection before a response was whole.
        UpstreamClosed = "upstream_closed",
        /// Connections with servers that were reset, or broke otherwise.
        UpstreamReset = "upstream_reset",
        /// Responses of servers that broke the protocol.
        UpstreamInvalid = "upstream_invalid",
        /// Responses of servers for which another server was asked.
        UpstreamAnswers = "upstream_answers",
        /// Connections with servers for which this worker had no slot or descriptor.
        UpstreamLocal = "upstream_local",
        /// Requests that were sent again, to another server or on another connection.
        UpstreamRetries = "upstream_retries",
        /// Bodies that were put on a disk, because one side was slower than the other.
        Spooled = "spooled",
        /// Times the disk did not take them.
        SpoolFailures = "spool_failures",
        /// Datagrams received.
        DatagramsReceived = "datagrams_received",
        /// Datagrams sent.
        DatagramsSent = "datagrams_sent",
        /// Datagrams handed over to the worker that has their session.
        DatagramsHandedOver = "datagrams_handed_over",
        /// Datagrams given up: a session's queue or the network was full, or no slot was free.
        DatagramsDropped = "datagrams_dropped",
        /// Nanoseconds spent asleep in the backend's wait.
        AsleepNs = "asleep_ns",
        /// Nanoseconds spent in turns.
        WorkingNs = "working_ns",
    }
}

named_words! {
    /// What is so at this moment.
    Gauge {
        /// Connections with peers that are open.
        OpenConnections = "open_connections",
        /// Slots that can be lent.
        FreeSlots = "free_slots",
        /// Connections that can be closed to make room.
        ReusableConnections = "reusable_connections",
        /// When the turn in progress woke up, in milliseconds of the monotonic clock; 0 while asleep.
        TurnStarted = "turn_started",
        /// Whether this worker takes part in balancing: 0 no, 1 with its gate closed, 2 with its gate open.
        Balancing = "balancing",
        /// When another worker woke this one to accept, in milliseconds of the monotonic clock; 0
        /// once it answered. The one word that others write.
        WokenAt = "woken_at",
        /// Descriptors that were open when they were last counted.
        Descriptors = "descriptors",
        /// Slots that could be lent at that moment: what changed since changed the descriptors too.
        FreeSlotsThen = "free_slots_then",
        /// How many descriptors may be open.
        DescriptorLimit = "descriptor_limit",
        /// The number of the connection whose task runs; 0 for none.
        RunningConnection = "running_connection",
        /// What that connection is busy with: the number of its phase.
        RunningPhase = "running_phase",
    }
}

const CLOSES_AT: usize = Counter::ALL.len();
const LISTENERS_AT: usize = CLOSES_AT + CloseReason::ALL.len();
const GAUGES_AT: usize = LISTENERS_AT + Stats::LISTENERS;
const PHASES_AT: usize = GAUGES_AT + Gauge::ALL.len();

/// The words of one worker.
#[derive(Clone, Debug)]
pub struct Stats(WordBlock<WORDS>);

/// How many words one worker's block takes.
const WORDS: usize = Stats::LAG_AT + LAG_WORDS;

impl Stats {
    /// How many words one worker's block takes.
    pub const WORDS: usize = WORDS;

    /// Where the section begins that [`Lag`](crate::Lag) reads.
    pub(crate) const LAG_AT: usize = PHASES_AT + Phase::COUNT;

    /// How many listeners have their accepts counted by themselves.
    pub const LISTENERS: usize = 128;

    /// The word that counts the accepts of a listener, by its number among all workers' listeners.
    pub const fn accepts_word(listener: usize) -> usize {
        LISTENERS_AT + listener
    }

    /// The word of `counter` within a block.
    pub const fn counter_word(counter: Counter) -> usize {
        counter as usize
    }

    /// The word that counts the connections which ended for `reason`.
    pub const fn close_word(reason: CloseReason) -> usize {
        CLOSES_AT + reason as usize
    }

    /// The word of `gauge` within a block.
    pub const fn gauge_word(gauge: Gauge) -> usize {
        GAUGES_AT + gauge as usize
    }

    /// The word that holds how many connections are in `phase`.
    pub const fn phase_word(phase: Phase) -> usize {
        PHASES_AT + phase as usize
    }

    /// The words that only grow, and that can be summed over workers.
    pub fn cumulative_words() -> impl Iterator<Item = usize> {
        (0..GAUGES_AT).chain(Self::LAG_AT..Self::LAG_AT + CUMULATIVE_LAG_WORDS)
    }

    /// The words that only grow, each with a name that tells other versions of drover what it counts. Without the
    /// accepts of listeners, whose numbers mean something within one daemon only.
    pub fn named_words() -> impl Iterator<Item = (usize, String)> {
        let counters =
            Counter::ALL.iter().map(|&counter| (Self::counter_word(counter), counter.name().to_owned()));
        let closes = CloseReason::ALL.iter();
        let closes = closes.map(|&reason| (Self::close_word(reason), format!("closes: {}", reason.name())));
        counters.chain(closes).chain(lag::named_words().map(|(word, name)| (Self::LAG_AT + word, name)))
    }

    /// The block that starts at word `base` of `words`.
    ///
    /// # Panics
    /// If `words` is too short for that.
    pub fn new(words: &Rc<SharedWords>, base: usize) -> Self {
        let block = WordBlock::new(words, base);
        Self(block.expect("the shared words are as many as a worker's block takes"))
    }

    /// A block of its own that no other process looks at.
    ///
    /// # Errors
    /// What `mmap(2)` reports.
    pub fn private() -> std::io::Result<Self> {
        Ok(Self::new(&Rc::new(SharedWords::anonymous(WORDS)?), 0))
    }

    /// All words of the block as they are now.
    pub fn copy(&self) -> Vec<u64> {
        self.0.iter().map(|word| word.load(Relaxed)).collect()
    }

    /// Adds `amount` to a counter.
    pub fn add(&self, counter: Counter, amount: u64) {
        self.change(Self::counter_word(counter), amount);
    }

    /// The value of a counter.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.0[Self::counter_word(counter)].load(Relaxed)
    }

    /// Counts a connection that ended.
    pub(crate) fn count_close(&self, reason: CloseReason) {
        self.change(Self::close_word(reason), 1);
    }

    /// Counts an accept of a listener, by its number among all workers' listeners; those past
    /// [`Stats::LISTENERS`] are not counted.
    pub fn count_accept(&self, listener: u32) {
        if (listener as usize) < Self::LISTENERS {
            self.change(Self::accepts_word(listener as usize), 1);
        }
    }

    /// How many connections ended for `reason`.
    pub fn closes(&self, reason: CloseReason) -> u64 {
        self.0[Self::close_word(reason)].load(Relaxed)
    }

    /// Sets a gauge.
    pub fn set(&self, gauge: Gauge, value: u64) {
        self.0[Self::gauge_word(gauge)].store(value, Relaxed);
    }

    /// The value of a gauge.
    pub fn gauge(&self, gauge: Gauge) -> u64 {
        self.0[Self::gauge_word(gauge)].load(Relaxed)
    }

    /// The word of a gauge that others write too.
    pub(crate) fn word(&self, gauge: Gauge) -> &AtomicU64 {
        &self.0[Self::gauge_word(gauge)]
    }

    /// How many connections are in `phase`.
    pub fn in_phase(&self, phase: Phase) -> u64 {
        self.0[Self::phase_word(phase)].load(Relaxed)
    }

    pub(crate) fn enter_phase(&self, phase: Phase) {
        self.change(Self::phase_word(phase), 1);
    }

    pub(crate) fn leave_phase(&self, phase: Phase) {
        self.change(Self::phase_word(phase), 1u64.wrapping_neg());
    }

    /// Counts `amount` durations in a word of the lag section.
    #[inline]
    pub(crate) fn count_duration(&self, word: usize, amount: u64) {
        self.change(Self::LAG_AT + word, amount);
    }

    /// A word of the lag section.
    pub(crate) fn duration(&self, word: usize) -> u64 {
        self.0[Self::LAG_AT + word].load(Relaxed)
    }

    /// Sets a word of the lag section.
    pub(crate) fn set_duration(&self, word: usize, value: u64) {
        self.0[Self::LAG_AT + word].store(value, Relaxed);
    }

    /// One writer per block makes a load and a store enough: no locked instruction.
    fn change(&self, word: usize, amount: u64) {
        let word = &self.0[word];
        word.store(word.load(Relaxed).wrapping_add(amount), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_somebodys_own() {
        let stats = Stats::private().expect("memory");
        for (index, &counter) in Counter::ALL.iter().enumerate() {
            stats.add(counter, index as u64 + 1);
        }
        for (index, &gauge) in Gauge::ALL.iter().enumerate() {
            stats.set(gauge, 1000 + index as u64);
        }
        stats.enter_phase(Phase::Closing);
        for (index, &counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(stats.counter(counter), index as u64 + 1, "{}", counter.name());
        }
        for (index, &gauge) in Gauge::ALL.iter().enumerate() {
            assert_eq!(stats.gauge(gauge), 1000 + index as u64, "{}", gauge.name());
        }
        assert_eq!(stats.in_phase(Phase::Closing), 1);
        stats.leave_phase(Phase::Closing);
        assert_eq!(stats.in_phase(Phase::Closing), 0);
    }
}
