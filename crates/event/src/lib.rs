//! The engine of one worker: loop, backends, slots, timers, posted queues, accept, tasks and streams.

pub mod accept;
pub mod backend;
mod buffer;
pub mod channel;
mod clock;
mod connection;
mod core;
mod error;
mod event;
mod listener;
mod notify;
mod posted;
mod readiness;
mod stats;
mod stream;
mod task;
mod timer;
mod token;
mod worker;

pub use accept::balanced::{Balance, BalancePeer};
pub use accept::mutex::AcceptMutex;
pub use backend::BackendKind;
pub use buffer::Buffer;
pub use clock::{HTTP_DATE_LENGTH, Millis, WallClock};
pub use connection::{Asked, Idle, PeerAddress, Phase};
pub use core::{Core, Settings, Shared};
pub use error::{Error, StreamError};
pub use event::Direction;
pub use listener::{ListenerOptions, Service, Strategy, UnknownStrategy};
pub use notify::Notifier;
pub use stats::{Counter, Gauge, Stats};
pub use stream::{BUDGET, Readiness, Stream};
pub use task::Task;
pub use timer::MAX_DELAY_MS;
pub use token::Token;
pub use worker::Worker;
