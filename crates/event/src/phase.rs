//! Phases: what connections are busy with, for counters, reports and whoever looks on.

/// What a connection is busy with, as its protocol says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Phase {
    /// Accepted, nothing received yet.
    Accepted,
    /// Receiving the head of a request.
    ReadingHead,
    /// Receiving a request's body.
    ReadingBody,
    /// Computing an answer, or waiting for something inside the worker.
    Working,
    /// Waiting for an upstream.
    WaitingUpstream,
    /// Sending an answer.
    Sending,
    /// Kept open between requests.
    Idle,
    /// Passing bytes both ways without looking at them.
    Tunnel,
    /// Closing, so that the peer still receives what was sent.
    Closing,
}

impl Phase {
    /// How many phases there are.
    pub const COUNT: usize = 9;

    /// All phases, in the order of their numbers.
    pub const ALL: [Phase; Self::COUNT] = [
        Phase::Accepted,
        Phase::ReadingHead,
        Phase::ReadingBody,
        Phase::Working,
        Phase::WaitingUpstream,
        Phase::Sending,
        Phase::Idle,
        Phase::Tunnel,
        Phase::Closing,
    ];

    /// The name used in logs and on the scoreboard.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Accepted => "accepted",
            Phase::ReadingHead => "reading head",
            Phase::ReadingBody => "reading body",
            Phase::Working => "working",
            Phase::WaitingUpstream => "waiting upstream",
            Phase::Sending => "sending",
            Phase::Idle => "idle",
            Phase::Tunnel => "tunnel",
            Phase::Closing => "closing",
        }
    }
}
