//! An echo server: accept, receive, send, a time-out, and a drain on SIGTERM. Run it, talk to it with
//! `nc 127.0.0.1 7007`, and end it with `kill`: connections that are open may finish.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{error::Error, net::TcpListener, pin::Pin, rc::Rc, sync::Arc, time::Duration};

use drover_event::{
    ListenerOptions, Service, Settings, Shared, Stats, Strategy, Stream, StreamError, Worker,
};
use nix::sys::signal::{SigSet, Signal::SIGTERM};

struct Echo;

impl Service for Echo {
    fn connection(&self, stream: Stream) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            if let Err(error) = echo(&stream).await {
                eprintln!("{}: {error}", stream.peer());
            }
        })
    }
}

async fn echo(stream: &Stream) -> Result<(), StreamError> {
    loop {
        stream.set_read_timeout(Duration::from_secs(60));
        stream.readable().await?;
        // Only now is a buffer needed: silent connections hold none.
        let mut buffer = stream.core().take_buffer();
        match stream.receive(&mut buffer).await? {
            0 => return Ok(()),
            count => stream.send_all(&buffer[..count], false).await?,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // SIGTERM is blocked except during the wait, so it cannot come between the check and the sleep.
    let before = SigSet::thread_get_mask()?;
    SigSet::from(SIGTERM).thread_block()?;
    let ending = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&ending))?;

    let settings = Settings { wait_signals: Some(before), ..Settings::default() };
    let shared = Shared::alone(Stats::private()?);
    let mut worker = Worker::new(settings, shared)?;
    let (address, strategy) = ("127.0.0.1:7007".to_owned(), Strategy::Shared);
    let socket = TcpListener::bind(&address)?;
    socket.set_nonblocking(true)?;
    let options = ListenerOptions { address, strategy, deferred: false, client_first: true };
    worker.core().listen(socket.into(), options, Rc::new(Echo))?;
    while !(worker.core().is_draining() && worker.core().open_connections() == 0) {
        worker.turn()?;
        if ending.load(Ordering::Relaxed) {
            worker.core().drain();
        }
    }
    Ok(())
}
