//! Limits of what clients with one key may do: so many a time, and so many at once.
//!
//! Both count over all workers, in memory that the master makes before it forks; it is bounded, whatever clients do.
//! What is counted, a request or a connection, is the business of each service.

mod rate;
mod requests;
mod under_way;

pub use rate::Rate;
pub use requests::{Requests, Verdict};
pub use under_way::{Held, UnderWay};
