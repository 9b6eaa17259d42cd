//! TCP and UDP proxying as a service on the event core.
mod client_hello;
