//! Peers of the drover services: balancing, failure, health, kept connections, the PROXY protocol.
//!
//! An [`Upstream`] is a group of servers that answer for one another, `[http.upstreams.NAME]` or
//! `[stream.upstreams.NAME]`. This crate chooses one of them for each request or connection, connects or
//! takes a connection that was kept, and learns from how it went. It knows neither HTTP nor streams.
//!
//! # What a service does
//!
//! * Its tables have `upstreams: BTreeMap<String, config::Upstream>`; its check calls
//!   [`config::Upstream::check`] for each, and checks the variables of `hash` itself. An address where an
//!   upstream's name could stand is [`config::Upstream::new`] with one server.
//! * In the master, before the fork: [`Plan::new`] for each, with the number of workers; at a reload then
//!   [`Plan::inherit`] from the plan of the same name.
//! * In a worker: [`Upstream::start`].
//! * For each request or connection: [`Upstream::begin`], then attempts, as below.
//!
//! ```no_run
//! use std::{rc::Rc, time::Duration};
//! use drover_event::{Core, StreamError};
//! use drover_upstream::{Cause, Connection, Failure, Next, Repeatable, Sent, Upstream, hash_key};
//!
//! /// Sends `request` and receives a part of what comes back; true if that is all of it.
//! async fn ask(core: &Core, upstream: &Rc<Upstream>, request: &[u8]) -> Result<bool, Failure> {
//!     let mut attempts = upstream.begin(hash_key(b"rendered text of `hash`"));
//!     loop {
//!         let lease = match attempts.next(core, Connection::Any, Duration::from_secs(60)).await {
//!             Ok(lease) => lease,
//!             // Said whose fault it was, in the log; another server may do better.
//!             Err(failure) if failure.next() == Next::Another => continue,
//!             Err(failure) => return Err(failure),
//!         };
//!         let mut buffer = core.take_buffer();
//!         let exchange = async {
//!             lease.stream().send_all(request, false).await?;
//!             lease.stream().receive(&mut buffer).await
//!         };
//!         let cause = match exchange.await {
//!             Ok(0) => Cause::Closed,
//!             Ok(_) => {
//!                 // Or `done`, where the connection cannot be used again.
//!                 lease.keep();
//!                 return Ok(true);
//!             }
//!             Err(error) => Cause::of_stream(&error, false),
//!         };
//!         if attempts.failed(lease, cause, Sent::Something, Repeatable::Yes) == Next::Stop {
//!             return Ok(false);
//!         }
//!     }
//! }
//! ```
//!
//! Rules that the types cannot enforce:
//!
//! * **Keep** only what is in step: the response was received to its last byte and no further, the request
//!   was sent whole, and neither side said that it closes. A connection that began with a PROXY protocol
//!   header speaks for one client: it is never kept.
//! * **[`Sent`]** is `Something` as soon as one byte was handed to the kernel. **[`Repeatable`]** is `Yes`
//!   only for what may arrive twice and can be sent again from its first byte; once a byte of the response
//!   went to the client, it is `No`. For what must not be repeated, [`Connection::Recent`] avoids kept
//!   connections that the server may be closing at this very moment.
//! * **[`Lease::confirm`]** as soon as the server is known to work. A stream that lasts for hours should not
//!   have to end before failures are forgotten; [`Lease::keep`] and [`Lease::done`] confirm too.
//! * A lease that is **dropped** says nothing about the server: that is right when the client went away.
//! * A time-out for the answer is the stream's read time-out, which [`Attempts::next`] sets; for sending the
//!   service sets the stream's write time-out itself.
//!
//! # What is kept where
//!
//! [Kept connections](Lease::keep) are the worker's own, at most `keepalive` in all; the loop watches them
//! without a task each ([`drover_event::Stream::keep`]), so that one that the server closes, that sends
//! unasked, or whose slot is needed, is gone before it is lent.
//!
//! What workers have to agree on, and others may look at, stands in [`Words`]: who is given up after
//! failures, who was found down by checks, what is under way where a limit or balancing needs it, and the
//! addresses of names. [`ServerWord`], [`PeerWord`] and [`Tally`] say what each word means.
//!
//! Names are resolved by one worker for all, off the loop, before the first request and again and again;
//! checks are made by one worker for all. Both are tasks that [`Upstream::start`] spawns, and each check
//! takes a slot while it lasts. A request that comes before a name has its first answer waits for it.
//!
//! # In which order to read the code
//!
//! `words` and `passive` (what is shared), `balance` (pure), `peer` and `peers`, `upstream`, `lease`,
//! `attempts` (what a service holds), `failure` (what may follow), then `resolve` and `check`.
//! `proxy_protocol` stands by itself.

mod attempts;
mod balance;
mod check;
pub mod config;
mod failure;
mod inherit;
mod lease;
mod passive;
mod peer;
mod peers;
mod plan;
pub mod proxy_protocol;
mod resolve;
pub mod shown;
mod upstream;
mod words;

pub use attempts::{Attempts, Connection, TRIES_MOST};
pub use failure::{Cause, Failure, Fault, Next, NoPeer, Repeatable, Sent};
pub use lease::{Claim, Lease};
pub use peer::Peer;
pub use plan::{Plan, PlanError, Resolver, StartError};
pub use upstream::Upstream;
pub use words::{ADDRESSES_MOST, Layout, PeerWord, ServerWord, Tally, Words};

/// The key that makes equal texts go to the same server; see [`Upstream::begin`].
pub fn hash_key(text: &[u8]) -> u64 {
    balance::stable_hash(text)
}
