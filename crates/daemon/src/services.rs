//! The services of a worker: what each protocol crate makes of its tables.
//!
//! A new protocol is one more field here.

use std::rc::Rc;

use drover_event::{Core, Service, Stream};
use thiserror::Error;

use crate::config::Config;

/// A service that cannot start.
#[derive(Debug, Error)]
pub(crate) enum ServiceError {
    /// HTTP.
    #[error("{0}")]
    Http(String),
}

/// All services of a worker.
pub(crate) struct Services {
    count: usize,
}

struct Stub;
impl Service for Stub {
    fn connection(&self, stream: Stream) -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let mut buffer = [0; 4096];
            let mut wait = drover_event::Idle::First;
            loop {
                let w = std::mem::replace(&mut wait, drover_event::Idle::Further);
                if stream.idle(w).await.is_err() {
                    return;
                }
                match stream.receive(&mut buffer).await {
                    Ok(n) if n > 0 => {}
                    _ => return,
                }
                stream.core().stats().add(drover_event::Counter::Requests, 1);
                let body = format!("{}\n", std::process::id());
                let close = if stream.core().is_draining() { "Connection: close\r\n" } else { "" };
                let text = format!("HTTP/1.1 200 OK\r\n{close}Content-Length: {}\r\n\r\n{body}", body.len());
                if stream.send_all(text.as_bytes(), false).await.is_err() || !close.is_empty() {
                    return;
                }
            }
        })
    }
}

impl Services {
    pub(crate) fn open(config: &Config, _worker: u32) -> Result<Self, ServiceError> {
        Ok(Self { count: config.http.listeners().len() })
    }
    pub(crate) fn of(&self, listener: usize) -> Rc<dyn Service> {
        let _ = (self.count, listener);
        Rc::new(Stub)
    }
    pub(crate) fn start(&self, _core: &Core) {}
    pub(crate) fn reopen_logs(&self) {}
    pub(crate) fn finish(&self) {}
}
