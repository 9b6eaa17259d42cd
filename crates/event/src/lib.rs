//! The engine of one worker: an event loop whose parts have names, an order and limits.
//!
//! A worker is one thread that sleeps in one place. It owns an array of *slots*, one for each
//! socket, with a read and a write *event* each; a *backend* that says which of them are ready; a
//! tree of *timers*; three *posted queues*; and *tasks*, which are futures that the loop's own
//! machinery drives. It knows no protocol, no config file and no other process, so it can be
//! embedded in programs other than drover.
//!
//! # A service in a few lines
//!
//! A protocol implements [`Service`]: it is given the [`Stream`] of a connection that was just
//! accepted, and returns the future that *is* the connection. When the future ends or is dropped,
//! the stream in it closes the socket, cancels its timers and returns the slot. Nothing has to be
//! cleaned up by hand.
//!
//! ```
//! use std::{pin::Pin, rc::Rc, time::Duration};
//! use drover_event::{Service, Stream, StreamError};
//!
//! struct Echo;
//!
//! impl Service for Echo {
//!     fn connection(&self, stream: Stream) -> Pin<Box<dyn Future<Output = ()>>> {
//!         Box::pin(async move {
//!             let _ = echo(&stream).await;
//!         })
//!     }
//! }
//!
//! async fn echo(stream: &Stream) -> Result<(), StreamError> {
//!     loop {
//!         stream.set_read_timeout(Duration::from_secs(60));
//!         stream.readable().await?;
//!         let mut buffer = stream.core().take_buffer();
//!         match stream.receive(&mut buffer).await? {
//!             0 => return Ok(()),
//!             count => stream.send_all(&buffer[..count], false).await?,
//!         }
//!     }
//! }
//! ```
//!
//! Three habits are visible here. *Wait first, then take a buffer*: a silent connection holds none.
//! *A time-out is a deadline on the stream*, set once and seen by whichever operation waits when it
//! passes; no operation is raced against a sleep. *Errors end the future*, and with it everything.
//!
//! # A worker
//!
//! A [`Worker`] is made from [`Settings`] and from what it [`Shared`]s with other processes, gets
//! its listeners through its [`Core`], and is turned for as long as it has something to do:
//!
//! ```no_run
//! # use std::{pin::Pin, rc::Rc};
//! # use drover_event::{ListenerOptions, Service, Settings, Shared, Stats, Strategy, Stream, Worker};
//! # struct Echo;
//! # impl Service for Echo {
//! #     fn connection(&self, _: Stream) -> Pin<Box<dyn Future<Output = ()>>> { Box::pin(async {}) }
//! # }
//! let shared = Shared::alone(Stats::private()?);
//! let mut worker = Worker::new(Settings::default(), shared)?;
//! let socket = std::net::TcpListener::bind("127.0.0.1:7007")?;
//! socket.set_nonblocking(true)?;
//! let options = ListenerOptions {
//!     address: "127.0.0.1:7007".to_owned(),
//!     strategy: Strategy::Shared,
//!     deferred: false,
//!     client_first: true,
//! };
//! worker.core().listen(socket.into(), options, Rc::new(Echo))?;
//! while !(worker.core().is_draining() && worker.core().open_connections() == 0) {
//!     worker.turn()?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/echo.rs` is this program with a drain on SIGTERM.
//!
//! # Datagrams, and other servers
//!
//! Datagrams from one address are a [`Session`], which is to a [`DatagramService`] what a stream is to a
//! service; [`Core::listen_datagrams`] adds the socket. Any task reaches out by itself:
//! [`Core::connect`] ends in a [`Stream`] and [`Core::connect_datagrams`] in a [`DatagramSocket`], and each
//! takes a slot, as what was accepted does. This one passes questions on and gives each two seconds:
//!
//! ```
//! use std::{io::ErrorKind, net::SocketAddr, pin::Pin, time::Duration};
//! use drover_event::{DatagramService, Session};
//!
//! struct Resolver(SocketAddr);
//!
//! impl DatagramService for Resolver {
//!     fn session(&self, session: Session) -> Pin<Box<dyn Future<Output = ()>>> {
//!         let upstream = session.core().connect_datagrams(self.0, None);
//!         Box::pin(async move {
//!             let Ok(upstream) = upstream else { return };
//!             let mut question = Vec::new();
//!             session.set_timeout(Duration::from_secs(30));
//!             while session.receive(&mut question).await.is_ok() {
//!                 upstream.set_timeout(Duration::from_secs(2));
//!                 let asked = upstream.send(&question);
//!                 let answered = upstream.receive(|answer| session.send(answer)).await;
//!                 match asked.and(answered) {
//!                     Err(error) if error.kind() != ErrorKind::TimedOut => return,
//!                     _ => session.set_timeout(Duration::from_secs(30)),
//!                 }
//!             }
//!         })
//!     }
//! }
//! ```
//!
//! What belongs to no connection is a task of its own: [`Core::spawn`], with [`Core::sleep`] in it where
//! something is done now and then. It keeps no worker from ending.
//!
//! # One turn
//!
//! [`Worker::turn`] does these steps in this order; logs, counters and code call them the same.
//!
//! 1. The time to the earliest timer is how long to sleep.
//! 2. The accept gate: with the `mutex` strategy the lock is tried, with `balanced` the load is
//!    compared; whoever has its listeners out sleeps for a bounded time.
//! 3. What was posted for this turn is moved to the posted queue; if there is any, no sleep.
//! 4. The wait, the only place where a worker sleeps. On waking the clock is read once. What is
//!    ready is handled on the spot, or posted while the accept mutex is held.
//! 5. Posted accept events.
//! 6. The accept mutex is released.
//! 7. Timers that are due.
//! 8. Posted events, and what they post.
//!
//! # Tasks
//!
//! A task waits for readiness without a stored waker: the slot knows its task, and the handler of
//! the slot's event resumes it. Waking a task from anywhere else posts its event, so the run queue
//! is the posted queue. [`Core::sleep`] uses the timer embedded in the task's event,
//! [`Core::yield_now`] the posted-next queue, [`Core::run_blocking`] the thread pool and the
//! [`Notifier`]. A stream counts what it moved and gives way past [`BUDGET`] by itself. A panic ends
//! the task it happens in and is counted.
//!
//! Combinators that poll their parts only when those parts' wakers are woken (`FuturesUnordered`
//! and the like) do not fit streams, which wake the task as a whole. Poll the parts in one
//! `poll_fn`, as [`pipe`] does.
//!
//! # Shortage and drain
//!
//! A connection that waits in [`Stream::idle`] may be closed when slots are short
//! ([`Asked::Reclaim`]) or when the worker drains ([`Asked::Drain`]): the wait fails with
//! [`StreamError::Asked`], which is an end like the peer's own and no fault. One that waits in
//! [`Stream::readable`] is left alone, and a drain lasts until it ends. [`Core::drain`] takes the
//! listeners out, accepting first what only this worker was woken for.
//!
//! A pool of outgoing connections leaves those that are idle to the loop ([`Stream::keep`]): they are
//! watched and can be closed as above, without a task each.
//!
//! # In which order to read the code
//!
//! Data first: `token`, `event`, `connection`, `posted`, `timer`, `clock`. Then `backend` (the
//! contract, and one file for each mechanism) and `readiness`, where slots and backend meet. Then
//! `worker`, which is the turn, and `task`. Then what protocol code holds: `stream`, `connect`,
//! `kept`, `splice`, `datagram`. `accept` has a file for each strategy. `core` ties them together.
//!
//! # What is absent
//!
//! No protocol, no config file, no log set-up, no signal handling (the mask of
//! [`Settings::wait_signals`] is all), no fork, no thread until [`Core::run_blocking`] is used, and
//! no allocation per event, timer or wake.

