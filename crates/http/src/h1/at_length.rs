//! What a connection does where it must wait: the boxed part of its future.
//!
//! Drives [`Work`] on: fulfils what [`Work::advance`] asks for, until the connection is idle again or closed.

use std::io;
use std::time::Duration;

use drover_event::{Phase, StreamError};
use tracing::debug;

use super::connection::Conversation;
use super::identify;
use super::send::{self, flush};
use super::step::Step;
use super::work::Work;
use crate::handler::proxy;

/// What must wait: the connection, the work on it, and what it needs to go on.
pub(crate) type AtLength = (Conversation, Box<Work>, Step);

/// Goes on where waiting is needed, until the connection is idle again (true) or closed (false).
pub(crate) async fn at_length((mut on, mut work, step): AtLength) -> (Conversation, bool) {
    let under_way = UnderWay { on: &mut on, work: &mut work };
    let stays = match go_on(under_way.on, under_way.work, step).await {
        Ok(stays) => stays,
        Err(fault) => {
            debug!(connection = under_way.on.stream.number(), "closing: {fault}");
            false
        }
    };
    drop(under_way);
    on.worker.give_back(work);
    (on, stays)
}

/// A request that is worked on, logged also where that is cut short: by a fault, or because the worker ends and this
/// is dropped.
struct UnderWay<'a> {
    on: &'a mut Conversation,
    work: &'a mut Work,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.work.log_cut_short(self.on);
    }
}

async fn go_on(on: &mut Conversation, work: &mut Work, mut step: Step) -> Result<bool, StreamError> {
    loop {
        match step {
            Step::Receive => {
                flush(on, work).await?;
                if work.is_drained() {
                    on.wait_for_further();
                } else {
                    on.set_aside(work);
                }
                return Ok(true);
            }
            Step::ReceiveBody => {
                flush(on, work).await?;
                receive_body(on, work).await?;
            }
            Step::Flush => flush(on, work).await?,
            Step::GiveWay => {
                flush(on, work).await?;
                on.stream.core().yield_now().await;
                work.begin_again();
            }
            Step::Delay(delay) => {
                flush(on, work).await?;
                on.stream.set_phase(Phase::Working);
                on.stream.core().sleep(delay).await;
            }
            Step::Send(file, range) => send::file(on, work, &file, range).await?,
            Step::SendParts(parts) => send::parts(on, work, &parts).await?,
            Step::SendEncoded(encoded) => send::encoded(on, work, *encoded).await?,
            Step::Verify(unverified) => {
                flush(on, work).await?;
                identify::verify(on, work, *unverified).await;
            }
            Step::Proxy => {
                flush(on, work).await?;
                proxy::pass_on(on, work).await?;
            }
            Step::Close { linger } => {
                flush(on, work).await?;
                if linger {
                    close_lingering(on, work).await?;
                }
                return Ok(false);
            }
        }
        step = work.advance(on);
    }
}

/// Receives more of a body. While the client is waited for, only the request's head takes memory.
async fn receive_body(on: &mut Conversation, work: &mut Work) -> Result<(), StreamError> {
    on.stream.set_phase(Phase::ReadingBody);
    let received = loop {
        on.stream.set_read_timeout(work.waited.left(work.body_length()));
        work.set_body_aside();
        work.waited.begin(on.stream.core().now());
        let ready = on.stream.readable().await;
        work.waited.end(on.stream.core().now());
        if let Err(fault) = ready {
            break Err(fault);
        }
        match on.stream.try_receive(work.room_for_body()) {
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => {}
            received => break received.map_err(StreamError::from),
        }
    };
    take_received(on, work, received)
}

/// What was received joins the input. A client that took too long is told so.
fn take_received(
    on: &mut Conversation,
    work: &mut Work,
    received: Result<usize, StreamError>,
) -> Result<(), StreamError> {
    match received {
        Ok(0) => return Err(closed_early()),
        Ok(count) => work.filled += count,
        Err(StreamError::TimedOut) => work.answer_error(on, 408),
        Err(fault) => return Err(fault),
    }
    Ok(())
}

fn closed_early() -> StreamError {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the client closed within a request").into()
}

/// Closes so that the answer arrives: if bytes that the client still sends met a closed socket, the reset
/// could overtake the answer.
async fn close_lingering(on: &Conversation, work: &mut Work) -> Result<(), StreamError> {
    on.stream.set_phase(Phase::Closing);
    on.stream.shutdown_send()?;
    let timeouts = &on.worker.plan.timeouts;
    let begun = on.stream.core().now();
    loop {
        let spent = Duration::from_millis(on.stream.core().now().since(begun));
        let Some(left) = timeouts.lingering_in_all.checked_sub(spent).filter(|left| !left.is_zero()) else {
            return Ok(());
        };
        on.stream.set_read_timeout(timeouts.lingering.min(left));
        work.input.set_aside(0);
        on.stream.readable().await?;
        work.input.take_up();
        match on.stream.try_receive(&mut work.input) {
            Ok(0) => return Ok(()),
            Err(fault) if fault.kind() != io::ErrorKind::WouldBlock => return Err(fault.into()),
            Ok(_) | Err(_) => {}
        }
    }
}