pub mod accept;
mod alarm;
pub mod backend;
#[cfg(feature = "bench-internals")]
#[doc(hidden)]
pub mod bench;
mod blocking;
mod buffer;
mod carry;
pub mod channel;
mod clock;
mod close;
mod connect;
mod connection;
mod core;
mod datagram;
mod debug;
mod error;
mod event;
mod flow;
mod histogram;
mod kept;
mod kernel_pipe;
mod lag;
mod listener;
mod notify;
mod pace;
mod patience;
mod phase;
mod posted;
mod readiness;
mod receiving;
mod session_table;
mod splice;
mod stats;
mod stream;
mod tagged;
mod task;
mod timer;
mod token;
mod waiting;
mod worker;

pub use accept::balanced::{Balance, BalancePeer};
pub use accept::mutex::AcceptMutex;
pub use backend::BackendKind;
pub use buffer::Buffer;
pub use carry::{Carried, CarryEnd, carry};
pub use clock::{HTTP_DATE_LENGTH, Millis, WallClock};
pub use close::CloseReason;
pub use connect::{ConnectError, ConnectFailure, Target};
pub use connection::{Asked, Idle, PeerAddress, Phase};
pub use core::{Core, Settings};
pub use datagram::{DatagramService, DatagramSocket, Neighbour, Neighbourhood, Session};
pub use debug::{DebugConnection, logging_verbosely};
pub use drover_sys::memory::SharedWords;
pub use error::{Error, StreamError};
pub use event::Direction;
pub use flow::{Carrying, Load};
pub use histogram::{BUCKETS, Histogram, bucket_end};
pub use kept::{Keeper, KeeperNumber, Kept, KeptEnd};
pub use lag::{Durations, Lag};
pub use listener::{ListenerOptions, Service, Strategy, UnknownStrategy};
pub use notify::Notifier;
pub use patience::{Patience, Waited};
pub use session_table::{Ports, SessionTable};
pub use splice::{PipeEnd, PipeTerms, Piped, Side, pipe};
pub use stats::{Counter, Gauge, Stats};
pub use stream::{BUDGET, Stream};
pub use task::Task;
pub use timer::MAX_DELAY_MS;
pub use token::Token;
pub use waiting::Readiness;
pub use worker::{Shared, Worker};
